//! Whether a folder can be written, and its disk answers.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[cfg(unix)]
use orco_runtime::files;
use orco_runtime::threads::lock;

/// How long the result of a check of a disk is reused. Checks write nothing.
const RESULT_LIFETIME: Duration = Duration::from_secs(2);

/// What checks of a disk found. A result is reused for a few seconds, and only one caller checks at a time: meanwhile
/// the others get the last result at once, so a disk that hangs does not hold them up. A hub's probes use it, too.
#[derive(Debug)]
pub struct DiskCheck {
    timeout: Duration,
    last: Mutex<LastDiskCheck>,
    /// The problem that the log names last.
    logged: Mutex<Option<String>>,
}

#[derive(Debug, Default)]
struct LastDiskCheck {
    /// When it ended.
    ended: Option<Instant>,
    /// When the check that is under way began.
    begun: Option<Instant>,
    /// Why the disk could not be used when it ended.
    problem: Option<String>,
}

impl DiskCheck {
    /// Nothing was checked yet. If a check takes longer than `timeout`, the disk hangs.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, last: Mutex::default(), logged: Mutex::default() }
    }

    /// Begins a check if the last one is old and none is under way. If this is true, the caller must
    /// [run](DiskCheck::run) it.
    #[must_use]
    pub fn begin(&self) -> bool {
        let mut last = lock(&self.last);
        let is_due = last.begun.is_none() && last.ended.is_none_or(|at| at.elapsed() >= RESULT_LIFETIME);
        if is_due {
            last.begun = Some(Instant::now());
        }
        is_due
    }

    /// Runs the check that the caller has [begun](DiskCheck::begin): `check` says why the disk cannot be used, if it
    /// cannot. The check ends where it panics, too.
    pub fn run(&self, check: impl FnOnce() -> Option<String>) {
        /// Ends the check with this problem, or none, when it is dropped.
        struct RunningCheck<'a> {
            disk: &'a DiskCheck,
            problem: Option<String>,
        }

        impl Drop for RunningCheck<'_> {
            fn drop(&mut self) {
                self.disk.end(self.problem.take());
            }
        }

        let mut running = RunningCheck {
            disk: self,
            problem: Some("the check of the disk failed: a fault in the program".to_owned()),
        };
        running.problem = check();
    }

    /// Ends a check that found this problem, or none.
    pub(crate) fn end(&self, problem: Option<String>) {
        *lock(&self.last) = LastDiskCheck { ended: Some(Instant::now()), begun: None, problem };
    }

    /// Whether the check that is under way takes too long.
    pub fn hangs(&self) -> bool {
        lock(&self.last).begun.is_some_and(|begun| begun.elapsed() >= self.timeout)
    }

    /// Why the disk of a folder cannot be used, by the last result. Does not ask the disk.
    pub fn problem(&self, folder: &Path) -> Option<String> {
        if self.hangs() {
            return Some(format!("the disk of {} does not answer", folder.display()));
        }
        lock(&self.last).problem.clone()
    }

    /// As [`Self::problem`]. Logs a problem once, and its end in the words of `is_over`: whoever asks may not be told
    /// the reason.
    pub fn logged_problem(&self, folder: &Path, is_over: &str) -> Option<String> {
        let (problem, is_new) = {
            let mut logged = lock(&self.logged);
            let problem = self.problem(folder);
            let is_new = *logged != problem;
            (*logged).clone_from(&problem);
            (problem, is_new)
        };
        // Without the lock: the log may lie on the disk that hangs.
        match &problem {
            _ if !is_new => {}
            Some(problem) => log::error!("{problem}"),
            None => log::warn!("{is_over}"),
        }
        problem
    }
}

/// Why nothing can be written into a folder, or where it would be made.
#[cfg(unix)]
pub fn unwritable(folder: &Path) -> Option<String> {
    use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
    let shown = folder.display();
    let there = files::path_and_parents(folder).find(|place| place.exists())?;
    let facts = statvfs(there).ok();
    if facts.as_ref().is_some_and(|facts| facts.f_flag.contains(StatVfsMountFlags::RDONLY)) {
        return Some(format!("{shown} is on a disk that is read-only"));
    }
    if facts.as_ref().is_some_and(|facts| facts.f_blocks > 0 && facts.f_bavail == 0) {
        return Some(format!("the disk of {shown} is full"));
    }
    // File systems without a number of files to come give 0 for both.
    if facts.is_some_and(|facts| facts.f_files > 0 && facts.f_favail == 0) {
        return Some(format!("the disk of {shown} takes no more files"));
    }
    let error = access(there, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!("{shown} cannot be written: {error}"))
}

/// Why nothing can be written into a folder. Other systems than Unix are not asked.
#[cfg(not(unix))]
pub fn unwritable(_: &Path) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_checks_a_disk_and_the_others_hear_what_was_found() {
        let (disk, folder) = (DiskCheck::new(Duration::MAX), Path::new("state"));
        assert!(disk.begin() && !disk.begin(), "another one checks it");
        assert_eq!(disk.problem(folder), None);
        disk.end(Some("full".into()));
        assert!(!disk.begin() && !disk.hangs(), "it was checked a moment ago");
        assert_eq!(disk.problem(folder).as_deref(), Some("full"));
    }

    #[test]
    fn a_check_that_panics_ends_with_a_problem() {
        let disk = DiskCheck::new(Duration::MAX);
        assert!(disk.begin());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disk.run(|| panic!("a fault"))));
        assert!(panicked.is_err() && lock(&disk.last).begun.is_none());
        assert_eq!(
            disk.problem(Path::new("state")).as_deref(),
            Some("the check of the disk failed: a fault in the program")
        );
    }

    #[test]
    fn a_disk_whose_check_does_not_end_hangs() {
        let (disk, folder) = (DiskCheck::new(Duration::ZERO), Path::new("state"));
        assert!(!disk.hangs() && disk.begin() && disk.hangs());
        assert_eq!(disk.problem(folder).as_deref(), Some("the disk of state does not answer"));
        disk.end(None);
        assert!(!disk.hangs() && disk.problem(folder).is_none());
    }
}
