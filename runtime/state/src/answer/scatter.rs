//! How the device's own shots scatter within their classes, added to the covariance that the bundle brings.
//!
//! The bundle knows how pictures of base classes scatter. Shots of one thing scatter along other axes: views of one mug
//! differ otherwise than pictures of many mugs do. So the scatter of the shots around their class means is added to the
//! covariance C of the bundle, which counts as PRIOR observations: C + sum of r r^T / PRIOR, where the residual r is a
//! shot minus its class's mean, and PRIOR is a setting
//! ([`scatter_prior`](orco_core::config::AnswerWeights::scatter_prior)). The whitening W turns C into the identity, and
//! the sum into I + sum of s s^T / PRIOR with s = W r. Its inverse M shortens a vector along the s. M is stored as
//! I - sum of y y^T, one y for each shot (Sherman and Morrison 1950). Streaming discriminant analysis updates a
//! covariance in the same way (Hayes and Kanan 2020).
//!
//! Where classes have more than [`USUAL_SHOTS`] shots on average, the shots say more than the bundle: PRIOR is divided
//! by their [multiple](multiple_of_usual) of that number, and more of them count.
//!
//! A shot that is left out of its class is taken out of the scatter, too. One of a class's n shots, with residual r,
//! adds n / (n - 1) r r^T to the scatter.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use orco_core::discriminant::root_direction;
use orco_core::math::{add_scaled, dot, sqrt};

use crate::bank::Bank;
use crate::codec;

use super::ScoringWork;
use super::low_rank::LowRankMap;
use super::sampling::stratified;

/// Shots of a class for which the weights of answers are chosen.
const USUAL_SHOTS: f32 = 5.0;

/// Largest multiple of [`USUAL_SHOTS`] that changes anything: no gain was measured with more.
const MAX_MULTIPLE: f32 = 4.0;

/// Most shots whose scatter counts, where classes have [`USUAL_SHOTS`]; more cost time and gain little.
const USUAL_MAX_SCATTERED: f32 = 256.0;

/// Most shots whose scatter counts in any case.
const MAX_SCATTERED: usize = 512;

/// Fewest shots of a class that takes part, unless it has fewer. Where there is no room for as many of every class
/// ([`most_scattered`]), only some classes take part.
const MIN_OF_CLASS: usize = 5;

/// Most base classes from which [`ShotScatter::remaining_spread`] is estimated; more hardly change it.
const MAX_SPREAD_CLASSES: usize = 64;
/// Lower bound of [`ShotScatter::remaining_spread`]: the discriminant's weight, which is divided by that, grows 20-fold
/// at most.
const MIN_SPREAD: f32 = 0.05;

/// The scatter of a state's shots within their classes.
#[derive(Clone, Debug)]
pub(super) struct ShotScatter {
    /// M: what is left of whitened vectors.
    damper: LowRankMap,
    /// How many different shots the classes have on average, as a [`multiple_of_usual`]. Of one class, shots beyond
    /// the [largest multiple](MAX_MULTIPLE) do not count, so that one with very many changes little for others.
    pub(super) multiple: f32,
    /// How many observations the covariance of the bundle counts as: the setting, divided by the multiple.
    effective_prior: f32,
    /// The classes whose shots scatter.
    classes: BTreeMap<u32, ScatteredClass>,
}

/// A class whose shots scatter.
#[derive(Clone, Debug)]
struct ScatteredClass {
    /// Mean of their directions of roots.
    mean: Vec<f32>,
    /// Digests of the shots.
    shots: Vec<[u8; 32]>,
}

/// A shot to be left out of its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScatteredShot<'s> {
    pub(super) class: u32,
    pub(super) digest: &'s [u8; 32],
    /// Its direction of roots, `[inputs]`.
    pub(super) roots: &'s [f32],
}

/// A shot that is left out of its class and of the scatter: M grows by factor g g^T, with g = M W r.
#[derive(Clone, Debug)]
pub(super) struct RemovedShot {
    /// r: how far the shot is from its class's mean, `[inputs]`.
    pub(super) residual: Vec<f32>,
    /// W g, `[inputs]`.
    axis: Vec<f32>,
    factor: f32,
}

/// How scores of all classes change when a shot is taken out of the scatter.
#[derive(Clone, Debug)]
pub(super) struct ScatterChange {
    pub(super) removed: RemovedShot,
    /// The inner product of each class's row and r, `[classes]`.
    pub(super) row_products: Vec<f32>,
    /// Weight of the discriminant.
    pub(super) weight: f32,
    /// Where the roots begin in an embedding.
    pub(super) roots_start: usize,
}

/// What the scatter of shots is joined to: centre, whitening and weight of the bundle's covariance.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScatterBasis<'a> {
    /// Centre of the roots of base features, `[inputs]`.
    pub(super) root_centre: &'a [f32],
    /// W: by the covariance of base classes.
    pub(super) whitener: &'a LowRankMap,
    /// How many observations that covariance counts as, where classes have [`USUAL_SHOTS`].
    pub(super) prior: f32,
}

/// The shots of a bank whose scatter counts, by class, and the [multiple](ShotScatter::multiple).
struct ChosenShots {
    by_class: BTreeMap<u32, Vec<usize>>,
    multiple: f32,
}

impl ChosenShots {
    fn of(bank: &Bank) -> Self {
        const MOST_OF_CLASS: usize = (MAX_MULTIPLE * USUAL_SHOTS) as usize;
        let mut different = different_shots(bank);
        let counted = different.values().map(|shots| shots.len().min(MOST_OF_CLASS)).sum();
        let multiple = multiple_of_usual(counted, different.len());
        let most = most_scattered(multiple);
        different.retain(|_, shots| shots.len() > 1);
        let chosen = stratified(classes_that_fit(different, most), most);
        let mut by_class = BTreeMap::<u32, Vec<usize>>::new();
        chosen.into_iter().for_each(|shot| by_class.entry(bank.classes()[shot]).or_default().push(shot));
        Self { by_class, multiple }
    }

    /// By which a cache finds their scatter: a digest of all that it depends on, the bundle apart.
    fn digest(&self, bank: &Bank, prior: f32) -> [u8; 32] {
        let mut digested: Vec<u8> = [self.multiple, prior].iter().flat_map(|value| value.to_le_bytes()).collect();
        for (class, shots) in &self.by_class {
            for &shot in shots {
                digested.extend(class.to_le_bytes());
                digested.extend(bank.digest_of(shot));
            }
        }
        codec::digest(&digested)
    }
}

impl ShotScatter {
    /// The scatter of a bank's shots, from the cache if that has it; `None` where no class has two different ones.
    pub(super) fn of(bank: &Bank, basis: ScatterBasis<'_>, work: &mut ScoringWork<'_>) -> Option<Arc<Self>> {
        let chosen = ChosenShots::of(bank);
        let Some(cache) = work.cache.as_deref_mut() else {
            return Self::of_chosen(chosen, bank, basis).map(Arc::new);
        };
        cache.scatter(chosen.digest(bank, basis.prior), || Self::of_chosen(chosen, bank, basis))
    }

    fn of_chosen(chosen: ChosenShots, bank: &Bank, basis: ScatterBasis<'_>) -> Option<Self> {
        let (inputs, multiple) = (bank.inputs(), chosen.multiple);
        let effective_prior = basis.prior / multiple;
        let (mut classes, mut residuals) = (BTreeMap::new(), Vec::new());
        for (class, exemplars) in chosen.by_class {
            let mut rows = bank.clean_of(&exemplars);
            let mut mean = vec![0.0; inputs];
            for row in rows.chunks_exact_mut(inputs) {
                root_direction(row, basis.root_centre);
                add_scaled(&mut mean, 1.0 / exemplars.len() as f32, row);
            }
            rows.chunks_exact_mut(inputs).for_each(|row| add_scaled(row, -1.0, &mean));
            residuals.extend(rows);
            let shots = exemplars.into_iter().map(|exemplar| bank.digest_of(exemplar)).collect();
            classes.insert(class, ScatteredClass { mean, shots });
        }
        basis.whitener.apply(&mut residuals);
        let axes = damping_axes(residuals, inputs, effective_prior);
        let count = axes.len() / inputs;
        let damper = LowRankMap::new(&axes, vec![1.0; count], 1.0, inputs);
        (count > 0).then_some(Self { damper, multiple, effective_prior, classes })
    }

    /// Shortens whitened vectors `[n, inputs]` along the scatter: multiplies them by M.
    pub(super) fn damp(&self, vectors: &mut [f32]) {
        self.damper.apply(vectors);
    }

    /// Frees what only [`Self::without`] needs.
    pub(super) fn forget_shots(&mut self) {
        self.classes.clear();
    }

    /// The share that damping leaves of the squared spread of base classes' whitened means, one row each:
    /// [`MIN_SPREAD`]..1.
    pub(super) fn remaining_spread(&self, means: &Bank) -> f32 {
        let step = means.len().div_ceil(MAX_SPREAD_CLASSES).max(1);
        let mut rows = means.clean_of(&(0..means.len()).step_by(step).collect::<Vec<_>>());
        let inputs = means.inputs();
        let mut mean = vec![0.0; inputs];
        let share = 1.0 / (rows.len() / inputs).max(1) as f32;
        rows.chunks_exact(inputs).for_each(|row| add_scaled(&mut mean, share, row));
        rows.chunks_exact_mut(inputs).for_each(|row| add_scaled(row, -1.0, &mean));
        let mut damped = rows.clone();
        self.damp(&mut damped);
        let (left, all) = (dot(&rows, &damped), dot(&rows, &rows));
        if all > 0.0 { (left / all).clamp(MIN_SPREAD, 1.0) } else { 1.0 }
    }

    /// Takes each shot by itself out of the scatter; `None` for one that is not in it.
    pub(super) fn without<'s>(
        &self,
        shots: impl Iterator<Item = ScatteredShot<'s>>,
        whitener: &LowRankMap,
    ) -> Vec<Option<RemovedShot>> {
        /// Rounding must not make the divisor vanish.
        const LEAST: f32 = 1e-5;
        let residual = |shot: ScatteredShot<'_>| {
            let class = self.classes.get(&shot.class).filter(|class| class.shots.contains(shot.digest))?;
            let mut residual = shot.roots.to_vec();
            add_scaled(&mut residual, -1.0, &class.mean);
            let count = class.shots.len() as f32;
            Some((residual, count / (count - 1.0) / self.effective_prior))
        };
        let residuals: Vec<Option<(Vec<f32>, f32)>> = shots.map(residual).collect();
        let mut axes: Vec<f32> = residuals.iter().flatten().flat_map(|(residual, _)| residual).copied().collect();
        whitener.apply(&mut axes);
        self.damp(&mut axes);
        whitener.apply(&mut axes);
        let mut rest = &axes[..];
        let removed = |residual: Option<(Vec<f32>, f32)>| {
            let (residual, share) = residual?;
            let (axis, others) = rest.split_at(residual.len());
            rest = others;
            let factor = share / (1.0 - share * dot(&residual, axis)).max(LEAST);
            Some(RemovedShot { residual, axis: axis.to_vec(), factor })
        };
        residuals.into_iter().map(removed).collect()
    }
}

impl ScatterChange {
    /// Changes the scores of every class for an embedding.
    pub(super) fn apply(&self, scores: &mut [f32], embedded: &[f32]) {
        let Self { removed, weight, .. } = self;
        let along = dot(&removed.axis, &embedded[self.roots_start..]);
        // A class's row is weight W M u, and its offset holds -weight / 2 u M u: both have M, which grows.
        let change = |product: f32| removed.factor * product * (along - 0.5 * product / weight);
        scores.iter_mut().zip(&self.row_products).for_each(|(score, product)| *score += change(*product));
    }

    /// Changes a row and an offset that score a class, so that its scores are as [`Self::apply`] would make them.
    pub(super) fn apply_to_row(&self, row: &mut [f32], offset: &mut f32) {
        let Self { removed, weight, .. } = self;
        let roots = &mut row[self.roots_start..];
        let product = dot(roots, &removed.residual);
        add_scaled(roots, removed.factor * product, &removed.axis);
        *offset -= 0.5 * removed.factor * product * product / weight;
    }
}

/// Different shots of every class.
fn different_shots(bank: &Bank) -> BTreeMap<u32, Vec<usize>> {
    let mut by_class = bank.by_class();
    // No digest is computed of a class's only shot.
    for exemplars in by_class.values_mut().filter(|exemplars| exemplars.len() > 1) {
        let mut seen = BTreeSet::new();
        exemplars.retain(|&exemplar| seen.insert(bank.digest_of(exemplar)));
    }
    by_class
}

/// How many shots each of these classes has on average, as a multiple of [`USUAL_SHOTS`]: 1 to [`MAX_MULTIPLE`].
pub(crate) fn multiple_of_usual(shots: usize, classes: usize) -> f32 {
    (shots as f32 / classes.max(1) as f32 / USUAL_SHOTS).clamp(1.0, MAX_MULTIPLE)
}

/// Most shots whose scatter counts, where classes have this multiple of the usual shots.
pub(crate) fn most_scattered(multiple: f32) -> usize {
    MAX_SCATTERED.min((USUAL_MAX_SCATTERED * multiple) as usize)
}

/// The classes, if [`MIN_OF_CLASS`] shots of each fit into `most`; else as many as fit, evenly chosen.
fn classes_that_fit(by_class: BTreeMap<u32, Vec<usize>>, most: usize) -> BTreeMap<u32, Vec<usize>> {
    let few = |exemplars: &Vec<usize>| exemplars.len().min(MIN_OF_CLASS);
    let all = by_class.values().map(few).sum::<usize>().max(most);
    let (mut passed, mut taken) = (0, 0);
    let fits = |(_, exemplars): &(u32, Vec<usize>)| {
        passed += few(exemplars);
        // The share that is taken so far stays within the share of all shots for which there is room.
        let fits = (taken + few(exemplars)) * all <= passed * most;
        taken += if fits { few(exemplars) } else { 0 };
        fits
    };
    by_class.into_iter().filter(fits).collect()
}

/// Rows y with I - sum of y y^T the inverse of I + sum of s s^T / prior, from the rows s.
fn damping_axes(mut rows: Vec<f32>, inputs: usize, prior: f32) -> Vec<f32> {
    /// Rows of a block. The axes before it damp it as one product, which takes less time than row by row.
    const BLOCK: usize = 32;
    let scale = 1.0 / sqrt(prior);
    rows.iter_mut().for_each(|value| *value *= scale);
    for first in (0..rows.len()).step_by(BLOCK * inputs) {
        let (before, rest) = rows.split_at_mut(first);
        let end = rest.len().min(BLOCK * inputs);
        let block = &mut rest[..end];
        let residuals = block.to_vec();
        LowRankMap::new(before, vec![1.0; before.len() / inputs], 1.0, inputs).apply(block);
        for (row, residual) in residuals.chunks_exact(inputs).enumerate() {
            let (before, own) = block.split_at_mut(row * inputs);
            let own = &mut own[..inputs];
            before.chunks_exact(inputs).for_each(|axis| add_scaled(own, -dot(axis, residual), axis));
            // Never negative, except for rounding.
            let length = sqrt(1.0 + dot(own, residual).max(0.0));
            own.iter_mut().for_each(|value| *value /= length);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use orco_core::exemplar::ExemplarPrecision;
    use orco_core::random::Random;

    use super::*;

    const INPUTS: usize = 6;
    const PRIOR: f32 = 1000.0;

    fn whitener() -> LowRankMap {
        LowRankMap::new(&[0.6, 0.8, 0.0, 0.0, 0.0, 0.0], vec![0.5], 60.0, INPUTS)
    }

    /// Three classes of four shots, the last of one.
    fn bank() -> Bank {
        let mut random = Random::new(5, "scatter");
        let mut bank = Bank::new(INPUTS, 2, ExemplarPrecision::F16);
        for class in [0, 0, 1, 0, 1, 0, 1, 1, 2] {
            let views: Vec<f32> = (0..2 * INPUTS).map(|_| random.uniform(0.0, 2.0)).collect();
            bank.push(class, &views);
        }
        bank
    }

    fn scatter_of(bank: &Bank) -> Option<Arc<ShotScatter>> {
        let basis = ScatterBasis { root_centre: &[0.5; INPUTS], whitener: &whitener(), prior: PRIOR };
        ShotScatter::of(bank, basis, &mut ScoringWork::alone())
    }

    fn scatter(bank: &Bank) -> Arc<ShotScatter> {
        scatter_of(bank).unwrap()
    }

    /// The shot's direction of roots.
    fn roots(bank: &Bank, shot: usize) -> Vec<f32> {
        let mut roots = bank.clean_of(&[shot]);
        root_direction(&mut roots, &[0.5; INPUTS]);
        roots
    }

    #[test]
    fn damping_inverts_the_identity_and_the_scatter() {
        assert_inverts(&bank());
        // More than are damped together.
        assert_inverts(&bank_of([14; 5]));
    }

    fn assert_inverts(bank: &Bank) {
        let scatter = scatter(bank);
        let vector: Vec<f32> = (0..INPUTS).map(|input| 1.0 - 0.3 * input as f32).collect();
        let mut damped = vector.clone();
        scatter.damp(&mut damped);
        assert_ne!(damped, vector);
        // (I + sum of s s^T / PRIOR) times the damped vector is the vector.
        let mut back = damped.clone();
        for shot in 0..bank.len() {
            let Some(class) = scatter.classes.get(&bank.classes()[shot]) else { continue };
            let mut residual = roots(bank, shot);
            add_scaled(&mut residual, -1.0, &class.mean);
            whitener().apply(&mut residual);
            add_scaled(&mut back, dot(&residual, &damped) / scatter.effective_prior, &residual);
        }
        for (back, value) in back.iter().zip(&vector) {
            assert!((back - value).abs() < 1e-5, "{back} and {value}");
        }
    }

    #[test]
    fn scores_without_a_shot_are_those_of_the_scatter_without_it() {
        let bank = bank();
        let (scatter, whitener) = (scatter(&bank), whitener());
        let fewer = self::scatter(&bank.only(&[0, 1, 2, 3, 4, 6, 7, 8]));
        let (shot, weight) = (5, 0.07);
        // The row and the offset of a class whose mean this is, once it is whitened.
        let class = |by: &ShotScatter| {
            let mean: Vec<f32> = (0..INPUTS).map(|input| 0.4 * input as f32 - 1.0).collect();
            let mut row = mean.clone();
            by.damp(&mut row);
            let offset = -0.5 * weight * dot(&mean, &row);
            whitener.apply(&mut row);
            row.iter_mut().for_each(|value| *value *= weight);
            (row, offset)
        };
        let picture = roots(&bank, 2);
        let score = |(row, offset): &(Vec<f32>, f32)| dot(row, &picture) + offset;
        let (mut whole, exact) = (class(&scatter), score(&class(&fewer)));
        let without = |class: u32, shot: usize| {
            let given = ScatteredShot { class, digest: &bank.digest_of(shot), roots: &roots(&bank, shot) };
            scatter.without([given].into_iter(), &whitener).remove(0)
        };
        let removed = without(0, shot).unwrap();
        let row_products = vec![dot(&whole.0, &removed.residual)];
        let change = ScatterChange { removed, row_products, weight, roots_start: 0 };
        let mut scores = [score(&whole)];
        assert!((scores[0] - exact).abs() > 1e-4, "the shot makes no difference");
        change.apply(&mut scores, &picture);
        assert!((scores[0] - exact).abs() < 1e-5, "{} and {exact}", scores[0]);
        change.apply_to_row(&mut whole.0, &mut whole.1);
        assert!((score(&whole) - scores[0]).abs() < 1e-6);
        assert!(without(1, shot).is_none(), "no shot of that class");
        assert!(without(2, 8).is_none(), "a class of one shot does not scatter");
    }

    /// One class for each number of `shots`, with that many different ones.
    fn bank_of(shots: impl IntoIterator<Item = usize>) -> Bank {
        let mut random = Random::new(6, "scatter");
        let mut bank = Bank::new(INPUTS, 1, ExemplarPrecision::F16);
        for (class, count) in shots.into_iter().enumerate() {
            (0..count).for_each(|_| bank.push(class as u32, &[(); INPUTS].map(|()| random.uniform(0.0, 2.0))));
        }
        bank
    }

    /// The scatter of [such classes](bank_of).
    fn of_classes(shots: impl IntoIterator<Item = usize>) -> Arc<ShotScatter> {
        scatter(&bank_of(shots))
    }

    #[test]
    fn of_many_classes_some_count_with_a_few_shots() {
        let uneven = |count: usize| (0..count).map(|class| [5, 2][class % 2]);
        for (shots, least) in [
            (vec![5; 51], 255),
            (vec![5; 52], 255),
            (vec![5; 200], 255),
            (uneven(144).collect(), 250),
            (vec![7; 200], 355),
            (vec![40, 2, 300], 342),
            (vec![20; 200], 500),
        ] {
            let counted = shots.iter().map(|count| count.min(&20)).sum();
            let most = most_scattered(multiple_of_usual(counted, shots.len()));
            let counts: Vec<usize> = of_classes(shots).classes.values().map(|class| class.shots.len()).collect();
            let sum: usize = counts.iter().sum();
            assert!((least..=most).contains(&sum), "{counts:?}");
        }
        assert_eq!([1.0, 1.4, 2.0, 4.0].map(most_scattered), [256, 358, 512, 512]);
        let alike = |class| (class, [1.0; INPUTS]);
        let mut same = Bank::new(INPUTS, 1, ExemplarPrecision::F16);
        [alike(0), alike(0), alike(1)].iter().for_each(|(class, shot)| same.push(*class, shot));
        assert!(scatter_of(&same).is_none(), "nothing scatters");
    }

    #[test]
    fn the_more_shots_classes_have_the_less_the_bundle_counts() {
        let prior = |shots: Vec<usize>| of_classes(shots).effective_prior;
        let priors = [vec![2, 3], vec![5; 4], vec![10; 4], vec![5, 5, 20, 300], vec![50; 2]].map(prior);
        assert_eq!(priors, [1000.0, 1000.0, 500.0, 400.0, 250.0]);
    }

    #[test]
    fn opposite_residuals_stay_numbers_however_far_they_are() {
        let row: Vec<f32> = (0..128).map(|input| 1e6 * (0.37 * input as f32).sin()).collect();
        let opposite: Vec<f32> = row.iter().map(|value| -value).collect();
        let axes = damping_axes([row, opposite].concat(), 128, PRIOR);
        assert!(axes.iter().all(|value| value.is_finite()));
    }
}
