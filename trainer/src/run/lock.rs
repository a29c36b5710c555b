//! One process at a time in a run's folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Holds a run's folder until it is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "its being open is the lock")] File);

impl Lock {
    /// Takes the lock. The file stays when it is given back: removing it could take it from the next who waits.
    ///
    /// # Errors
    /// If another process holds it, or the file cannot be made.
    pub fn take(folder: &Path) -> Result<Self> {
        let path = folder.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "another orco-train works on this run, {}; wait for it, or choose another folder with --run",
                folder.display()
            ),
            // Some network file systems have no locks; a run there is no worse off than before.
            Err(TryLockError::Error(error)) => log::warn!("cannot lock {}: {error}", path.display()),
        }
        Ok(Self(file))
    }
}
