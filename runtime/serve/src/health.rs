//! Whether the service can do all that it is for, and why not: threads that are down, a state that cannot be written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use orco_runtime::threads::lock;
use tokio::sync::watch;

use crate::disk_check::{DiskCheck, unwritable};
use crate::error::ServeError;
use crate::event::{Event, Events};
use crate::refusal::{ErrorCode, Refusal};

/// If a check of the state's folder takes longer, its disk hangs.
const DISK_TIMEOUT: Duration = Duration::from_secs(10);

/// What is wrong with the service, and whether it has to end.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
