//! Small pictures of shots that were learned, beside the state, so that people see what a class is made of.
//!
//! Each lies in a file of its own, named by the SHA-256 of the shot's exemplar as it is stored ([`Bank::digest_of`]):
//! renaming, moving and undoing need not touch it. Those of exemplars
//! that neither the state nor its history has any longer are removed. A state works without them.
//!
//! The folder may hold files of others: only a regular file that has such a name, and no more bytes than a thumbnail
//! may have, is ever removed. A link in the folder's place is not followed.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use ndarray::ArrayView2;
use orco_state::bank::Bank;
use orco_state::history::SavedState;

use crate::files::folder::{FolderEntry, OpenFolder};
use crate::files::{self, SymlinkPolicy};
use crate::manifest::{from_hexadecimal, hexadecimal};
use crate::store::{Store, StoreError};

/// Most bytes of a thumbnail.
pub const MAX_BYTES: usize = 64 << 10;

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
    /// If it is larger than [`MAX_BYTES`], cannot be written, or a link lies in the place of the folder.
    pub fn keep(&self, bank: &Bank, features: ArrayView2<'_, f32>, jpeg: &[u8]) -> io::Result<()> {
        if jpeg.len() > MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the thumbnail is too large"));
        }
        let exemplar = bank.digest_of_shot(&features.iter().copied().collect::<Vec<f32>>());
        if self.open()?.is_none() {
            files::create_folder(&self.folder)?;
        }
        match files::create(&self.path(&exemplar), jpeg) {
            // The same shot was learned before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            kept => kept,
        }
    }

    /// The thumbnail of an exemplar, if there is one.
    pub fn read(&self, digest: &[u8; 32]) -> Option<Vec<u8>> {
        self.open().ok()??;
        files::read_own(&self.path(digest), MAX_BYTES as u64).ok()
    }

    /// Whether an exemplar has one.
    pub fn has(&self, digest: &[u8; 32]) -> bool {
        let entry = self.open().ok().flatten().and_then(|folder| folder.entry(&name(digest)).ok()?);
        matches!(entry, Some(FolderEntry::File(_)))
    }

    /// The exemplars that have one: one look into the folder, however many there are.
    pub fn all(&self) -> BTreeSet<[u8; 32]> {
        let names = self.open().ok().flatten().and_then(|folder| folder.names().ok());
        names.unwrap_or_default().iter().filter_map(|name| digest_of(name)).collect()
    }

    /// Removes those of exemplars that neither a state nor its history has, and what killed processes left. When this
    /// returns, no power cut brings them back.
    ///
    /// # Errors
    /// [`StoreError::Uncertain`] if one cannot be removed for good, [`StoreError::LinkNotFollowed`] if a link lies in
    /// the place of the folder.
    pub fn prune(&self, saved: &SavedState) -> Result<(), StoreError> {
        self.remove_strays(saved, files::is_temporary)
    }

    /// As [`Thumbnails::prune`], but leaves unfinished files: another process may be writing them.
    pub(crate) fn sweep(&self, saved: &SavedState) -> Result<(), StoreError> {
        self.remove_strays(saved, |_| false)
    }

    fn remove_strays(&self, saved: &SavedState, is_leftover: impl Fn(&str) -> bool) -> Result<(), StoreError> {
        let failed = |source| StoreError::Uncertain { path: self.folder.clone(), source };
        let folder = match self.open() {
            // Something of somebody else's, in which nothing of ours can be.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(()),
            // What is behind a link may be ours or not.
            Err(_) if self.folder.is_symlink() => {
                return Err(StoreError::LinkNotFollowed { path: self.folder.clone() });
            }
            opened => opened.map_err(failed)?,
        };
        let Some(folder) = folder else { return Ok(()) };
        let names = folder.names().map_err(failed)?;
        if names.is_empty() {
            return Ok(());
        }
        let kept = saved.exemplar_digests();
        let mut pruned = false;
        for name in names {
            let is_stray = digest_of(&name).is_some_and(|digest| !kept.contains(&digest)) || is_leftover(&name);
            if is_stray {
                // Another process may have done so, or have given its new file the name that it was made for.
                files::if_there(folder.remove(&name, MAX_BYTES as u64)).map_err(failed)?;
                pruned = true;
            }
        }
        if pruned { folder.sync().map_err(failed) } else { Ok(()) }
    }

    fn open(&self) -> io::Result<Option<OpenFolder>> {
        OpenFolder::open(&self.folder, SymlinkPolicy::Refuse)
    }

    fn path(&self, digest: &[u8; 32]) -> PathBuf {
        self.folder.join(name(digest))
    }
}

fn name(digest: &[u8; 32]) -> String {
    hexadecimal(digest) + ENDING
}

/// The exemplar whose thumbnail has that name, if it is one's.
fn digest_of(name: &str) -> Option<[u8; 32]> {
    from_hexadecimal(name.strip_suffix(ENDING)?)
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use tempfile::tempdir;

    use super::*;
    use crate::bundle::Bundle;

    fn nothing_known() -> SavedState {
        let bundle = Bundle::open("../models/cifar100-edge").unwrap();
        SavedState::fresh(&bundle.base_model, bundle.digest)
    }

    /// Puts a thumbnail of no exemplar, a cut-off write, and things of others into a folder; returns the latter's
    /// paths.
    fn fill(folder: &Path) -> Vec<PathBuf> {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join(name(&[7; 32])), b"ours").unwrap();
        fs::write(folder.join(".orco-0123456789abcdef"), b"ours, cut off").unwrap();
        let foreign = |name: &str| folder.join(name);
        // A photograph that its owner names by a digest is larger than any thumbnail.
        let photograph = foreign(&name(&[8; 32]));
        fs::write(&photograph, vec![1; MAX_BYTES + 1]).unwrap();
        let link = foreign(&name(&[9; 32]));
        symlink(&photograph, &link).unwrap();
        let pipe = foreign(&name(&[10; 32]));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let below = foreign(&name(&[11; 32]));
        fs::create_dir(&below).unwrap();
        let uppercase = foreign(&name(&[0xab; 32]).to_uppercase());
        let named = [foreign("holiday.jpg"), foreign(".orco-note"), foreign("readme"), uppercase];
        named.iter().for_each(|path| fs::write(path, b"theirs").unwrap());
        [photograph, link, pipe, below].into_iter().chain(named).collect()
    }

    #[test]
    fn only_thumbnails_are_removed() {
        let folder = tempdir().unwrap();
        let within = folder.path().join(FOLDER);
        let foreign = fill(&within);
        let thumbnails = Thumbnails::of(&Store::new(folder.path()));
        assert!(thumbnails.has(&[7; 32]) && !thumbnails.has(&[9; 32]));
        thumbnails.prune(&nothing_known()).unwrap();
        let mut left: Vec<PathBuf> = fs::read_dir(&within).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        let mut expected = foreign;
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_is_not_followed() {
        let folder = tempdir().unwrap();
        let photographs = folder.path().join("photographs");
        fill(&photographs);
        let before = fs::read_dir(&photographs).unwrap().count();
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        symlink(&photographs, state.join(FOLDER)).unwrap();
        let thumbnails = Thumbnails::of(&Store::new(&state));
        let known = nothing_known();
        let refused = thumbnails.prune(&known).unwrap_err();
        assert!(matches!(refused, StoreError::LinkNotFollowed { .. }), "{refused}");
        let bank = &known.state.exemplars;
        let features = ndarray::Array2::zeros((bank.views(), bank.inputs()));
        let refused = thumbnails.keep(bank, features.view(), b"small").unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        assert!(thumbnails.all().is_empty() && thumbnails.read(&[7; 32]).is_none() && !thumbnails.has(&[7; 32]));
        assert_eq!(fs::read_dir(&photographs).unwrap().count(), before);
        // Nor is a file in that place anything of ours.
        fs::remove_file(state.join(FOLDER)).unwrap();
        fs::write(state.join(FOLDER), b"theirs").unwrap();
        thumbnails.prune(&known).unwrap();
    }
}
