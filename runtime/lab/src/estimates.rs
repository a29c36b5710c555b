//! Whether estimates come true: the accuracies that a change estimates, and the sets of labels of which one is right.

use std::fmt;

use orco_benchmark::spread::{mean, mean_of_any};
use orco_benchmark::{EvaluateError, percent_or_dash};
use orco_core::workers::Serial;
use orco_state::answer::AnsweredClasses;
use orco_state::classify::{Classifier, prediction_set};
use orco_state::prediction_set::COVERAGE;
use orco_state::session::{ExpectedAccuracy, SessionMemory};
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
}

impl EstimateRow {
    /// Names the columns of a row as it is printed.
    pub const HEADING: &'static str = "session  in set: base  learned  labels  estimated less measured: base  learned  \
                                       range  in range  learned alone: false alarms  passed";
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
            rows.push(self.row(session, &state, &tally, report.expected));
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
        let mut tally = Tally { right: mean(), covered: mean(), size: mean(), learned_known: mean() };
        for (&class, scores) in classes.iter().zip(classifier.scores(&measured).chunks_exact_mut(seen)) {
            let class = class as usize;
            tally.learned_known.add(class, f64::from(u8::from(learned_only.are_reached(scores, base))));
            if class >= seen {
                continue;
            }
            let matches = classifier.ranked(scores);
            let set = prediction_set(&matches, &sets, base, AnsweredClasses::All);
            tally.right.add(class, f64::from(u8::from(matches[0].class == class)));
            tally.covered.add(class, f64::from(u8::from(set.contains(&class))));
            tally.size.add(class, set.len() as f64);
        }
        Some(tally)
    }

    fn row(&self, session: usize, state: &State, tally: &Tally, expected: Option<ExpectedAccuracy>) -> EstimateRow {
        let base = self.base_model.classes.len();
        let (seen, all) = (base + state.classes.len(), tally.right.sums.len());
        let measured = tally.right.mean(base..seen);
        let gap = |estimated: f32, measured: f64| 100.0 * (f64::from(estimated) - measured);
        let range = expected.and_then(|expected| expected.learned_range);
        let is_inside = |[low, high]: [f32; 2]| (f64::from(low)..=f64::from(high)).contains(&measured);
        // Base classes and those of later sessions are no learned ones.
        let others = (0..all).filter(|class| !(base..seen).contains(class));
        EstimateRow {
            session,
            base_covered: 100.0 * tally.covered.mean(0..base),
            learned_covered: 100.0 * tally.covered.mean(base..seen),
            size: tally.size.mean(0..seen),
            base_gap: expected.and_then(|of| of.base).map(|estimated| gap(estimated, tally.right.mean(0..base))),
            learned_gap: expected.and_then(|of| of.learned).map(|estimated| gap(estimated, measured)),
            range_gap: range.map(|[low, high]| gap((low + high) / 2.0, measured)),
            in_range: range.map(|range| if is_inside(range) { 100.0 } else { 0.0 }),
            learned_false_alarms: 100.0 * (1.0 - tally.learned_known.mean(base..seen)),
            learned_passed: 100.0 * tally.learned_known.mean(others),
        }
    }
}

/// Means of several draws' rows, session by session.
///
/// # Panics
/// If there is no draw.
pub fn mean_estimate_rows(draws: &[Vec<EstimateRow>]) -> Vec<EstimateRow> {
    let optional = |session: usize, of: &dyn Fn(&EstimateRow) -> Option<f64>| {
        mean_of_any(&draws.iter().filter_map(|rows| of(&rows[session])).collect::<Vec<_>>())
    };
    let mean = |session: usize, of: &dyn Fn(&EstimateRow) -> f64| {
        mean(&draws.iter().map(|rows| of(&rows[session])).collect::<Vec<_>>())
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
    };
    (0..draws[0].len()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_below_their_headings() {
        let row = EstimateRow {
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
        };
        assert_eq!(row.to_string().len(), EstimateRow::HEADING.len());
        let other = EstimateRow { size: 2.25, base_gap: None, in_range: Some(0.0), ..row };
        let mean = EstimateRow { size: 2.0, in_range: Some(50.0), ..row };
        assert_eq!(mean_estimate_rows(&[vec![row], vec![other]]), [mean]);
    }

    #[test]
    fn classes_count_alike_however_many_pictures_they_have() {
        let mut mean = ClassMean::of(3);
        [(0, 1.0), (0, 1.0), (0, 0.0), (1, 0.0)].into_iter().for_each(|(class, value)| mean.add(class, value));
        assert!((mean.mean(0..3) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(mean.mean(2..3), 0.0);
    }
}
