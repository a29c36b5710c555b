//! Tells whether the state has changed, without reading it.

use std::fs;
use std::io;

use orco_state::slots::Slot;

use super::Store;
use crate::files::FileStamp;

/// Which files hold the state: changes with every save, by any process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revision([Option<FileStamp>; 2]);

impl Revision {
    /// Whether there is no file of a state.
    pub fn is_empty(&self) -> bool {
        self.0 == [None; 2]
    }
}

impl Store {
    /// Which files hold the state: cheap enough to be asked every second.
    pub fn revision(&self) -> Revision {
        Revision(Slot::BOTH.map(|slot| match fs::symlink_metadata(self.path(slot)) {
            Ok(facts) => Some(FileStamp::of(&facts)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // It is there; that it cannot be read is said when it is to be read.
            Err(_) => Some(FileStamp::default()),
        }))
    }
}
