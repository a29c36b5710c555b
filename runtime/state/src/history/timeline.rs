//! Where in its past a state stands: which changes undoing walks back through, and which were undone.

use alloc::vec::Vec;

use super::{ChangeKind, History, HistoryEntry};

/// The changes that led to the present class set, and those that were undone from there.
///
/// Undoing leaves an entry of its own, which is no step of this walk: it stands for the entry that it went back to. Nor
/// is a purge, which cannot be undone: it stands for the change before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    present: u32,
    earlier: Vec<u32>,
    later: Vec<u32>,
}

impl Timeline {
    /// Number of the entry that led to the present class set.
    pub fn present(&self) -> u32 {
        self.present
    }

    /// Numbers of the entries that undoing goes back to, the nearest first.
    pub fn earlier(&self) -> &[u32] {
        &self.earlier
    }

    /// Numbers of the entries that redoing goes to, the nearest first: there are some after undoing alone.
    pub fn later(&self) -> &[u32] {
        &self.later
    }

    /// Whether an entry's change is no part of what is known now: it was undone, or what it led to was left.
    pub fn is_undone(&self, entry: u32) -> bool {
        entry != self.present && !self.earlier.contains(&entry)
    }

    /// Number of the entry that `changes` changes back led to the class set of then; `None` if that is not remembered.
    pub fn back(&self, changes: usize) -> Option<u32> {
        self.along(&self.earlier, changes)
    }

    /// Number of the entry that `changes` changes forth led to the class set of then; `None` if fewer were undone.
    pub fn forth(&self, changes: usize) -> Option<u32> {
        self.along(&self.later, changes)
    }

    /// Where the last of some entries stands, of which there is at least one.
    pub(super) fn of(entries: &[&HistoryEntry]) -> Self {
        let walk = Walk::through(entries);
        let number = |index: &usize| entries[*index].number;
        Self {
            present: number(&walk.present),
            earlier: walk.ancestors().skip(1).map(|index| number(&index)).collect(),
            later: walk.undone.iter().rev().map(number).collect(),
        }
    }

    fn along(&self, entries: &[u32], steps: usize) -> Option<u32> {
        steps.checked_sub(1).map_or(Some(self.present), |index| entries.get(index).copied())
    }
}

impl History {
    /// Whether an entry is an undo or a redo, which only went to another entry that is remembered: a list that says
    /// which changes [were undone](Timeline::is_undone) can leave it out.
    pub fn is_undo_or_redo(&self, entry: &HistoryEntry) -> bool {
        restored(&self.entries, entry).is_some()
    }

    /// Where the present class set stands among all that are remembered.
    pub fn timeline(&self) -> Timeline {
        Timeline::of(&self.entries.iter().collect::<Vec<_>>())
    }
}

/// The walk through all entries, by their indices.
struct Walk {
    /// For each entry the one whose class set was there before it, if that is remembered.
    before: Vec<Option<usize>>,
    present: usize,
    /// What was undone, the nearest last.
    undone: Vec<usize>,
}

impl Walk {
    fn through(entries: &[&HistoryEntry]) -> Self {
        // For each entry the one that it stands for.
        let mut stands_for: Vec<usize> = Vec::with_capacity(entries.len());
        let mut walk = Self { before: Vec::with_capacity(entries.len()), present: 0, undone: Vec::new() };
        for (index, entry) in entries.iter().enumerate() {
            let target = restored(entries[..index].iter().copied(), entry).map(|target| stands_for[target]);
            match target {
                Some(target) => {
                    walk.before.push(None);
                    walk.go_to(target);
                }
                // Nothing brings a purged class back: the class set before the purge has lost it, too.
                None if index > 0 && entry.kind == ChangeKind::Purge && entry.same_classes(entries[walk.present]) => {
                    walk.before.push(None);
                    walk.undone.clear();
                }
                None => {
                    // An entry that went back to what is not remembered any more is where the walk begins.
                    walk.before.push((index > 0 && entry.kind != ChangeKind::Undo).then_some(walk.present));
                    walk.present = index;
                    walk.undone.clear();
                }
            }
            stands_for.push(walk.present);
        }
        walk
    }

    /// The present entry, and those before it.
    fn ancestors(&self) -> impl Iterator<Item = usize> {
        core::iter::successors(Some(self.present), |index| self.before[*index])
    }

    fn go_to(&mut self, target: usize) {
        let place = self.ancestors().position(|index| index == target);
        let undone = self.undone.iter().position(|index| *index == target);
        match (place, undone) {
            (Some(steps), _) => {
                let left: Vec<usize> = self.ancestors().take(steps).collect();
                self.undone.extend(left);
            }
            (None, Some(place)) => self.undone.truncate(place),
            // Another branch of the past.
            (None, None) => self.undone.clear(),
        }
        self.present = target;
    }
}

/// Index of the entry that an entry went back to, if it did and that is remembered.
fn restored<'a>(before: impl IntoIterator<Item = &'a HistoryEntry>, entry: &HistoryEntry) -> Option<usize> {
    let number = entry.restored_entry.filter(|_| entry.kind == ChangeKind::Undo)?;
    before.into_iter().position(|earlier| earlier.number == number)
}

#[cfg(test)]
mod tests {
    use super::super::{HeadFingerprint, History};
    use super::*;
    use crate::bank::Bank;
    use crate::state::{Balance, FirstRecognitions};
    use orco_core::exemplar::ExemplarPrecision;

    /// A history of entries, numbered from `first`: `None` for a change, or the number that undoing went back to.
    fn history(first: u32, entries: &[Option<u32>]) -> History {
        let entry = |(number, to): (u32, &Option<u32>)| HistoryEntry {
            number,
            kind: if to.is_some() { ChangeKind::Undo } else { ChangeKind::Learn },
            names: Vec::new(),
            restored_entry: *to,
            when: None,
            seed: 1,
            sessions: 0,
            balance: Balance::default(),
            classes: Vec::new(),
            exemplars: Vec::new(),
            exemplar_classes: Vec::new(),
            head: HeadFingerprint::Bundle,
            first_recognitions: FirstRecognitions::default(),
        };
        let entries = (first..).zip(entries).map(entry).collect();
        History { entries, past_exemplars: Bank::new(1, 1, ExemplarPrecision::Int8), next_class: 0 }
    }

    fn timeline(first: u32, entries: &[Option<u32>]) -> (u32, Vec<u32>, Vec<u32>) {
        let Timeline { present, earlier, later } = history(first, entries).timeline();
        (present, earlier, later)
    }

    #[test]
    fn undoing_walks_back_through_changes_alone_and_redoing_forth() {
        let start = &[None, None, None, None][..];
        assert_eq!(timeline(0, start), (3, [2, 1, 0].into(), [].into()));
        let undone = [start, &[Some(2)]].concat();
        assert_eq!(timeline(0, &undone), (2, [1, 0].into(), [3].into()));
        let twice = [&undone[..], &[Some(1)]].concat();
        assert_eq!(timeline(0, &twice), (1, [0].into(), [2, 3].into()));
        let redone = [&twice[..], &[Some(2)]].concat();
        assert_eq!(timeline(0, &redone), (2, [1, 0].into(), [3].into()));
        let all = [&redone[..], &[Some(3)]].concat();
        assert_eq!(timeline(0, &all), (3, [2, 1, 0].into(), [].into()));
        // Three steps at once, there and back.
        assert_eq!(timeline(0, &[start, &[Some(0)]].concat()), (0, [].into(), [1, 2, 3].into()));
        assert_eq!(timeline(0, &[start, &[Some(0), Some(3)]].concat()), (3, [2, 1, 0].into(), [].into()));
    }

    #[test]
    fn a_change_after_undoing_begins_a_branch_and_what_was_undone_is_reached_by_its_number_alone() {
        let branch = [None, None, None, Some(1), None];
        assert_eq!(timeline(0, &branch), (4, [1, 0].into(), [].into()));
        let other = [&branch[..], &[Some(2)]].concat();
        assert_eq!(timeline(0, &other), (2, [1, 0].into(), [].into()));
        // An entry of undoing stands for the one that it went back to.
        let indirect = [&branch[..], &[Some(3)]].concat();
        assert_eq!(timeline(0, &indirect), (1, [0].into(), [4].into()));
    }

    #[test]
    fn the_walk_begins_with_what_is_remembered() {
        assert_eq!(timeline(7, &[None, None]), (8, [7].into(), [].into()));
        // Went back to an entry that is forgotten: its class set is there, what was before is not known.
        assert_eq!(timeline(7, &[Some(2), None, None]), (9, [8, 7].into(), [].into()));
        assert_eq!(timeline(7, &[None, None, Some(2), None]), (10, [9].into(), [].into()));
    }
}
