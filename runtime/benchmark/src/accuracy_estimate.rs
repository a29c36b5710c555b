//! How far the accuracies that a device estimates after a session are from those that are measured.

use orco_core::border::Border;
use serde::{Deserialize, Serialize};

use crate::spread::{deviation, mean};

/// What a device estimates of a session less what is measured, in percentage points: above 0 the estimate is too high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccuracyEstimateError {
    /// Of the accuracy on base classes.
    pub base: f64,
    /// Of that on learned classes.
    pub learned: f64,
    /// Of that over all classes, each counting alike.
    pub overall: f64,
}

impl AccuracyEstimateError {
    /// Of a border's estimate beside the accuracies that were measured on base classes and on learned ones, in percent;
    /// `share` is the fraction that are base classes.
    pub fn of(border: &Border, [base, learned]: [f64; 2], share: f64) -> Self {
        let error = |estimated: f32, measured: f64| 100.0 * f64::from(estimated) - measured;
        let (base, learned) = (error(border.base, base), error(border.learned, learned));
        Self { base, learned, overall: share * base + (1.0 - share) * learned }
    }

    fn combine(all: &[Self], by: fn(&[f64]) -> f64) -> Self {
        let over = |of: fn(&Self) -> f64| by(&all.iter().map(of).collect::<Vec<f64>>());
        Self { base: over(|of| of.base), learned: over(|of| of.learned), overall: over(|of| of.overall) }
    }
}

/// How far estimates are off, over several draws.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccuracyEstimateErrors {
    /// Means over sessions and draws.
    pub mean: AccuracyEstimateError,
    /// Deviations over the draws of the means over sessions.
    pub deviation: AccuracyEstimateError,
}

impl AccuracyEstimateErrors {
    /// Over the sessions of every draw; none where nothing was estimated.
    pub(crate) fn over<'a>(draws: impl Iterator<Item = &'a [AccuracyEstimateError]>) -> Option<Self> {
        let draws = draws.filter(|sessions| !sessions.is_empty());
        let means: Vec<AccuracyEstimateError> =
            draws.map(|sessions| AccuracyEstimateError::combine(sessions, mean)).collect();
        let over = |by| AccuracyEstimateError::combine(&means, by);
        (!means.is_empty()).then(|| Self { mean: over(mean), deviation: over(deviation) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_compared_with_what_is_measured() {
        let border = Border { shift: 0.3, base: 0.8, learned: 0.5 };
        let AccuracyEstimateError { base, learned, overall } = AccuracyEstimateError::of(&border, [70.0, 60.0], 0.75);
        for (error, expected) in [(base, 10.0), (learned, -10.0), (overall, 5.0)] {
            assert!((error - expected).abs() < 1e-4, "{error} instead of {expected}");
        }
    }

    #[test]
    fn deviations_are_those_of_the_draws_means() {
        let draw = |errors: &[f64]| -> Vec<AccuracyEstimateError> {
            errors.iter().map(|&base| AccuracyEstimateError { base, learned: 0.0, overall: -base }).collect()
        };
        let draws = [draw(&[1.0, 3.0]), draw(&[4.0]), draw(&[])];
        let errors = AccuracyEstimateErrors::over(draws.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(errors.mean, AccuracyEstimateError { base: 3.0, learned: 0.0, overall: -3.0 });
        assert!((errors.deviation.base - 2f64.sqrt()).abs() < 1e-9, "{errors:?}");
        assert_eq!(AccuracyEstimateErrors::over([].into_iter()), None, "nothing is estimated");
    }
}
