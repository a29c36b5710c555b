//! Small pictures of shots that were learned, beside the state, so that people see what a class is made of.
//!
//! Each lies in a file of its own that is named after the exemplar that was made from the shot, by the SHA-256 of that
//! exemplar as it is stored ([`Bank::digest_of`]): renaming, moving and undoing need not touch it. Those of exemplars
//! that neither the state nor its history has any longer are let go. A state is as good without them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use ndarray::ArrayView2;
use orco_state::bank::Bank;
use orco_state::history::Saved;

use crate::files;
use crate::manifest::{from_hexadecimal, hexadecimal};
use crate::store::{Store, StoreError};

/// Most bytes of one.
pub const MOST: usize = 64 << 10;

const ENDING: &str = ".jpg";
/// The folder's name.
const FOLDER: &str = "thumbnails";

/// The thumbnails beside a state.
#[derive(Clone, Debug)]
pub struct Thumbnails {
    folder: PathBuf,
}

impl Thumbnails {
    /// Those of a store; the folder is made with the first one.
    pub fn of(store: &Store) -> Self {
        Self { folder: store.folder().join(FOLDER) }
    }

    /// Keeps the thumbnail of a shot that is to become an exemplar of a bank like `bank`.
    ///
    /// # Shapes
    /// `features` `[views, features]`, the clean view first.
    /// # Errors
    /// If it is larger than [`MOST`], or cannot be written.
    pub fn keep(&self, bank: &Bank, features: ArrayView2<'_, f32>, jpeg: &[u8]) -> io::Result<()> {
        if jpeg.len() > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the thumbnail is too large"));
        }
        let mut exemplar = bank.emptied();
        exemplar.push(0, &features.iter().copied().collect::<Vec<f32>>());
        let path = self.path(&exemplar.digest_of(0));
        if path.exists() {
            return Ok(());
        }
        if !self.folder.is_dir() {
            files::create_folder(&self.folder)?;
        }
        files::replace(&path, jpeg)
    }

    /// The thumbnail of an exemplar, if there is one.
    pub fn read(&self, digest: &[u8; 32]) -> Option<Vec<u8>> {
        files::read_own(&self.path(digest), MOST as u64).ok()
    }

    /// Whether an exemplar has one.
    pub fn has(&self, digest: &[u8; 32]) -> bool {
        self.path(digest).is_file()
    }

    /// The exemplars that have one: one look into the folder, however many there are.
    pub fn all(&self) -> BTreeSet<[u8; 32]> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| from_hexadecimal(entry.file_name().to_str()?.strip_suffix(ENDING)?)).collect()
    }

    /// Removes those of exemplars that neither a state nor its history has.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`] if one cannot be removed.
    pub fn prune(&self, saved: &Saved) -> Result<(), StoreError> {
        let failed = |source| StoreError::Uncertain { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        let kept: BTreeSet<String> = saved.exemplar_digests().iter().map(name).collect();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if !entry.file_name().to_str().is_some_and(|name| kept.contains(name)) {
                match fs::remove_file(entry.path()) {
                    // Another process has done so, or has given its new file the name that it was made for.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    removed => removed.map_err(failed)?,
                }
            }
        }
        Ok(())
    }

    fn path(&self, digest: &[u8; 32]) -> PathBuf {
        self.folder.join(name(digest))
    }
}

fn name(digest: &[u8; 32]) -> String {
    hexadecimal(digest) + ENDING
}
