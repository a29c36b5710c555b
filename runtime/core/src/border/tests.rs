//! The border that is chosen from samples with known margins, and the accuracies that it promises.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn samples(margins: &[(f32, bool)]) -> Vec<BorderSample> {
    let weight = 1.0 / margins.len() as f32;
    margins.iter().map(|&(margin, right)| BorderSample { margin, right, weight }).collect()
}

fn aim(weights: BorderWeights<'_>) -> BorderObjective<'_> {
    BorderObjective { weights, base_fraction: 0.5, min_accuracy: 0.0 }
}

fn by_harmonic_mean(base: f32) -> BorderWeights<'static> {
    BorderWeights { base, harmonic: &[1.0] }
}

/// Ten samples of base classes and ten shots, whose margins overlap.
fn overlapping() -> [Vec<BorderSample>; 2] {
    let base: Vec<(f32, bool)> = (0..10).map(|i| (-0.05 - 0.1 * i as f32, true)).collect();
    let new: Vec<(f32, bool)> = (0..10).map(|i| (0.5 - 0.1 * i as f32, true)).collect();
    [samples(&base), samples(&new)]
}

#[test]
fn the_weight_of_base_classes_moves_the_border() {
    let [base, new] = overlapping();
    let shift = |weight| choose(&base, &new, &aim(by_harmonic_mean(weight))).shift;
    assert!(shift(0.9) < shift(0.5) && shift(0.5) < shift(0.1), "{} {}", shift(0.9), shift(0.5));
}

#[test]
fn where_base_classes_are_many_the_harmonic_mean_gives_new_ones_more() {
    let [base, new] = overlapping();
    let shift = |harmonic: f32| {
        let weights = BorderWeights { base: 0.5, harmonic: &[harmonic] };
        choose(&base, &new, &BorderObjective { weights, base_fraction: 0.9, min_accuracy: 0.0 }).shift
    };
    assert!(shift(0.0) < shift(0.3) && shift(0.3) < shift(1.0), "{} {} {}", shift(0.0), shift(0.3), shift(1.0));
}

#[test]
fn a_lower_weight_of_the_harmonic_mean_is_taken_only_to_reach_the_accuracy() {
    let [base, new] = overlapping();
    let base_fraction = 0.9;
    let choose_with = |harmonic: &[f32], min_accuracy| {
        choose(
            &base,
            &new,
            &BorderObjective { weights: BorderWeights { base: 0.5, harmonic }, base_fraction, min_accuracy },
        )
    };
    let weights = [0.6, 0.4, 0.2];
    let each = weights.map(|weight| choose_with(&[weight], 0.0));
    let overall = each.map(|border| border.overall(base_fraction));
    assert!(overall[0] < overall[1] && overall[1] < overall[2], "{overall:?}");
    let border = |min_accuracy| choose_with(&weights, min_accuracy);
    assert_eq!(border(0.0), each[0]);
    assert_eq!(border(overall[0]), each[0]);
    assert_eq!(border(overall[1]), each[1]);
    assert_eq!(border(overall[2]), each[2]);
    assert_eq!(border(1.0), each[2], "what cannot be reached is neared");
}

/// Half of the base samples are right, each standing for 0.8 of a picture; new margins have mean 0.1 and deviation 0.1,
/// one in five is taken for another new class.
#[test]
fn expected_accuracies_are_those_of_the_weights_and_of_a_normal_distribution() {
    let base: Vec<BorderSample> =
        (0..10).map(|i| BorderSample { margin: -2.0, right: i % 2 == 0, weight: 0.8 / 10.0 }).collect();
    let new = samples(&[(0.0, true), (0.2, true), (0.0, true), (0.2, true), (9.0, false)]);
    let at = |shift| expected(&base, &new, shift);
    for (shift, of_new) in [(-0.1, 0.5), (0.0, 0.841_345), (0.1, 0.977_25), (-0.2, 0.158_655), (1.0, 1.0)] {
        let border = at(shift);
        assert!((border.base - 0.4).abs() < 1e-6, "{border:?}");
        assert!((border.learned - 0.8 * of_new).abs() < 1e-5, "{border:?} instead of {of_new}");
    }
    assert_eq!(at(3.0).base, 0.0, "all is taken for new");
}

#[test]
fn without_samples_nothing_moves() {
    let base = samples(&[(-1.0, true), (0.5, false)]);
    let border = choose(&base, &[], &aim(by_harmonic_mean(0.5)));
    assert_eq!((border.shift, border.base, border.learned), (0.0, 0.5, 0.0));
    assert_eq!(choose(&[], &[], &aim(by_harmonic_mean(0.5))), Border::default());
}

#[test]
fn a_single_sample_of_each_side_is_told_apart() {
    let border = choose(&samples(&[(-3.0, true)]), &samples(&[(-1.0, true)]), &aim(by_harmonic_mean(0.75)));
    assert!(border.base > 0.9999 && border.learned > 0.9999, "{border:?}");
    assert!((border.shift - 2.0).abs() < 0.1, "in the middle: {}", border.shift);
}

#[test]
fn where_no_shot_is_right_nothing_of_the_base_classes_is_given_up() {
    let base = samples(&[(-3.0, true), (0.5, true)]);
    let border = choose(&base, &samples(&[(-1.0, false)]), &aim(by_harmonic_mean(0.75)));
    assert!(border.base > 0.999 && border.learned == 0.0, "{border:?}");
}

proptest! {
    #[test]
    fn no_other_shift_is_better(
        base in prop::collection::vec((-30i8..30, any::<bool>()), 1..20),
        new in prop::collection::vec((-30i8..30, any::<bool>()), 1..20),
        weight in 0.1f32..0.9,
        harmonic in 0.0f32..1.0,
    ) {
        let leads = |of: &[(i8, bool)]| -> Vec<_> {
            of.iter().map(|(lead, right)| (f32::from(*lead) / 8.0, *right)).collect()
        };
        let (base, new) = (samples(&leads(&base)), samples(&leads(&new)));
        let harmonics = [harmonic];
        let aim = aim(BorderWeights { base: weight, harmonic: &harmonics });
        let border = choose(&base, &new, &aim);
        let curve = Expectation::of(&base, &new).curve(&new);
        let value = |point: &Border| aim.value(point, harmonic);
        let distance = |point: &Border| (point.shift - border.shift).abs();
        let nearest = |a: &&Border, b: &&Border| distance(a).total_cmp(&distance(b));
        let chosen = value(curve.iter().min_by(nearest).unwrap());
        for point in &curve {
            prop_assert!(value(point) <= chosen + 1e-4, "{point:?} beats {border:?}");
        }
    }

    #[test]
    fn far_out_all_samples_are_on_one_side(
        leads in prop::collection::vec((-30i8..30, any::<bool>()), 1..20),
    ) {
        let leads: Vec<_> = leads.iter().map(|(lead, right)| (f32::from(*lead) / 8.0, *right)).collect();
        let all = samples(&leads);
        let right = leads.iter().filter(|(_, right)| *right).count() as f32 / leads.len() as f32;
        let [first, last] = [-1e3, 1e3].map(|shift| expected(&all, &all, shift));
        prop_assert!((first.base - right).abs() < 1e-4 && first.learned.abs() < 1e-4, "{first:?}");
        prop_assert!(last.base.abs() < 1e-4 && (last.learned - right).abs() < 1e-4, "{last:?}");
    }
}
