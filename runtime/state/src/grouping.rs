//! Pictures grouped by what they show, before anybody has said what that is.
//!
//! Pictures that are alike by their [directions](crate::likeness) make a group (agglomerative clustering, average
//! linkage). What all of them share says nothing of what they show: the place, the light, a kind of thing that no base
//! class is. So directions are seen from the pictures' own mean, too, the more the more pictures there are.
//!
//! How alike pictures of a group must be is chosen on base classes: mixtures of the bundle's samples are grouped with
//! each least cosine, and the one wins whose groups take the least effort to label.

use alloc::vec;
use alloc::vec::Vec;

use orco_core::math::{add_scaled, dot, normalise_rows};
use orco_core::random::Random;

use crate::bank::Bank;
use crate::likeness::direction_from;
use crate::state::BaseModel;

/// Number of pictures at which the reference point is half-way from the base centre to the pictures' own mean. Chosen
/// among 0, 4, 10, 20 and 40 on base samples: 20 needed the fewest corrections.
const HALF_WAY: f32 = 20.0;
/// Mixtures of base samples that are tried.
const MIXTURES: usize = 60;
/// Most classes in a mixture, and most samples of each.
const MAX_MIXED: usize = 8;
/// Effort of moving a picture to another group, as a multiple of that of giving a label. It is more, since a wrong
/// picture that nobody notices is learned.
const MOVE_EFFORT: usize = 2;

/// What groups pictures as a bundle sees them.
#[derive(Clone, Debug)]
pub struct Grouping {
    /// Where directions are seen from; zero without it.
    centre: Option<Vec<f32>>,
    /// Least mean cosine between two parts of a group.
    least_cosine: f32,
}

impl Grouping {
    /// Chooses the least cosine by the samples that the bundle set aside, else by its exemplars.
    pub fn new(base_model: &BaseModel) -> Self {
        let statistics = base_model.statistics.as_ref();
        let bank = match statistics {
            Some(statistics) if !statistics.set_aside.is_empty() => &statistics.set_aside,
            _ => &base_model.exemplars,
        };
        let mut grouping = Self::with(statistics.map(|statistics| statistics.centre.clone()), 0.0);
        grouping.least_cosine = grouping.choose_least_cosine(bank);
        grouping
    }

    /// A grouping with the centre that directions are seen from, and the least mean cosine between two parts of a
    /// group.
    pub fn with(centre: Option<Vec<f32>>, least_cosine: f32) -> Self {
        Self { centre, least_cosine }
    }

    /// Turns features into the direction by which they are compared.
    pub fn direction(&self, features: &mut [f32]) {
        direction_from(self.centre.as_deref(), features);
    }

    /// Groups pictures: groups, and the pictures in them by their indices, in the order in which the first of each
    /// came.
    ///
    /// # Shapes
    /// `directions` `[n, dimension]`.
    pub fn groups(&self, directions: &[f32], dimension: usize) -> Vec<Vec<usize>> {
        let mut linkage = Linkage::new(&from_their_mean(directions, dimension), dimension);
        while let Some(closest) = linkage.closest() {
            if closest.cosine < self.least_cosine {
                break;
            }
            linkage.merge(closest);
        }
        linkage.members.iter_mut().for_each(|group| group.sort_unstable());
        linkage.members
    }

    /// Whether each picture would join the rest of its group now. Groups grow by the mean, so one that joined
    /// early may fit less than what came later.
    ///
    /// # Shapes
    /// `directions` `[n, dimension]`, of which [`groups`](Self::groups) made the groups; returns `[n]`.
    pub fn typical(&self, directions: &[f32], dimension: usize, groups: &[Vec<usize>]) -> Vec<bool> {
        let rows = from_their_mean(directions, dimension);
        let row = |picture: usize| &rows[picture * dimension..][..dimension];
        let mut typical = vec![true; rows.len() / dimension];
        // Two are as like each other as each is like the other.
        for group in groups.iter().filter(|group| group.len() > 2) {
            let mut sum = vec![0.0; dimension];
            group.iter().for_each(|&picture| add_scaled(&mut sum, 1.0, row(picture)));
            for &picture in group {
                // Rows have length 1: each adds that much to its own cosine.
                let cosine = (dot(row(picture), &sum) - 1.0) / (group.len() - 1) as f32;
                typical[picture] = cosine >= self.least_cosine;
            }
        }
        typical
    }

    /// The least cosine with which groups of mixed samples take the least [`effort`].
    fn choose_least_cosine(&self, bank: &Bank) -> f32 {
        let steps: Vec<f32> = (-5..=35).map(|step| 0.02 * step as f32).collect();
        let mut efforts = vec![0.0; steps.len()];
        let members: Vec<Vec<usize>> = bank.by_class().into_values().collect();
        let mut random = Random::new(0, "mixtures of base samples");
        for _ in 0..MIXTURES {
            let mixture = mixed(&members, &mut random);
            self.add_efforts(bank, &mixture, &steps, &mut efforts);
        }
        // Of several that are as good, the one in the middle.
        let least = efforts.iter().copied().fold(f32::INFINITY, f32::min);
        let best: Vec<f32> =
            steps.iter().zip(&efforts).filter(|(_, effort)| **effort <= least).map(|(step, _)| *step).collect();
        best[best.len() / 2]
    }

    /// Adds the [`effort`] that a mixture takes with each of `steps`, the least cosines in ascending order.
    fn add_efforts(&self, bank: &Bank, mixture: &[usize], steps: &[f32], efforts: &mut [f32]) {
        let dimension = bank.inputs();
        let mut rows = bank.clean_of(mixture);
        rows.chunks_exact_mut(dimension).for_each(|row| self.direction(row));
        let mut linkage = Linkage::new(&from_their_mean(&rows, dimension), dimension);
        let classes: Vec<u32> = mixture.iter().map(|&sample| bank.classes()[sample]).collect();
        let mut left = steps.iter().zip(efforts).rev().peekable();
        loop {
            let closest = linkage.closest();
            let effort = effort(&linkage.members, &classes);
            // Cosines only fall from merger to merger.
            while let Some((_, sum)) =
                left.next_if(|(least, _)| closest.as_ref().is_none_or(|pair| pair.cosine < **least))
            {
                *sum += effort;
            }
            let Some(closest) = closest.filter(|_| left.peek().is_some()) else { break };
            linkage.merge(closest);
        }
    }
}

/// Samples of some classes, chosen at random.
fn mixed(members: &[Vec<usize>], random: &mut Random) -> Vec<usize> {
    let mut some = |count: usize| -> Vec<usize> {
        let mut all: Vec<usize> = (0..count).collect();
        random.shuffle(&mut all);
        all.truncate(1 + random.below(MAX_MIXED));
        all
    };
    let classes = some(members.len());
    classes
        .into_iter()
        .flat_map(|class| some(members[class].len()).into_iter().map(move |of| members[class][of]))
        .collect()
}

/// What is left to do for somebody who labels: a label for every group, and a [move](MOVE_EFFORT) for every picture
/// that most of its group are not like.
fn effort(groups: &[Vec<usize>], classes: &[u32]) -> f32 {
    let odd = |group: &Vec<usize>| {
        let like = |one: &usize| group.iter().filter(|other| classes[**other] == classes[*one]).count();
        group.len() - group.iter().map(like).max().unwrap_or(0)
    };
    (groups.len() + MOVE_EFFORT * groups.iter().map(odd).sum::<usize>()) as f32
}

/// Directions `[n, dimension]` as seen from a point on the way to their mean, of length 1.
fn from_their_mean(directions: &[f32], dimension: usize) -> Vec<f32> {
    let mut rows = directions.to_vec();
    normalise_rows(&mut rows, dimension);
    let mut mean = vec![0.0; dimension];
    let share = 1.0 / (rows.len() as f32 / dimension as f32 + HALF_WAY);
    rows.chunks_exact(dimension).for_each(|row| add_scaled(&mut mean, share, row));
    rows.chunks_exact_mut(dimension).for_each(|row| add_scaled(row, -1.0, &mean));
    normalise_rows(&mut rows, dimension);
    rows
}

/// Two groups with the mean cosine between their rows.
#[derive(Clone, Copy)]
struct LinkedPair {
    later: usize,
    earlier: usize,
    cosine: f32,
}

/// Groups that grow together.
struct Linkage {
    members: Vec<Vec<usize>>,
    /// Sum of each group's rows.
    sums: Vec<Vec<f32>>,
    /// Mean cosine between the rows of a group and those of every earlier one.
    likeness: Vec<Vec<f32>>,
}

impl Linkage {
    /// Every row `[n, dimension]`, of length 1, is a group of its own.
    fn new(rows: &[f32], dimension: usize) -> Self {
        let sums: Vec<Vec<f32>> = rows.chunks_exact(dimension).map(<[f32]>::to_vec).collect();
        let members = (0..sums.len()).map(|row| vec![row]).collect();
        let likeness =
            (0..sums.len()).map(|one| (0..one).map(|other| dot(&sums[one], &sums[other])).collect()).collect();
        Self { members, sums, likeness }
    }

    /// The two groups that are most alike.
    fn closest(&self) -> Option<LinkedPair> {
        let rows = self.likeness.iter().enumerate();
        let pairs = rows.flat_map(|(later, row)| {
            row.iter().enumerate().map(move |(earlier, cosine)| LinkedPair { later, earlier, cosine: *cosine })
        });
        pairs.max_by(|a, b| a.cosine.total_cmp(&b.cosine))
    }

    /// Adds the later group to the earlier one, which keeps its place.
    fn merge(&mut self, LinkedPair { later, earlier, .. }: LinkedPair) {
        let Self { members, sums, likeness } = self;
        let (sum, moved) = (sums.remove(later), members.remove(later));
        likeness.remove(later);
        likeness[later..].iter_mut().for_each(|row| {
            row.remove(later);
        });
        add_scaled(&mut sums[earlier], 1.0, &sum);
        members[earlier].extend(moved);
        // The mean cosine between two groups is the cosine sum of their sums over both sizes: sums are all that is
        // needed.
        let mean = |a: usize, b: usize| dot(&sums[a], &sums[b]) / (members[a].len() * members[b].len()) as f32;
        for (third, cosine) in likeness[earlier][..earlier].iter_mut().enumerate() {
            *cosine = mean(earlier, third);
        }
        for (third, row) in likeness.iter_mut().enumerate().skip(earlier + 1) {
            row[earlier] = mean(third, earlier);
        }
    }
}

#[cfg(test)]
mod tests {
    use orco_core::exemplar::ExemplarPrecision;

    use super::*;

    fn groups(rows: &[f32], dimension: usize, least: f32) -> Vec<Vec<usize>> {
        Grouping::with(None, least).groups(rows, dimension)
    }

    #[test]
    fn rows_that_point_the_same_way_make_a_group() {
        let rows = [1.0, 0.0, 0.0, 3.0, 0.9, 0.2, -1.0, 0.0, 0.1, 1.0];
        assert_eq!(groups(&rows, 2, 0.8), [vec![0, 2], vec![1, 4], vec![3]]);
        assert_eq!(groups(&rows, 2, 1.1).len(), 5);
        assert_eq!(groups(&rows, 2, -1.0).len(), 1);
        assert!(groups(&[], 2, 0.5).is_empty());
    }

    #[test]
    fn linkage_is_by_the_mean_so_a_chain_does_not_hold_two_groups_together() {
        // Directions at 0, 20, 40, 60, 80 degrees: neighbours are alike, the ends are not.
        let at = |degrees: f32| {
            let x = degrees / 90.0;
            [1.0 - x, x]
        };
        let rows: Vec<f32> = [0.0, 20.0, 40.0, 60.0, 80.0].into_iter().flat_map(at).collect();
        assert!(groups(&rows, 2, 0.8).len() > 1);
    }

    #[test]
    fn a_picture_that_is_unlike_the_rest_of_its_group_is_not_typical() {
        // Three that point the same way, one that joined for want of a better group, and a group of two.
        let rows = [1.0, 0.0, 0.0, 1.0, 0.05, 0.0, 1.0, -0.05, 0.0, 0.6, 0.8, 0.0, 0.0, 0.0, 1.0, 0.0, 0.1, 1.0];
        let groups = [vec![0, 1, 2, 3], vec![4, 5]];
        assert_eq!(Grouping::with(None, 0.75).typical(&rows, 3, &groups), [true, true, true, false, true, true]);
    }

    /// Pictures of `kinds` things, some of each in turn: a direction that all share, one of the thing, and noise.
    fn pictures(kinds: usize, count: usize, shared: f32, random: &mut Random) -> Vec<f32> {
        let picture = |index: usize, random: &mut Random| -> Vec<f32> {
            let mut row: Vec<f32> = (0..32).map(|_| 0.05 * random.normal()).collect();
            row[31] += shared;
            row[index % kinds] += 0.5;
            row
        };
        (0..count).flat_map(|index| picture(index, random)).collect()
    }

    #[test]
    fn what_all_pictures_share_does_not_make_them_one_group() {
        let rows = pictures(3, 30, 1.5, &mut Random::new(1, "pictures"));
        // As seen from the base classes alone, all of them point the same way.
        let unit = |index: usize| {
            let mut row = rows[index * 32..][..32].to_vec();
            orco_core::math::normalise(&mut row);
            row
        };
        assert!(dot(&unit(0), &unit(1)) > 0.8);
        let found = groups(&rows, 32, 0.5);
        assert_eq!(found.len(), 3);
        assert!(found.iter().enumerate().all(|(kind, group)| group.iter().all(|index| index % 3 == kind)));
        // Of one thing alone there is nothing that sets its pictures apart.
        assert_eq!(groups(&pictures(1, 4, 1.5, &mut Random::new(1, "pictures")), 32, 0.5).len(), 1);
    }

    #[test]
    fn what_is_alike_enough_is_read_off_base_samples() {
        let mut random = Random::new(2, "base samples");
        let mut bank = Bank::new(32, 1, ExemplarPrecision::Int8);
        for (index, row) in pictures(20, 100, 0.0, &mut random).chunks_exact(32).enumerate() {
            bank.push(index as u32 % 20, row);
        }
        let grouping = Grouping::with(None, 0.0);
        let least_cosine = grouping.choose_least_cosine(&bank);
        assert!((0.1..0.7).contains(&least_cosine), "{least_cosine}");
        let rows = pictures(5, 15, 0.0, &mut random);
        assert_eq!(Grouping { least_cosine, ..grouping }.groups(&rows, 32).len(), 5);
    }

    #[test]
    fn labels_and_moves_are_the_effort() {
        let classes = [0, 0, 1, 1, 2];
        assert_eq!(effort(&[vec![0, 1], vec![2, 3], vec![4]], &classes), 3.0);
        assert_eq!(effort(&[vec![0, 1, 2], vec![3], vec![4]], &classes), 5.0);
        assert_eq!(effort(&[vec![0, 1, 2, 3, 4]], &classes), 7.0);
    }
}
