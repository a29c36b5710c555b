//! The thread that changes: a learner with a queue, one change at a time.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use orco_runtime::image_rs::RgbImage;
use orco_runtime::label;
use orco_runtime::learner::{ChangeError, Learner, Made, Shots, Step};
use orco_runtime::ndarray::Array3;
use orco_runtime::state::Balance;
use orco_runtime::thumbnails::Thumbnails;
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::error::{Refusal, ServeError, sentence};
use crate::event::Events;
use crate::metric::{Ended, Metrics};
use crate::report;
use crate::shooting::Shooting;

/// Changes that may wait.
const WAITING: usize = 8;
/// Changes that are remembered after they ended.
const REMEMBERED: usize = 64;

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
        ids: Vec<u64>,
    },
    /// Moves a stored shot to another class.
    Move {
        /// The class that has it.
        from: String,
        /// Its number there, from 1.
        number: usize,
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
    /// Takes the last change back.
    Undo {
        /// The number of its entry; nothing is taken back if the last change is another one by then.
        last: Option<u32>,
    },
    /// Goes back to the class set after an entry of the history.
    UndoTo {
        /// The entry's number.
        entry: u32,
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
            Self::Undo { .. } | Self::UndoTo { .. } => "undo",
            Self::Balance { .. } => "balance",
        }
    }

    /// The class that it is about.
    pub fn label(&self) -> Option<&str> {
        match self {
            Self::Learn { label, .. }
            | Self::Forget { label }
            | Self::Rename { from: label, .. }
            | Self::Move { from: label, .. } => Some(label),
            Self::Undo { .. } | Self::UndoTo { .. } | Self::Balance { .. } => None,
        }
    }
}

/// How far a change has come.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// It waits.
    Queued,
    /// It is being made: share done, 0..1.
    Running(f32),
    /// It was made; what it did, and what is to be said about it.
    Done(Value, Option<String>),
    /// It was refused; nothing was changed.
    Failed(String),
}

/// A change that was asked for, with how far it has come.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// Its verb.
    pub verb: &'static str,
    /// The class that it is about.
    pub label: Option<String>,
    /// How far it has come.
    pub progress: Progress,
}

impl Job {
    /// Whether it was made or refused.
    pub fn has_ended(&self) -> bool {
        matches!(self.progress, Progress::Done(..) | Progress::Failed(_))
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let mut job = json!({ "id": self.id, "verb": self.verb, "label": self.label });
        match &self.progress {
            Progress::Queued => job["state"] = "queued".into(),
            Progress::Running(share) => (job["state"], job["progress"]) = ("running".into(), (*share).into()),
            Progress::Done(report, warning) => {
                job["state"] = "done".into();
                (job["report"], job["warning"]) = (report.clone(), warning.clone().into());
            }
            Progress::Failed(error) => (job["state"], job["error"]) = ("failed".into(), error.clone().into()),
        }
        job
    }
}

#[derive(Default)]
struct Jobs {
    last: u64,
    listed: VecDeque<Job>,
}

/// Asks the thread that changes.
#[derive(Clone)]
pub struct Changes {
    queue: SyncSender<(u64, Change)>,
    shared: Shared,
}

/// What the thread and those who ask it share.
#[derive(Clone)]
struct Shared {
    jobs: Arc<Mutex<Jobs>>,
    events: Events,
    metrics: Metrics,
    stopping: Arc<AtomicBool>,
}

impl Changes {
    /// Starts the thread; `open` makes its learner there. Thumbnails of learned shots are kept where a place for them
    /// is given.
    ///
    /// # Errors
    /// [`ServeError`] if the thread or its learner cannot be started.
    pub(crate) fn start(
        open: impl FnOnce() -> Result<Learner, ServeError> + Send + 'static,
        answers: Answers,
        shooting: Shooting,
        thumbnails: Option<Thumbnails>,
        (events, metrics): (Events, Metrics),
    ) -> Result<(Self, JoinHandle<()>), ServeError> {
        let (queue, receiver) = mpsc::sync_channel(WAITING);
        let shared = Shared { jobs: Arc::default(), events, metrics, stopping: Arc::default() };
        let (started, start) = mpsc::channel();
        let of_thread = shared.clone();
        let thread = move || match open() {
            Ok(learner) => {
                let _ = started.send(Ok(()));
                Thread { learner, answers, shooting, thumbnails, shared: of_thread }.run(&receiver);
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        };
        let thread = thread::Builder::new().name("changes".into()).spawn(thread).map_err(ServeError::Threads)?;
        start.recv().unwrap_or_else(|error| Err(ServeError::Threads(std::io::Error::other(error))))?;
        Ok((Self { queue, shared }, thread))
    }

    /// Queues a change.
    ///
    /// # Errors
    /// [`Refusal`] if too many wait, or the class is about to be changed already.
    pub fn ask(&self, change: Change) -> Result<Job, Refusal> {
        let mut jobs = self.shared.jobs();
        let same = |job: &&Job| !job.has_ended() && change.label().is_some() && job.label.as_deref() == change.label();
        if let Some(job) = jobs.listed.iter().find(same) {
            let label = change.label().unwrap_or_default();
            return Err(Refusal::conflict(format!("\"{label}\" is being changed already, by job {}", job.id)));
        }
        let id = jobs.last + 1;
        let label = change.label().map(str::to_owned);
        let job = Job { id, verb: change.verb(), label, progress: Progress::Queued };
        self.queue.try_send((id, change)).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::busy(format!("{WAITING} changes wait already; try again later")),
            TrySendError::Disconnected(_) => Refusal::stopping(),
        })?;
        jobs.last = id;
        if jobs.listed.len() >= REMEMBERED {
            jobs.listed.pop_front();
        }
        jobs.listed.push_back(job.clone());
        self.shared.metrics.queued.inc();
        self.shared.events.tell("job", &job.json());
        Ok(job)
    }

    /// A change that was asked for, as long as it is remembered.
    pub fn job(&self, id: u64) -> Option<Job> {
        self.shared.jobs().listed.iter().find(|job| job.id == id).cloned()
    }

    /// Changes that wait or are being made.
    pub fn unfinished(&self) -> Vec<Job> {
        self.shared.jobs().listed.iter().filter(|job| !job.has_ended()).cloned().collect()
    }

    /// Cancels the change that is being made, and all that wait.
    pub(crate) fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().expect("nothing panics while it holds the jobs")
    }

    fn set(&self, id: u64, progress: Progress) {
        let mut jobs = self.jobs();
        if let Some(job) = jobs.listed.iter_mut().find(|job| job.id == id) {
            job.progress = progress;
            self.events.tell("job", &job.json());
        }
    }
}

struct Thread {
    learner: Learner,
    answers: Answers,
    shooting: Shooting,
    thumbnails: Option<Thumbnails>,
    shared: Shared,
}

impl Thread {
    fn run(&mut self, queue: &Receiver<(u64, Change)>) {
        for (id, change) in queue {
            self.shared.set(id, Progress::Running(0.0));
            let verb = change.verb();
            let made = self.make(id, change);
            if let (Ok(_), Some(thumbnails)) = (&made, &self.thumbnails)
                && let Err(error) = thumbnails.prune(self.learner.saved())
            {
                log::warn!("thumbnails that nobody needs are left: {}", sentence(&error));
            }
            // Before anybody is told that it is done.
            self.answers.refresh();
            let outcome = if made.is_ok() { "done" } else { "failed" };
            self.shared.metrics.changes.get_or_create(&Ended { verb, outcome }).inc();
            self.shared.metrics.queued.dec();
            match made {
                Ok((report, warning)) => {
                    self.shared.set(id, Progress::Done(report, warning));
                    self.shared.events.tell("changed", &json!({ "job": id }));
                }
                Err(error) => self.shared.set(id, Progress::Failed(sentence(&error))),
            }
        }
    }

    fn make(&mut self, id: u64, change: Change) -> Result<(Value, Option<String>), ChangeError> {
        let shared = self.shared.clone();
        let mut told = 0.0;
        let mut observer = move |step: Step| {
            let share = match step {
                Step::Epoch(progress) => progress.epoch as f32 / progress.epochs.max(1) as f32,
                _ => 0.0,
            };
            // Not every epoch is news.
            if share >= told + 0.02 {
                told = share;
                shared.set(id, Progress::Running(share));
            }
            if shared.stopping.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(ChangeError::Cancelled);
        }
        if self.answers.knowledge().generation > 0 {
            self.learner.expect_state();
        }
        match change {
            Change::Learn { label, shots, pictures, ids } => {
                let view = match &pictures {
                    Some(pictures) => Shots::Taken(shots.view(), pictures),
                    None => Shots::Features(shots.view()),
                };
                let made = if self.learner.classes().any(|class| label::same(&class.label, &label)) {
                    self.learner.add(&label, view, &mut observer)?
                } else {
                    self.answers.imprint(&label, shots.clone());
                    self.learner.learn(&[(&label, view)], &mut observer)?
                };
                self.keep_thumbnails(&label, &ids);
                self.shooting.remove(&label, |id| ids.contains(&id));
                Ok(told_of(made, |report| report::of(&report)))
            }
            Change::Move { from, number, to } => {
                Ok(told_of(self.learner.move_shot(&from, number, &to, &mut observer)?, |report| report::of(&report)))
            }
            Change::Rename { from, to } => Ok(told_of(self.learner.rename(&from, &to)?, |()| Value::Null)),
            Change::Forget { label } => {
                Ok(told_of(self.learner.forget(&label, &mut observer)?, |report| report::of(&report)))
            }
            Change::Undo { last } => {
                let undone = match last {
                    Some(entry) => self.learner.undo_last(entry, &mut observer)?,
                    None => self.learner.undo(1, &mut observer)?,
                };
                Ok(told_of(undone, |undone| report::of(&undone.report)))
            }
            Change::UndoTo { entry } => {
                Ok(told_of(self.learner.undo_to(entry, &mut observer)?, |undone| report::of(&undone.report)))
            }
            Change::Balance { balance } => {
                Ok(told_of(self.learner.balance(balance, &mut observer)?, |report| report::of(&report)))
            }
        }
    }
}

impl Thread {
    /// Keeps the thumbnails of shots that were just learned. The class is as good without.
    fn keep_thumbnails(&self, label: &str, ids: &[u64]) {
        let Some(thumbnails) = &self.thumbnails else { return };
        for shot in self.shooting.of(label).iter().filter(|shot| ids.contains(&shot.id)) {
            let bank = &self.learner.state().exemplars;
            if let Err(error) = thumbnails.keep(bank, shot.features.view(), &shot.thumbnail) {
                log::warn!("a thumbnail of {label} is not kept: {error}");
            }
        }
    }
}

fn told_of<T>(made: Made<T>, report: impl FnOnce(T) -> Value) -> (Value, Option<String>) {
    (report(made.report), made.uncertain.map(|error| sentence(&error)))
}
