//! Sums over the shots of each class, kept from one state to the next: a change touches few classes, and the sums of
//! all others stay.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::head::Projector;

/// Most heads whose projections are kept: that of phase 2, and those aligned before a change and after it.
const MAX_HEADS: usize = 3;

/// A sum is dropped when so many states have not asked for it: a change compares fewer.
const MAX_AGE: u32 = 8;

/// Sums over the shots of classes, for a program that scores one state of a bundle after the other: answers are the
/// same with them and without, but do not take the longer the more classes are known.
///
/// They are found by a digest of the shots, so that no other sum is ever taken for one. Those that no state has asked for
/// during the last eight are dropped. A class takes 4 bytes for each number of its embedding, in which projections count
/// once for each of three heads.
#[derive(Clone, Debug, Default)]
pub struct ClassSums {
    pub(super) directions: PartSums,
    pub(super) whitened: PartSums,
    /// The head that was asked for last comes first.
    projections: Vec<(Projector, PartSums)>,
}

/// Sums of one part of the embeddings.
#[derive(Clone, Debug, Default)]
pub(super) struct PartSums {
    kept: BTreeMap<[u8; 32], KeptSum>,
    /// Counts the states that asked.
    states: u32,
}

#[derive(Clone, Debug)]
struct KeptSum {
    sum: Vec<f32>,
    /// The state that asked for it last.
    state: u32,
}

impl ClassSums {
    /// Those of projections by a head.
    pub(super) fn projections(&mut self, head: &Projector) -> &mut PartSums {
        let found = self.projections.iter().position(|(known, _)| known == head);
        let entry = found.map_or_else(|| (head.clone(), PartSums::default()), |index| self.projections.remove(index));
        self.projections.insert(0, entry);
        self.projections.truncate(MAX_HEADS);
        &mut self.projections[0].1
    }
}

impl PartSums {
    /// To be called before a state asks for its sums: drops those that none has asked for lately.
    pub(super) fn begin(&mut self) {
        self.states = self.states.wrapping_add(1);
        let now = self.states;
        self.kept.retain(|_, kept| now.wrapping_sub(kept.state) <= MAX_AGE);
    }

    /// The sum over the shots that have this digest.
    pub(super) fn get(&mut self, digest: &[u8; 32]) -> Option<&[f32]> {
        let kept = self.kept.get_mut(digest)?;
        kept.state = self.states;
        Some(&kept.sum)
    }

    pub(super) fn insert(&mut self, digest: [u8; 32], sum: &[f32]) {
        self.kept.insert(digest, KeptSum { sum: sum.to_vec(), state: self.states });
    }
}
