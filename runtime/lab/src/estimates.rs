//! Whether estimates come true: the accuracies that a change estimates, and the sets of labels of which one is right.

use std::fmt;
use std::ops::Range;

use orco_benchmark::spread::{mean, mean_of_any};
use orco_benchmark::{EvaluateError, percent_or_dash};
use orco_core::workers::Serial;
use orco_state::answer::AnsweredClasses;
use orco_state::classify::{Classifier, prediction_set};
use orco_state::prediction_set::COVERAGE;
use orco_state::session::{ChangeReport, SessionMemory};
use orco_state::state::State;
use serde::{Deserialize, Serialize};

use crate::measurement::Measurement;

/// One session's numbers, in percent but for `size`; classes count alike. Learned classes are those of this session and
/// earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EstimateRow {
    /// The session, from 1.
    pub session: usize,
    /// Share of pictures of base classes whose right label is in the set.
    pub base_covered: f64,
    /// Share of pictures of learned classes whose right label is in the set.
    pub learned_covered: f64,
    /// Mean number of labels in a set.
    pub size: f64,
    /// Estimated accuracy on base classes less the measured one; none without samples, as below.
    pub base_gap: Option<f64>,
    /// Estimated accuracy on learned classes less the measured one; none where nothing was estimated.
    pub learned_gap: Option<f64>,
    /// The middle of the estimated range less the measured accuracy, on learned classes.
    pub range_gap: Option<f64>,
    /// Share of draws in which the measured accuracy lies in the range.
    pub in_range: Option<f64>,
    /// Share of pictures of learned classes that count as unknown where these alone are answered.
    pub learned_false_alarms: f64,
    /// Share of pictures of all other classes, those of the bundle and those not learned yet, that pass as learned ones
    /// there.
    pub learned_passed: f64,
    /// The same estimates and sets where learned classes alone are answered; none in files of older programs.
    #[serde(default)]
    pub learned_only: Option<LearnedOnlyEstimates>,
}

/// Whether estimates come true where learned classes alone are answered, as a device does by default once three are
/// taught: in percent but for `size`, whether or not pictures count as unknown; learned classes count alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearnedOnlyEstimates {
    /// Estimated accuracy; none where nothing was estimated, as of a single class.
    pub estimated: Option<f64>,
    /// The accuracy that was measured beside it.
    pub measured: Option<f64>,
    /// The estimated accuracy less the measured one.
    pub gap: Option<f64>,
    /// The middle of the estimated range less the measured accuracy.
    pub range_gap: Option<f64>,
    /// Share of draws in which the measured accuracy lies in the range.
    pub in_range: Option<f64>,
    /// Share of pictures whose right label is in the set; none where too few shots support sets.
    pub covered: Option<f64>,
    /// Mean number of labels in a set; none as above.
    pub size: Option<f64>,
}

impl EstimateRow {
    /// Names the columns of a row as it is printed.
    pub const HEADING: &'static str = "session  in set: base  learned  labels  estimated less measured: base  learned  \
                                       range  in range  learned alone: false alarms  passed";

    /// Names the columns of [`EstimateRow::learned_only_line`].
    pub const LEARNED_ONLY_HEADING: &'static str =
        "session  learned alone: estimated  measured  estimated less measured  range  in range  in set  labels";

    /// The numbers of [`EstimateRow::learned_only`] as they are printed.
    pub fn learned_only_line(&self) -> String {
        let of = self.learned_only;
        let cell = |number: fn(LearnedOnlyEstimates) -> Option<f64>| percent_or_dash(of.and_then(number));
        format!(
            "{:>7} {:>25} {:>9} {:>24} {:>6} {:>9} {:>7} {:>7}",
            self.session,
            cell(|of| of.estimated),
            cell(|of| of.measured),
            cell(|of| of.gap),
            cell(|of| of.range_gap),
            cell(|of| of.in_range),
            cell(|of| of.covered),
            cell(|of| of.size)
        )
    }

    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self {
            session: 8,
            base_covered: 91.0,
            learned_covered: 88.5,
            size: 1.75,
            base_gap: Some(-1.25),
            learned_gap: Some(4.0),
            range_gap: None,
            in_range: Some(100.0),
            learned_false_alarms: 6.0,
            learned_passed: 30.0,
            learned_only: Some(LearnedOnlyEstimates {
                estimated: Some(92.5),
                measured: Some(96.0),
                gap: Some(-3.5),
                range_gap: Some(-8.25),
                in_range: Some(100.0),
                covered: Some(91.25),
                size: Some(1.25),
            }),
        }
    }
}

impl fmt::Display for EstimateRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [base, learned, range, inside] =
            [self.base_gap, self.learned_gap, self.range_gap, self.in_range].map(percent_or_dash);
        let Self { session, base_covered, learned_covered, size, learned_false_alarms, learned_passed, .. } = self;
        write!(
            f,
            "{session:>7} {base_covered:>13.2} {learned_covered:>8.2} {size:>7.2} {base:>30} {learned:>8} {range:>6} \
             {inside:>9} {learned_false_alarms:>28.2} {learned_passed:>7.2}"
        )
    }
}

/// A mean over pictures, classes counting alike.
struct ClassMean {
    sums: Vec<f64>,
    counts: Vec<f64>,
}

impl ClassMean {
    fn of(classes: usize) -> Self {
        Self { sums: vec![0.0; classes], counts: vec![0.0; classes] }
    }

    fn add(&mut self, class: usize, value: f64) {
        self.sums[class] += value;
        self.counts[class] += 1.0;
    }

    /// Over some of the classes, 0 where there is no picture of them.
    fn mean(&self, classes: impl Iterator<Item = usize>) -> f64 {
        let seen: Vec<usize> = classes.filter(|class| self.counts[*class] > 0.0).collect();
        seen.iter().map(|class| self.sums[*class] / self.counts[*class]).sum::<f64>() / seen.len().max(1) as f64
    }
}

/// What is counted of the pictures of one session.
struct Tally {
    right: ClassMean,
    covered: ClassMean,
    size: ClassMean,
    learned_known: ClassMean,
    learned_only: LearnedOnlyTally,
}

/// What is counted of pictures of learned classes where these alone are answered.
struct LearnedOnlyTally {
    right: ClassMean,
    covered: ClassMean,
    size: ClassMean,
    /// Whether enough shots support sets.
    has_sets: bool,
}

impl Measurement<'_> {
    /// Measures one draw of our own answers after each session, with thresholds that let the share `false_alarms` of
    /// known pictures fall below; `None` where answers do not use the bundle's statistics.
    ///
    /// # Errors
    /// [`EvaluateError`] if a session cannot be learned.
    pub fn estimate_rows(&self, draw: usize, false_alarms: f32) -> Result<Option<Vec<EstimateRow>>, EvaluateError> {
        let sessions = self.benchmark.ways.len();
        let (mut state, mut memory) = (State::fresh(self.base_model, [0; 32]), SessionMemory::default());
        let mut rows = Vec::with_capacity(sessions);
        for session in 1..=sessions {
            let (next, report) = self.learn(draw, session, &state, &mut memory)?;
            state = next;
            let Some(tally) = self.tally(&state, false_alarms) else { return Ok(None) };
            rows.push(self.row(session, &state, &tally, &report));
        }
        Ok(Some(rows))
    }

    fn tally(&self, state: &State, false_alarms: f32) -> Option<Tally> {
        let Self { base_model, benchmark, config, .. } = *self;
        let base = base_model.classes.len();
        let (classifier, stored) = Classifier::with_known_scores(base_model, state, config, None, &Serial);
        let stored = stored?;
        let (sets, learned_only) = (stored.set_thresholds(COVERAGE), stored.learned_thresholds(false_alarms)?);
        let (measured, classes) = (benchmark.measured.clean(), benchmark.measured.classes());
        let (seen, all) = (classifier.classes(), classes.iter().map(|class| *class as usize + 1).max().unwrap_or(0));
        let mean = || ClassMean::of(all.max(seen));
        let has_sets = sets.learned_only.is_some();
        let mut alone = LearnedOnlyTally { right: mean(), covered: mean(), size: mean(), has_sets };
        let (mut right, mut covered, mut size, mut learned_known) = (mean(), mean(), mean(), mean());
        for (&class, scores) in classes.iter().zip(classifier.scores(&measured).chunks_exact_mut(seen)) {
            let class = class as usize;
            learned_known.add(class, f64::from(u8::from(learned_only.are_reached(scores, base))));
            if class >= seen {
                continue;
            }
            if class >= base {
                // A copy, since ranking turns scores into probabilities.
                let matches = classifier.ranked_from(&mut scores.to_vec(), base);
                let set = prediction_set(&matches, &sets, base, AnsweredClasses::Learned);
                alone.right.add(class, f64::from(u8::from(matches[0].class == class)));
                alone.covered.add(class, f64::from(u8::from(set.contains(&class))));
                alone.size.add(class, set.len() as f64);
            }
            let matches = classifier.ranked(scores);
            let set = prediction_set(&matches, &sets, base, AnsweredClasses::All);
            right.add(class, f64::from(u8::from(matches[0].class == class)));
            covered.add(class, f64::from(u8::from(set.contains(&class))));
            size.add(class, set.len() as f64);
        }
        Some(Tally { right, covered, size, learned_known, learned_only: alone })
    }

    fn row(&self, session: usize, state: &State, tally: &Tally, report: &ChangeReport) -> EstimateRow {
        let base = self.base_model.classes.len();
        let (seen, all) = (base + state.classes.len(), tally.right.sums.len());
        let (measured, expected) = (tally.right.mean(base..seen), report.expected);
        let range = expected.and_then(|expected| expected.learned_range);
        // Base classes and those of later sessions are no learned ones.
        let others = (0..all).filter(|class| !(base..seen).contains(class));
        EstimateRow {
            session,
            base_covered: 100.0 * tally.covered.mean(0..base),
            learned_covered: 100.0 * tally.covered.mean(base..seen),
            size: tally.size.mean(0..seen),
            base_gap: expected.and_then(|of| of.base).map(|estimated| gap(estimated, tally.right.mean(0..base))),
            learned_gap: expected.and_then(|of| of.learned).map(|estimated| gap(estimated, measured)),
            range_gap: range.map(|range| gap(middle(range), measured)),
            in_range: range.map(|range| in_range(range, measured)),
            learned_false_alarms: 100.0 * (1.0 - tally.learned_known.mean(base..seen)),
            learned_passed: 100.0 * tally.learned_known.mean(others),
            learned_only: Some(tally.learned_only.estimates(base..seen, report)),
        }
    }
}

impl LearnedOnlyTally {
    /// Of these learned classes, beside what was estimated of them.
    fn estimates(&self, learned: Range<usize>, report: &ChangeReport) -> LearnedOnlyEstimates {
        let (measured, expected) = (self.right.mean(learned.clone()), report.expected_learned_only);
        let range = expected.and_then(|expected| expected.learned_range);
        LearnedOnlyEstimates {
            estimated: expected.map(|expected| 100.0 * f64::from(expected.learned)),
            measured: expected.map(|_| 100.0 * measured),
            gap: expected.map(|expected| gap(expected.learned, measured)),
            range_gap: range.map(|range| gap(middle(range), measured)),
            in_range: range.map(|range| in_range(range, measured)),
            covered: self.has_sets.then(|| 100.0 * self.covered.mean(learned.clone())),
            size: self.has_sets.then(|| self.size.mean(learned)),
        }
    }
}

/// An estimated accuracy less a measured one, both 0..1, in percentage points.
fn gap(estimated: f32, measured: f64) -> f64 {
    100.0 * (f64::from(estimated) - measured)
}

fn middle([low, high]: [f32; 2]) -> f32 {
    (low + high) / 2.0
}

/// 100 if a measured accuracy lies in a range, 0 if not.
fn in_range(range: [f32; 2], measured: f64) -> f64 {
    if lies_in(range.map(f64::from), measured) { 100.0 } else { 0.0 }
}

/// Whether a measured accuracy lies in a range, both 0..1. Ranges are computed in single precision: one that ends at 1
/// may end a little below it.
pub(crate) fn lies_in([low, high]: [f64; 2], measured: f64) -> bool {
    (low - ROUNDING..=high + ROUNDING).contains(&measured)
}

/// How far rounding may move an end of a range.
const ROUNDING: f64 = 1e-6;

/// Means of several draws' rows, session by session.
///
/// # Panics
/// If there is no draw.
pub fn mean_estimate_rows(draws: &[Vec<EstimateRow>]) -> Vec<EstimateRow> {
    let optional = |session: usize, of: &dyn Fn(&EstimateRow) -> Option<f64>| {
        mean_of_any(draws.iter().filter_map(|rows| of(&rows[session])))
    };
    let mean = |session: usize, of: &dyn Fn(&EstimateRow) -> f64| {
        mean(&draws.iter().map(|rows| of(&rows[session])).collect::<Vec<_>>())
    };
    let learned_only = |session: usize| {
        let of_draws: Vec<_> = draws.iter().filter_map(|rows| rows[session].learned_only).collect();
        let optional = |of: fn(&LearnedOnlyEstimates) -> Option<f64>| mean_of_any(of_draws.iter().filter_map(of));
        (!of_draws.is_empty()).then(|| LearnedOnlyEstimates {
            estimated: optional(|of| of.estimated),
            measured: optional(|of| of.measured),
            gap: optional(|of| of.gap),
            range_gap: optional(|of| of.range_gap),
            in_range: optional(|of| of.in_range),
            covered: optional(|of| of.covered),
            size: optional(|of| of.size),
        })
    };
    let row = |session: usize| EstimateRow {
        session: draws[0][session].session,
        base_covered: mean(session, &|row| row.base_covered),
        learned_covered: mean(session, &|row| row.learned_covered),
        size: mean(session, &|row| row.size),
        base_gap: optional(session, &|row| row.base_gap),
        learned_gap: optional(session, &|row| row.learned_gap),
        range_gap: optional(session, &|row| row.range_gap),
        in_range: optional(session, &|row| row.in_range),
        learned_false_alarms: mean(session, &|row| row.learned_false_alarms),
        learned_passed: mean(session, &|row| row.learned_passed),
        learned_only: learned_only(session),
    };
    (0..draws[0].len()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_below_their_headings() {
        let row = EstimateRow::example();
        assert_eq!(row.to_string().len(), EstimateRow::HEADING.len());
        let line =
            "      8                     92.50     96.00                    -3.50  -8.25    100.00   91.25    1.25";
        assert_eq!(row.learned_only_line(), line);
        let other = EstimateRow { size: 2.25, base_gap: None, in_range: Some(0.0), ..row };
        let mean = EstimateRow { size: 2.0, in_range: Some(50.0), ..row };
        assert_eq!(mean_estimate_rows(&[vec![row], vec![other]]), [mean]);
        // As long as the heading, whatever is missing.
        let without = EstimateRow { learned_only: None, ..row };
        for row in [row, without] {
            assert_eq!(row.learned_only_line().len(), EstimateRow::LEARNED_ONLY_HEADING.len());
        }
    }

    #[test]
    fn what_a_draw_does_not_say_of_learned_classes_alone_counts_in_no_mean() {
        let row = EstimateRow::example();
        let alone = row.learned_only.unwrap();
        let with = |learned_only| vec![EstimateRow { learned_only, ..row }];
        let mean = |draws: &[Vec<EstimateRow>]| mean_estimate_rows(draws)[0].learned_only;
        let no_sets = LearnedOnlyEstimates { gap: Some(-1.5), covered: None, size: None, ..alone };
        let expected = LearnedOnlyEstimates { gap: Some(-2.5), ..alone };
        assert_eq!(mean(&[with(Some(alone)), with(None), with(Some(no_sets))]), Some(expected));
        assert_eq!(mean(&[with(None)]), None);
    }

    #[test]
    fn rows_of_older_programs_are_read() {
        let row = EstimateRow::example();
        let mut old = serde_json::to_value(row).unwrap();
        old.as_object_mut().unwrap().remove("learned_only").unwrap();
        let read: EstimateRow = serde_json::from_value(old).unwrap();
        assert_eq!(read, EstimateRow { learned_only: None, ..row });
    }

    #[test]
    fn what_is_always_right_lies_in_a_range_that_ends_at_1_but_for_rounding() {
        assert_eq!(in_range([0.5, 1.0f32.next_down()], 1.0), 100.0);
        assert_eq!(
            [in_range([0.5, 0.9], 0.91), in_range([0.5, 0.9], 0.49), in_range([0.5, 0.9], 0.7)],
            [0.0, 0.0, 100.0]
        );
    }

    #[test]
    fn classes_count_alike_however_many_pictures_they_have() {
        let mut mean = ClassMean::of(3);
        [(0, 1.0), (0, 1.0), (0, 0.0), (1, 0.0)].into_iter().for_each(|(class, value)| mean.add(class, value));
        assert!((mean.mean(0..3) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(mean.mean(2..3), 0.0);
    }
}
