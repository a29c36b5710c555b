//! Whether the service can do all that it is for, and why not: threads that are down, a state that cannot be written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use orco_runtime::threads::lock;
use tokio::sync::watch;

use crate::error::ServeError;
use crate::event::{Event, Events};
use crate::refusal::{ErrorCode, Refusal};

/// How long the result of a check of a disk is reused. Checks write nothing.
const RESULT_LIFETIME: Duration = Duration::from_secs(2);
/// If a check of the state's folder takes longer, its disk hangs.
const DISK_TIMEOUT: Duration = Duration::from_secs(10);

/// How the service is.
#[derive(Clone)]
pub struct Health(Arc<SharedHealth>);

struct SharedHealth {
    /// The folder of the state.
    folder: PathBuf,
    events: Events,
    /// Threads that are down, with the reason.
    down: Mutex<BTreeMap<&'static str, String>>,
    /// Why the service ends by itself.
    ending: watch::Sender<Option<Ending>>,
    disk: DiskCheck,
    /// How often threads are to panic at places, in tests.
    #[cfg(test)]
    faults: Mutex<BTreeMap<&'static str, usize>>,
}

/// Why the service ends by itself.
#[derive(Clone)]
enum Ending {
    /// A thread is down for good.
    Broken(String),
    /// A new start would run with the bundle that the state moved to.
    NewBundle,
}

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
    fn end(&self, problem: Option<String>) {
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

    /// As [`Self::problem`]. Logs a problem once, and its end in the words of `is_over`: whoever asks may not be told the
    /// reason.
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

impl Health {
    /// That of a service whose state is in `folder`; nothing is wrong yet.
    pub(crate) fn new(folder: &Path, events: Events) -> Self {
        Self(Arc::new(SharedHealth {
            folder: folder.into(),
            events,
            down: Mutex::default(),
            ending: watch::Sender::new(None),
            disk: DiskCheck::new(DISK_TIMEOUT),
            #[cfg(test)]
            faults: Mutex::default(),
        }))
    }

    /// A thread is down.
    pub(crate) fn down(&self, thread: &'static str, why: String) {
        let why = format!("the thread \"{thread}\" is down: {why}");
        let before = lock(&self.0.down).insert(thread, why.clone());
        if before.as_ref() != Some(&why) {
            log::error!("{why}");
            self.0.events.send(Event::CHANGED);
        }
    }

    /// A thread works, or works again.
    pub(crate) fn up(&self, thread: &'static str) {
        if lock(&self.0.down).remove(thread).is_some() {
            log::warn!("the thread \"{thread}\" works again");
            self.0.events.send(Event::CHANGED);
        }
    }

    /// A thread is down for good: only a new process can help.
    pub(crate) fn give_up(&self, thread: &'static str, why: String) {
        self.down(thread, why.clone());
        let why = format!("the thread \"{thread}\" cannot be kept up: {why}");
        self.0.ending.send_replace(Some(Ending::Broken(why)));
    }

    /// Ends the service: a new start would run with the bundle that the state moved to.
    pub(crate) fn end_for_new_bundle(&self) {
        self.0.ending.send_replace(Some(Ending::NewBundle));
    }

    /// Waits until the service has to end by itself; returns why.
    pub(crate) async fn ended(&self) -> ServeError {
        let mut ending = self.0.ending.subscribe();
        // The sender lives as long as `self`.
        let why = ending.wait_for(Option::is_some).await.map(|why| why.clone());
        match why.ok().flatten() {
            Some(Ending::NewBundle) => ServeError::NewBundle,
            Some(Ending::Broken(why)) => ServeError::Broken(why),
            None => ServeError::Broken(String::new()),
        }
    }

    /// Why a thread is down, if it is.
    pub(crate) fn reason_down(&self, thread: &str) -> Option<String> {
        lock(&self.0.down).get(thread).cloned()
    }

    /// What is wrong, in sentences. Asks the system, which may take a while on a disk that hangs.
    pub fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = lock(&self.0.down).values().cloned().collect();
        problems.extend(self.disk_problem());
        problems
    }

    /// Why nothing can be written, by a check of the disk that is not old.
    fn disk_problem(&self) -> Option<String> {
        let SharedHealth { folder, disk, .. } = &*self.0;
        if disk.begin() {
            disk.run(|| unwritable(folder).map(|why| format!("nothing can be learned: {why}")));
        }
        disk.logged_problem(folder, &format!("{} can be written again", folder.display()))
    }

    /// Refuses while something is wrong; the status says what, to those who may know.
    ///
    /// # Errors
    /// [`Refusal`], 503.
    pub async fn check(&self) -> Result<(), Refusal> {
        let health = self.clone();
        let problems = tokio::task::spawn_blocking(move || health.problems()).await;
        match problems {
            Ok(problems) if problems.is_empty() => Ok(()),
            _ => Err(Refusal::new(ErrorCode::Degraded, "the service is degraded: GET /api/v1/status says why")),
        }
    }

    /// A place where a test can make a thread panic.
    #[cfg_attr(not(test), allow(clippy::unused_self, reason = "there are no faults but in tests"))]
    pub(crate) fn fault_point(&self, place: &'static str) {
        #[cfg(test)]
        {
            let mut faults = lock(&self.0.faults);
            if let Some(left) = faults.get_mut(place).filter(|left| **left > 0) {
                *left -= 1;
                drop(faults);
                panic!("a test made it panic at {place}");
            }
        }
        let _ = place;
    }

    /// How often threads are still to panic at a place.
    #[cfg(test)]
    pub(crate) fn faults_left(&self, place: &'static str) -> usize {
        lock(&self.0.faults).get(place).copied().unwrap_or_default()
    }

    /// Has threads panic at a place, `times` times.
    #[cfg(test)]
    pub(crate) fn break_at(&self, place: &'static str, times: usize) {
        lock(&self.0.faults).insert(place, times);
    }
}

/// Why nothing can be written into a folder, or where it would be made.
#[cfg(unix)]
pub fn unwritable(folder: &Path) -> Option<String> {
    use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
    let shown = folder.display();
    let there = folder.ancestors().find(|place| place.exists()).filter(|place| !place.as_os_str().is_empty());
    let there = there.unwrap_or(Path::new("."));
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
    fn the_log_has_each_change_of_the_disk_once() {
        let health = Health::new(Path::new("state"), Events::default());
        let problem = "nothing can be learned: the disk of state is full";
        assert!(crate::tests::warnings().is_empty());
        for found in [Some(problem), Some(problem), None, None] {
            // A result that is reused: the disk of the test is not asked.
            health.0.disk.end(found.map(str::to_owned));
            assert_eq!(health.problems(), Vec::from_iter(found));
        }
        assert_eq!(crate::tests::warnings(), [problem, "state can be written again"]);
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
