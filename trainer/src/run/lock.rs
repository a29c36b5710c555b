//! One process at a time in a run's folder.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};
use orco_runtime::files::lock::{self, LockError};

/// Holds a run's folder until it is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(super) struct RunLock(#[expect(dead_code, reason = "its being there is the lock")] Option<lock::Lock>);

impl RunLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// If another process holds it, the file cannot be made, or something else lies in its place.
    pub fn take(folder: &Path) -> Result<Self> {
        let path = folder.join("lock");
        match lock::Lock::take(&path, Duration::ZERO) {
            Ok(lock) => Ok(Self(Some(lock))),
            Err(LockError::Held) => bail!(
                "another orco-train works on this run, {}; wait for it, or choose another folder with --run",
                folder.display()
            ),
            // Some network file systems have no locks; a run there is no worse off than before.
            Err(LockError::Unsupported(error)) => {
                log::warn!("cannot lock {}: {error}", path.display());
                Ok(Self(None))
            }
            Err(error) => Err(refused(&path, &error)),
        }
    }
}

/// Says why the lock could not be taken, and what to do.
fn refused(path: &Path, error: &LockError) -> Error {
    let advice = match error {
        // Nothing is in the way there.
        LockError::Open(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            "a run is written to; copy the folder to where you may write, and name the copy with --run"
        }
        _ => "remove that file if it is in the way",
    };
    anyhow!("cannot lock the run with {}: {error}; {advice}", path.display())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{fs, io};

    use super::{LockError, RunLock, refused};

    #[test]
    fn on_a_read_only_file_system_nothing_is_to_be_removed() {
        let error = LockError::Open(io::ErrorKind::ReadOnlyFilesystem.into());
        let said = refused(Path::new("run/lock"), &error).to_string();
        assert!(said.contains("copy the folder") && said.contains("--run") && !said.contains("remove"), "{said}");
        let other = refused(Path::new("run/lock"), &LockError::Open(io::ErrorKind::IsADirectory.into())).to_string();
        assert!(other.contains("remove that file"), "{other}");
    }

    #[test]
    #[cfg(unix)]
    fn a_link_in_the_place_of_the_lock_is_refused_and_what_it_leads_to_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, b"precious").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("lock")).unwrap();
        let refused = RunLock::take(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("it is a symbolic link") && refused.contains("remove that file"), "{refused}");
        assert_eq!(fs::read(&other).unwrap(), b"precious");
        fs::remove_file(folder.path().join("lock")).unwrap();
        let _first = RunLock::take(folder.path()).unwrap();
        assert!(RunLock::take(folder.path()).unwrap_err().to_string().contains("another orco-train works on this run"));
    }
}
