//! A disk that keeps what was synced and does with everything else what it likes, within what POSIX allows.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use orco_core::random::Random;

use crate::power::journal::{Action, Journal, Object, Operation, ROOT};

/// Bytes that a disk writes whole or not at all, at their offsets in a file.
const BLOCK: usize = 4096;

/// How a disk takes requests to sync. An honest one keeps both promises.
#[derive(Clone, Copy, Debug)]
pub struct Medium {
    /// A file's bytes are there once it was synced.
    pub keeps_files: bool,
    /// A folder's names are there once it was synced.
    pub keeps_folders: bool,
}

pub const HONEST: Medium = Medium { keeps_files: true, keeps_folders: true };

/// What became of an operation, or a block of it, that was not synced.
#[derive(Clone, Copy)]
enum Fate {
    Applied,
    Lost,
    /// The file is as long as it would be, but the bytes are not there: file systems that allocate late show zeros.
    Empty,
    Garbage,
}

/// How the fates of one cut are drawn.
struct Fates<'a> {
    random: &'a mut Random,
    /// How probable it is that an operation is applied.
    applied: f32,
    /// How probable it is that a block which is not applied is neither as it was.
    torn: f32,
}

impl<'a> Fates<'a> {
    /// Often all is lost or all is there; between these anything goes.
    fn new(random: &'a mut Random) -> Self {
        let applied = [0.0, 0.5, 1.0, random.unit()][random.below(4)];
        let torn = [0.0, 0.5, 1.0][random.below(3)];
        Self { random, applied, torn }
    }

    fn of_name(&mut self) -> bool {
        self.random.unit() < self.applied
    }

    fn of_block(&mut self) -> Fate {
        if self.random.unit() < self.applied {
            Fate::Applied
        } else if self.random.unit() < self.torn {
            [Fate::Empty, Fate::Garbage][self.random.below(2)]
        } else {
            Fate::Lost
        }
    }
}

/// A folder with all that is in it.
#[derive(Default)]
pub struct Tree {
    folders: HashMap<Object, BTreeMap<OsString, Object>>,
    files: HashMap<Object, Vec<u8>>,
}

/// The folder at a moment of a journal, with all that was done until then.
pub fn complete(journal: &Journal, moment: u64) -> Tree {
    let mut tree = Tree::empty();
    for operation in journal.operations.iter().filter(|operation| operation.begin < moment) {
        tree.apply(&operation.action, None);
    }
    tree
}

impl Medium {
    /// A folder that may be found after the power was cut at a moment of a journal.
    pub fn after_cut(self, journal: &Journal, moment: u64, random: &mut Random) -> Tree {
        let mut tree = Tree::empty();
        let mut fates = Fates::new(random);
        for operation in journal.operations.iter().filter(|operation| operation.begin < moment) {
            let kept = self.keeps(journal, operation, moment);
            tree.apply(&operation.action, if kept { None } else { Some(&mut fates) });
        }
        tree
    }

    /// Whether an operation was synced: by a call that began after it had ended, and returned before the cut.
    fn keeps(self, journal: &Journal, operation: &Operation, moment: u64) -> bool {
        let (of, promised) = match &operation.action {
            Action::Write { file, .. } | Action::Resize { file, .. } => (*file, self.keeps_files),
            Action::Link { at, .. } | Action::Remove { at } | Action::Rename { to: at, .. } => {
                (at.folder, self.keeps_folders)
            }
            Action::Sync { .. } => return true,
        };
        let syncs = |sync: &Operation| {
            let Action::Sync { object } = sync.action else { return false };
            object == of && operation.end < sync.begin && sync.end < moment
        };
        promised && journal.operations.iter().any(syncs)
    }
}

impl Tree {
    fn empty() -> Self {
        let mut tree = Self::default();
        tree.folders.insert(ROOT, BTreeMap::new());
        tree
    }

    /// Applies an action, as far as its fates let it; wholly without these.
    fn apply(&mut self, action: &Action, mut fates: Option<&mut Fates<'_>>) {
        let mut happens = || fates.as_mut().is_none_or(|fates| fates.of_name());
        match action {
            Action::Link { at, object, is_folder } => {
                // A file has its bytes, and a folder its entries, whatever becomes of their names.
                if *is_folder {
                    self.folders.entry(*object).or_default();
                } else {
                    self.files.entry(*object).or_default();
                }
                if happens() {
                    self.folder(at.folder).insert(at.name.clone(), *object);
                }
            }
            Action::Rename { from, to, object } => {
                if happens() {
                    let source = self.folder(from.folder);
                    if source.get(&from.name) == Some(object) {
                        source.remove(&from.name);
                    }
                    self.folder(to.folder).insert(to.name.clone(), *object);
                }
            }
            Action::Remove { at } => {
                if happens() {
                    self.folder(at.folder).remove(&at.name);
                }
            }
            Action::Write { file, offset, bytes } => self.write(*file, *offset as usize, bytes, fates),
            Action::Resize { file, length } => {
                if happens() {
                    self.file(*file).resize(*length as usize, 0);
                }
            }
            Action::Sync { .. } => {}
        }
    }

    fn write(&mut self, file: Object, offset: usize, bytes: &[u8], mut fates: Option<&mut Fates<'_>>) {
        let file = self.file(file);
        let mut done = 0;
        while done < bytes.len() {
            let start = offset + done;
            let length = (BLOCK - start % BLOCK).min(bytes.len() - done);
            let fate = fates.as_mut().map_or(Fate::Applied, |fates| fates.of_block());
            if !matches!(fate, Fate::Lost) && file.len() < start + length {
                file.resize(start + length, 0);
            }
            match (fate, &mut fates) {
                (Fate::Applied, _) => file[start..start + length].copy_from_slice(&bytes[done..done + length]),
                (Fate::Garbage, Some(fates)) => {
                    file[start..start + length].fill_with(|| fates.random.below(256) as u8);
                }
                _ => {}
            }
            done += length;
        }
    }

    fn folder(&mut self, folder: Object) -> &mut BTreeMap<OsString, Object> {
        self.folders.entry(folder).or_default()
    }

    fn file(&mut self, file: Object) -> &mut Vec<u8> {
        self.files.entry(file).or_default()
    }

    /// Puts all of it into an empty folder.
    pub fn lay_down(&self, path: &Path) {
        self.lay_down_folder(ROOT, path);
    }

    fn lay_down_folder(&self, folder: Object, path: &Path) {
        for (name, object) in &self.folders[&folder] {
            let path = path.join(name);
            if self.folders.contains_key(object) {
                let mut builder = fs::DirBuilder::new();
                std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
                builder.create(&path).unwrap();
                self.lay_down_folder(*object, &path);
            } else {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600);
                options.open(&path).unwrap().write_all(&self.files[object]).unwrap();
            }
        }
    }
}
