//! Chooses a bounded number of samples among many: stratified by class, or at even distances.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// At most `most` exemplars, rising, stratified by class: as many of each class as of any other, as far as it has them,
/// at even distances; of more classes than `most`, one of every n-th class.
pub(super) fn stratified(by_class: BTreeMap<u32, Vec<usize>>, most: usize) -> Vec<usize> {
    let chosen = |share: usize| by_class.values().map(|exemplars| exemplars.len().min(share)).sum::<usize>();
    let longest = by_class.values().map(Vec::len).max().unwrap_or(0);
    // The first share that is too large; of one exemplar at least.
    let (mut fits, mut too_large) = (1, longest + 1);
    while too_large - fits > 1 {
        let share = fits.midpoint(too_large);
        if chosen(share) <= most { fits = share } else { too_large = share }
    }
    let step = by_class.len().div_ceil(most).max(1);
    let of_class = |exemplars: Vec<usize>| {
        let (length, share) = (exemplars.len(), exemplars.len().min(fits));
        (0..share).map(move |place| exemplars[place * length / share])
    };
    let mut chosen: Vec<usize> = by_class.into_values().step_by(step).flat_map(of_class).collect();
    chosen.sort_unstable();
    chosen
}

/// At most `most` of them, at even distances.
pub(super) fn thinned(samples: Vec<usize>, most: usize) -> Vec<usize> {
    let step = samples.len().div_ceil(most).max(1);
    samples.into_iter().step_by(step).collect()
}
