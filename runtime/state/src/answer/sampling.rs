//! Chooses a bounded number of samples among many: stratified by class, or at even distances.
//!
//! When a class is added or forgotten, a choice among very many classes changes little: after the change, most of what
//! was computed for the chosen ones can be used again.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// At most `most` exemplars in ascending order, stratified by class: as many of each class as of any other, as far as
/// it has them, at even distances. There must be no more classes than `most`.
pub(super) fn stratified(by_class: BTreeMap<u32, Vec<usize>>, most: usize) -> Vec<usize> {
    let chosen = |share: usize| by_class.values().map(|exemplars| exemplars.len().min(share)).sum::<usize>();
    let longest = by_class.values().map(Vec::len).max().unwrap_or(0);
    // The first share that is too large; of one exemplar at least.
    let (mut fits, mut too_large) = (1, longest + 1);
    while too_large - fits > 1 {
        let share = fits.midpoint(too_large);
        if chosen(share) <= most { fits = share } else { too_large = share }
    }
    let of_class = |exemplars: Vec<usize>| {
        let (length, share) = (exemplars.len(), exemplars.len().min(fits));
        (0..share).map(move |place| exemplars[place * length / share])
    };
    let mut chosen: Vec<usize> = by_class.into_values().flat_map(of_class).collect();
    chosen.sort_unstable();
    chosen
}

/// At most `most` exemplars in ascending order: [`stratified`] where there are fewer classes than `most`, else one of
/// each of `most / 2` classes, those whose first exemplars have the lowest digests. That is a random choice, in which a
/// class that is added or forgotten replaces at most one other. `digests` are those of all exemplars.
pub(super) fn sampled(by_class: BTreeMap<u32, Vec<usize>>, most: usize, digests: &[[u8; 32]]) -> Vec<usize> {
    if by_class.len() < most {
        return stratified(by_class, most);
    }
    let mut classes: Vec<(u32, Vec<usize>)> = by_class.into_iter().collect();
    classes.sort_by_key(|(class, exemplars)| (digests[exemplars[0]], *class));
    classes.truncate(most / 2);
    stratified(classes.into_iter().collect(), most / 2)
}

/// At most `most` of them, at even distances.
pub(super) fn thinned(samples: Vec<usize>, most: usize) -> Vec<usize> {
    let step = samples.len().div_ceil(most).max(1);
    samples.into_iter().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Classes of two exemplars each, and these exemplars' digests.
    fn classes(count: usize) -> (BTreeMap<u32, Vec<usize>>, Vec<[u8; 32]>) {
        let digests = (0..count).map(|exemplar| crate::codec::digest(&exemplar.to_le_bytes())).collect();
        ((0..count / 2).map(|class| (class as u32, [2 * class, 2 * class + 1].to_vec())).collect(), digests)
    }

    #[test]
    fn among_very_many_classes_a_further_one_moves_one_other_at_the_most() {
        let chosen = |count: usize| {
            let (by_class, digests) = classes(2 * count);
            sampled(by_class, 500, &digests).into_iter().collect::<BTreeSet<usize>>()
        };
        assert_eq!([200, 499, 500, 2000].map(|count| chosen(count).len()), [400, 499, 250, 250]);
        let choices: Vec<BTreeSet<usize>> = (990..1020).map(chosen).collect();
        let moved: Vec<usize> = choices.windows(2).map(|pair| pair[0].difference(&pair[1]).count()).collect();
        assert!(moved.iter().all(|moved| *moved <= 1), "{moved:?}");
        assert!(moved.contains(&1), "a later class is never chosen");
    }

    #[test]
    fn each_class_has_as_many_samples_as_any_other() {
        let by_class = BTreeMap::from([(0, (0..10).collect()), (1, (10..12).collect()), (2, [12].to_vec())]);
        assert_eq!(stratified(by_class.clone(), 7), [0, 2, 5, 7, 10, 11, 12]);
        assert_eq!(stratified(by_class.clone(), 5), [0, 5, 10, 11, 12]);
        assert_eq!(stratified(by_class, 100), (0..13).collect::<Vec<_>>());
    }
}
