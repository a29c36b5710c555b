//! Chooses a bounded number of samples among many: stratified by class, or at even distances.
//!
//! A choice among very many classes changes little when one class comes or goes, so that what was computed for the
//! chosen ones before a change serves after it, too.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// At most `most` exemplars, rising, stratified by class: as many of each class as of any other, as far as it has them,
/// at even distances. There must be no more classes than `most`.
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

/// All classes if they are fewer than `most`; else half of `most`, those whose first exemplars have the lowest digests: a
/// random choice in which a class that is added or forgotten moves one other at the most. `digests` are those of all
/// exemplars.
pub(super) fn some_classes(
    by_class: BTreeMap<u32, Vec<usize>>,
    most: usize,
    digests: &[[u8; 32]],
) -> BTreeMap<u32, Vec<usize>> {
    if by_class.len() < most {
        return by_class;
    }
    let mut classes: Vec<(u32, Vec<usize>)> = by_class.into_iter().collect();
    classes.sort_by_key(|(class, exemplars)| (digests[exemplars[0]], *class));
    classes.truncate(most / 2);
    classes.into_iter().collect()
}

/// At most `most` of them, at even distances.
pub(super) fn thinned(samples: Vec<usize>, most: usize) -> Vec<usize> {
    let step = samples.len().div_ceil(most).max(1);
    samples.into_iter().step_by(step).collect()
}
