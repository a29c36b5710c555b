//! How alike pictures are by their features, and groups of those that are.

use alloc::vec;
use alloc::vec::Vec;

use orco_core::discriminant::direction;
use orco_core::math::{dot, normalise, normalise_rows};

use crate::state::BaseModel;

/// Turns features into the direction that likeness is measured by: as seen from the mean of all base features where
/// the bundle's statistics know it, else from zero.
pub fn see(base_model: &BaseModel, features: &mut [f32]) {
    see_from(base_model.statistics.as_ref().map(|statistics| statistics.centre.as_slice()), features);
}

/// The same for the one part of a bundle that it needs.
pub fn see_from(centre: Option<&[f32]>, features: &mut [f32]) {
    match centre {
        Some(centre) => direction(features, centre),
        None => {
            normalise(features);
        }
    }
}

/// Most samples that [`threshold`] compares with each other.
const MOST: usize = 400;

/// The cosine between two pictures' [directions](see) from which on they rather show one class than two: as large a
/// share of the pairs of one base class falls below as of the pairs of two base classes reaches it (equal error rate).
/// The pictures are those that the bundle set aside, else its exemplars.
pub fn threshold(base_model: &BaseModel) -> f32 {
    let bank = match &base_model.statistics {
        Some(statistics) if !statistics.set_aside.is_empty() => &statistics.set_aside,
        _ => &base_model.exemplars,
    };
    let inputs = base_model.head.inputs;
    let mut rows = Vec::new();
    let step = bank.len().div_ceil(MOST).max(1);
    // Neighbours in the bank show one class: of each run, the first few are taken.
    let chosen: Vec<usize> = (0..bank.len()).filter(|sample| sample % (2 * step) < 2).collect();
    for &sample in &chosen {
        let mut row = vec![0.0; inputs];
        bank.view().read(sample, 0, &mut row);
        see(base_model, &mut row);
        rows.push(row);
    }
    let (mut same, mut different) = (Vec::new(), Vec::new());
    for (index, row) in rows.iter().enumerate() {
        for (other, other_row) in rows.iter().enumerate().take(index) {
            let is_same = bank.classes()[chosen[index]] == bank.classes()[chosen[other]];
            if is_same { &mut same } else { &mut different }.push(dot(row, other_row));
        }
    }
    same.sort_unstable_by(f32::total_cmp);
    different.sort_unstable_by(f32::total_cmp);
    let wrong_side = |at: f32| {
        let below = same.partition_point(|cosine| *cosine < at) as f32 / same.len() as f32;
        let above = different.len() - different.partition_point(|cosine| *cosine < at);
        (below, above as f32 / different.len() as f32)
    };
    let crossing = same.iter().copied().find(|at| {
        let (below, above) = wrong_side(*at);
        below >= above
    });
    // Nothing to compare: pictures are alike if they point the same way more than not.
    crossing.filter(|_| !different.is_empty()).unwrap_or(0.5)
}

/// Groups rows so that in each the mean cosine between any two merged parts was at least `least` (agglomerative
/// clustering, average linkage). Groups and the rows in them, by their indices, in the order in which their first rows
/// came.
///
/// # Shapes
/// `rows` `[n, dimension]`, of any lengths but zero.
pub fn groups(rows: &[f32], dimension: usize, least: f32) -> Vec<Vec<usize>> {
    let mut units = rows.to_vec();
    normalise_rows(&mut units, dimension);
    // The mean cosine between two groups is the cosine sum of their sums over both sizes: sums are all that is needed.
    let mut sums: Vec<Vec<f32>> = units.chunks_exact(dimension).map(<[f32]>::to_vec).collect();
    let mut members: Vec<Vec<usize>> = (0..sums.len()).map(|row| vec![row]).collect();
    let mut likeness: Vec<Vec<f32>> =
        (0..sums.len()).map(|one| (0..one).map(|other| dot(&sums[one], &sums[other])).collect()).collect();
    loop {
        let pairs = likeness
            .iter()
            .enumerate()
            .flat_map(|(one, row)| row.iter().enumerate().map(move |(other, cosine)| (one, other, *cosine)));
        let Some((one, other, cosine)) = pairs.max_by(|a, b| a.2.total_cmp(&b.2)) else { break };
        if cosine < least {
            break;
        }
        // `other` is the earlier one, and keeps its place.
        let (sum, moved) = (sums.remove(one), members.remove(one));
        likeness.remove(one);
        likeness[one..].iter_mut().for_each(|row| {
            row.remove(one);
        });
        sums[other].iter_mut().zip(&sum).for_each(|(to, from)| *to += from);
        members[other].extend(moved);
        let mean = |a: usize, b: usize| dot(&sums[a], &sums[b]) / (members[a].len() * members[b].len()) as f32;
        for (third, cosine) in likeness[other][..other].iter_mut().enumerate() {
            *cosine = mean(other, third);
        }
        for (third, row) in likeness.iter_mut().enumerate().skip(other + 1) {
            row[other] = mean(third, other);
        }
    }
    members.iter_mut().for_each(|group| group.sort_unstable());
    members
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
