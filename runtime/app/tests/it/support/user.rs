//! A user for whom permissions count.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Who is nobody in particular.
pub const NOBODY: u32 = 65_534;

/// The program, run by nobody where the tests are root's, else by their own user.
pub struct User {
    /// What is in it can be read by all.
    pub folder: TempDir,
    pub bundle: PathBuf,
    program: PathBuf,
    pub is_root: bool,
}

impl User {
    /// With a bundle that is made in the folder.
    pub fn new(bundle: impl FnOnce(&Path) -> PathBuf) -> Self {
        let folder = TempDir::new().unwrap();
        let bundle = bundle(folder.path());
        let program = folder.path().join("orco");
        fs::copy(env!("CARGO_BIN_EXE_orco"), &program).unwrap();
        let is_root = fs::metadata(folder.path()).unwrap().uid() == 0;
        open_to_all(folder.path());
        Self { folder, bundle, program, is_root }
    }

    /// The user's number.
    pub fn id(&self) -> u32 {
        if self.is_root { NOBODY } else { fs::metadata(self.folder.path()).unwrap().uid() }
    }

    /// The program, started by the user.
    pub fn command(&self, state: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--bundle").arg(&self.bundle).arg("--state").arg(state);
        if self.is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Gives the user a folder and its files.
    pub fn give(&self, folder: &Path) {
        if self.is_root {
            chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
            for entry in fs::read_dir(folder).unwrap() {
                chown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
    }
}

/// Lets every user read what is below a folder, whatever the mask of the tests.
pub fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            open_to_all(&entry);
        } else {
            let mode = fs::metadata(&entry).unwrap().permissions().mode();
            fs::set_permissions(&entry, Permissions::from_mode(mode | 0o444)).unwrap();
        }
    }
}
