//! Tells whether the state has changed, without reading it.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;

use orco_state::slots::Slot;

use super::Store;
use crate::files::FileStamp;

/// Which files hold the state: changes with every save, by any process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    slots: [Option<FileStamp>; 2],
    /// A hash of the names and stamps of their patches.
    patches: u64,
}

impl Revision {
    /// Whether there is no file of a state.
    pub fn is_empty(&self) -> bool {
        self.slots == [None; 2]
    }
}

impl Store {
    /// Which files hold the state: cheap enough to be asked every second.
    pub fn revision(&self) -> Revision {
        let stamp = |name: &str| match fs::symlink_metadata(self.folder.join(name)) {
            Ok(facts) => Some(FileStamp::of(&facts)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // It is there; that it cannot be read is said when it is to be read.
            Err(_) => Some(FileStamp::default()),
        };
        let slots = Slot::BOTH.map(|slot| stamp(slot.name()));
        if slots == [None; 2] {
            return Revision::default();
        }
        let mut patches = DefaultHasher::new();
        match self.slot_files().patches() {
            Ok(mut names) => {
                names.sort();
                names.iter().for_each(|name| (name, stamp(name)).hash(&mut patches));
            }
            // That the folder cannot be listed is said when the state is to be read.
            Err(_) => "unknown".hash(&mut patches),
        }
        Revision { slots, patches: patches.finish() }
    }
}
