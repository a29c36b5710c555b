//! What was done to a state, and enough of it to undo.
//!
//! An entry remembers the class set that a change led to: labels, pseudo-targets, which exemplars, which seed. The
//! head, by far the largest part of a state, is not kept: the same exemplars, targets, settings and seed give the same
//! head again, in seconds, and its digest tells whether they did. Exemplars are kept once, however many entries name
//! them: those of the present state lie in the state, those that only earlier class sets had in the history.
//!
//! Undoing is saved like any other change, with an entry of its own. Which entry the next undo or redo leads to follows
//! from the entries ([`History::timeline`]).
//!
//! ```
//! use orco_state::history::{HistoryChange, HistoryLimits, SavedState, ChangeKind};
//! # use orco_state::state::{BaseModel, Class};
//! # let base_model = BaseModel::example();
//!
//! let fresh = SavedState::fresh(&base_model, [0; 32]);
//! let mut next = fresh.state.clone();
//! next.classes.push(Class { label: "fox".into(), target: 2, session: 1 });
//! let saved = fresh.successor(next, &HistoryChange::new(ChangeKind::Learn, 1).labels(["fox"]), HistoryLimits::default());
//! assert_eq!(saved.history.entries().len(), 2);
//!
//! let before = saved.history.timeline().back(1).unwrap();
//! assert_eq!(saved.earlier_state(before).unwrap().state.classes, []);
//! assert_eq!(saved.history.timeline().back(2), None);
//! ```

mod entry;
mod purge;
#[cfg(test)]
mod tests;
mod timeline;

pub use entry::{ChangeKind, EntryClass, EntryId, HeadFingerprint, HistoryChange, HistoryEntry, NamedClass};
pub use purge::PurgeError;
pub use timeline::Timeline;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize};

use crate::bank::Bank;
use crate::codec;
use crate::head::Head;
use crate::label;
use crate::state::{BaseModel, State, within_shot_limit};

/// A state with its history: what a device keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredState")]
pub struct SavedState {
    /// The present state.
    pub state: State,
    /// How it came to be.
    pub history: History,
}

/// A [`SavedState`] as it is stored: the last entry has what the state leaves out.
#[derive(Deserialize)]
struct StoredState {
    state: State,
    history: History,
}

impl From<StoredState> for SavedState {
    fn from(StoredState { mut state, history }: StoredState) -> Self {
        if let Some(last) = history.entries.last() {
            state.first_recognitions.clone_from(&last.first_recognitions);
        }
        Self { state, history }
    }
}

/// Most that all entries together take in memory, whatever the limits are, in units of a class
/// ([`HistoryEntry::weight`]): some 20 MB.
const MAX_WEIGHT: usize = 1 << 18;

/// Decodes as many entries as a history may have, the newest of more.
fn newest_entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<HistoryEntry>, D::Error> {
    codec::last_within(deserializer, MAX_WEIGHT, HistoryEntry::weight)
}

/// The changes that are remembered, oldest first. The last one led to the present state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    #[serde(deserialize_with = "newest_entries")]
    entries: Vec<HistoryEntry>,
    /// Exemplars that earlier class sets had and the present one has not; their classes are in the entries.
    past_exemplars: Bank,
    /// Identity of the next class that is learned.
    next_class: u32,
}

/// How much is remembered. Where there is more, the oldest entries go first; the present state's own stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryLimits {
    /// Most entries.
    pub entries: usize,
    /// Most bytes that the history takes on disk, the exemplars of earlier class sets included.
    pub bytes: usize,
    /// Whether the last change can be undone, and redone, although that takes more bytes. State and history together
    /// do not grow by it: what a class set has left lay in the state before.
    keeps_last_change: bool,
}

impl HistoryLimits {
    /// The same limits with another number of entries.
    #[must_use]
    pub fn entries(self, entries: usize) -> Self {
        Self { entries, ..self }
    }

    /// The same limits with another number of bytes.
    #[must_use]
    pub fn bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }
}

impl Default for HistoryLimits {
    /// 100 changes and 1 MiB, or what the last change needs.
    fn default() -> Self {
        Self { entries: 100, bytes: 1 << 20, keeps_last_change: true }
    }
}

/// An earlier class set, ready to be aligned again.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierState {
    /// The state; its head is there only where it need not be computed.
    pub state: State,
    /// Seed of the alignment.
    pub seed: u64,
    /// Which head it had: an aligned one by its digest, or the bundle's.
    pub head: HeadFingerprint,
}

impl SavedState {
    /// What a device knows before its first change.
    pub fn fresh(base_model: &BaseModel, bundle_digest: [u8; 32]) -> Self {
        Self::without_history(State::fresh(base_model, bundle_digest))
    }

    /// A state whose past is unknown.
    pub fn without_history(state: State) -> Self {
        /// `orco` aligns with this seed unless told otherwise.
        const DEFAULT_SEED: u64 = 1;
        Self::initial(state, &HistoryChange::new(ChangeKind::Start, DEFAULT_SEED))
    }

    /// A state with which a history begins, by some change.
    pub fn initial(state: State, change: &HistoryChange) -> Self {
        let past_exemplars = state.exemplars.empty_like();
        let mut history = History { entries: Vec::new(), past_exemplars, next_class: 0 };
        history.append(&state, change);
        Self { state, history }
    }

    /// Goes on to the next state and remembers how, within the limits.
    pub fn successor(&self, next: State, change: &HistoryChange, limits: HistoryLimits) -> Self {
        let mut history = self.history.clone();
        history.reindex_exemplars(&self.state.exemplars, &next.exemplars);
        // If neither the head nor what it is aligned to changes, the recorded seed still gives that head. An undo has
        // the seed of the entry that comes back, whose head may still be to be aligned.
        let stayed = self.state.head == next.head && self.state.aligns_alike(&next);
        let seed = if stayed && change.kind != ChangeKind::Undo { self.seed() } else { change.seed };
        history.append(&next, &HistoryChange { seed, ..change.clone() });
        history.truncate(limits, next.exemplars.len());
        Self { state: next, history }
    }

    /// Replaces the present state by one of the same classes with another head, without an entry of its own: an
    /// alignment is part of the change before it, and undone with it. Where that change was an undo, the entry that it
    /// went back to is aligned as well.
    ///
    /// # Panics
    /// If `aligned` is another class set.
    pub fn with_alignment(&self, aligned: State) -> Self {
        assert!(self.state.aligns_alike(&aligned), "another class set");
        let mut history = self.history.clone();
        let head = HeadFingerprint::of(aligned.head.as_ref());
        let last = history.entries.last_mut().expect("there is always an entry");
        let (before, mut restored) = (last.head, last.restored_entry);
        last.head = head;
        let first_recognitions = last.first_recognitions.clone();
        while let Some(number) = restored {
            let same = |entry: &&mut HistoryEntry| entry.number == number && entry.head == before;
            let Some(entry) = history.entries.iter_mut().find(same) else { break };
            entry.head = head;
            // That may be an undo itself.
            restored = entry.restored_entry.filter(|earlier| *earlier < number);
        }
        Self { state: State { first_recognitions, ..aligned }, history }
    }

    /// Seed with which the head of the present state was aligned, or is to be.
    pub fn seed(&self) -> u64 {
        self.history.entries.last().map_or(0, |last| last.seed)
    }

    /// The class set that entry `number` led to; `None` if that is not remembered.
    pub fn earlier_state(&self, number: u32) -> Option<EarlierState> {
        let entry = self.history.entry(number)?;
        let State { bundle_digest, exemplars: present, .. } = &self.state;
        let mut exemplars = present.empty_like();
        for (&exemplar, &class) in entry.exemplars.iter().zip(&entry.exemplar_classes) {
            let exemplar = exemplar as usize;
            match exemplar.checked_sub(present.len()) {
                None => exemplars.push_from(present, exemplar, class),
                Some(exemplar) => exemplars.push_from(&self.history.past_exemplars, exemplar, class),
            }
        }
        let classes = entry.classes.iter().map(|known| known.class.clone()).collect();
        let HistoryEntry { head: fingerprint, seed, .. } = *self.history.with_head(entry);
        let same_head =
            fingerprint != HeadFingerprint::Unknown && fingerprint == HeadFingerprint::of(self.state.head.as_ref());
        let head = if same_head { self.state.head.clone() } else { None };
        let state = State {
            bundle_digest: *bundle_digest,
            classes,
            exemplars,
            head,
            sessions: entry.sessions,
            balance: entry.balance,
            calibration: None,
            first_recognitions: entry.first_recognitions.clone(),
        };
        Some(EarlierState { state, seed, head: fingerprint })
    }

    /// Keeps the digests of all exemplars from now on ([`Bank::keep_digests`]).
    pub fn keep_digests(&mut self) {
        self.state.exemplars.keep_digests();
        self.history.past_exemplars.keep_digests();
    }

    /// SHA-256 of every exemplar that the state or its history has ([`Bank::digest_of`]).
    pub fn exemplar_digests(&self) -> BTreeSet<[u8; 32]> {
        let all = |bank: &Bank| (0..bank.len()).map(|exemplar| bank.digest_of(exemplar)).collect::<Vec<_>>();
        [all(&self.state.exemplars), all(&self.history.past_exemplars)].into_iter().flatten().collect()
    }

    /// Whether all parts fit together and onto the base model; to be asked after decoding.
    pub fn is_sound(&self, base_model: &BaseModel) -> bool {
        self.state.is_sound(base_model) && self.history.is_sound(base_model, &self.state)
    }

    /// Whether the parts fit together as far as can be told without the base model.
    pub fn is_consistent(&self) -> bool {
        let (present, past) = (&self.state.exemplars, &self.history.past_exemplars);
        let pool = present.len() + past.len();
        let entry = |entry: &HistoryEntry| {
            let exemplars = entry.exemplars.iter().all(|exemplar| (*exemplar as usize) < pool);
            exemplars && entry.exemplars.len() == entry.exemplar_classes.len()
        };
        present.is_sound()
            && past.is_sound()
            && past.has_layout_of(present)
            && within_shot_limit(present.classes())
            && self.history.entries.iter().all(entry)
            && self.history.describes(&self.state)
    }
}

/// Where the last change led and where it came from, before any entry is forgotten.
struct LastStep {
    timeline: Timeline,
    /// Number of the entry that led to the class set before the change.
    before: u32,
}

impl LastStep {
    fn names(&self, number: u32) -> bool {
        [self.before, self.timeline.present()].contains(&number)
    }

    /// Whether fewer entries tell the same of this change.
    fn is_kept_in(&self, fewer: &Timeline) -> bool {
        let is_next = |side: &[u32]| side.first() == Some(&self.before);
        let sides = [(self.timeline.earlier(), fewer.earlier()), (self.timeline.later(), fewer.later())];
        fewer.present() == self.timeline.present() && sides.into_iter().all(|(was, is)| !is_next(was) || is_next(is))
    }
}

impl EarlierState {
    /// Whether a head is the very one that this class set had; `None` where that is not known.
    pub fn is_exact(&self, head: Option<&Head>) -> Option<bool> {
        (self.head != HeadFingerprint::Unknown).then(|| self.head == HeadFingerprint::of(head))
    }
}

impl History {
    /// The entries, oldest first; there is at least one.
    pub fn entries(&self) -> &[HistoryEntry] {
        &self.entries
    }

    /// The entry of that number.
    pub fn entry(&self, number: u32) -> Option<&HistoryEntry> {
        self.entries.iter().find(|entry| entry.number == number)
    }

    /// The entry that tells the head of an entry's class set: the entry itself or, if a class was purged from it, the
    /// newest one that led to the same class set, such as the purge.
    fn with_head<'a>(&'a self, entry: &'a HistoryEntry) -> &'a HistoryEntry {
        let is_known = |other: &&HistoryEntry| other.head != HeadFingerprint::Unknown;
        let alike = || self.entries.iter().rev().find(|other| is_known(other) && other.same_classes(entry));
        Some(entry).filter(is_known).or_else(alike).unwrap_or(entry)
    }

    /// Bytes that it takes on disk.
    pub fn bytes(&self) -> usize {
        codec::postcard_size(self)
    }

    /// Makes the indices of all entries count on from `next` instead of `present`. What only earlier class sets have
    /// moves to the past exemplars.
    fn reindex_exemplars(&mut self, present: &Bank, next: &Bank) {
        let mut known: BTreeMap<[u8; 32], u32> =
            (0..next.len()).rev().map(|exemplar| (next.digest_of(exemplar), exemplar as u32)).collect();
        let mut past = next.empty_like();
        let mut moved = |bank: &Bank, exemplar: usize| {
            *known.entry(bank.digest_of(exemplar)).or_insert_with(|| {
                past.push_from(bank, exemplar, 0);
                (next.len() + past.len() - 1) as u32
            })
        };
        let mut new_indices = Vec::with_capacity(present.len() + self.past_exemplars.len());
        for bank in [present, &self.past_exemplars] {
            (0..bank.len()).for_each(|exemplar| new_indices.push(moved(bank, exemplar)));
        }
        for entry in &mut self.entries {
            entry.exemplars.iter_mut().for_each(|exemplar| *exemplar = new_indices[*exemplar as usize]);
        }
        self.past_exemplars = past;
        self.sweep(next.len());
    }

    /// Drops past exemplars that no entry names; `present` exemplars come before them in the entries' indices.
    fn sweep(&mut self, present: usize) {
        let mut used = alloc::vec![false; self.past_exemplars.len()];
        let named = self.entries.iter().flat_map(|entry| &entry.exemplars);
        named.filter_map(|exemplar| (*exemplar as usize).checked_sub(present)).for_each(|index| used[index] = true);
        let kept: Vec<usize> = (0..used.len()).filter(|index| used[*index]).collect();
        if kept.len() == used.len() {
            return;
        }
        let mut new_indices = alloc::vec![0; used.len()];
        kept.iter().enumerate().for_each(|(index, from)| new_indices[*from] = (present + index) as u32);
        for exemplar in self.entries.iter_mut().flat_map(|entry| &mut entry.exemplars) {
            if let Some(index) = (*exemplar as usize).checked_sub(present) {
                *exemplar = new_indices[index];
            }
        }
        self.past_exemplars = self.past_exemplars.only(&kept);
    }

    /// Adds an entry for the present state.
    fn append(&mut self, state: &State, change: &HistoryChange) {
        let before = self.entries.last();
        let head = HeadFingerprint::of(state.head.as_ref());
        let number = before.map_or(0, |before| before.number.saturating_add(1));
        let restored = change.restored_entry.and_then(|number| self.entry(number));
        let mut next_class = self.next_class;
        let ids = restored.or(before).map_or_else(BTreeMap::new, HistoryEntry::class_ids);
        let mut known = Vec::with_capacity(state.classes.len());
        for class in &state.classes {
            let label = match (change.kind, &change.labels[..]) {
                (ChangeKind::Rename, [from, to]) if *to == class.label => from,
                _ => &class.label,
            };
            let id = ids.get(&label::normal(label)).copied().unwrap_or_else(|| {
                next_class += 1;
                next_class - 1
            });
            known.push(EntryClass { id, class: class.clone() });
        }
        let id_of = |label: &str| {
            let after = known.iter().find(|known| known.class.label == label).map(|known| known.id);
            after.or_else(|| before?.class_id(label)).unwrap_or(NamedClass::BASE)
        };
        let names =
            change.labels.iter().map(|label| NamedClass { class: id_of(label), label: label.clone() }).collect();
        let entry = HistoryEntry {
            number,
            kind: change.kind,
            names,
            restored_entry: change.restored_entry,
            when: change.when,
            seed: change.seed,
            sessions: state.sessions,
            balance: state.balance,
            classes: known,
            exemplars: (0..state.exemplars.len() as u32).collect(),
            exemplar_classes: state.exemplars.classes().to_vec(),
            head,
            first_recognitions: state.first_recognitions.clone(),
        };
        self.next_class = next_class;
        self.entries.push(entry);
    }

    /// Forgets the oldest entries until the rest keeps the limits; there are `present` exemplars now.
    fn truncate(&mut self, limits: HistoryLimits, present: usize) {
        let step = if limits.keeps_last_change { self.last_step() } else { None };
        self.forget_surplus(limits, step.as_ref());
        self.sweep(present);
        while self.entries.len() > 1 && self.exceeds(limits) {
            let Some(index) = self.next_to_forget(limits, step.as_ref()) else { break };
            self.entries.remove(index);
            self.sweep(present);
        }
    }

    fn exceeds(&self, limits: HistoryLimits) -> bool {
        let weight = || self.entries.iter().map(HistoryEntry::weight).sum::<usize>();
        self.entries.len() > limits.entries.max(1) || weight() > MAX_WEIGHT || self.bytes() > limits.bytes
    }

    /// Forgets at once all but one of the entries that are too many: there are thousands where a limit was lowered.
    fn forget_surplus(&mut self, limits: HistoryLimits, step: Option<&LastStep>) {
        let mut surplus = self.entries.len().saturating_sub(limits.entries.max(1).saturating_add(1));
        let own = self.entries.last().map(|last| last.number);
        self.entries.retain(|entry| {
            let stays = Some(entry.number) == own || step.is_some_and(|step| step.names(entry.number));
            let goes = surplus > 0 && !stays;
            surplus -= usize::from(goes);
            !goes
        });
    }

    /// The last change; `None` if nothing is remembered before it.
    fn last_step(&self) -> Option<LastStep> {
        let entries: Vec<&HistoryEntry> = self.entries.iter().collect();
        let (_, earlier) = entries.split_last().filter(|(_, earlier)| !earlier.is_empty())?;
        Some(LastStep { timeline: Timeline::of(&entries), before: Timeline::of(earlier).present() })
    }

    /// Index of the entry that is forgotten next, of two or more: the oldest one without which the last change is
    /// undone and redone as before. Of undos in a row, the last alone matters, so the one before it goes first. `None`
    /// if there is no such entry, and there are not too many.
    fn next_to_forget(&self, limits: HistoryLimits, step: Option<&LastStep>) -> Option<usize> {
        let Some(step) = step else { return Some(0) };
        let before = self.entries.len() - 2;
        let are_undos = self.entries[before..].iter().all(|entry| self.is_undo_or_redo(entry));
        let mut candidates = are_undos.then_some(before).into_iter().chain(0..=before);
        let are_too_many = self.entries.len() > limits.entries;
        candidates.find(|index| self.can_spare(*index, step)).or(are_too_many.then_some(0))
    }

    /// Whether undoing and redoing the last change leads where it did without an earlier entry.
    fn can_spare(&self, index: usize, step: &LastStep) -> bool {
        let others: Vec<&HistoryEntry> = self.entries[..index].iter().chain(&self.entries[index + 1..]).collect();
        self.entries[index].number != step.before && step.is_kept_in(&Timeline::of(&others))
    }

    fn is_sound(&self, base_model: &BaseModel, state: &State) -> bool {
        let pool = state.exemplars.len() + self.past_exemplars.len();
        let is_ascending = self.entries.windows(2).all(|pair| pair[0].number < pair[1].number);
        let entries = self.entries.iter().all(|entry| entry.is_sound(base_model, pool, self.next_class));
        // Far from where counting on would start again.
        const MAX_NUMBER: u32 = u32::MAX / 2;
        let counts = self.next_class <= MAX_NUMBER && self.entries.iter().all(|entry| entry.number <= MAX_NUMBER);
        counts
            && self.past_exemplars.is_sound()
            && self.past_exemplars.has_layout_of(&state.exemplars)
            && is_ascending
            && entries
            && self.describes(state)
    }

    /// Whether the last entry matches the present state; otherwise its indices of exemplars would be wrong.
    fn describes(&self, state: &State) -> bool {
        self.entries.last().is_some_and(|last| {
            last.classes.iter().map(|known| &known.class).eq(&state.classes)
                && last.exemplar_classes == state.exemplars.classes()
                && last.exemplars.iter().copied().eq(0..state.exemplars.len() as u32)
                && last.sessions == state.sessions
                && last.balance == state.balance
                && last.first_recognitions == state.first_recognitions
        })
    }
}
