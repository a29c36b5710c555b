//! What states are written to: two slots, wherever they lie.

use alloc::vec::Vec;
use core::fmt;

use super::frame::SlotPatch;

/// One of the two slots that hold a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The first.
    A,
    /// The second.
    B,
}

impl Slot {
    /// Both of them.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// Its name, also that of its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "slot-a",
            Self::B => "slot-b",
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Storage of two slots. That is all that is asked of a file system or of raw flash: everything else - which slot
/// is the newest, whether it is sound - is decided above, from bytes alone.
///
/// What an implementation promises, and what the crash argument in `STATE.md` rests on:
///
/// 1. [`write`](Self::write) and [`append`](Self::append) return `Ok` only when the bytes survive a power cut.
/// 2. Until then, and after an error or a power cut in between, *that* slot may hold anything; the other one is
///    untouched.
/// 3. [`read`](Self::read) changes nothing.
pub trait Medium {
    /// Why the system or the chip refused.
    type Error;

    /// All bytes of a slot; `None` if nothing was ever written there. Damaged bytes are returned as they are, also
    /// where the medium itself knows that they are damaged for good, as a chip with error correction may.
    ///
    /// # Errors
    /// If they cannot be read now, though they may be sound. Nothing is changed then.
    fn read(&mut self, slot: Slot) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Replaces a slot's bytes, those of its patches among them.
    ///
    /// # Errors
    /// If that failed, or it is not certain that they would survive a power cut.
    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Writes a slot's bytes as [`write`](Self::write) does, but fails where another process has written the slot since
    /// it was found empty. A medium of a single process needs no other way than `write`.
    ///
    /// # Errors
    /// As for [`write`](Self::write), and if there is something.
    fn write_first(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), Self::Error> {
        self.write(slot, bytes)
    }

    /// Whether [`append`](Self::append) can be used.
    fn can_append(&self) -> bool {
        false
    }

    /// Adds a patch behind the bytes of a slot.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    /// # Panics
    /// If the medium [cannot](Self::can_append).
    fn append(&mut self, _slot: Slot, _patch: &SlotPatch) -> Result<(), Self::Error> {
        unimplemented!("a medium that can append says how")
    }

    /// Keeps the bytes of a slot, damaged or not ours, elsewhere for inspection, where there is room for that. The slot
    /// is written next.
    ///
    /// # Errors
    /// If that failed; the slot is as it was.
    fn set_aside(&mut self, slot: Slot) -> Result<(), Self::Error>;

    /// Removes everything but the two slots, which have both just been written whole: what was set aside, what an
    /// interrupted write left.
    ///
    /// # Errors
    /// If some of it is still there, or could be after a power cut.
    fn clear(&mut self) -> Result<(), Self::Error>;
}

impl<M: Medium + ?Sized> Medium for &mut M {
    type Error = M::Error;

    fn read(&mut self, slot: Slot) -> Result<Option<Vec<u8>>, Self::Error> {
        (**self).read(slot)
    }

    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), Self::Error> {
        (**self).write(slot, bytes)
    }

    fn write_first(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), Self::Error> {
        (**self).write_first(slot, bytes)
    }

    fn can_append(&self) -> bool {
        (**self).can_append()
    }

    fn append(&mut self, slot: Slot, patch: &SlotPatch) -> Result<(), Self::Error> {
        (**self).append(slot, patch)
    }

    fn set_aside(&mut self, slot: Slot) -> Result<(), Self::Error> {
        (**self).set_aside(slot)
    }

    fn clear(&mut self) -> Result<(), Self::Error> {
        (**self).clear()
    }
}
