//! Answers and reports as Python gets them: the classes of `python/orco/output.py`, which has their documentation.

use orco_runtime::learner::{Answer, Learner};
use orco_runtime::state::history::HistoryEntry;
use orco_runtime::state::session::ChangeReport;
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

use crate::ending::in_python;

/// An object of a class of `python/orco/output.py`, of its fields in their order.
pub fn object<'py>(py: Python<'py>, class: &str, fields: impl PyCallArgs<'py>) -> PyResult<Bound<'py, PyAny>> {
    in_python(py, || py.import("orco.output")?.getattr(class)?.call1(fields))
}

/// Has a type become the class of that name in Python, whose fields are these, in this order.
macro_rules! into_class {
    ($type:ty, $class:literal, $($field:ident),+) => {
        impl<'py> ::pyo3::IntoPyObject<'py> for $type {
            type Target = ::pyo3::PyAny;
            type Output = ::pyo3::Bound<'py, ::pyo3::PyAny>;
            type Error = ::pyo3::PyErr;

            fn into_pyobject(self, py: ::pyo3::Python<'py>) -> ::pyo3::PyResult<Self::Output> {
                let Self { $($field),+ } = self;
                $crate::output::object(py, $class, ($($field,)+))
            }
        }
    };
}
pub(crate) use into_class;

/// What a picture shows.
pub struct PyAnswer {
    label: String,
    score: f32,
    known: bool,
    scores: Vec<(String, f32)>,
}

into_class!(PyAnswer, "Answer", label, score, known, scores);

impl PyAnswer {
    /// The first `most` classes of an answer.
    pub fn new(learner: &Learner, answer: &Answer, most: usize) -> Self {
        let scores = answer.matches.iter().take(most);
        let scores = scores.map(|found| (learner.label(found.class).to_owned(), found.score.value())).collect();
        Self { label: answer.label.clone(), score: answer.score.value(), known: !answer.is_unknown(), scores }
    }
}

/// A known class.
pub struct PyKnownClass {
    /// Its label.
    pub label: String,
    /// Whether it was learned on the device.
    pub learned: bool,
}

into_class!(PyKnownClass, "Class", label, learned);

/// How much is known.
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

into_class!(PyCounts, "Counts", base_classes, learned_classes, free_targets, changes);

/// A change that is remembered.
pub struct PyHistoryEntry {
    number: u32,
    change: String,
    labels: Vec<String>,
    when: Option<u64>,
    balance: String,
    present: bool,
}

into_class!(PyHistoryEntry, "HistoryEntry", number, change, labels, when, balance, present);

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

/// What a change did.
pub struct PyReport {
    free_targets: usize,
    new_accuracy: Option<f32>,
    old_accuracy: Option<(f32, f32)>,
    lost: Vec<(String, f32, f32)>,
    confusions: Vec<(String, String, f32)>,
}

into_class!(PyReport, "Report", free_targets, new_accuracy, old_accuracy, lost, confusions);

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
