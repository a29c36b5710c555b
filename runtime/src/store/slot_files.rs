//! Two slots as two files, and a file for each patch of a slot: each save writes a new file beside them, syncs it, and
//! renames it over its slot or to the name of its patch.

use std::collections::BTreeMap;
use std::io;
use std::slice;

use super::disk::{Disk, MAX_SLOT, remove, replace, without_attempt};
use crate::files::{OWNER_PROBE, is_random_name};
use orco_state::slots::{FrameId, Medium, PatchId, Slot, SlotPatch};

/// Most damaged slots that are kept for inspection; beyond that, the oldest goes.
pub const KEPT_ASIDE: usize = 8;

/// The slots of a folder.
#[derive(Debug)]
pub struct SlotFiles<D> {
    /// The folder.
    pub disk: D,
    /// Part of the names of files that are being written; no other process has the same.
    writer: String,
}

/// A slot that was set aside.
#[derive(Debug)]
pub struct AsideSlot {
    /// Which one it was.
    pub slot: Slot,
    /// Name of its file.
    pub name: String,
}

/// Whether a name is that of a file which is being written, `.slot-X.new-WRITER-ATTEMPT`, or of an [`OWNER_PROBE`]. The
/// folder may hold files of others: nothing else is removed.
fn is_unfinished(name: &str) -> bool {
    let is_new = |slot: &Slot| {
        let rest = name.strip_prefix(&format!(".{slot}.new-"));
        rest.and_then(without_attempt).is_some_and(is_random_name)
    };
    Slot::BOTH.iter().any(is_new) || name.strip_prefix(OWNER_PROBE).is_some_and(is_random_name)
}

/// Name of the file of a patch of a slot's file: `FILE.patch-FRAME-GENERATION`, the frame in hexadecimal digits.
fn patch_name(file: &str, PatchId { frame: FrameId(frame), generation }: PatchId) -> String {
    format!("{file}.patch-{:016x}-{generation}", u64::from_be_bytes(frame))
}

/// Splits such a name into that of the slot's file, which may have been set aside, and what tells the patch from
/// others.
fn patch_id(name: &str) -> Option<(&str, PatchId)> {
    let (file, rest) = name.split_once(".patch-")?;
    let (frame, generation) = rest.split_once('-')?;
    let frame = u64::from_str_radix(frame, 16).ok()?.to_be_bytes();
    let id = PatchId { frame: FrameId(frame), generation: generation.parse().ok()? };
    let is_ours = (is_slot(file) || number_aside(file).is_some()) && name == patch_name(file, id);
    is_ours.then_some((file, id))
}

/// Names of the patches of a file, whatever frame they belong to, and what tells them apart; those of one frame in
/// their order.
fn patches_of<'a>(file: &str, names: &'a [String]) -> Vec<(&'a str, PatchId)> {
    let own = |name: &'a String| patch_id(name).filter(|(of, _)| *of == file).map(|(_, id)| (&**name, id));
    let mut patches: Vec<_> = names.iter().filter_map(own).collect();
    patches.sort_by_key(|(_, id)| *id);
    patches
}

/// Names and numbers of the slots that were set aside, oldest first.
fn slots_aside(names: &[String]) -> Vec<(u32, &str)> {
    let mut aside: Vec<_> = names.iter().filter_map(|name| Some((number_aside(name)?, &**name))).collect();
    aside.sort();
    aside
}

fn is_slot(name: &str) -> bool {
    Slot::BOTH.iter().any(|slot| name == slot.name())
}

/// Number of a slot that was set aside, by its name `slot-X.bad-N`.
fn number_aside(name: &str) -> Option<u32> {
    let rest = Slot::BOTH.iter().find_map(|slot| name.strip_prefix(slot.name()))?;
    let digits = rest.strip_prefix(".bad-")?;
    digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
}

/// An error that names its file, one of a slot's: what stands around it names the slot or the folder alone.
fn named(name: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

/// Refuses bytes of a slot that would not be read again: the state could then neither be opened nor changed.
fn check_length(bytes: &[u8]) -> io::Result<()> {
    let length = bytes.len() as u64;
    if length <= MAX_SLOT {
        return Ok(());
    }
    let reason = format!("it would have {length} bytes, and a state may have {MAX_SLOT}");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, reason))
}

impl<D: Disk> SlotFiles<D> {
    /// The slots of a folder. No other process has the same name as a `writer`.
    pub fn new(disk: D, writer: String) -> Self {
        Self { disk, writer }
    }

    /// Removes what an interrupted write left; nobody may be writing.
    pub fn remove_unfinished(&self) -> io::Result<()> {
        let names = self.disk.list()?;
        names.iter().filter(|name| is_unfinished(name)).try_for_each(|name| remove(&self.disk, name))
    }

    /// Whether a slot was set aside.
    pub fn has_slot_aside(&self) -> io::Result<bool> {
        Ok(!slots_aside(&self.disk.list()?).is_empty())
    }

    /// Names of all that may hold a state: slots, what was set aside, what was cut off, and patches that belong to none
    /// of these.
    pub fn all(&self) -> io::Result<Vec<String>> {
        let mut names = self.disk.list()?;
        let mut frames = BTreeMap::new();
        for name in names.iter().filter(|name| is_slot(name) || number_aside(name).is_some()) {
            frames.insert(name.clone(), self.frame_of(name).map_err(|error| named(name, error))?);
        }
        names.retain(|name| match patch_id(name) {
            Some((file, id)) => frames.get(file) != Some(&Some(id.frame)),
            None => frames.contains_key(name) || is_unfinished(name),
        });
        Ok(names)
    }

    /// Names of the patches of both slots.
    pub fn patches(&self) -> io::Result<Vec<String>> {
        let mut names = self.disk.list()?;
        names.retain(|name| patch_id(name).is_some_and(|(file, _)| is_slot(file)));
        Ok(names)
    }

    /// The frame that a file holds, as far as can be told.
    fn frame_of(&self, file: &str) -> io::Result<Option<FrameId>> {
        Ok(self.disk.read(file, 0)?.and_then(|bytes| FrameId::claimed(&bytes)))
    }

    /// The bytes of a slot's file, or of one that was set aside, and of its patches, in their order.
    pub fn read_patched(&self, file: &str) -> io::Result<Option<Vec<u8>>> {
        /// Times that a slot is read, at most, while another process saves.
        const ATTEMPTS: usize = 8;
        'attempts: for _ in 0..ATTEMPTS {
            let names = self.disk.list()?;
            let patches = patches_of(file, &names);
            let room = patches.iter().fold(0, |room: usize, (name, _)| room.saturating_add(self.disk.length(name)));
            let Some(mut bytes) = self.disk.read(file, room)? else { return Ok(None) };
            let frame = FrameId::claimed(&bytes);
            for (name, id) in patches.into_iter().filter(|(_, id)| frame == Some(id.frame)) {
                // One that is gone by now: another process has written the slot whole.
                let patch = self.disk.read(name, 0).map_err(|error| named(name, error))?;
                let Some(patch) = patch else { continue 'attempts };
                bytes.extend_from_slice(&patch);
                if PatchId::claimed_generation(&patch) != Some(id.generation) {
                    // The file was renamed or emptied. A stray byte makes this damage; else it could pass for another
                    // patch, or for none.
                    bytes.push(0);
                }
                check_length(&bytes)?;
            }
            return Ok(Some(bytes));
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "its patches change while they are read"))
    }

    /// Writes a slot whole, in the place of its patches.
    fn write_whole(&self, slot: Slot, bytes: &[u8], rename: fn(&D, &str, &str) -> io::Result<()>) -> io::Result<()> {
        check_length(bytes)?;
        // Where the folder cannot be listed, old patches stay. They belong to another frame and are ignored, unless
        // this same frame was written before.
        let names = self.disk.list().unwrap_or_default();
        if names.iter().all(|name| name != slot.name()) {
            // It may have been: a backup that is restored twice has the same frames. Its old patches would apply again.
            let own = FrameId::claimed(bytes);
            self.remove_patches(slot, &names, |id| own == Some(id.frame))?;
        }
        replace(&self.disk, slot.name(), &self.new_name(slot), bytes, rename)?;
        // All others belong to the frame before, and what is left of them harms nobody.
        let _ = self.remove_patches(slot, &names, |_| true);
        Ok(())
    }

    /// Removes some of a slot's patches, the newest first: whoever finds the slot so finds an older state, but no gap.
    fn remove_patches(&self, slot: Slot, names: &[String], is_stale: impl Fn(PatchId) -> bool) -> io::Result<()> {
        let mut patches = patches_of(slot.name(), names);
        patches.retain(|(_, id)| is_stale(*id));
        patches.iter().rev().try_for_each(|(name, _)| remove(&self.disk, name))?;
        if patches.is_empty() { Ok(()) } else { self.disk.sync_folder() }
    }

    /// Gives a slot, damaged or not ours, and its patches a name under which they are kept for inspection; returns
    /// that. Beyond [`KEPT_ASIDE`] of them the oldest goes. The folder is to be synced next.
    pub fn move_aside(&self, slot: Slot) -> io::Result<String> {
        let names = self.disk.list()?;
        let aside = slots_aside(&names);
        // Behind the highest number, or, where there is none behind it, the lowest that is free.
        let is_free = |number: &u32| aside.iter().all(|(taken, _)| taken != number);
        let behind = aside.last().map_or(Some(0), |(number, _)| number.checked_add(1));
        let next = behind.or_else(|| (0..u32::MAX).find(is_free)).unwrap_or(u32::MAX);
        let surplus = (aside.len() + 1).saturating_sub(KEPT_ASIDE);
        aside[..surplus].iter().try_for_each(|(_, name)| self.remove_aside(name, &names))?;
        let aside = AsideSlot { slot, name: format!("{slot}.bad-{next}") };
        // Patches without their slot are no state; a slot without some of its patches would be an older one.
        self.disk.rename_new(slot.name(), &aside.name)?;
        let mut patches = patches_of(slot.name(), &names).into_iter();
        let moved = patches.try_for_each(|(name, id)| self.disk.rename_new(name, &patch_name(&aside.name, id)));
        if moved.is_err() {
            let _ = self.put_back(slice::from_ref(&aside));
        }
        moved.map(|()| aside.name)
    }

    /// Gives slots that were [moved aside](Self::move_aside) their names back.
    pub fn put_back(&self, aside: &[AsideSlot]) -> io::Result<()> {
        let names = self.disk.list()?;
        for AsideSlot { slot, name } in aside {
            let mut patches = patches_of(name, &names).into_iter();
            patches.try_for_each(|(patch, id)| self.disk.rename_new(patch, &patch_name(slot.name(), id)))?;
            self.disk.rename_new(name, slot.name())?;
        }
        self.disk.sync_folder()
    }

    /// Removes a slot that was set aside.
    fn remove_aside(&self, file: &str, names: &[String]) -> io::Result<()> {
        patches_of(file, names).iter().try_for_each(|(name, _)| remove(&self.disk, name))?;
        self.disk.remove(file)
    }

    fn new_name(&self, slot: Slot) -> String {
        format!(".{slot}.new-{}", self.writer)
    }
}

impl<D: Disk> Medium for SlotFiles<D> {
    type Error = io::Error;

    fn read(&mut self, slot: Slot) -> io::Result<Option<Vec<u8>>> {
        self.read_patched(slot.name())
    }

    fn write(&mut self, slot: Slot, bytes: &[u8]) -> io::Result<()> {
        self.write_whole(slot, bytes, D::rename)
    }

    fn write_first(&mut self, slot: Slot, bytes: &[u8]) -> io::Result<()> {
        self.write_whole(slot, bytes, D::rename_new)
    }

    fn can_append(&self) -> bool {
        true
    }

    fn append(&mut self, slot: Slot, SlotPatch { id, bytes }: &SlotPatch) -> io::Result<()> {
        replace(&self.disk, &patch_name(slot.name(), *id), &self.new_name(slot), bytes, D::rename_new)
    }

    fn set_aside(&mut self, slot: Slot) -> io::Result<()> {
        self.move_aside(slot)?;
        self.disk.sync_folder()
    }

    fn clear(&mut self) -> io::Result<()> {
        self.remove_unfinished()?;
        let names = self.disk.list()?;
        names.iter().filter(|name| patch_id(name).is_some()).try_for_each(|name| remove(&self.disk, name))?;
        slots_aside(&names).iter().try_for_each(|(_, name)| self.disk.remove(name))?;
        self.disk.sync_folder()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_not_taken_for_ours() {
        for ours in [".slot-a.new-0123456789abcdef-0", ".slot-b.new-ffffffffffffffff-1", ".slot-owner-0123456789abcdef"]
        {
            assert!(is_unfinished(ours), "{ours}");
        }
        for other in [
            ".slot-",
            ".slot-machine.txt",
            ".slot-a.new-",
            ".slot-a.new-1-0",
            ".slot-a.new-0123456789abcdef",
            ".slot-a.new-0123456789ABCDEF-0",
            ".slot-a.new-0123456789abcdef-2",
            ".slot-c.new-0123456789abcdef-0",
            ".slot-owner-",
            "slot-a.new-0123456789abcdef-0",
        ] {
            assert!(!is_unfinished(other), "{other}");
        }
        for file in ["slot-a", "slot-b.bad-7"] {
            let id = PatchId { frame: FrameId([0, 1, 2, 3, 4, 5, 6, 0xff]), generation: 12 };
            assert_eq!(patch_name(file, id), format!("{file}.patch-00010203040506ff-12"));
            assert_eq!(patch_id(&patch_name(file, id)), Some((file, id)));
        }
        for other in [
            "slot-a.patch-",
            "slot-a.patch-00010203040506ff",
            "slot-a.patch-00010203040506ff-",
            "slot-a.patch-00010203040506ff-+1",
            "slot-a.patch-00010203040506ff-01",
            "slot-a.patch-00010203040506FF-1",
            "slot-a.patch-10203040506ff-1",
            "slot-a.patch-00010203040506ff-1.txt",
            "slot-a.bad-07.patch-00010203040506ff-1",
            "slot-c.patch-00010203040506ff-1",
        ] {
            assert_eq!(patch_id(other), None, "{other}");
        }
        assert_eq!(number_aside("slot-a.bad-0"), Some(0));
        assert_eq!(number_aside("slot-b.bad-4294967295"), Some(u32::MAX));
        for other in ["slot-a", "slot-a.bad-", "slot-a.bad-+3", "slot-a.bad-007", "slot-a.bad-3.txt", "slot-c.bad-3"] {
            assert_eq!(number_aside(other), None, "{other}");
        }
    }
}
