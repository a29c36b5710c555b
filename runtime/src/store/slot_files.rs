//! Two slots as two files: each save writes a new file beside them, syncs it, and renames it over its slot.

use std::io;

use super::disk::{Disk, MAX_SLOT};
use crate::files::is_random_name;
use orco_state::slots::{Medium, Slot};

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

/// What went wrong with a new file.
enum Failure {
    /// It is not complete.
    Write(io::Error),
    /// It may not be on the disk.
    Sync(io::Error),
}

/// Whether a name is that of a file which is being written: `.slot-X.new-WRITER-ATTEMPT`, or `.slot-owner-RANDOM`, by
/// which a folder is asked for the owner of new files. The folder may hold files of others: nothing else is removed.
fn is_unfinished(name: &str) -> bool {
    let is_new = |slot: &Slot| {
        let rest = name.strip_prefix(&format!(".{slot}.new-"));
        let attempt = rest.and_then(|rest| rest.strip_suffix("-0").or(rest.strip_suffix("-1")));
        attempt.is_some_and(is_random_name)
    };
    Slot::BOTH.iter().any(is_new) || name.strip_prefix(".slot-owner-").is_some_and(is_random_name)
}

/// Number of a slot that was set aside, by its name `slot-X.bad-N`.
fn number_aside(name: &str) -> Option<u32> {
    let rest = Slot::BOTH.iter().find_map(|slot| name.strip_prefix(slot.name()))?;
    let digits = rest.strip_prefix(".bad-")?;
    digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
}

/// Replaces a file of a folder by way of a new one, called `new` and a number: synced, renamed, the folder synced.
///
/// # Errors
/// If it cannot be written; the old file is then as it was, unless only its folder could not be synced.
pub(super) fn replace<D: Disk>(
    disk: &D,
    name: &str,
    new: &str,
    bytes: &[u8],
    rename: fn(&D, &str, &str) -> io::Result<()>,
) -> io::Result<()> {
    // After a sync has failed nobody knows which pages of the file are on the disk, and the system may take the
    // lost ones for written: the second attempt is another file.
    let names = [0, 1].map(|attempt| format!("{new}-{attempt}"));
    let new = match write_new(disk, &names[0], bytes) {
        Ok(()) => &names[0],
        Err(Failure::Write(error)) => return Err(error),
        Err(Failure::Sync(_)) => match write_new(disk, &names[1], bytes) {
            Ok(()) => &names[1],
            Err(Failure::Write(error) | Failure::Sync(error)) => return Err(error),
        },
    };
    rename(disk, new, name).inspect_err(|_| {
        let _ = disk.remove(new);
    })?;
    // Renaming alone does not make the new name survive a power cut.
    disk.sync_folder()
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

/// Writes and syncs a new file, or leaves none.
fn write_new<D: Disk>(disk: &D, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    remove(disk, name).map_err(Failure::Write)?;
    let mut file = disk.create(name).map_err(Failure::Write)?;
    let done = write_all(disk, &mut file, bytes).map_err(Failure::Write);
    let done = done.and_then(|()| disk.sync(&mut file).map_err(Failure::Sync));
    done.inspect_err(|_| {
        // Where this fails, too, the next process that locks the folder removes it.
        let _ = disk.remove(name);
    })
}

fn write_all<D: Disk>(disk: &D, file: &mut D::File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match disk.write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes a file if there is one.
pub(super) fn remove<D: Disk>(disk: &D, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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
        Ok(!self.slots_aside()?.is_empty())
    }

    /// Names of all that may hold a state: slots, what was set aside, what was cut off.
    pub fn all(&self) -> io::Result<Vec<String>> {
        let is_slot = |name: &str| Slot::BOTH.iter().any(|slot| name == slot.name());
        let mut names = self.disk.list()?;
        names.retain(|name| is_slot(name) || number_aside(name).is_some() || is_unfinished(name));
        Ok(names)
    }

    /// Gives a slot, damaged or not ours, a name under which it is kept for inspection; returns that. Beyond
    /// [`KEPT_ASIDE`] of them the oldest goes. The folder is to be synced next.
    pub fn move_aside(&self, slot: Slot) -> io::Result<String> {
        let aside = self.slots_aside()?;
        // Behind the highest number, or, where there is none behind it, the lowest that is free.
        let is_free = |number: &u32| aside.iter().all(|(taken, _)| taken != number);
        let behind = aside.last().map_or(Some(0), |(number, _)| number.checked_add(1));
        let next = behind.or_else(|| (0..u32::MAX).find(is_free)).unwrap_or(u32::MAX);
        let surplus = (aside.len() + 1).saturating_sub(KEPT_ASIDE);
        aside[..surplus].iter().try_for_each(|(_, name)| self.disk.remove(name))?;
        let name = format!("{slot}.bad-{next}");
        self.disk.rename_new(slot.name(), &name)?;
        Ok(name)
    }

    /// Gives slots that were [moved aside](Self::move_aside) their names back.
    pub fn put_back(&self, aside: &[AsideSlot]) -> io::Result<()> {
        aside.iter().try_for_each(|AsideSlot { slot, name }| self.disk.rename_new(name, slot.name()))?;
        self.disk.sync_folder()
    }

    fn new_name(&self, slot: Slot) -> String {
        format!(".{slot}.new-{}", self.writer)
    }

    /// Names and numbers of the slots that were set aside, oldest first.
    fn slots_aside(&self) -> io::Result<Vec<(u32, String)>> {
        let mut aside: Vec<(u32, String)> =
            self.disk.list()?.into_iter().filter_map(|name| Some((number_aside(&name)?, name))).collect();
        aside.sort();
        Ok(aside)
    }
}

impl<D: Disk> Medium for SlotFiles<D> {
    type Error = io::Error;

    fn read(&mut self, slot: Slot) -> io::Result<Option<Vec<u8>>> {
        self.disk.read(slot.name())
    }

    fn write(&mut self, slot: Slot, bytes: &[u8]) -> io::Result<()> {
        check_length(bytes)?;
        replace(&self.disk, slot.name(), &self.new_name(slot), bytes, D::rename)
    }

    fn write_first(&mut self, slot: Slot, bytes: &[u8]) -> io::Result<()> {
        check_length(bytes)?;
        replace(&self.disk, slot.name(), &self.new_name(slot), bytes, D::rename_new)
    }

    fn set_aside(&mut self, slot: Slot) -> io::Result<()> {
        self.move_aside(slot)?;
        self.disk.sync_folder()
    }

    fn clear(&mut self) -> io::Result<()> {
        self.remove_unfinished()?;
        self.slots_aside()?.iter().try_for_each(|(_, name)| self.disk.remove(name))?;
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
        assert_eq!(number_aside("slot-a.bad-0"), Some(0));
        assert_eq!(number_aside("slot-b.bad-4294967295"), Some(u32::MAX));
        for other in ["slot-a", "slot-a.bad-", "slot-a.bad-+3", "slot-a.bad-007", "slot-a.bad-3.txt", "slot-c.bad-3"] {
            assert_eq!(number_aside(other), None, "{other}");
        }
    }
}
