//! The thread that changes: a learner with a queue, one change at a time. While nothing waits, it aligns the head to
//! the last change.

mod background_alignment;
mod purge;
mod recovery;
mod reported_change;
mod request;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use orco_runtime::learner::{ChangeError, ChangeOutcome, ChangeStep, Learner, Observer, PackClass, Shots};
use orco_runtime::state::sentence::with_causes;
use orco_runtime::state::session::ChangeReport;
use orco_runtime::threads::lock;
use orco_runtime::thumbnails::Thumbnails;
use serde_json::Value;

use self::background_alignment::FailedAlignment;
pub use self::purge::{PurgeHook, labels_of_no_class, purged_labels};
use self::recovery::RunningChange;
use self::reported_change::{ReportedChange, joined_warnings};
pub use self::request::{BaseClassChoice, ChangeRequest, LabelledShots};
use crate::answers::Answers;
use crate::change_json;
use crate::error::ServeError;
use crate::event::Event;
use crate::id::Id;
use crate::job::{Job, JobProgress, Jobs, MAX_ENDED_JOBS};
use crate::metric::ChangeMetric;
use crate::pending_shots::PendingShots;
use crate::refusal::{ErrorCode, Refusal};
use crate::sightings::Sightings;
use crate::telemetry::Telemetry;
use crate::turns::TurnQueue;
use crate::worker::{self, Worker};

/// Most changes that may wait.
const MAX_WAITING: usize = 8;

/// What is kept of classes beside the state: it follows every change.
pub(crate) struct ClassRecords {
    /// Shots that were not learned yet.
    pub pending_shots: PendingShots,
    /// Small pictures of learned shots, where they are kept.
    pub thumbnails: Option<Thumbnails>,
    /// What the camera saw.
    pub sightings: Sightings,
    /// Removes a purged class from records that this crate does not know.
    pub purge_hook: PurgeHook,
}

/// Asks the thread that changes.
#[derive(Clone)]
pub struct Changes {
    queue: SyncSender<(Id, ChangeRequest)>,
    shared: SharedJobs,
}

/// What the thread and those who ask it share.
#[derive(Clone)]
struct SharedJobs {
    jobs: Arc<Mutex<Jobs>>,
    telemetry: Telemetry,
    stopping: Arc<AtomicBool>,
}

impl Changes {
    /// Starts the thread; `open` makes its learner there, and again after a panic.
    ///
    /// # Errors
    /// [`ServeError`] if the thread or its learner cannot be started.
    pub(crate) fn start(
        open: impl FnMut() -> Result<Learner, ServeError> + Send + 'static,
        answers: Answers,
        records: ClassRecords,
        telemetry: Telemetry,
        turns: TurnQueue,
    ) -> Result<(Self, JoinHandle<()>), ServeError> {
        let (queue, receiver) = mpsc::sync_channel(MAX_WAITING);
        let shared = SharedJobs { jobs: Arc::default(), telemetry, stopping: Arc::default() };
        let worker = ChangeWorker {
            open: Box::new(open),
            queue: receiver,
            answers,
            records,
            shared: shared.clone(),
            turns,
            running: None,
            is_unopened: false,
            failed_alignment: None,
        };
        let thread = worker::start(worker, &shared.telemetry.health)?;
        Ok((Self { queue, shared }, thread))
    }

    /// Queues a change.
    ///
    /// # Errors
    /// [`Refusal`] if too many wait, the class is about to be changed already, or the thread has ended.
    pub fn request(&self, change: ChangeRequest) -> Result<Job, Refusal> {
        let mut jobs = self.shared.jobs();
        if jobs.are_closed {
            return Err(Refusal::stopping());
        }
        if let Some(label) = change.label() {
            check_idle(&jobs, label)?;
        }
        let [label, to_label] = [change.label(), change.to_label()].map(|label| label.map(str::to_owned));
        let job = Job { id: jobs.ids.next_id(), change: change.name(), label, to_label, progress: JobProgress::Queued };
        self.queue.try_send((job.id, change)).map_err(|error| match error {
            TrySendError::Full(_) => {
                let sentence = format!("{MAX_WAITING} changes wait already; try again later");
                Refusal::new(ErrorCode::TooManyChanges, sentence).with("limit", MAX_WAITING)
            }
            TrySendError::Disconnected(_) => Refusal::stopping(),
        })?;
        jobs.push(job.clone());
        self.shared.telemetry.metrics.queued.inc();
        self.shared.telemetry.events.send(Event::Job(job.clone()));
        Ok(job)
    }

    /// A change that was asked for. Of ended changes, the last [`MAX_ENDED_JOBS`] are remembered.
    ///
    /// # Errors
    /// [`Refusal`] if it is not remembered.
    pub fn job(&self, id: Id) -> Result<Job, Refusal> {
        let jobs = self.shared.jobs();
        jobs.find(id).cloned().ok_or_else(|| {
            let why = if jobs.ids.issued(id) {
                format!("it ended, and the last {MAX_ENDED_JOBS} that ended are remembered")
            } else {
                "the service has restarted since, or never issued this id".into()
            };
            Refusal::new(ErrorCode::UnknownJob, format!("no job {id}: {why}")).with("job", id.to_string())
        })
    }

    /// Refuses what would take shots from a change that is under way.
    ///
    /// # Errors
    /// [`Refusal`] if the class of that label is about to be changed.
    pub fn check_idle(&self, label: &str) -> Result<(), Refusal> {
        check_idle(&self.shared.jobs(), label)
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

fn check_idle(jobs: &Jobs, label: &str) -> Result<(), Refusal> {
    match jobs.unfinished().find(|job| job.label.as_deref() == Some(label)) {
        None => Ok(()),
        Some(job) => {
            let sentence = format!("\"{label}\" is being changed already, by job {}", job.id);
            Err(Refusal::new(ErrorCode::ClassBusy, sentence).with("label", label).with("job", job.id.to_string()))
        }
    }
}

impl SharedJobs {
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        lock(&self.jobs)
    }

    fn set(&self, id: Id, progress: JobProgress) {
        if let Some(job) = self.jobs().set_progress(id, progress) {
            self.telemetry.events.send(Event::Job(job.clone()));
        }
    }

    /// Says how a change ended.
    fn end(&self, id: Id, change: &'static str, progress: JobProgress) {
        let is_done = matches!(progress, JobProgress::Done { .. });
        let outcome = if is_done { "done" } else { "failed" };
        self.telemetry.metrics.changes.get_or_create(&ChangeMetric { change, outcome }).inc();
        self.telemetry.metrics.queued.dec();
        // Whoever asked for it may be gone, and a disk with a little room left counts as no problem. An internal error
        // was logged where it was met.
        if let JobProgress::Failed(refusal) | JobProgress::Lost(refusal) = &progress
            && refusal.status() == 500
            && refusal.code != ErrorCode::Internal
        {
            log::warn!("the change \"{change}\" failed: {}", refusal.sentence);
        }
        self.set(id, progress);
        if is_done {
            self.telemetry.events.send(Event::Changed { job: Some(id) });
        }
    }

    /// Ends what still waits, and refuses what is asked from now on.
    fn close(&self) {
        let mut jobs = self.jobs();
        jobs.are_closed = true;
        let waiting: Vec<Job> = jobs.unfinished().cloned().collect();
        drop(jobs);
        for job in waiting {
            let why = "the service ended before it came to this change; nothing was changed";
            self.end(job.id, job.change, JobProgress::Failed(Refusal::new(ErrorCode::ShuttingDown, why)));
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Tells how far a change is, and cancels it when the service ends.
    fn observer(&self, id: Id) -> impl FnMut(ChangeStep) -> ControlFlow<()> + use<> {
        /// A few reports are enough for a bar that moves.
        const STEP: f32 = 0.02;
        let (shared, mut last_share) = (self.clone(), 0.0);
        move |step| {
            let share = match step {
                ChangeStep::Epoch(progress) => progress.epoch as f32 / progress.epochs.max(1) as f32,
                _ => 0.0,
            };
            if share >= last_share + STEP {
                last_share = share;
                shared.set(id, JobProgress::Running(share));
            }
            if shared.is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
}

/// Learns a new class, or adds shots to a known one, or puts them in the place of one of the bundle.
fn learn_add_or_replace(
    learner: &mut Learner,
    label: &str,
    shots: Shots<'_>,
    choice: BaseClassChoice,
    observer: &mut dyn Observer,
) -> Result<ChangeOutcome, ChangeError> {
    let base = learner.base_model().classes.len();
    match learner.state().find_class(learner.base_model(), label) {
        Some(class) if class < base && choice == BaseClassChoice::Replace => {
            learner.replace_base(&[(label, shots)], observer)
        }
        Some(_) => learner.add(label, shots, observer),
        None => learner.learn_many(&[(label, shots)], observer),
    }
}

/// Makes the changes of the queue, one after the other.
struct ChangeWorker {
    open: Box<dyn FnMut() -> Result<Learner, ServeError> + Send>,
    queue: Receiver<(Id, ChangeRequest)>,
    answers: Answers,
    records: ClassRecords,
    shared: SharedJobs,
    /// Backups of this service lock the state, too.
    turns: TurnQueue,
    /// The change that is being made.
    running: Option<RunningChange>,
    /// Whether the learner could not be opened when the thread began.
    is_unopened: bool,
    /// The last attempt to align the head in the background, where it failed.
    failed_alignment: Option<FailedAlignment>,
}

impl Worker for ChangeWorker {
    const NAME: &'static str = "changes";

    fn run(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError> {
        self.shared.telemetry.health.fault_point("changes: opening");
        self.is_unopened = true;
        let mut learner = (self.open)()?;
        self.is_unopened = false;
        up();
        loop {
            match self.queue.recv_timeout(background_alignment::INTERVAL) {
                Ok((id, change)) => self.change(&mut learner, id, change),
                Err(RecvTimeoutError::Timeout) => self.align(&mut learner),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn on_panic(&mut self) {
        if let Some(running) = self.running.take() {
            self.settle(running);
        }
    }

    fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    fn back_off(&mut self, pause: Duration) -> bool {
        if !self.is_unopened {
            return worker::sleep(pause, || self.is_stopping());
        }
        worker::drain(&self.queue, pause, |(id, change)| {
            let why = self.shared.telemetry.health.reason_down(Self::NAME).unwrap_or_default();
            let refusal = Refusal::new(ErrorCode::Degraded, format!("{why}; nothing was changed"));
            self.shared.end(id, change.name(), JobProgress::Failed(refusal));
        })
    }
}

impl Drop for ChangeWorker {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl ChangeWorker {
    fn change(&mut self, learner: &mut Learner, id: Id, change: ChangeRequest) {
        let name = change.name();
        // It is queued as long as a backup is being written.
        let turn = self.turns.take();
        self.running = Some(RunningChange::new(id, &change, learner, &self.answers));
        self.shared.set(id, JobProgress::Running(0.0));
        let made = self.make(learner, id, change);
        self.shared.telemetry.health.fault_point("changes: made");
        if made.is_ok() {
            self.prune_thumbnails(learner);
        }
        drop(turn);
        // Before anybody is told that it is done.
        self.answers.refresh();
        let progress = match made {
            Ok(ReportedChange { report, warning }) => JobProgress::Done { report, warning },
            Err(error) => JobProgress::Failed(Refusal::from(&error)),
        };
        self.running = None;
        self.shared.end(id, name, progress);
    }

    fn make(&mut self, learner: &mut Learner, id: Id, change: ChangeRequest) -> Result<ReportedChange, ChangeError> {
        let mut observer = self.shared.observer(id);
        if self.shared.is_stopping() {
            return Err(ChangeError::Cancelled);
        }
        self.shared.telemetry.health.fault_point("changes: making");
        if self.answers.knowledge().generation > 0 {
            learner.expect_state();
        }
        match change {
            ChangeRequest::Learn(given) => self.learn(learner, &given, &mut observer),
            ChangeRequest::Import { label, pack, permit: _permit } => {
                let class = PackClass { pack: &pack, label: Some(&label) };
                Ok(ReportedChange::of(learner.import(&[class], &mut observer)?))
            }
            ChangeRequest::Move { from, exemplar, to } => {
                Ok(ReportedChange::of(learner.move_shot_by_digest(&from, &exemplar, &to, &mut observer)?))
            }
            ChangeRequest::RemoveShot { label, exemplar } => {
                Ok(ReportedChange::of(learner.remove_shot_by_digest(&label, &exemplar, &mut observer)?))
            }
            ChangeRequest::Rename { from, to } => {
                Ok(ReportedChange::with(learner.rename(&from, &to)?, |()| Value::Null))
            }
            ChangeRequest::Forget { label } => Ok(ReportedChange::of(learner.forget(&label, &mut observer)?)),
            ChangeRequest::Purge { label } => self.purge_class(learner, &label, &mut observer),
            ChangeRequest::Undo { last: Some(entry) } => {
                Ok(ReportedChange::of_undo(learner.undo_if_last(entry, &mut observer)?))
            }
            ChangeRequest::Undo { last: None } => Ok(ReportedChange::of_undo(learner.undo(1, &mut observer)?)),
            ChangeRequest::Redo { last: Some(entry) } => {
                Ok(ReportedChange::of_undo(learner.redo_if_last(entry, &mut observer)?))
            }
            ChangeRequest::Redo { last: None } => Ok(ReportedChange::of_undo(learner.redo(1, &mut observer)?)),
            ChangeRequest::UndoTo { entry } => {
                Ok(ReportedChange::of_undo(learner.undo_to_entry(entry, &mut observer)?))
            }
            ChangeRequest::Balance { balance } => Ok(ReportedChange::of(learner.set_balance(balance, &mut observer)?)),
        }
    }

    /// Purges a class from the state, and from what is kept beside it.
    fn purge_class(
        &mut self,
        learner: &mut Learner,
        label: &str,
        observer: &mut dyn Observer,
    ) -> Result<ReportedChange, ChangeError> {
        // Found before the change: the class's other labels are gone after it.
        let labels = purge::purged_labels(learner, label);
        if let Some(running) = &mut self.running {
            running.note_purged(&labels, learner);
        }
        let made = learner.purge(label, observer)?;
        let left = self.purge_records(learner, labels);
        let json = |report: Option<ChangeReport>| report.map_or(Value::Null, |report| change_json::of_report(&report));
        let change = ReportedChange::with(made, json);
        Ok(ReportedChange { warning: joined_warnings(change.warning, left), ..change })
    }

    /// Has shots learned. A new class answers by them meanwhile.
    fn learn(
        &mut self,
        learner: &mut Learner,
        given: &LabelledShots,
        observer: &mut dyn Observer,
    ) -> Result<ReportedChange, ChangeError> {
        let LabelledShots { label, features, pictures, ids, choice } = given;
        // Another program may have taught or forgotten the class. Where the state cannot be read, the change says so.
        let _ = learner.refresh_if_changed();
        if let Some(running) = &mut self.running {
            running.note_history(learner);
        }
        if learner.state().find_class(learner.base_model(), label).is_none() {
            self.answers.imprint(label, features.clone());
        }
        let shots = match pictures {
            Some(pictures) => Shots::WithFeatures { pictures, features: features.view() },
            None => Shots::Features(features.view()),
        };
        let mut made = learn_add_or_replace(learner, label, shots, *choice, observer)?;
        // The learner has not seen the pictures.
        if self.records.pending_shots.show_different_places(label, ids) {
            made.report.one_scene.clear();
        }
        self.keep_thumbnails(learner, label, ids);
        self.remove_learned_shots(label, |id| ids.contains(&id));
        let mut change = ReportedChange::of(made);
        // It may have been chosen since this learner was opened.
        learner.settings_mut().scope = self.answers.knowledge().scope;
        if learner.unanswered_classes().contains(&label.as_str()) {
            change.warning.get_or_insert_with(|| unanswered(label));
        }
        Ok(change)
    }

    /// Removes shots that were learned, and tells listeners how many their label has left.
    fn remove_learned_shots(&self, label: &str, is_learned: impl Fn(Id) -> bool) {
        if self.records.pending_shots.remove(label, is_learned) > 0 {
            self.records.pending_shots.tell_count(label, &self.shared.telemetry.events);
        }
    }

    /// Removes the thumbnails of shots that are in no saved state any more, and files that killed processes left
    /// unfinished; saving a change removes the first alone.
    fn prune_thumbnails(&self, learner: &Learner) {
        if let Some(thumbnails) = &self.records.thumbnails
            && let Err(error) = thumbnails.prune(learner.saved())
        {
            log::warn!("thumbnails that nobody needs are left: {}", with_causes(&error));
        }
    }

    /// Keeps the thumbnails of shots that were just learned. The class is as good without.
    fn keep_thumbnails(&self, learner: &Learner, label: &str, ids: &[Id]) {
        let Some(thumbnails) = &self.records.thumbnails else { return };
        for shot in self.records.pending_shots.of(label).iter().filter(|shot| ids.contains(&shot.id)) {
            let bank = &learner.state().exemplars;
            if let Err(error) = thumbnails.keep(bank, shot.features.view(), &shot.thumbnail) {
                log::warn!("a thumbnail of {label} is not kept: {error}");
            }
        }
    }
}

fn unanswered(label: &str) -> String {
    format!(
        "no answer names {label:?}, although it has these shots: answers name only what was learned. Learn it in place \
         of the class of the bundle, or answer all classes"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{telemetry, warnings};

    /// Changes that nobody makes, and where they wait.
    fn waiting_changes() -> (Changes, Receiver<(Id, ChangeRequest)>) {
        let shared = SharedJobs { jobs: Arc::default(), telemetry: telemetry(".".as_ref()), stopping: Arc::default() };
        let (queue, receiver) = mpsc::sync_channel(MAX_WAITING);
        (Changes { queue, shared }, receiver)
    }

    #[test]
    fn the_log_has_a_change_that_the_machine_let_fail_and_no_other() {
        let (changes, _receiver) = waiting_changes();
        let id = changes.request(ChangeRequest::Forget { label: "duck".into() }).unwrap().id;
        warnings();
        for code in [ErrorCode::Storage, ErrorCode::UnknownClass, ErrorCode::ShuttingDown] {
            changes.shared.end(id, "forget", JobProgress::Failed(Refusal::new(code, "no room")));
        }
        assert_eq!(warnings(), ["the change \"forget\" failed: no room"]);
    }

    #[test]
    fn what_is_asked_after_the_end_is_refused_though_the_queue_is_still_there() {
        let (changes, _receiver) = waiting_changes();
        let forget = |label: &str| changes.request(ChangeRequest::Forget { label: label.into() });
        let waiting = forget("duck").unwrap().id;
        assert_eq!(changes.check_idle("duck").unwrap_err().status(), 409);
        assert!(changes.check_idle("goose").is_ok());
        changes.shared.close();
        assert!(changes.job(waiting).unwrap().has_ended());
        assert_eq!(forget("goose").unwrap_err().status(), 503);
    }
}
