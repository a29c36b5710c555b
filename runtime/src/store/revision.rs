//! Whether the state is another one than before, without reading it.

use std::fs;
use std::io;
use std::time::SystemTime;

use orco_state::slots::Slot;

use super::Store;

/// Which files hold the state: another one after every save, whoever makes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revision([Option<SlotFile>; 2]);

/// A file as it can be told from others; all zeros where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SlotFile {
    bytes: u64,
    modified: Option<SystemTime>,
    number: u64,
}

impl Revision {
    /// Whether there is no file of a state.
    pub fn is_empty(&self) -> bool {
        self.0 == [None; 2]
    }
}

impl SlotFile {
    fn of(facts: &fs::Metadata) -> Self {
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(facts);
        #[cfg(not(unix))]
        let number = 0;
        Self { bytes: facts.len(), modified: facts.modified().ok(), number }
    }
}

impl Store {
    /// Which files hold the state: cheap enough to be asked every second.
    pub fn revision(&self) -> Revision {
        Revision(Slot::BOTH.map(|slot| match fs::symlink_metadata(self.path(slot)) {
            Ok(facts) => Some(SlotFile::of(&facts)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // It is there; that it cannot be read is said when it is to be read.
            Err(_) => Some(SlotFile::default()),
        }))
    }
}
