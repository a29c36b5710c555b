//! Calibration and novelty: how well probabilities are calibrated, and how well pictures of classes that were not
//! learned yet are told from those of known ones.

use std::fmt;

use orco_core::workers::Serial;
use orco_state::classify::Classifier;
use orco_state::session::SessionMemory;
use orco_state::state::State;
use serde::{Deserialize, Serialize};

use crate::measurement::Measurement;
use orco_benchmark::spread::mean_of_any;
use orco_benchmark::{EvaluateError, percent_or_dash};

/// One session's numbers, in percent. Known pictures are those measured of all classes seen so far, unknown ones those
/// of the classes of later sessions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnknownRow {
    /// The session, 0 before anything was learned.
    pub session: usize,
    /// Expected calibration error over known pictures ([`calibration_error`]).
    pub ece: Option<f64>,
    /// Area under the receiver operating characteristic ([`auroc`]); none in the last session, after which nothing is
    /// unknown.
    pub auroc: Option<f64>,
    /// Share of known pictures that count as unknown at the device's own threshold.
    pub false_alarms: f64,
    /// Share of unknown pictures that pass as known there.
    pub passed: Option<f64>,
}

impl UnknownRow {
    /// Names the columns of a row as it is printed.
    pub const HEADING: &'static str = "session     ECE   AUROC  false alarms  unknown passed";
}

impl fmt::Display for UnknownRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ece, auroc, passed] = [self.ece, self.auroc, self.passed].map(percent_or_dash);
        write!(f, "{:>7} {ece:>7} {auroc:>7} {:>13.2} {passed:>15}", self.session, self.false_alarms)
    }
}

impl Measurement<'_> {
    /// Measures one draw of our own answers session by session, with the threshold that lets the share `false_alarms`
    /// of what is stored fall below; `None` where answers do not use the bundle's statistics.
    ///
    /// # Errors
    /// [`EvaluateError`] if a session cannot be learned.
    pub fn unknown_rows(&self, draw: usize, false_alarms: f32) -> Result<Option<Vec<UnknownRow>>, EvaluateError> {
        let Self { base_model, benchmark, config, .. } = *self;
        let measured = benchmark.measured.clean();
        let classes = benchmark.measured.classes();
        let mut state = State::fresh(base_model, [0; 32]);
        let mut memory = SessionMemory::default();
        let mut rows = Vec::with_capacity(benchmark.ways.len() + 1);
        for session in 0..=benchmark.ways.len() {
            if session > 0 {
                state = self.learn(draw, session, &state, &mut memory)?.0;
            }
            let (classifier, stored) = Classifier::with_known_scores(base_model, &state, config, None, &Serial);
            let Some(stored) = stored else { return Ok(None) };
            let threshold = stored.threshold(false_alarms);
            let seen = classifier.classes();
            let (mut answers, mut known, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
            for (&class, scores) in classes.iter().zip(classifier.scores(&measured).chunks_exact_mut(seen)) {
                let Some(familiarity) = classifier.familiarity(scores) else { return Ok(None) };
                if class as usize >= seen {
                    unknown.push(familiarity);
                    continue;
                }
                known.push(familiarity);
                let best = classifier.ranked(scores)[0];
                answers.push((best.score.value(), best.class == class as usize));
            }
            let passing = |scores: &[f32]| {
                let passed = scores.iter().filter(|score| **score >= threshold).count();
                (!scores.is_empty()).then(|| 100.0 * passed as f64 / scores.len() as f64)
            };
            rows.push(UnknownRow {
                session,
                ece: calibration_error(&answers).map(|error| 100.0 * error),
                auroc: auroc(&known, &unknown).map(|area| 100.0 * area),
                false_alarms: 100.0 - passing(&known).unwrap_or(100.0),
                passed: passing(&unknown),
            });
        }
        Ok(Some(rows))
    }
}

/// Means of several draws' rows, session by session.
///
/// # Panics
/// If there is no draw.
pub fn mean_unknown_rows(draws: &[Vec<UnknownRow>]) -> Vec<UnknownRow> {
    let mean = |session: usize, of: &dyn Fn(&UnknownRow) -> Option<f64>| {
        mean_of_any(draws.iter().filter_map(|rows| of(&rows[session])))
    };
    let row = |session: usize| UnknownRow {
        session,
        ece: mean(session, &|row| row.ece),
        auroc: mean(session, &|row| row.auroc),
        false_alarms: mean(session, &|row| Some(row.false_alarms)).unwrap_or(0.0),
        passed: mean(session, &|row| row.passed),
    };
    (0..draws[0].len()).map(row).collect()
}

/// Area under the receiver operating characteristic of scores that are higher for known pictures than for unknown
/// ones: the probability that a known picture scores higher than an unknown one, ties counting half (Hanley and
/// McNeil, Radiology 1982). As a measure of unknown classes: Hendrycks and Gimpel, ICLR 2017. `None` if a side is
/// empty.
pub fn auroc(known: &[f32], unknown: &[f32]) -> Option<f64> {
    if known.is_empty() || unknown.is_empty() {
        return None;
    }
    let mut unknown = unknown.to_vec();
    unknown.sort_unstable_by(f32::total_cmp);
    let wins = known.iter().map(|score| {
        let below = unknown.partition_point(|other| other < score);
        let up_to = unknown.partition_point(|other| other <= score);
        (below + up_to) as f64 / 2.0
    });
    Some(wins.sum::<f64>() / (known.len() * unknown.len()) as f64)
}

/// Bins of [`calibration_error`].
const BINS: usize = 15;

/// Expected calibration error: mean, over bins of equal width by the probability of the answer, weighted by how many
/// answers fall into each, of the difference between their share of right ones and their mean probability (Guo et al.,
/// ICML 2017, 15 bins). Answers are pairs of that probability and whether it is right; `None` if there are none.
pub fn calibration_error(answers: &[(f32, bool)]) -> Option<f64> {
    let mut bins = [(0.0f64, 0.0f64); BINS];
    for &(probability, right) in answers {
        // (0, 1/15], (1/15, 2/15] ...
        let bin = ((f64::from(probability) * BINS as f64).ceil() as usize).clamp(1, BINS) - 1;
        bins[bin].0 += f64::from(probability);
        bins[bin].1 += f64::from(u8::from(right));
    }
    let gaps: f64 = bins.iter().map(|(confidence, right)| (confidence - right).abs()).sum();
    (!answers.is_empty()).then(|| gaps / answers.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_below_their_headings() {
        let row = UnknownRow { session: 8, ece: Some(3.25), auroc: None, false_alarms: 5.0, passed: Some(42.25) };
        assert_eq!(row.to_string(), "      8    3.25       -          5.00           42.25");
        assert_eq!(row.to_string().len(), UnknownRow::HEADING.len());
        let row = UnknownRow { session: 0, ..row };
        let other = UnknownRow { ece: Some(4.75), passed: None, ..row };
        assert_eq!(mean_unknown_rows(&[vec![row], vec![other]]), [UnknownRow { ece: Some(4.0), ..row }]);
    }

    #[test]
    fn the_area_counts_pairs_in_order() {
        assert_eq!(auroc(&[3.0, 4.0], &[1.0, 2.0]), Some(1.0));
        assert_eq!(auroc(&[1.0, 2.0], &[3.0, 4.0]), Some(0.0));
        // Pairs: 2 > 1, 2 = 2 (half), 3 > 1, 3 > 2.
        assert_eq!(auroc(&[2.0, 3.0], &[1.0, 2.0]), Some(3.5 / 4.0));
        assert_eq!(auroc(&[], &[1.0]), None);
    }

    #[test]
    fn the_calibration_error_is_the_gap_between_estimate_and_truth() {
        // Ten answers at 0.8, of which six are right; two at 1.0, both right.
        let mut answers: Vec<(f32, bool)> = (0..10).map(|index| (0.8, index < 6)).collect();
        assert!((calibration_error(&answers).unwrap() - 0.2).abs() < 1e-6);
        answers.extend([(1.0, true); 2]);
        assert!((calibration_error(&answers).unwrap() - 2.0 / 12.0).abs() < 1e-6);
        assert_eq!(calibration_error(&[]), None);
    }
}
