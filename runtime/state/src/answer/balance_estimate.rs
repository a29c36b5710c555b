//! Estimates, for each balance, how many stored shots are recognised and how many base samples are taken for a learned
//! class.
//!
//! The present balance is judged with the border in use. For the others, the border is chosen on request, as switching
//! would choose it: from all samples and the views of shots.

use alloc::vec::Vec;

use orco_core::config::MethodConfig;
use orco_core::workers::Workers;

use super::calibrate::{Calibrator, LeftOutAccuracy};
use super::scoring_cache::ScoringCache;
use super::{ScoringWork, ValidationSamples};
use crate::state::{Balance, BaseModel, State};

/// What answers recognise with one balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BalanceEstimate {
    /// The balance.
    pub balance: Balance,
    /// Shots of learned classes that were judged, each left out of its class.
    pub shots: usize,
    /// How many of them are recognised.
    pub recognised: usize,
    /// Samples of base classes that were judged.
    pub base_samples: usize,
    /// How many of them are taken for a learned class.
    pub taken_for_learned: usize,
}

/// What answers recognise with each balance, and what is expected of the present one.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BalanceEstimates {
    /// An estimate for every balance, in the order of [`Balance::ALL`]; none before anything is learned, where answers
    /// have no border, or where one of the sides has no samples.
    pub choices: Vec<BalanceEstimate>,
    /// What left-out shots say of learned classes, with the border in use; `None` where they are too few.
    pub left_out: Option<LeftOutAccuracy>,
}

/// Estimates for every balance. `cache` saves time and changes no result.
pub fn balance_estimates(
    base_model: &BaseModel,
    state: &State,
    config: &MethodConfig,
    cache: Option<&mut ScoringCache>,
    workers: &dyn Workers,
) -> BalanceEstimates {
    let Some(scoring) = base_model.scoring(config).filter(|_| !state.classes.is_empty()) else {
        return BalanceEstimates::default();
    };
    let work = &mut ScoringWork { cache, workers };
    let samples = ValidationSamples::of(base_model, state, scoring);
    let floor = samples.nearest_mean_accuracy(work);
    let classes = samples.sample_classes();
    let calibrator = samples.calibrator_with_all(&classes, work);
    let present = state.calibration.map(|calibration| (state.balance, calibration.border.shift));
    BalanceEstimates {
        choices: estimates(&calibrator, present, floor, scoring.statistics.initial_shift),
        left_out: present.and_then(|(_, shift)| samples.left_out_accuracy(&calibrator, shift)),
    }
}

/// `calibrator` holds all samples, `present` is the balance in use with the shift of its border, `floor` the accuracy
/// of the nearest class mean, and `initial` the shift where one of the sides has no samples.
fn estimates(
    calibrator: &Calibrator<'_>,
    present: Option<(Balance, f32)>,
    floor: f32,
    initial: f32,
) -> Vec<BalanceEstimate> {
    let shift = |balance: Balance| match present {
        Some((present, shift)) if present == balance => shift,
        _ => calibrator.choose_border(balance, if balance.has_accuracy_floor() { floor } else { 0.0 }, initial).shift,
    };
    let has_both = |one: &BalanceEstimate| one.shots > 0 && one.base_samples > 0;
    let all = Balance::ALL.map(|balance| estimate(calibrator, balance, shift(balance)));
    all.into_iter().filter(has_both).collect()
}

/// Counts what `calibrator`'s samples are answered with where the border is shifted so.
fn estimate(calibrator: &Calibrator<'_>, balance: Balance, shift: f32) -> BalanceEstimate {
    let mut estimate = BalanceEstimate { balance, shots: 0, recognised: 0, base_samples: 0, taken_for_learned: 0 };
    for (class, best) in calibrator.included() {
        let answer = best.answer(shift);
        if calibrator.is_base(class) {
            estimate.base_samples += 1;
            estimate.taken_for_learned += usize::from(!calibrator.is_base(answer));
        } else {
            estimate.shots += 1;
            estimate.recognised += usize::from(answer == class);
        }
    }
    estimate
}

#[cfg(test)]
mod tests {
    use super::super::calibrate::tests::{BASE, calibrator};
    use super::*;

    #[test]
    fn a_balance_is_told_as_it_would_be_chosen_whatever_the_present_one_is() {
        let classes: Vec<u32> = (0..BASE as u32).chain([BASE as u32; 4]).collect();
        let calibrator = calibrator(&classes);
        // Balanced answers keep the floor; what people set counts alone.
        let floor = |balance: Balance| if balance == Balance::Balanced { 1.0 } else { 0.0 };
        let chosen =
            Balance::ALL.map(|balance| (balance, calibrator.choose_border(balance, floor(balance), 0.0).shift));
        let told = chosen.map(|present| estimates(&calibrator, Some(present), 1.0, 0.0));
        assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
        let [keep, balanced, favour] = told[0][..] else { panic!("one for each balance") };
        assert_eq!([keep, balanced, favour].map(|one| one.balance), Balance::ALL);
        assert_eq!([keep, balanced, favour].map(|one| (one.shots, one.base_samples)), [(4, 20); 3]);
        assert_eq!([keep, balanced].map(|one| (one.recognised, one.taken_for_learned)), [(1, 0); 2]);
        assert_eq!((favour.recognised, favour.taken_for_learned), (4, 8));
        // Answers have the border that they have.
        let [_, wide, _] = estimates(&calibrator, Some((Balance::Balanced, 5.0)), 1.0, 0.0)[..] else { panic!() };
        assert_eq!((wide.recognised, wide.taken_for_learned), (4, 20));
    }

    #[test]
    fn nothing_is_estimated_without_samples_of_both_sides() {
        for classes in [[0, 1], [20, 20]] {
            assert!(estimates(&calibrator(&classes), None, 0.0, 0.0).is_empty());
        }
    }
}
