//! The thread that answers: its learner never writes the state.

mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use orco_runtime::encoder::EncodeError;
use orco_runtime::encoder::engine_choice::Workload;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::learner::{Answer, AnswerScope, BalanceOutlook, Learner};
use orco_runtime::ndarray::{Array2, Array3, ArrayView1};
use orco_runtime::state::nearest::{ExemplarId, Neighbour};
use orco_runtime::state::sufficiency::{LearningCurve, ShotSufficiency};
use orco_runtime::store::{Revision, Store};
use orco_runtime::threads::lock;
use tokio::sync::oneshot::{self, error::RecvError};

use crate::admission::Admitted;
use crate::error::ServeError;
use crate::inbox::Inbox;
use crate::knowledge::Knowledge;
use crate::prediction::{
    ClassProbability, PictureAnswer, Prediction, Recognition, ShotFeatures, SimilarExemplar, StoredShot,
};
use crate::refusal::Refusal;
use crate::telemetry::Telemetry;
use crate::worker::{self, Worker};

/// Most calls that may wait for the thread: more than [`crate::admission`] lets decode a picture.
const MAX_WAITING: usize = 64;

/// Whether shots are enough, with the labels of the classes that this names.
#[derive(Debug)]
#[non_exhaustive]
pub struct SufficiencyAnswer {
    /// Whether they are enough.
    pub sufficiency: ShotSufficiency,
    /// Labels of the classes up to the last that it names, by class index.
    pub labels: Vec<String>,
}

/// What the thread is asked to do.
type Call = Box<dyn FnOnce(&mut AnswerThread) + Send>;

/// Asks the thread that answers.
#[derive(Clone)]
pub struct Answers {
    calls: SyncSender<Call>,
    shared: Arc<SharedAnswers>,
}

/// What the thread and those who ask it share.
#[derive(Default)]
struct SharedAnswers {
    /// The newest knowledge, which the thread replaces as a whole.
    knowledge: RwLock<Arc<Knowledge>>,
    /// Which classes are to be answered, where that was chosen since the service was started.
    scope: Mutex<Option<AnswerScope>>,
    /// Whether a new start would run with the bundle that the state moved to, where somebody can tell.
    new_bundle: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// Calls that the thread has come to.
    handled: AtomicU64,
}

impl SharedAnswers {
    fn knowledge(&self) -> Arc<Knowledge> {
        Arc::clone(&self.knowledge.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_knowledge(&self, knowledge: Knowledge) {
        *self.knowledge.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(knowledge);
    }
}

impl Answers {
    /// Starts the thread. `open` makes its learner there, since engines stay on the thread that started them; the
    /// engine is started before this returns. A thread that panicked opens its learner again, from the same `store`.
    ///
    /// # Errors
    /// [`ServeError`] if the learner cannot be opened or its backbone not started.
    pub(crate) fn start(
        open: impl FnMut() -> Result<Learner, ServeError> + Send + 'static,
        store: Store,
        inbox: Inbox,
        telemetry: Telemetry,
    ) -> Result<Self, ServeError> {
        let (calls, receiver) = mpsc::sync_channel(MAX_WAITING);
        let answers = Self { calls, shared: Arc::default() };
        let health = telemetry.health.clone();
        let worker = AnswerWorker {
            open: Box::new(open),
            store,
            calls: receiver,
            inbox,
            shared: Arc::clone(&answers.shared),
            telemetry,
        };
        worker::start(worker, &health)?;
        Ok(answers)
    }

    /// What is known now.
    pub fn knowledge(&self) -> Arc<Knowledge> {
        self.shared.knowledge()
    }

    /// What a picture shows, whether it is like anything known, and the `similar` most similar stored exemplars.
    ///
    /// # Errors
    /// [`Refusal`] if too many wait, or the backbone fails.
    pub async fn answer(&self, picture: Admitted<RgbImage>, similar: usize) -> Result<PictureAnswer, Refusal> {
        self.ask(move |thread| thread.answer(&picture, similar)).await
    }

    /// As [`Answers::answer`], without similar exemplars, for a thread, which waits; `None` if too many wait already.
    pub(crate) fn try_answer(&self, picture: Admitted<RgbImage>) -> Option<Result<PictureAnswer, Refusal>> {
        let (call, answer) = call(move |thread| thread.answer(&picture, 0));
        match self.calls.try_send(call) {
            Err(TrySendError::Full(_)) => return None,
            Err(TrySendError::Disconnected(_)) => return Some(Err(Refusal::stopping())),
            Ok(()) => {}
        }
        Some(answered(answer.blocking_recv()))
    }

    /// Probabilities of all classes for a picture, by class index.
    ///
    /// # Errors
    /// As for [`Answers::answer`].
    pub async fn classify(&self, picture: Admitted<RgbImage>) -> Result<Prediction, Refusal> {
        self.ask(move |thread| thread.predict(&picture)).await
    }

    /// As [`Answers::classify`], for feature vectors, `[pictures, features]`.
    ///
    /// # Errors
    /// As for [`Answers::answer`].
    pub async fn classify_features(&self, rows: Array2<f32>) -> Result<Vec<Prediction>, Refusal> {
        self.ask(move |thread| Ok(thread.predict_features(&rows))).await
    }

    /// Features of a shot, and the classes that it looks like.
    ///
    /// # Errors
    /// As for [`Answers::answer`].
    pub async fn shot_features(&self, picture: Admitted<RgbImage>) -> Result<ShotFeatures, Refusal> {
        self.ask(move |thread| thread.shot_features(&picture)).await
    }

    /// Whether shots are enough for a class, `[shots, views, features]`.
    ///
    /// # Errors
    /// As for [`Answers::answer`].
    pub async fn sufficiency(
        &self,
        label: &str,
        shots: Array3<f32>,
        curve: Option<LearningCurve>,
    ) -> Result<SufficiencyAnswer, Refusal> {
        let label = label.to_owned();
        self.ask(move |thread| Ok(thread.sufficiency(&label, &shots, curve.as_ref()))).await
    }

    /// What answers would recognise with every balance, and what is expected of the present one.
    ///
    /// # Errors
    /// As for [`Answers::answer`].
    pub async fn balance_outlook(&self) -> Result<BalanceOutlook, Refusal> {
        self.ask(|thread| Ok(thread.learner.balance_outlook())).await
    }

    /// Sets which classes are answered, until the service ends.
    ///
    /// # Errors
    /// As for [`Answers::answer`].
    pub async fn set_scope(&self, scope: AnswerScope) -> Result<(), Refusal> {
        *lock(&self.shared.scope) = Some(scope);
        let (reply, done) = oneshot::channel();
        // The scope is set already: the thread takes it up though nobody may wait for that any more.
        self.queue(Box::new(move |thread| {
            thread.take_up_scope();
            let _ = reply.send(());
        }))?;
        done.await.map_err(|_| Refusal::answer_lost())
    }

    /// Ends the service once the state belongs to another bundle and `can_restart` says that a new start would run with
    /// it.
    pub(crate) fn end_on_new_bundle(&self, can_restart: Box<dyn Fn() -> bool + Send + Sync>) {
        let _ = self.shared.new_bundle.set(can_restart);
    }

    /// Returns once the thread has come to this request: it runs, and does not hang.
    ///
    /// # Errors
    /// [`Refusal`] if too many wait, or the thread has ended.
    pub async fn alive(&self) -> Result<(), Refusal> {
        self.ask(|_| Ok(())).await
    }

    /// Calls that the thread has come to since the service was started.
    pub fn handled(&self) -> u64 {
        self.shared.handled.load(Ordering::Relaxed)
    }

    /// Has the thread do `work`, unless nobody waits for the answer any more when it comes to that.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut AnswerThread) -> Result<T, EncodeError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (call, answer) = call(work);
        self.queue(call)?;
        answered(answer.await)
    }

    fn queue(&self, call: Call) -> Result<(), Refusal> {
        self.calls.try_send(call).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::too_many_requests("too many requests wait for an answer; try again"),
            TrySendError::Disconnected(_) => Refusal::stopping(),
        })
    }

    /// Lets a class answer by its shots while it is learned; for threads.
    pub(crate) fn imprint(&self, label: &str, shots: Array3<f32>) {
        let label = label.to_owned();
        // A service that stops answers nobody.
        let _ = self.calls.send(Box::new(move |thread| thread.imprint(&label, &shots)));
    }

    /// Reads the state again and waits until answers follow it; for threads.
    pub(crate) fn refresh(&self) {
        let (done, wait) = oneshot::channel();
        let refresh = move |thread: &mut AnswerThread| {
            if thread.read() {
                thread.tell_changed();
            }
            let _ = done.send(());
        };
        if self.calls.send(Box::new(refresh)).is_ok() {
            let _ = wait.blocking_recv();
        }
    }
}

/// A call that does `work` unless nobody waits for its answer, and where the answer comes.
fn call<T: Send + 'static>(
    work: impl FnOnce(&mut AnswerThread) -> Result<T, EncodeError> + Send + 'static,
) -> (Call, oneshot::Receiver<Result<T, EncodeError>>) {
    let (reply, answer) = oneshot::channel();
    let call = move |thread: &mut AnswerThread| {
        if !reply.is_closed() {
            let _ = reply.send(work(thread));
        }
    };
    (Box::new(call), answer)
}

/// What came of a call; nothing comes if the thread panicked.
fn answered<T>(received: Result<Result<T, EncodeError>, RecvError>) -> Result<T, Refusal> {
    received.map_err(|_| Refusal::answer_lost())?.map_err(Refusal::from)
}

#[cfg(test)]
impl Answers {
    /// One whose thread comes to no request while the receiver is held.
    pub(crate) fn stuck() -> (Self, impl Sized) {
        let (calls, receiver) = mpsc::sync_channel(1);
        (Self { calls, shared: Arc::default() }, receiver)
    }
}

/// Runs [`AnswerThread`], again after a panic.
struct AnswerWorker {
    open: Box<dyn FnMut() -> Result<Learner, ServeError> + Send>,
    store: Store,
    calls: Receiver<Call>,
    inbox: Inbox,
    shared: Arc<SharedAnswers>,
    telemetry: Telemetry,
}

impl Worker for AnswerWorker {
    const NAME: &'static str = "answers";

    fn run(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError> {
        self.telemetry.health.fault_point("answers: opening");
        // Taken before the state is read, so that a change in between is noticed as a newer revision.
        let revision = self.store.revision();
        let mut learner = (self.open)()?;
        learner.engine(Workload::Shots)?;
        learner.engine(Workload::Pictures(usize::MAX))?;
        learner.warnings().iter().for_each(|warning| log::warn!("{warning}"));
        let mut thread = AnswerThread {
            learner,
            revision,
            checked: Instant::now(),
            // The version goes on rising after a panic.
            knowledge_version: self.shared.knowledge().version,
            inbox: self.inbox.clone(),
            shared: Arc::clone(&self.shared),
            telemetry: self.telemetry.clone(),
        };
        thread.follow_scope();
        thread.publish(None);
        // The state may have changed while the thread was down.
        thread.judge_inbox();
        up();
        thread.serve(&self.calls);
        Ok(())
    }

    /// Never: the thread ends with its queue.
    fn is_stopping(&self) -> bool {
        false
    }

    /// Drops calls, so that whoever asks is told at once that there is no answer.
    fn back_off(&mut self, pause: Duration) -> bool {
        worker::drain(&self.calls, pause, drop)
    }
}

struct AnswerThread {
    learner: Learner,
    /// Revision of the files that the state was read from.
    revision: Revision,
    /// When the files were checked last.
    checked: Instant,
    /// Version of the knowledge that was published last.
    knowledge_version: u64,
    inbox: Inbox,
    shared: Arc<SharedAnswers>,
    telemetry: Telemetry,
}

impl AnswerThread {
    fn serve(&mut self, calls: &Receiver<Call>) {
        loop {
            let left = watch::INTERVAL.saturating_sub(self.checked.elapsed());
            if left.is_zero() {
                self.watch();
                crate::allocator::trim_heap_if_wanted();
                self.checked = Instant::now();
                continue;
            }
            match calls.recv_timeout(left) {
                Ok(call) => self.handle(call),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }

    fn handle(&mut self, call: Call) {
        self.shared.handled.fetch_add(1, Ordering::Relaxed);
        self.telemetry.health.fault_point("answers: asked");
        call(self);
    }

    fn take_up_scope(&mut self) {
        self.follow_scope();
        self.publish(self.problem());
        self.judge_inbox();
        self.tell_changed();
    }

    fn imprint(&mut self, label: &str, shots: &Array3<f32>) {
        // It may have been learned while the call waited.
        if self.learner.state().find_class(self.learner.base_model(), label).is_some() {
            return;
        }
        if let Err(error) = self.learner.imprint(label, shots.view()) {
            log::warn!("{label} does not answer before it is learned: {error}");
        }
    }

    fn sufficiency(&mut self, label: &str, shots: &Array3<f32>, curve: Option<&LearningCurve>) -> SufficiencyAnswer {
        let sufficiency = self.learner.sufficiency(label, shots.view(), curve);
        let named = sufficiency.taken_for.iter().flatten().max().map_or(0, |last| last + 1);
        let labels = (0..named).map(|class| self.learner.label(class).to_owned()).collect();
        SufficiencyAnswer { sufficiency, labels }
    }

    /// Answers the classes that were chosen.
    fn follow_scope(&mut self) {
        if let Some(scope) = *lock(&self.shared.scope) {
            self.learner.settings_mut().scope = scope;
        }
    }

    fn publish(&mut self, problem: Option<String>) {
        self.knowledge_version += 1;
        let knowledge = Knowledge::of(&self.learner, self.knowledge_version, problem);
        let metrics = &self.telemetry.metrics;
        metrics.classes.set(knowledge.classes.len() as i64);
        metrics.free_targets.set(knowledge.free_targets as i64);
        self.shared.set_knowledge(knowledge);
    }

    /// Features of a picture, `[1, features]`, and the answer to it.
    fn classify(&mut self, picture: &RgbImage) -> Result<(Array2<f32>, Answer), EncodeError> {
        let started = Instant::now();
        let features = self.learner.features(picture)?;
        let answer = self.learner.classify_features(features.view()).swap_remove(0);
        self.telemetry.metrics.classify_seconds.observe(started.elapsed().as_secs_f64());
        Ok((features, answer))
    }

    fn predict(&mut self, picture: &RgbImage) -> Result<Prediction, EncodeError> {
        let (_, answer) = self.classify(picture)?;
        Ok(self.prediction(answer))
    }

    fn predict_features(&mut self, rows: &Array2<f32>) -> Vec<Prediction> {
        let answers = self.learner.classify_features(rows.view());
        answers.into_iter().map(|answer| self.prediction(answer)).collect()
    }

    fn answer(&mut self, picture: &RgbImage, similar: usize) -> Result<PictureAnswer, EncodeError> {
        let (features, answer) = self.classify(picture)?;
        let neighbours = if similar > 0 { self.neighbours(features.row(0), &answer, similar) } else { Vec::new() };
        Ok(PictureAnswer {
            classes: self.classes(&answer),
            known: !answer.is_unknown(),
            features: features.row(0).to_vec(),
            knowledge_version: self.knowledge_version,
            similar: neighbours.iter().map(|neighbour| self.similar(neighbour)).collect(),
        })
    }

    /// The `count` most similar exemplars; those of the answered class come first, at least one of them if it has any.
    fn neighbours(&self, features: ArrayView1<'_, f32>, answer: &Answer, count: usize) -> Vec<Neighbour> {
        let answered = answer.matches.first().map(|found| found.class);
        let is_answered = |neighbour: &Neighbour| Some(neighbour.class) == answered;
        let all = self.learner.nearest(features, usize::MAX);
        let of_answered = all.iter().take(count).filter(|neighbour| is_answered(neighbour)).count().max(1);
        let first = all.iter().filter(|neighbour| is_answered(neighbour)).take(of_answered);
        first.chain(all.iter().filter(|neighbour| !is_answered(neighbour))).take(count).copied().collect()
    }

    fn similar(&self, neighbour: &Neighbour) -> SimilarExemplar {
        let bank = &self.learner.state().exemplars;
        SimilarExemplar {
            label: self.learner.label(neighbour.class).to_owned(),
            similarity: neighbour.similarity,
            shot: match neighbour.exemplar {
                ExemplarId::Device(exemplar) => {
                    Some(StoredShot { digest: bank.digest_of(exemplar), number: neighbour.number })
                }
                ExemplarId::Bundle(_) => None,
            },
        }
    }

    fn shot_features(&mut self, picture: &RgbImage) -> Result<ShotFeatures, EncodeError> {
        let features = self.learner.shot_features(picture)?;
        let clean = features.slice(orco_runtime::ndarray::s![..1, ..]);
        let answer = self.learner.classify_features(clean).swap_remove(0);
        let classes = if answer.is_unknown() { Vec::new() } else { self.classes(&answer) };
        Ok(ShotFeatures { features, classes })
    }

    /// All classes, most probable first.
    fn classes(&self, answer: &Answer) -> Vec<ClassProbability> {
        ClassProbability::of_answer(&self.learner, answer)
    }

    fn recognition(&self, answer: &Answer) -> Recognition {
        Recognition { best: self.classes(answer).into_iter().next(), known: !answer.is_unknown() }
    }

    /// A class that is not answered has the probability 0.
    fn prediction(&self, answer: Answer) -> Prediction {
        let known = !answer.is_unknown();
        // A class that is being learned is answered before it is known.
        let answered = answer.matches.iter().map(|found| found.class + 1).max().unwrap_or(0);
        let mut probabilities = vec![0.0; answered.max(self.learner.classes().count())];
        answer.matches.iter().for_each(|found| probabilities[found.class] = found.score.value());
        Prediction { label: answer.label, probabilities, known }
    }
}

#[cfg(test)]
mod tests;
