//! A device whose changes take no time, and that can be put back.

use std::path::PathBuf;
use std::process::Command;

use orco_runtime::bundle::Bundle;
use orco_runtime::store::Store;
use orco_state::history::SavedState;
use tempfile::TempDir;

use crate::support::{changed_state, copy_all, fast_bundle, orco};

pub struct Bench {
    pub folder: TempDir,
    pub bundle: Bundle,
    /// The state as it was, of [`changed_state`].
    pub pristine: PathBuf,
    /// A pack of its class.
    pub pack: PathBuf,
    /// The state that is worked on.
    pub state: PathBuf,
}

impl Bench {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let bundle = fast_bundle(folder.path());
        let (pristine, pack) = changed_state(&bundle.folder, folder.path());
        let state = folder.path().canonicalize().unwrap().join("state");
        Self { folder, bundle, pristine, pack, state }
    }

    /// Puts the state back as it was.
    pub fn reset(&self) -> SavedState {
        copy_all(&self.pristine, &self.state);
        self.saved()
    }

    /// What is saved.
    pub fn saved(&self) -> SavedState {
        self.saved_on(&self.bundle).expect("there is a state of the bundle")
    }

    /// What is saved, if it is of that bundle.
    pub fn saved_on(&self, bundle: &Bundle) -> Option<SavedState> {
        Store::new(&self.state).load(bundle).ok().map(|reading| reading.saved)
    }

    /// The program on the state, with the engine that needs no other file.
    pub fn command(&self, arguments: &[String]) -> Command {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = orco(&self.bundle.folder, &self.state, &arguments);
        command.env("ORT_DYLIB_PATH", "/nowhere").env("RUST_LOG", "error");
        command
    }
}
