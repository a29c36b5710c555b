//! Which slot is current, and which is written next.
//!
//! The newest sound slot is the current one. A save writes the other one, so that until it is done the newest is
//! untouched; where the medium can, it only appends what has changed. What is damaged there, another bundle's or a
//! later release's is set aside first. Where there is no sound slot yet, both are written, so that from the first
//! acknowledged save on there are always two.
//!
//! A slot that cannot be read may be the newest: looking goes on with the other one, and says so; nothing is saved.

use alloc::vec::Vec;
use core::fmt;

use super::frame::{SlotContent, SlotPatch, seal_frame};
use super::medium::{Medium, Slot};
use crate::codec::DecodeError;
use crate::history::SavedState;

/// No device saves so often; a higher number is nobody's count.
const LAST_GENERATION: u64 = u64::MAX / 2;

/// What is wrong with a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotFault<E> {
    /// Its bytes cannot be read now; they may be the newest state.
    Unreadable(E),
    /// Its bytes are not those that were written.
    Damaged(DecodeError),
}

impl<E: fmt::Display> fmt::Display for SlotFault<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "it cannot be read: {error}"),
            Self::Damaged(error) => write!(f, "{error}"),
        }
    }
}

/// A slot that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultySlot<E> {
    /// Which one.
    pub slot: Slot,
    /// Why.
    pub fault: SlotFault<E>,
}

/// A slot that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedSlot {
    /// Which one.
    pub slot: Slot,
    /// What is wrong with it.
    pub error: DecodeError,
}

/// Why nothing could be loaded. Exhaustive, since a program that keeps states must handle every reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError<E> {
    /// Something was saved, but no slot can be used: those that are damaged, and what is wrong with each.
    Lost(Vec<DamagedSlot>),
    /// A slot cannot be read, and it may hold the newest state.
    Unreadable {
        /// The slot.
        slot: Slot,
        /// Why.
        source: E,
    },
    /// The newest slot was written by a later release.
    Version {
        /// The slot.
        slot: Slot,
        /// Highest version that this program reads.
        expected: u16,
        /// Version of the slot.
        actual: u16,
    },
    /// The newest slot belongs to another bundle.
    OtherBundle {
        /// The slot.
        slot: Slot,
    },
}

/// Why something could not be saved. Exhaustive, since a program that keeps states must handle every reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveError<E> {
    /// The state makes no sense, and would not be read again.
    Unsound,
    /// What is there already may not be replaced.
    Occupied(LoadError<E>),
    /// What is there is not what the change started from: another process has saved meanwhile.
    Overtaken {
        /// Generation that the change started from.
        expected: u64,
        /// Generation that is there.
        actual: u64,
    },
    /// The medium refused.
    Medium {
        /// The slot that was to be written.
        slot: Slot,
        /// Why.
        source: E,
        /// Which state is there now.
        state: MediumState,
    },
}

/// Which state a medium holds after it refused to save another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumState {
    /// The one before.
    Old,
    /// The new one, which will be loaded if it survives.
    New,
    /// One of the two: the slot cannot be read back.
    Either,
}

/// The newest state on a medium, decoded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MediumSnapshot<E> {
    /// The newest sound state with its history; `None` if nothing was saved yet.
    pub saved: Option<SavedState>,
    /// Counts saves; 0 if there was none yet. A save of what is made from this state names it.
    pub generation: u64,
    /// The slot that holds it; `None` if nothing was saved yet.
    pub slot: Option<Slot>,
    /// Slots that cannot be used, to be told to somebody. The next save sets damaged ones aside; while one cannot be
    /// read, the state may be an older one, and nothing can be saved.
    pub faults: Vec<FaultySlot<E>>,
    /// A sound slot, older than the state, of another bundle or a later release. The next save sets it aside.
    pub not_ours: Option<Slot>,
}

impl<E> MediumSnapshot<E> {
    /// The newest slot, if both were read and neither is to be set aside: a save need then [judge none
    /// again](super::save_next) (`STATE.md`, "Which slot is current", 8).
    pub fn newest_undisturbed(&self) -> Option<NewestSlot> {
        let slot = self.slot.filter(|_| self.faults.is_empty() && self.not_ours.is_none())?;
        Some(NewestSlot { generation: self.generation, slot })
    }

    /// Refuses to go on without a slot that cannot be read.
    ///
    /// # Errors
    /// [`LoadError::Unreadable`] if there is one.
    pub(super) fn refuse_unreadable(mut self) -> Result<Self, LoadError<E>> {
        let unreadable = |faulty: &FaultySlot<E>| matches!(faulty.fault, SlotFault::Unreadable(_));
        match self.faults.iter().position(unreadable).map(|index| self.faults.swap_remove(index)) {
            Some(FaultySlot { slot, fault: SlotFault::Unreadable(source) }) => {
                Err(LoadError::Unreadable { slot, source })
            }
            _ => Ok(self),
        }
    }
}

/// Which slot holds the newest state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestSlot {
    /// The number of the save that wrote it.
    pub generation: u64,
    /// The slot.
    pub slot: Slot,
}

/// How a slot is written.
type SlotWrite<M> = fn(&mut M, Slot, &[u8]) -> Result<(), <M as Medium>::Error>;

/// What slots must hold to be used.
pub struct SlotRules<'a> {
    /// SHA-256 of the bundle's learner file.
    pub bundle_digest: [u8; 32],
    /// Version of bodies that is written.
    pub version: u16,
    /// Decodes a body of an own or an older version, if it makes sense.
    pub decode: &'a dyn Fn(u16, &[u8]) -> Option<SavedState>,
}

impl SlotRules<'_> {
    /// Why a sound slot is not ours to read; `None` if it is. Slots of another release or bundle are theirs to judge.
    fn refusal<E>(&self, slot: Slot, content: &SlotContent<'_>) -> Option<LoadError<E>> {
        if content.bundle_digest != self.bundle_digest {
            Some(LoadError::OtherBundle { slot })
        } else if content.version > self.version {
            Some(LoadError::Version { slot, expected: self.version, actual: content.version })
        } else {
            None
        }
    }

    /// The newest sound slot. The body of the older one is not looked at.
    ///
    /// # Errors
    /// [`LoadError`] if it is not ours, or there is none although something was saved.
    pub fn load<M: Medium>(&self, medium: &mut M) -> Result<MediumSnapshot<M::Error>, LoadError<M::Error>> {
        let mut found = MediumSnapshot { slot: None, saved: None, generation: 0, faults: Vec::new(), not_ours: None };
        let (mut newest, mut older): (Option<(Slot, SlotContent<'static>)>, _) = (None, None);
        let mut empty = 0;
        for slot in Slot::BOTH {
            match read(medium, slot) {
                Ok(None) => empty += 1,
                Err(fault) => found.faults.push(FaultySlot { slot, fault }),
                Ok(Some(content)) => {
                    if self.refusal::<M::Error>(slot, &content).is_some() {
                        found.not_ours = Some(slot);
                    }
                    // The bytes of the older one are dropped: those of both would take much memory.
                    if newest.as_ref().is_none_or(|(_, newest)| content.generation > newest.generation) {
                        older = newest.replace((slot, content)).map(|(slot, _)| slot);
                    } else {
                        older = Some(slot);
                    }
                }
            }
        }
        while let Some((slot, content)) = newest {
            if let Some(refusal) = self.refusal(slot, &content) {
                return Err(refusal);
            }
            let (version, generation) = (content.version, content.generation);
            if let Some(saved) = (self.decode)(version, &content.into_body()) {
                return Ok(MediumSnapshot { saved: Some(saved), generation, slot: Some(slot), ..found });
            }
            found.faults.push(FaultySlot { slot, fault: SlotFault::Damaged(DecodeError::Body) });
            newest = older.take().and_then(|slot| match read(medium, slot) {
                Ok(content) => content.map(|content| (slot, content)),
                Err(fault) => {
                    found.faults.push(FaultySlot { slot, fault });
                    None
                }
            });
        }
        let found = found.refuse_unreadable()?;
        // Damage in one slot while the other was never written is the first save, cut off: an acknowledged one would
        // have written both. A slot whose checksum is right was not cut off.
        let whole = |error: &DecodeError| !matches!(error, DecodeError::WrongKind | DecodeError::Checksum);
        let lost = found.faults.iter().filter_map(|FaultySlot { slot, fault }| match fault {
            SlotFault::Damaged(error) if empty == 0 || whole(error) => Some(DamagedSlot { slot: *slot, error: *error }),
            _ => None,
        });
        let lost: Vec<_> = lost.collect();
        if lost.is_empty() { Ok(found) } else { Err(LoadError::Lost(lost)) }
    }

    /// The newest sound slot, for a change that started from the state of generation `from`.
    fn load_to_change<M: Medium>(
        &self,
        medium: &mut M,
        from: u64,
    ) -> Result<MediumSnapshot<M::Error>, SaveError<M::Error>> {
        let found = self.load(medium).and_then(MediumSnapshot::refuse_unreadable).map_err(SaveError::Occupied)?;
        if found.generation != from {
            return Err(SaveError::Overtaken { expected: from, actual: found.generation });
        }
        Ok(found)
    }

    /// Saves a state that was made from the state of generation `from`: into the slot that does not hold that one, or
    /// into both if there is none.
    ///
    /// # Errors
    /// [`SaveError`]; the old state stays current, unless the error says otherwise.
    pub fn save<M: Medium>(
        &self,
        medium: &mut M,
        from: u64,
        saved: &SavedState,
    ) -> Result<NewestSlot, SaveError<M::Error>> {
        let found = self.load_to_change(medium, from)?;
        set_aside(medium, &found)?;
        match found.slot {
            Some(slot) => self.save_next(medium, NewestSlot { generation: from, slot }, saved),
            None => self.write_both(medium, Slot::A, from, saved, M::write_first),
        }
    }

    /// Saves a state that was made from the newest state into the slot that does not hold that one.
    ///
    /// # Errors
    /// [`SaveError::Medium`]; the old state stays current, unless the error says otherwise.
    pub fn save_next<M: Medium>(
        &self,
        medium: &mut M,
        newest: NewestSlot,
        saved: &SavedState,
    ) -> Result<NewestSlot, SaveError<M::Error>> {
        let (slot, generation) = (newest.slot.other(), newest.generation + 1);
        match self.try_patch(medium, slot, generation, saved) {
            Some(patch) => append(medium, slot, &patch),
            None => self.write(medium, slot, generation, saved, M::write),
        }
    }

    /// The patch that makes this state of the one that a slot holds, if it can be appended there and is much smaller.
    fn try_patch<M: Medium>(
        &self,
        medium: &mut M,
        slot: Slot,
        generation: u64,
        saved: &SavedState,
    ) -> Option<SlotPatch> {
        if !medium.can_append() {
            return None;
        }
        // Both slots were judged before, so a fault has appeared since, and in the older one: writing over it loses
        // nothing.
        let bytes = medium.read(slot).ok()??;
        let there = SlotContent::decode(bytes).ok()?;
        let is_ours = there.version == self.version && there.bundle_digest == self.bundle_digest;
        if is_ours { there.patch_to(generation, saved) } else { None }
    }

    /// Saves a state as [`save`](Self::save) does, but into both slots, and removes everything else, so that nothing of
    /// what was there before is left.
    ///
    /// # Errors
    /// [`SaveError`]; something of the old may be left then.
    pub fn replace_all<M: Medium>(
        &self,
        medium: &mut M,
        from: u64,
        saved: &SavedState,
    ) -> Result<NewestSlot, SaveError<M::Error>> {
        let found = self.load_to_change(medium, from)?;
        let first = found.slot.map_or(Slot::A, Slot::other);
        let newest = self.write_both(medium, first, from, saved, M::write)?;
        medium.clear().map_err(|source| SaveError::Medium { slot: first, source, state: MediumState::New })?;
        Ok(newest)
    }

    /// Saves a state that belongs to another bundle, `to`, into both slots, in the place of the one of generation
    /// `from`.
    ///
    /// # Errors
    /// [`SaveError`]; the old state stays current, unless the error says otherwise.
    pub fn switch<M: Medium>(
        &self,
        medium: &mut M,
        to: [u8; 32],
        from: u64,
        saved: &SavedState,
    ) -> Result<NewestSlot, SaveError<M::Error>> {
        let found = self.load_to_change(medium, from)?;
        set_aside(medium, &found)?;
        let (first, write_slot): (_, SlotWrite<M>) = match found.slot {
            Some(slot) => (slot.other(), M::write),
            None => (Slot::A, M::write_first),
        };
        SlotRules { bundle_digest: to, ..*self }.write_both(medium, first, from, saved, write_slot)
    }

    fn write_both<M: Medium>(
        &self,
        medium: &mut M,
        first: Slot,
        from: u64,
        saved: &SavedState,
        write_slot: SlotWrite<M>,
    ) -> Result<NewestSlot, SaveError<M::Error>> {
        self.write(medium, first, from + 1, saved, write_slot)?;
        self.write(medium, first.other(), from + 2, saved, write_slot).map_err(|error| match error {
            SaveError::Medium { slot, source, .. } => SaveError::Medium { slot, source, state: MediumState::New },
            other => other,
        })
    }

    fn write<M: Medium>(
        &self,
        medium: &mut M,
        slot: Slot,
        generation: u64,
        saved: &SavedState,
        write_slot: SlotWrite<M>,
    ) -> Result<NewestSlot, SaveError<M::Error>> {
        let bytes = seal_frame(self.version, generation, &self.bundle_digest, saved);
        let written = write_slot(medium, slot, &bytes);
        outcome(medium, slot, generation, written, |there| there == bytes)
    }
}

/// What a slot's bytes are, before the body is decoded; `None` if it is empty.
fn read<M: Medium>(medium: &mut M, slot: Slot) -> Result<Option<SlotContent<'static>>, SlotFault<M::Error>> {
    let Some(bytes) = medium.read(slot).map_err(SlotFault::Unreadable)? else { return Ok(None) };
    let content = SlotContent::decode(bytes)
        .and_then(|content| if content.generation <= LAST_GENERATION { Ok(content) } else { Err(DecodeError::Body) });
    content.map(Some).map_err(SlotFault::Damaged)
}

fn append<M: Medium>(medium: &mut M, slot: Slot, patch: &SlotPatch) -> Result<NewestSlot, SaveError<M::Error>> {
    let appended = medium.append(slot, patch);
    outcome(medium, slot, patch.id.generation, appended, |there| there.ends_with(&patch.bytes))
}

/// What became of a save into a slot. Where it failed, the slot is read back, to say which state it holds.
fn outcome<M: Medium>(
    medium: &mut M,
    slot: Slot,
    generation: u64,
    written: Result<(), M::Error>,
    is_new: impl FnOnce(&[u8]) -> bool,
) -> Result<NewestSlot, SaveError<M::Error>> {
    let Err(source) = written else { return Ok(NewestSlot { generation, slot }) };
    let state = match medium.read(slot) {
        Ok(Some(there)) if is_new(&there) => MediumState::New,
        Ok(_) => MediumState::Old,
        Err(_) => MediumState::Either,
    };
    Err(SaveError::Medium { slot, source, state })
}

/// Sets aside what is damaged or not ours, and would be written over.
fn set_aside<M: Medium>(medium: &mut M, found: &MediumSnapshot<M::Error>) -> Result<(), SaveError<M::Error>> {
    let faulty = found.faults.iter().map(|faulty| faulty.slot);
    faulty.chain(found.not_ours).try_for_each(|slot| {
        medium.set_aside(slot).map_err(|source| SaveError::Medium { slot, source, state: MediumState::Old })
    })
}

/// SHA-256 of the bundle's learner file that the newest slot belongs to, whose frame is sound; slots that cannot be
/// read are passed over.
pub fn newest_bundle_digest<M: Medium>(medium: &mut M) -> Option<[u8; 32]> {
    let content = |slot| {
        let content = read(medium, slot).ok()??;
        Some((content.generation, content.bundle_digest))
    };
    Slot::BOTH.into_iter().filter_map(content).max_by_key(|(generation, _)| *generation).map(|(_, digest)| digest)
}
