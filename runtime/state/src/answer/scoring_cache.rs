//! Sums over the shots of each class and projections of samples, kept from the scoring of one state to that of the
//! next: a change touches few classes, and what belongs to all others stays.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use orco_core::config::AnswerWeights;

use super::scatter::ShotScatter;
use crate::head::Projector;

/// Most heads whose projections are kept: that of phase 2, and those aligned before a change and after it.
const MAX_HEADS: usize = 3;

/// Most scatters that are kept: those before a change and after it.
const MAX_SCATTERS: usize = 2;

/// A row that none of this many last states used is dropped. A change compares fewer states than that.
const MAX_AGE: u32 = 8;

/// Sums over the shots of classes, projections of samples, scatters of shots and the answers of the bundle alone, for a
/// program that scores one state of a bundle after the other. It changes no answer, and saves the more time the more
/// classes are known.
///
/// Each row is found by a digest of the shots that it was computed from, so none is ever taken for another. A row that
/// the last eight states did not use is dropped. A class takes 4 bytes for each number of its embedding, a sample 4
/// bytes for each number of each view's projection; projections are kept for up to three heads, and the scatter of
/// shots for two states.
#[derive(Clone, Debug, Default)]
pub struct ScoringCache {
    /// Sums over classes' shots of directions from the centre, `[inputs]`, by the digest of the class's shots.
    pub(super) direction_sums: CachedRows,
    /// Sums over classes' shots of whitened roots, `[inputs]`, by the digest of the class's shots.
    pub(super) whitened_sums: CachedRows,
    /// Scatters of shots, by digests of these, in the order in which they were computed.
    scatters: Vec<([u8; 32], Arc<ShotScatter>)>,
    /// What the bundle alone answers for its set-aside samples, with the weights of these answers.
    pub(super) bundle_answers: Option<(AnswerWeights, Vec<usize>)>,
    /// Those of the state that began last come first, in its order.
    heads: Vec<HeadCache>,
    /// Counts the states; the number of the one that began last.
    generation: u32,
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
    /// Counts the states that use these rows.
    generation: u32,
}

#[derive(Clone, Debug)]
struct CachedRow {
    values: Vec<f32>,
    /// Generation of the state that used it last.
    used_in: u32,
}

impl ScoringCache {
    /// To be called once before a state uses its rows, with the heads that it projects by: drops rows that none used
    /// lately. Returns the state's generation, by which [`Self::of_head`] finds its heads again.
    ///
    /// A state without heads leaves those of the state before, which finds them still.
    pub(super) fn begin_state<'h>(
        &mut self,
        heads: impl DoubleEndedIterator<Item = &'h Projector> + ExactSizeIterator,
    ) -> u32 {
        if heads.len() > 0 {
            self.generation = self.generation.wrapping_add(1);
        }
        self.direction_sums.begin_state();
        self.whitened_sums.begin_state();
        for (placed, head) in heads.rev().enumerate() {
            // Two heads of a state may be equal: only heads that are not placed yet are searched.
            let found = self.heads[placed..].iter().position(|kept| kept.head == *head);
            let mut kept = found.map_or_else(|| HeadCache::empty(head), |index| self.heads.remove(placed + index));
            kept.sums.begin_state();
            kept.samples.begin_state();
            self.heads.insert(0, kept);
        }
        self.heads.truncate(MAX_HEADS);
        self.generation
    }

    /// The scatter that was computed from shots with this digest; else what `compute` returns, which is kept.
    pub(super) fn scatter(
        &mut self,
        digest: [u8; 32],
        compute: impl FnOnce() -> Option<ShotScatter>,
    ) -> Option<Arc<ShotScatter>> {
        if let Some((_, kept)) = self.scatters.iter().find(|(of, _)| *of == digest) {
            return Some(kept.clone());
        }
        let computed = Arc::new(compute()?);
        // The oldest goes. A change scores the state before it last, but the next one starts from the state after it,
        // which was computed later.
        if self.scatters.len() == MAX_SCATTERS {
            self.scatters.remove(0);
        }
        self.scatters.push((digest, computed.clone()));
        Some(computed)
    }

    /// Drops all that is kept.
    pub(crate) fn clear(&mut self) {
        // The count goes on, so that no later state has the generation of an earlier one.
        *self = Self { generation: self.generation, ..Self::default() };
    }

    /// What is kept of projections by a state's head, by its number among the heads of that state; none where another
    /// state has begun since.
    pub(super) fn of_head(&mut self, head: usize, generation: u32) -> Option<&mut HeadCache> {
        self.heads.get_mut(head).filter(|_| generation == self.generation)
    }
}

impl HeadCache {
    fn empty(head: &Projector) -> Self {
        Self { head: head.clone(), sums: CachedRows::default(), samples: CachedRows::default() }
    }
}

impl CachedRows {
    fn begin_state(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        let now = self.generation;
        self.kept.retain(|_, row| now.wrapping_sub(row.used_in) <= MAX_AGE);
    }

    /// The row that was computed from shots with this digest.
    pub(super) fn get(&mut self, digest: &[u8; 32]) -> Option<&[f32]> {
        let row = self.kept.get_mut(digest)?;
        row.used_in = self.generation;
        Some(&row.values)
    }

    pub(super) fn insert(&mut self, digest: [u8; 32], values: &[f32]) {
        self.kept.insert(digest, CachedRow { values: values.to_vec(), used_in: self.generation });
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
        let before = cache.begin_state([&first, &second].into_iter());
        cache.of_head(0, before).unwrap().samples.insert([1; 32], &[1.0]);
        cache.of_head(1, before).unwrap().samples.insert([1; 32], &[2.0]);
        let state = cache.begin_state([&second, &third, &first].into_iter());
        assert!(cache.of_head(0, before).is_none(), "another state has begun");
        let mut row = |head: usize| cache.of_head(head, state).unwrap().samples.get(&[1; 32]).map(<[f32]>::to_vec);
        assert_eq!([row(0), row(1), row(2)], [Some(vec![2.0]), None, Some(vec![1.0])]);
        // Both heads of a state are equal, while the cache holds another state's head.
        let state = cache.begin_state([&first, &first].into_iter());
        for head in 0..2 {
            assert_eq!(cache.of_head(head, state).unwrap().head, first);
        }
        assert_eq!(cache.begin_state(core::iter::empty()), state, "a state without heads");
        assert!(cache.of_head(0, state).is_some());
        cache.clear();
        assert!(cache.of_head(0, state).is_none());
        assert_ne!(cache.begin_state([&first].into_iter()), state);
    }

    #[test]
    fn rows_that_no_state_asks_for_are_dropped_and_others_stay() {
        let mut rows = CachedRows::default();
        rows.begin_state();
        rows.insert([1; 32], &[1.0]);
        rows.insert([2; 32], &[2.0, 3.0]);
        for _ in 0..MAX_AGE {
            rows.begin_state();
            assert_eq!(rows.get(&[2; 32]), Some(&[2.0, 3.0][..]));
        }
        rows.begin_state();
        assert_eq!(rows.get(&[1; 32]), None);
        assert_eq!(rows.get(&[2; 32]), Some(&[2.0, 3.0][..]));
    }
}
