//! A lock between processes: a file that is never written, of which one process at a time holds the lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(unix)]
use super::identity;
use super::{SymlinkPolicy, check_regular_or_absent, folder_of, open, private_options, probe_other_owner};
use crate::threads::Process;

/// Time between two attempts while another process holds the lock.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a lock file may vanish between being opened and being locked before it counts as held.
const ATTEMPTS: u32 = 20;

/// Holds the lock until it is dropped, or the process ends in whatever way. The file stays: removing it could take it
/// from the next who waits.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    held: HeldFile,
}

/// A file that this process has locked. The lock ends when this goes: closing the file would not end it as long as a
/// process that was forked meanwhile has it open, too.
#[derive(Debug)]
pub struct HeldFile {
    file: File,
    process: Process,
}

impl HeldFile {
    /// Locks a folder; waits up to `wait` for another process. Nothing where it cannot be opened, or the system has no
    /// locks for folders.
    ///
    /// # Errors
    /// [`LockError::Held`] if another process holds it for longer than `wait`.
    pub fn folder(folder: &Path, wait: Duration) -> Result<Option<Self>, LockError> {
        let Ok(file) = File::open(folder) else { return Ok(None) };
        let held = keep_trying(wait, || match file.try_lock() {
            Ok(()) => Ok(Some(())),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        });
        match held {
            Ok(Some(())) => Ok(Some(Self::new(file))),
            Ok(None) => Err(LockError::Held),
            Err(_) => Ok(None),
        }
    }

    /// A file that was locked just now.
    fn new(file: File) -> Self {
        Self { file, process: Process::this() }
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        // A forked process leaves the lock to the process that took it.
        if self.process.is_this() {
            // Closing it is left then.
            let _ = self.file.unlock();
        }
    }
}

/// Why the lock could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process holds it.
    #[error("another process holds the lock")]
    Held,
    /// The file belongs to another user.
    #[error("it belongs to user {owner}, not to user {user}, who runs this")]
    OtherOwner {
        /// Number of the user whom it belongs to.
        owner: u32,
        /// Number of the user whom new files in its folder belong to.
        user: u32,
    },
    /// The file cannot be opened, or something else lies in its place.
    #[error(transparent)]
    Open(io::Error),
    /// The file system has no locks.
    #[error("the file system gives no lock: {0}")]
    Unsupported(io::Error),
}

impl Lock {
    /// Takes the lock of a file; waits for another process that holds it, at most `wait`. A missing file is made,
    /// readable by its owner alone. No link is followed, and nothing in the file is changed.
    ///
    /// # Errors
    /// [`LockError`] if another process holds it for all of `wait`, or the file cannot be locked.
    pub fn take(path: &Path, wait: Duration) -> Result<Self, LockError> {
        Self::take_with(path, wait, || {
            let mut options = private_options();
            open(options.read(true).write(true).create(true).truncate(false), path, SymlinkPolicy::Refuse)
        })
        .inspect(Self::close_to_others)
    }

    /// As [`Lock::take`], for a file that must be there.
    ///
    /// # Errors
    /// As for [`Lock::take`], and if there is no such file.
    pub fn take_existing(path: &Path, wait: Duration) -> Result<Self, LockError> {
        // To be written, though it is not: NFS gives an exclusive lock on no other file.
        let open = || open(OpenOptions::new().read(true).write(true), path, SymlinkPolicy::Refuse);
        Self::take_with(path, wait, open)
    }

    fn take_with(path: &Path, wait: Duration, open: impl Fn() -> io::Result<File>) -> Result<Self, LockError> {
        let mut vanished = 0;
        let lock = keep_trying(wait, || {
            loop {
                check_regular_or_absent(path).map_err(LockError::Open)?;
                let file = open().map_err(LockError::Open)?;
                check_owner(&file, path)?;
                match file.try_lock() {
                    Ok(()) => {
                        let lock = Self { path: path.into(), held: HeldFile::new(file) };
                        // Whoever removed the file meanwhile, the next process makes another one and locks that.
                        if lock.is_in_place() {
                            return Ok(Some(lock));
                        }
                        if vanished == ATTEMPTS {
                            return Ok(None);
                        }
                        vanished += 1;
                    }
                    Err(TryLockError::WouldBlock) => return Ok(None),
                    Err(TryLockError::Error(error)) => return Err(LockError::Unsupported(error)),
                }
            }
        })?;
        lock.ok_or(LockError::Held)
    }

    /// Whether the file that is locked is still the one at its path: not removed, nor replaced.
    pub fn is_in_place(&self) -> bool {
        #[cfg(unix)]
        {
            let [there, held] = [fs::symlink_metadata(&self.path), self.held.file.metadata()];
            matches!((there, held), (Ok(there), Ok(held)) if identity(&there) == identity(&held))
        }
        #[cfg(not(unix))]
        self.path.exists()
    }

    /// Takes from others what an older release's file lets them do: to hold the lock.
    fn close_to_others(&self) {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            if let Ok(mode) = self.held.file.metadata().map(|facts| facts.permissions().mode())
                && mode & 0o077 != 0
            {
                // A file system without permissions keeps them as they are.
                let _ = self.held.file.set_permissions(fs::Permissions::from_mode(mode & 0o700));
            }
        }
    }
}

/// Refuses a file of another user.
fn check_owner(file: &File, path: &Path) -> Result<(), LockError> {
    let facts = file.metadata().map_err(LockError::Open)?;
    match probe_other_owner(&facts, folder_of(path)).map_err(LockError::Open)? {
        Some([owner, user]) => Err(LockError::OtherOwner { owner, user }),
        None => Ok(()),
    }
}

/// Repeats an attempt until it gives something, or `wait` has passed.
///
/// # Errors
/// Those of the attempt, which ends then.
pub(crate) fn keep_trying<T, E>(
    wait: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let started = Instant::now();
    loop {
        if let Some(found) = attempt()? {
            return Ok(Some(found));
        }
        let left = wait.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        thread::sleep(left.min(PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(path: &Path) -> Result<Lock, LockError> {
        Lock::take(path, Duration::ZERO)
    }

    #[test]
    fn one_at_a_time_and_who_waits_gets_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = take(&path).unwrap();
        assert!(matches!(take(&path), Err(LockError::Held)));
        assert!(matches!(Lock::take(&path, 3 * PAUSE), Err(LockError::Held)));
        let waits = thread::spawn({
            let path = path.clone();
            move || Lock::take(&path, Duration::from_secs(600)).map(|_| ())
        });
        thread::sleep(3 * PAUSE);
        assert!(!waits.is_finished());
        drop(first);
        waits.join().unwrap().unwrap();
        take(&path).unwrap();
        assert!(matches!(Lock::take_existing(&folder.path().join("none"), Duration::ZERO), Err(LockError::Open(_))));
    }

    #[test]
    #[cfg(unix)]
    fn a_lock_ends_though_a_forked_process_has_its_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = take(&path).unwrap();
        // The same opening of the file once more, as a forked process has it.
        let [idle, ending] = [(); 2].map(|()| first.held.file.try_clone().unwrap());
        drop(HeldFile { file: ending, process: Process(std::process::id() + 1) });
        assert!(matches!(take(&path), Err(LockError::Held)), "the other process ended it");
        drop(first);
        take(&path).unwrap();
        drop(idle);
    }

    #[test]
    #[cfg(unix)]
    fn a_file_is_locked_by_a_handle_that_could_write_as_nfs_asks() {
        use rustix::fs::{OFlags, fcntl_getfl};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let could_write = |lock: Lock| fcntl_getfl(&lock.held.file).unwrap().contains(OFlags::RDWR);
        assert!(could_write(take(&path).unwrap()));
        assert!(could_write(Lock::take_existing(&path, Duration::ZERO).unwrap()));
    }

    #[test]
    fn a_lock_whose_file_was_removed_is_not_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = take(&path).unwrap();
        assert!(first.is_in_place());
        fs::remove_file(&path).unwrap();
        assert!(!first.is_in_place());
        let second = take(&path).unwrap();
        assert!(!first.is_in_place() && second.is_in_place());
    }

    #[test]
    #[cfg(unix)]
    fn nothing_is_followed_emptied_waited_for_or_left_open_to_others() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let other = folder.path().join("other");
        fs::write(&other, b"precious").unwrap();
        symlink(&other, &path).unwrap();
        let refused = take(&path).unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
        fs::remove_file(&path).unwrap();
        symlink(folder.path().join("nothing"), &path).unwrap();
        assert!(matches!(take(&path), Err(LockError::Open(_))));
        assert!(!folder.path().join("nothing").exists(), "a link was followed");
        fs::remove_file(&path).unwrap();
        // A second name of the same file cannot be told from the first; nothing is written.
        fs::hard_link(&other, &path).unwrap();
        take(&path).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"precious");
        fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let refused = take(&path).unwrap_err().to_string();
        assert!(refused.contains("not a regular file"), "{refused}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(take(&path).unwrap_err().to_string().contains("folder"));
        fs::remove_dir(&path).unwrap();
        // An older release's, which any user could hold.
        fs::write(&path, b"").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        take(&path).unwrap();
        let made = folder.path().join("made");
        take(&made).unwrap();
        for path in [&path, &made] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_file_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, b"").unwrap();
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
            return orco_trials::skipped("locks of another user (giving a file away needs root)");
        }
        assert!(matches!(take(&path), Err(LockError::OtherOwner { owner: 12_345, .. })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "something was left behind");
    }
}
