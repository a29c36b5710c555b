//! Which slot holds, which is written next.
//!
//! The newest sound slot holds. A save writes the other one, so that until it is done the newest is untouched; what is
//! damaged there, another bundle's or a later release's is set aside first. Where there is no sound slot yet, both are written, so that from the first acknowledged
//! save on there are always two.

use alloc::vec::Vec;
use core::fmt;

use super::frame::Frame;
use super::medium::{Medium, Slot};
use crate::codec::DecodeError;

/// No device saves so often; a higher number is nobody's count.
const LAST_GENERATION: u64 = u64::MAX / 2;

/// What is wrong with a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault<E> {
    /// Its bytes cannot be read.
    Unreadable(E),
    /// Its bytes are not those that were written.
    Damaged(DecodeError),
}

impl<E: fmt::Display> fmt::Display for Fault<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "it cannot be read: {error}"),
            Self::Damaged(error) => write!(f, "{error}"),
        }
    }
}

/// Why nothing could be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError<E> {
    /// Something was saved, but no slot can be used.
    Lost {
        /// The first slot that cannot be used.
        slot: Slot,
        /// What is wrong with it.
        fault: Fault<E>,
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

/// Why something could not be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SaveError<E> {
    /// What is there already may not be replaced.
    Occupied(LoadError<E>),
    /// The medium refused.
    Medium {
        /// The slot that was to be written.
        slot: Slot,
        /// Why.
        source: E,
        /// Whether the new state is there nevertheless and will be loaded if it survives.
        in_place: bool,
    },
}

/// A slot's bytes, judged.
enum Content<E> {
    Empty,
    Sound { generation: u64, body: Vec<u8>, version: u16, owner: Owner },
    Faulty(Fault<E>),
}

/// Whose a sound slot is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Ours,
    /// Of our bundle, but by a later release.
    LaterRelease,
    OtherBundle,
}

/// What a load found.
pub struct Found<E> {
    /// The newest sound slot; `None` if nothing was saved yet.
    pub slot: Option<Slot>,
    /// Its body, with the version.
    pub body: Option<(u16, Vec<u8>)>,
    /// Its generation; 0 if nothing was saved yet.
    pub generation: u64,
    /// Slots that could not be used.
    pub faults: Vec<(Slot, Fault<E>)>,
    /// A sound slot, not newer than ours, of another bundle or a later release.
    foreign: Option<Slot>,
}

/// What slots must hold to be used.
pub struct Terms<'a> {
    /// SHA-256 of the bundle's learner file.
    pub foundation: [u8; 32],
    /// Version of bodies that is written.
    pub version: u16,
    /// Whether a body of an own or an older version makes sense.
    pub accept: &'a dyn Fn(u16, &[u8]) -> bool,
}

impl Terms<'_> {
    fn judge<M: Medium>(&self, medium: &mut M, slot: Slot) -> Content<M::Error> {
        let bytes = match medium.read(slot) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Content::Empty,
            Err(error) => return Content::Faulty(Fault::Unreadable(error)),
        };
        match Frame::decode(&bytes) {
            Err(error) => Content::Faulty(Fault::Damaged(error)),
            Ok(Frame { version, generation, foundation, body }) => {
                let owner = if foundation != self.foundation {
                    Owner::OtherBundle
                } else if version > self.version {
                    Owner::LaterRelease
                } else {
                    Owner::Ours
                };
                // What belongs to another release or bundle is theirs to judge.
                if generation <= LAST_GENERATION && (owner != Owner::Ours || (self.accept)(version, body)) {
                    Content::Sound { generation, body: body.to_vec(), version, owner }
                } else {
                    Content::Faulty(Fault::Damaged(DecodeError::Body))
                }
            }
        }
    }

    /// The newest sound slot.
    ///
    /// # Errors
    /// [`LoadError`] if it is not ours, or there is none although something was saved.
    pub fn load<M: Medium>(&self, medium: &mut M) -> Result<Found<M::Error>, LoadError<M::Error>> {
        let mut found = Found { slot: None, body: None, generation: 0, faults: Vec::new(), foreign: None };
        let mut newest = None;
        let mut empty = 0;
        for slot in Slot::BOTH {
            match self.judge(medium, slot) {
                Content::Empty => empty += 1,
                Content::Faulty(fault) => found.faults.push((slot, fault)),
                Content::Sound { generation, body, version, owner } => {
                    if owner != Owner::Ours {
                        found.foreign = Some(slot);
                    }
                    if newest.is_none() || generation > found.generation {
                        newest = Some((slot, version, owner));
                        (found.slot, found.generation, found.body) = (Some(slot), generation, Some((version, body)));
                    }
                }
            }
        }
        let Some((slot, actual, owner)) = newest else {
            // Damage in one slot while the other was never written is the first save, cut off: an acknowledged one
            // would have written both. A slot that cannot even be read, or whose checksum is right, was not cut off.
            let cut_off = |(_, fault): &(Slot, Fault<_>)| {
                matches!(fault, Fault::Damaged(DecodeError::Foreign | DecodeError::Checksum))
            };
            if empty == 0 || !found.faults.iter().all(cut_off) {
                let (slot, fault) = found.faults.swap_remove(0);
                return Err(LoadError::Lost { slot, fault });
            }
            return Ok(found);
        };
        match owner {
            Owner::Ours => Ok(found),
            Owner::OtherBundle => Err(LoadError::OtherBundle { slot }),
            Owner::LaterRelease => Err(LoadError::Version { slot, expected: self.version, actual }),
        }
    }

    /// Saves a body: into the slot that does not hold the newest one, or into both if there is none. Returns the new
    /// generation.
    ///
    /// # Errors
    /// [`SaveError`]; the old state holds, unless the error says that the new one is in place.
    pub fn save<M: Medium>(&self, medium: &mut M, body: &[u8]) -> Result<u64, SaveError<M::Error>> {
        let found = self.load(medium).map_err(SaveError::Occupied)?;
        for slot in found.faults.iter().map(|(slot, _)| *slot).chain(found.foreign) {
            medium.set_aside(slot).map_err(|source| SaveError::Medium { slot, source, in_place: false })?;
        }
        match found.slot {
            Some(slot) => self.write(medium, slot.other(), found.generation + 1, body),
            None => self.write_both(medium, Slot::A, found.generation, body),
        }
    }

    /// Saves a body into both slots and removes everything else, so that nothing of what was there before is left.
    ///
    /// # Errors
    /// [`SaveError`]; something of the old may be left then.
    pub fn replace_all<M: Medium>(&self, medium: &mut M, body: &[u8]) -> Result<u64, SaveError<M::Error>> {
        let found = self.load(medium).map_err(SaveError::Occupied)?;
        let first = found.slot.map_or(Slot::A, Slot::other);
        let generation = self.write_both(medium, first, found.generation, body)?;
        medium.clear().map_err(|source| SaveError::Medium { slot: first, source, in_place: true })?;
        Ok(generation)
    }

    fn write_both<M: Medium>(
        &self,
        medium: &mut M,
        first: Slot,
        generation: u64,
        body: &[u8],
    ) -> Result<u64, SaveError<M::Error>> {
        self.write(medium, first, generation + 1, body)?;
        self.write(medium, first.other(), generation + 2, body).map_err(|error| match error {
            SaveError::Medium { slot, source, .. } => SaveError::Medium { slot, source, in_place: true },
            occupied => occupied,
        })
    }

    fn write<M: Medium>(
        &self,
        medium: &mut M,
        slot: Slot,
        generation: u64,
        body: &[u8],
    ) -> Result<u64, SaveError<M::Error>> {
        let frame = Frame { version: self.version, generation, foundation: self.foundation, body };
        match medium.write(slot, &frame.encode()) {
            Ok(()) => Ok(generation),
            Err(source) => {
                let in_place = matches!(self.judge(medium, slot),
                    Content::Sound { generation: there, .. } if there == generation);
                Err(SaveError::Medium { slot, source, in_place })
            }
        }
    }
}
