//! The thread that changes: a learner with a queue, one change at a time.

mod job;
mod purge;
mod trace;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use orco_runtime::history::EntryId;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::label;
use orco_runtime::learner::{ChangeError, ChangeOutcome, ChangeStep, Learner, Shots};
use orco_runtime::ndarray::Array3;
use orco_runtime::state::Balance;
use orco_runtime::thumbnails::Thumbnails;
use serde_json::{Value, json};

use self::job::Jobs;
pub use self::job::{Job, Progress, REMEMBERED};
use self::trace::Trace;
use crate::answers::Answers;
use crate::error::{Refusal, ServeError, sentence};
use crate::event::Events;
use crate::health::{self, Health};
use crate::id::Id;
use crate::metric::{Ended, Metrics};
use crate::report;
use crate::shooting::Shooting;
use crate::worker::{self, Worker};

/// Changes that may wait.
const WAITING: usize = 8;

/// A change that is asked for.
#[derive(Clone, Debug)]
pub enum Change {
    /// Learns a class, or gives a known one further shots.
    Learn {
        /// Its label.
        label: String,
        /// `[shots, views, features]`.
        shots: Array3<f32>,
        /// Their pictures, where they are kept.
        pictures: Option<Vec<RgbImage>>,
        /// The shots' numbers; they are let go once they are learned.
        ids: Vec<Id>,
    },
    /// Moves a stored shot to another class.
    Move {
        /// The class that has it.
        from: String,
        /// SHA-256 of its exemplar.
        exemplar: [u8; 32],
        /// The class that gets it.
        to: String,
    },
    /// Gives a learned class another label.
    Rename {
        /// Its label.
        from: String,
        /// The new one.
        to: String,
    },
    /// Forgets a learned class.
    Forget {
        /// Its label.
        label: String,
    },
    /// Forgets a class together with its past, also one that was forgotten before.
    Purge {
        /// Its label.
        label: String,
    },
    /// Takes the last change back.
    Undo {
        /// Its entry; nothing is taken back if the last change is another one by then.
        last: Option<EntryId>,
    },
    /// Goes back to the class set after an entry of the history.
    UndoTo {
        /// The entry.
        entry: EntryId,
    },
    /// Moves the border between base classes and learned ones.
    Balance {
        /// What counts how much.
        balance: Balance,
    },
}

impl Change {
    /// Its verb.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Learn { .. } => "learn",
            Self::Move { .. } => "move",
            Self::Rename { .. } => "rename",
            Self::Forget { .. } => "forget",
            Self::Purge { .. } => "purge",
            Self::Undo { .. } | Self::UndoTo { .. } => "undo",
            Self::Balance { .. } => "balance",
        }
    }

    /// The class that it is about.
    pub fn label(&self) -> Option<&str> {
        match self {
            Self::Learn { label, .. }
            | Self::Forget { label }
            | Self::Purge { label }
            | Self::Rename { from: label, .. }
            | Self::Move { from: label, .. } => Some(label),
            Self::Undo { .. } | Self::UndoTo { .. } | Self::Balance { .. } => None,
        }
    }
}

/// Asks the thread that changes.
#[derive(Clone)]
pub struct Changes {
    queue: SyncSender<(Id, Change)>,
    shared: Shared,
}

/// What the thread and those who ask it share.
#[derive(Clone)]
struct Shared {
    jobs: Arc<Mutex<Jobs>>,
    health: Health,
    events: Events,
    metrics: Metrics,
    stopping: Arc<AtomicBool>,
}

impl Changes {
    /// Starts the thread; `open` makes its learner there, and anew where it broke off. Thumbnails of learned shots are
    /// kept where a place for them is given.
    ///
    /// # Errors
    /// [`ServeError`] if the thread or its learner cannot be started.
    pub(crate) fn start(
        open: impl FnMut() -> Result<Learner, ServeError> + Send + 'static,
        answers: Answers,
        shooting: Shooting,
        thumbnails: Option<Thumbnails>,
        (health, events, metrics): (Health, Events, Metrics),
    ) -> Result<(Self, JoinHandle<()>), ServeError> {
        let (queue, receiver) = mpsc::sync_channel(WAITING);
        let shared = Shared { jobs: Arc::default(), health, events, metrics, stopping: Arc::default() };
        let worker = Changing {
            open: Box::new(open),
            queue: receiver,
            answers,
            shooting,
            thumbnails,
            shared: shared.clone(),
            running: None,
            cannot_begin: false,
        };
        let thread = worker::start(worker, &shared.health)?;
        Ok((Self { queue, shared }, thread))
    }

    /// Queues a change.
    ///
    /// # Errors
    /// [`Refusal`] if too many wait, or the class is about to be changed already.
    pub fn ask(&self, change: Change) -> Result<Job, Refusal> {
        let mut jobs = self.shared.jobs();
        let same = |job: &&Job| change.label().is_some() && job.label.as_deref() == change.label();
        if let Some(job) = jobs.unfinished().find(same) {
            let label = change.label().unwrap_or_default();
            return Err(Refusal::conflict(format!("\"{label}\" is being changed already, by job {}", job.id)));
        }
        let label = change.label().map(str::to_owned);
        let job = Job { id: jobs.ids.give(), verb: change.verb(), label, progress: Progress::Queued };
        self.queue.try_send((job.id, change)).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::busy(format!("{WAITING} changes wait already; try again later")),
            TrySendError::Disconnected(_) => Refusal::stopping(),
        })?;
        jobs.list(job.clone());
        self.shared.metrics.queued.inc();
        self.shared.events.tell("job", &job.json());
        Ok(job)
    }

    /// A change that was asked for: of those that ended, the last [`REMEMBERED`] are there.
    ///
    /// # Errors
    /// [`Refusal`] if it is not remembered.
    pub fn job(&self, id: Id) -> Result<Job, Refusal> {
        let jobs = self.shared.jobs();
        jobs.find(id).cloned().ok_or_else(|| {
            let why = if jobs.ids.gave(id) {
                format!("it ended, and the last {REMEMBERED} that ended are remembered")
            } else {
                "the service was started anew since, or never gave this id".into()
            };
            Refusal::missing(format!("no job {id} is remembered: {why}"))
        })
    }

    /// Changes that wait or are being made.
    pub fn unfinished(&self) -> Vec<Job> {
        self.shared.jobs().unfinished().cloned().collect()
    }

    /// Cancels the change that is being made, and all that wait.
    pub(crate) fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        health::lock(&self.jobs)
    }

    fn set(&self, id: Id, progress: Progress) {
        if let Some(job) = self.jobs().set(id, progress) {
            self.events.tell("job", &job.json());
        }
    }

    /// Says how a change ended.
    fn end(&self, id: Id, verb: &'static str, progress: Progress) {
        let is_done = matches!(progress, Progress::Done(..));
        let outcome = if is_done { "done" } else { "failed" };
        self.metrics.changes.get_or_create(&Ended { verb, outcome }).inc();
        self.metrics.queued.dec();
        self.set(id, progress);
        if is_done {
            self.events.tell("changed", &json!({ "job": id }));
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// What the thread keeps between two lives.
struct Changing {
    open: Box<dyn FnMut() -> Result<Learner, ServeError> + Send>,
    queue: Receiver<(Id, Change)>,
    answers: Answers,
    shooting: Shooting,
    thumbnails: Option<Thumbnails>,
    shared: Shared,
    /// The change that is being made.
    running: Option<Trace>,
    /// The state could not be read when it was to begin.
    cannot_begin: bool,
}

impl Worker for Changing {
    const NAME: &'static str = "changes";

    fn live(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError> {
        self.shared.health.pass("changes: opening");
        self.cannot_begin = true;
        let mut learner = (self.open)()?;
        self.cannot_begin = false;
        up();
        while let Ok((id, change)) = self.queue.recv() {
            self.change(&mut learner, id, change);
        }
        Ok(())
    }

    fn broke_off(&mut self) {
        if let Some(trace) = self.running.take() {
            self.settle(trace);
        }
    }

    fn rest(&mut self, pause: Duration) -> bool {
        if !self.cannot_begin {
            return worker::sleep(pause, || self.shared.is_stopping());
        }
        let end = Instant::now() + pause;
        loop {
            match self.queue.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok((id, change)) => {
                    let why = self.shared.health.problems().into_iter().next().unwrap_or_default();
                    self.shared.end(id, change.verb(), Progress::Failed(format!("{why}; nothing was changed")));
                }
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }
}

impl Drop for Changing {
    /// Nobody makes what still waits.
    fn drop(&mut self) {
        let waiting: Vec<Job> = self.shared.jobs().unfinished().cloned().collect();
        for job in waiting {
            let why = "the service ended before it came to this change; nothing was changed";
            self.shared.end(job.id, job.verb, Progress::Failed(why.into()));
        }
    }
}

impl Changing {
    fn change(&mut self, learner: &mut Learner, id: Id, change: Change) {
        let verb = change.verb();
        self.running = Some(Trace::new(id, &change, learner, &self.answers));
        self.shared.set(id, Progress::Running(0.0));
        let made = self.make(learner, id, change);
        self.shared.health.pass("changes: made");
        if let (Ok(_), Some(thumbnails)) = (&made, &self.thumbnails)
            && let Err(error) = thumbnails.prune(learner.saved())
        {
            log::warn!("thumbnails that nobody needs are left: {}", sentence(&error));
        }
        // Before anybody is told that it is done.
        self.answers.refresh();
        let progress = match made {
            Ok((report, warning)) => Progress::Done(report, warning),
            Err(error) => Progress::Failed(sentence(&error)),
        };
        self.running = None;
        self.shared.end(id, verb, progress);
    }

    fn make(&mut self, learner: &mut Learner, id: Id, change: Change) -> Result<(Value, Option<String>), ChangeError> {
        let shared = self.shared.clone();
        let mut told = 0.0;
        let mut observer = move |step: ChangeStep| {
            let share = match step {
                ChangeStep::Epoch(progress) => progress.epoch as f32 / progress.epochs.max(1) as f32,
                _ => 0.0,
            };
            // Not every epoch is news.
            if share >= told + 0.02 {
                told = share;
                shared.set(id, Progress::Running(share));
            }
            if shared.is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if self.shared.is_stopping() {
            return Err(ChangeError::Cancelled);
        }
        self.shared.health.pass("changes: making");
        if self.answers.knowledge().generation > 0 {
            learner.expect_state();
        }
        match change {
            Change::Learn { label, shots, pictures, ids } => {
                let view = match &pictures {
                    Some(pictures) => Shots::WithFeatures { pictures, features: shots.view() },
                    None => Shots::Features(shots.view()),
                };
                let made = if learner.classes().any(|class| label::same(&class.label, &label)) {
                    learner.add(&label, view, &mut observer)?
                } else {
                    self.answers.imprint(&label, shots.clone());
                    learner.learn_many(&[(&label, view)], &mut observer)?
                };
                self.keep_thumbnails(learner, &label, &ids);
                self.shooting.remove(&label, |id| ids.contains(&id));
                Ok(told_of(made, |report| report::of(&report)))
            }
            Change::Move { from, exemplar, to } => {
                let made = learner.move_exemplar(&from, &exemplar, &to, &mut observer)?;
                Ok(told_of(made, |report| report::of(&report)))
            }
            Change::Rename { from, to } => Ok(told_of(learner.rename(&from, &to)?, |()| Value::Null)),
            Change::Forget { label } => {
                Ok(told_of(learner.forget(&label, &mut observer)?, |report| report::of(&report)))
            }
            Change::Purge { label } => {
                // Before the class's other labels are gone.
                let labels = purge::labels(learner, &label);
                let made = learner.purge(&label, &mut observer)?;
                self.purge(learner, labels);
                Ok(told_of(made, |report| report.map_or(Value::Null, |report| report::of(&report))))
            }
            Change::Undo { last } => {
                let undone = match last {
                    Some(entry) => learner.undo_last(entry, &mut observer)?,
                    None => learner.undo(1, &mut observer)?,
                };
                Ok(told_of(undone, |undone| report::of(&undone.report)))
            }
            Change::UndoTo { entry } => {
                Ok(told_of(learner.undo_to_entry(entry, &mut observer)?, |undone| report::of(&undone.report)))
            }
            Change::Balance { balance } => {
                Ok(told_of(learner.balance(balance, &mut observer)?, |report| report::of(&report)))
            }
        }
    }

    /// Keeps the thumbnails of shots that were just learned. The class is as good without.
    fn keep_thumbnails(&self, learner: &Learner, label: &str, ids: &[Id]) {
        let Some(thumbnails) = &self.thumbnails else { return };
        for shot in self.shooting.of(label).iter().filter(|shot| ids.contains(&shot.id)) {
            let bank = &learner.state().exemplars;
            if let Err(error) = thumbnails.keep(bank, shot.features.view(), &shot.thumbnail) {
                log::warn!("a thumbnail of {label} is not kept: {error}");
            }
        }
    }
}

fn told_of<T>(made: ChangeOutcome<T>, report: impl FnOnce(T) -> Value) -> (Value, Option<String>) {
    (report(made.report), made.uncertain.map(|error| sentence(&error)))
}
