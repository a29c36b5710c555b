//! What scoring one state leaves for the next: sums over the shots of each class, and projections of samples. A change
//! touches few classes; what belongs to all others stays.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::head::Projector;

/// Most heads whose projections are kept: that of phase 2, and those aligned before a change and after it.
const MAX_HEADS: usize = 3;

/// Rows are dropped when so many states have not asked for them: a change compares fewer.
const MAX_AGE: u32 = 8;

/// Sums over the shots of classes and projections of samples, for a program that scores one state of a bundle after the
/// other: answers are the same with them and without, but take less time, and not the longer the more classes are known.
///
/// They are found by a digest of the shots, so that no others are ever taken for them. What no state has asked for during
/// the last eight is dropped. A class takes 4 bytes for each number of its embedding, a sample 4 bytes for each number of
/// each view's projection; projections count once for each of three heads.
#[derive(Clone, Debug, Default)]
pub struct ScoringCache {
    pub(super) directions: CachedRows,
    pub(super) whitened: CachedRows,
    /// Those of the state that began last come first, in its order.
    heads: Vec<HeadCache>,
    /// Number of that state.
    state: u32,
}

/// What is kept of projections by one head.
#[derive(Clone, Debug)]
pub(super) struct HeadCache {
    head: Projector,
    /// Sums over classes' shots, `[dimension]`, by the digest of the class's shots.
    pub(super) sums: CachedRows,
    /// Of samples, `[views, dimension]`, by the digest of the exemplar.
    pub(super) samples: CachedRows,
}

/// Rows of numbers, each found by a digest of what it was computed from.
#[derive(Clone, Debug, Default)]
pub(super) struct CachedRows {
    kept: BTreeMap<[u8; 32], CachedRow>,
    /// Counts the states that asked.
    states: u32,
}

#[derive(Clone, Debug)]
struct CachedRow {
    values: Vec<f32>,
    /// The state that asked for it last.
    state: u32,
}

impl ScoringCache {
    /// To be called once before a state asks for its rows, with the heads that it projects by: drops rows that none has
    /// asked for lately. Returns the state's number, by which [`Self::of_head`] finds its heads again.
    pub(super) fn begin<'h>(&mut self, heads: impl DoubleEndedIterator<Item = &'h Projector>) -> u32 {
        self.directions.begin();
        self.whitened.begin();
        for (placed, head) in heads.rev().enumerate() {
            // Two heads of a state may be equal: what is placed already is not taken again.
            let found = self.heads[placed..].iter().position(|kept| kept.head == *head);
            let mut kept = found.map_or_else(|| HeadCache::empty(head), |index| self.heads.remove(placed + index));
            kept.sums.begin();
            kept.samples.begin();
            self.heads.insert(0, kept);
        }
        self.heads.truncate(MAX_HEADS);
        self.state = self.state.wrapping_add(1);
        self.state
    }

    /// Drops all rows.
    pub(crate) fn clear(&mut self) {
        // The number goes on, so that no later state has that of an earlier one.
        *self = Self { state: self.state, ..Self::default() };
    }

    /// What is kept of projections by the head of this number of a state; none where another state has begun since.
    pub(super) fn of_head(&mut self, head: usize, state: u32) -> Option<&mut HeadCache> {
        self.heads.get_mut(head).filter(|_| state == self.state)
    }
}

impl HeadCache {
    fn empty(head: &Projector) -> Self {
        Self { head: head.clone(), sums: CachedRows::default(), samples: CachedRows::default() }
    }
}

impl CachedRows {
    fn begin(&mut self) {
        self.states = self.states.wrapping_add(1);
        let now = self.states;
        self.kept.retain(|_, row| now.wrapping_sub(row.state) <= MAX_AGE);
    }

    /// The row that was computed from what has this digest.
    pub(super) fn get(&mut self, digest: &[u8; 32]) -> Option<&[f32]> {
        let row = self.kept.get_mut(digest)?;
        row.state = self.states;
        Some(&row.values)
    }

    pub(super) fn insert(&mut self, digest: [u8; 32], values: &[f32]) {
        self.kept.insert(digest, CachedRow { values: values.to_vec(), state: self.states });
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use orco_core::projection::HeadShape;

    use super::*;
    use crate::head::Head;

    fn projector(bias: f32) -> Projector {
        let mut head = Head::zeros(HeadShape { inputs: 1, hidden: 1, outputs: 1 });
        head.b2[0] = bias;
        Projector::new(&head)
    }

    #[test]
    fn heads_are_found_by_their_number_in_the_state_that_began_last() {
        let [first, second, third] = [1.0, 2.0, 3.0].map(projector);
        let mut cache = ScoringCache::default();
        let before = cache.begin([&first, &second].into_iter());
        cache.of_head(0, before).unwrap().samples.insert([1; 32], &[1.0]);
        cache.of_head(1, before).unwrap().samples.insert([1; 32], &[2.0]);
        let state = cache.begin([&second, &third, &first].into_iter());
        assert!(cache.of_head(0, before).is_none(), "another state has begun");
        let mut row = |head: usize| cache.of_head(head, state).unwrap().samples.get(&[1; 32]).map(<[f32]>::to_vec);
        assert_eq!([row(0), row(1), row(2)], [Some(vec![2.0]), None, Some(vec![1.0])]);
        // Both heads of a state are the same, beside one of an earlier state.
        let state = cache.begin([&first, &first].into_iter());
        for head in 0..2 {
            assert_eq!(cache.of_head(head, state).unwrap().head, first);
        }
        cache.clear();
        assert!(cache.of_head(0, state).is_none());
        assert_ne!(cache.begin([&first].into_iter()), state);
    }

    #[test]
    fn rows_that_no_state_asks_for_are_dropped_and_others_stay() {
        let mut rows = CachedRows::default();
        rows.begin();
        rows.insert([1; 32], &[1.0]);
        rows.insert([2; 32], &[2.0, 3.0]);
        for _ in 0..MAX_AGE {
            rows.begin();
            assert_eq!(rows.get(&[2; 32]), Some(&[2.0, 3.0][..]));
        }
        rows.begin();
        assert_eq!(rows.get(&[1; 32]), None);
        assert_eq!(rows.get(&[2; 32]), Some(&[2.0, 3.0][..]));
    }
}
