//! How many independent shots the shots of a class are worth, and the range that a promise of accuracy becomes.
//!
//! Five shots of one minute before one background are more alike than five pictures of a class usually are, and say
//! less about other days and places. How alike pictures of one class usually are, the exemplars of base classes tell:
//! with their mean cosine c0 within a class and that of the shots c, the shots have
//!
//! rho = (c - c0) / (1 - c0), between 0 and 1,
//!
//! in common that other pictures of the class have not, and n of them count like n / (1 + (n - 1) rho) independent ones
//! (the design effect of samples in clusters, Kish 1965). Cosines are those of features from the centre of all base
//! features. The range is the score interval of that many samples (Wilson 1927), at 80 %.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use orco_core::discriminant::direction;
use orco_core::math::{add_scaled, dot, sqrt};

use crate::answer::judgeable_samples;
use crate::bank::Bank;
use crate::state::{BaseModel, State};

/// Normal deviate z of the range, a Wilson interval of 80 %; 1.96 would make it one of 95 %.
const INTERVAL_DEVIATE: f32 = 1.28;
/// Least rho of shots that are said to come from one scene: however many they are, they then count like
/// fewer than two independent ones, 2 n / (n + 1).
const ONE_SCENE: f32 = 0.5;
/// Least shots of which that is said.
const MIN_SHOTS: usize = 3;

/// How alike the shots of a learned class are.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShotIndependence {
    /// How many shots the device has.
    pub shots: usize,
    /// How many of them an estimate counts: none of a class of fewer than three different ones, nor one that another
    /// class has, too.
    pub judged: usize,
    /// What they have in common that other pictures of a class have not, 0..1: rho above, their intraclass correlation.
    pub common: f32,
}

impl ShotIndependence {
    /// The effective sample size of the shots that are judged: n / (1 + (n - 1) rho).
    pub fn effective(&self) -> f32 {
        let shots = self.judged as f32;
        shots / (1.0 + (shots - 1.0).max(0.0) * self.common)
    }

    /// Whether they seem to come from one scene, so that others would help.
    pub fn is_one_scene(&self) -> bool {
        self.shots >= MIN_SHOTS && self.common >= ONE_SCENE
    }
}

/// How alike the shots of each learned class are, in the order of classes. `None` where the bundle has no statistics,
/// or too few exemplars to tell how alike pictures of a class usually are.
pub fn of_learned(base_model: &BaseModel, state: &State) -> Option<Vec<ShotIndependence>> {
    of_judged(base_model, state, &judgeable_samples(base_model, state)?.counts)
}

/// As [`of_learned`]; `judged` says for every class, base and learned, how many samples an estimate counts.
pub(crate) fn of_judged(base_model: &BaseModel, state: &State, judged: &[usize]) -> Option<Vec<ShotIndependence>> {
    let centre = &base_model.statistics.as_ref()?.centre;
    let usual: Vec<f32> =
        cosines_by_class(&base_model.exemplars, centre).into_values().filter_map(|of| of.mean).collect();
    if usual.is_empty() {
        return None;
    }
    let usual = usual.iter().sum::<f32>() / usual.len() as f32;
    let shots = cosines_by_class(&state.exemplars, centre);
    let independence = |class: usize| {
        let class = base_model.classes.len() + class;
        let own = shots.get(&(class as u32));
        let common = own.and_then(|own| own.mean).map_or(0.0, |mean| (mean - usual) / (1.0 - usual).max(1e-3));
        let shots = own.map_or(0, |own| own.count);
        ShotIndependence { shots, judged: judged[class], common: common.clamp(0.0, 1.0) }
    };
    Some((0..state.classes.len()).map(independence).collect())
}

/// The range around an `expected` accuracy p on learned classes, 0..1, by how many independent shots n they have, with
/// the normal deviate z: (p + z^2 / 2n ± z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n).
pub fn range(expected: f32, learned: &[ShotIndependence]) -> [f32; 2] {
    let count = learned.iter().map(ShotIndependence::effective).sum::<f32>().max(1.0);
    let square = INTERVAL_DEVIATE * INTERVAL_DEVIATE;
    let middle = (expected + square / (2.0 * count)) / (1.0 + square / count);
    let spread = expected * (1.0 - expected) / count + square / (4.0 * count * count);
    let half = INTERVAL_DEVIATE * sqrt(spread) / (1.0 + square / count);
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

/// How alike the exemplars of a class are.
struct ClassCosines {
    /// How many exemplars it has.
    count: usize,
    /// Mean cosine of pairs; none of a single exemplar.
    mean: Option<f32>,
}

fn cosines_by_class(bank: &Bank, centre: &[f32]) -> BTreeMap<u32, ClassCosines> {
    let of_class = |(class, members): (u32, Vec<usize>)| {
        (class, ClassCosines { count: members.len(), mean: mean_cosine(bank, &members, centre) })
    };
    bank.by_class().into_iter().map(of_class).collect()
}

/// Mean cosine of the pairs of some exemplars, seen from `centre`; none of fewer than two. The square of the length of
/// a sum of n unit vectors is the sum of all their cosines, each with itself among them.
fn mean_cosine(bank: &Bank, exemplars: &[usize], centre: &[f32]) -> Option<f32> {
    let (mut row, mut sum) = (vec![0.0; bank.inputs()], vec![0.0; bank.inputs()]);
    for exemplar in exemplars {
        bank.as_exemplars().read(*exemplar, 0, &mut row);
        direction(&mut row, centre);
        add_scaled(&mut sum, 1.0, &row);
    }
    let count = exemplars.len() as f32;
    (count > 1.0).then(|| (dot(&sum, &sum) - count) / (count * (count - 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shots_that_are_alike_count_for_less_and_the_range_widens() {
        let independence = |common| ShotIndependence { shots: 5, judged: 5, common };
        assert_eq!([0.0, 0.5, 1.0].map(|common| independence(common).effective()), [5.0, 5.0 / 3.0, 1.0]);
        assert_eq!([0.4, 0.5].map(|common| independence(common).is_one_scene()), [false, true]);
        assert!(!ShotIndependence { shots: 2, judged: 2, common: 1.0 }.is_one_scene());
        let [low, high] = range(0.9, &[independence(0.0); 3]);
        assert!(low > 0.75 && low < 0.8 && high > 0.93 && high < 0.97, "{low} {high}");
        let wide = range(0.9, &[independence(1.0); 3]);
        assert!(wide[1] - wide[0] > 1.5 * (high - low) && wide[0] < low, "{wide:?}");
        assert_eq!(range(1.0, &[])[1], 1.0);
        // What cannot be judged says nothing.
        let single = ShotIndependence { shots: 1, judged: 0, common: 0.0 };
        assert_eq!(range(0.9, &[&[independence(0.0)][..], &[single; 19]].concat()), range(0.9, &[independence(0.0)]));
    }

    #[test]
    fn how_alike_exemplars_are_is_the_mean_cosine_of_their_pairs() {
        let mut bank = Bank::new(2, 1, orco_core::exemplar::ExemplarPrecision::F16);
        [[2.0, 1.0], [1.0, 3.0], [0.0, 1.0], [5.0, 5.0]]
            .iter()
            .zip([0, 0, 0, 1])
            .for_each(|(row, class)| bank.push(class, row));
        let cosines = cosines_by_class(&bank, &[1.0, 1.0]);
        // Directions from (1, 1): right, up, left.
        let mean = cosines[&0].mean.unwrap();
        assert!((mean - (0.0 + 0.0 - 1.0) / 3.0).abs() < 1e-3, "{mean}");
        assert_eq!((cosines[&0].count, cosines[&1].mean), (3, None));
    }
}
