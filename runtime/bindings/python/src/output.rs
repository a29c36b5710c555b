//! Answers and reports as Python gets them. Documentation for people stands in `python/orco/_orco.pyi`.

use orco_runtime::learner::{Answer, Learner};
use orco_runtime::state::history::HistoryEntry;
use orco_runtime::state::session::ChangeReport;
use pyo3::prelude::*;

/// What a picture shows.
#[pyclass(module = "orco", name = "Answer", frozen, get_all)]
pub struct PyAnswer {
    /// The likeliest class.
    label: String,
    /// Its score: how probable it is, 0 to 1, where answers use the bundle's statistics, as with all shipped bundles,
    /// else how near, -1 to 1.
    score: f32,
    /// Whether the picture is like anything known at all.
    known: bool,
    /// The likeliest classes with their scores, highest first.
    scores: Vec<(String, f32)>,
}

impl PyAnswer {
    /// The first `most` classes of an answer.
    pub fn new(learner: &Learner, answer: &Answer, most: usize) -> Self {
        let scores = answer.matches.iter().take(most);
        let scores = scores.map(|found| (learner.label(found.class).to_owned(), found.score.value())).collect();
        Self { label: answer.label.clone(), score: answer.score.value(), known: !answer.is_unknown(), scores }
    }
}

#[pymethods]
impl PyAnswer {
    #[new]
    #[pyo3(signature = (label, score, known, scores))]
    fn of_parts(label: String, score: f32, known: bool, scores: Vec<(String, f32)>) -> Self {
        Self { label, score, known, scores }
    }

    /// What `pickle` and `copy` make it of again, as where a process of a pool returns it.
    fn __getnewargs__(&self) -> (String, f32, bool, Vec<(String, f32)>) {
        (self.label.clone(), self.score, self.known, self.scores.clone())
    }

    fn __repr__(&self) -> String {
        let known = if self.known { "True" } else { "False" };
        format!("Answer(label={:?}, score={:.3}, known={known})", self.label, self.score)
    }
}

/// A known class.
#[pyclass(module = "orco", name = "Class", frozen, get_all)]
pub struct PyKnownClass {
    /// Its label.
    pub label: String,
    /// Whether it was learned on the device.
    pub learned: bool,
}

#[pymethods]
impl PyKnownClass {
    fn __repr__(&self) -> String {
        let learned = if self.learned { "True" } else { "False" };
        format!("Class(label={:?}, learned={learned})", self.label)
    }
}

/// How much is known.
#[pyclass(module = "orco", name = "Counts", frozen, get_all)]
pub struct PyCounts {
    /// Classes that the bundle brought.
    pub base_classes: usize,
    /// Classes that were learned since.
    pub learned_classes: usize,
    /// Classes that can still be learned.
    pub free_targets: usize,
    /// Changes that can be undone.
    pub changes: usize,
}

#[pymethods]
impl PyCounts {
    fn __repr__(&self) -> String {
        let Self { base_classes, learned_classes, free_targets, changes } = self;
        format!(
            "Counts(base_classes={base_classes}, learned_classes={learned_classes}, free_targets={free_targets}, \
             changes={changes})"
        )
    }
}

/// A change that is remembered.
#[pyclass(module = "orco", name = "HistoryEntry", frozen, get_all)]
pub struct PyHistoryEntry {
    /// Its number, which it keeps; 0 for the state before all changes.
    pub number: u32,
    /// What was done, such as `learn`.
    pub change: String,
    /// Labels of the classes that it was done to.
    pub labels: Vec<String>,
    /// When, in seconds since 1970; None where that was not known.
    pub when: Option<u64>,
    /// How much base classes counted against learned ones from then on.
    pub balance: String,
    /// Whether the learner is there now.
    pub present: bool,
}

impl PyHistoryEntry {
    /// An entry of a history that is at the entry `present`.
    pub fn new(entry: &HistoryEntry, present: u32) -> Self {
        Self {
            number: entry.number,
            change: entry.kind.name().to_owned(),
            labels: entry.names.iter().map(|name| name.label.clone()).collect(),
            when: entry.when,
            balance: entry.balance.name().to_owned(),
            present: entry.number == present,
        }
    }
}

#[pymethods]
impl PyHistoryEntry {
    fn __repr__(&self) -> String {
        let present = if self.present { "True" } else { "False" };
        let Self { number, change, labels, .. } = self;
        format!("HistoryEntry(number={number}, change={change:?}, labels={labels:?}, present={present})")
    }
}

/// What a change did, measured on samples that the bundle set aside and on shots left out in turn (on the exemplars,
/// where answers follow the paper). Shares are 0 to 1.
#[pyclass(module = "orco", name = "Report", frozen, get_all)]
pub struct PyReport {
    /// Classes that can still be learned.
    free_targets: usize,
    /// Mean accuracy of the new classes; None where no sample says.
    new_accuracy: Option<f32>,
    /// Mean accuracy of the classes known before: before the change, and after it; None where no sample says.
    old_accuracy: Option<(f32, f32)>,
    /// Classes of which fewer samples are recognised than before: label, share before, share after; worst first.
    lost: Vec<(String, f32, f32)>,
    /// Classes whose samples are now taken for another: label, the other's label, share; worst first.
    confusions: Vec<(String, String, f32)>,
}

impl From<&ChangeReport> for PyReport {
    fn from(report: &ChangeReport) -> Self {
        let summary = report.summary(usize::MAX);
        let lost = summary.lost.into_iter();
        let lost = lost.map(|class| (class.label.clone(), class.before.unwrap_or(0.0), class.after)).collect();
        let confusions = summary.confusions.iter();
        let confusions = confusions.map(|found| (found.label.clone(), found.taken_for.clone(), found.share)).collect();
        let old_accuracy = summary.old_accuracy.map(|old| (old.before, old.after));
        let (free_targets, new_accuracy) = (summary.free_targets, summary.new_accuracy);
        Self { free_targets, new_accuracy, old_accuracy, lost, confusions }
    }
}

#[pymethods]
impl PyReport {
    fn __repr__(&self) -> String {
        let new = self.new_accuracy.map_or_else(|| "None".to_owned(), |share| format!("{share:.3}"));
        format!("Report(free_targets={}, new_accuracy={new})", self.free_targets)
    }
}
