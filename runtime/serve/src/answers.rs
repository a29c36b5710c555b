//! The thread that answers: a learner that reads, and never changes anything.

mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use orco_runtime::encoder::EncodeError;
use orco_runtime::encoder::choice::Workload;
use orco_runtime::enough::{LearningCurve, ShotSufficiency};
use orco_runtime::history::HistoryEntry;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::label;
use orco_runtime::learner::{Answer, Learner};
use orco_runtime::ndarray::{Array2, Array3};
use orco_runtime::nearest::ExemplarId;
use orco_runtime::state::{Balance, Class};
use orco_runtime::store::Revision;
use tokio::sync::oneshot;

use crate::admission::Admitted;
use crate::error::{Refusal, ServeError, sentence};
use crate::event::Events;
use crate::health::Health;
use crate::inbox::Inbox;
use crate::metric::Metrics;
use crate::worker::{self, Worker};

/// Requests that may wait for an answer: more than those whom [`crate::admission`] lets decode a picture.
const WAITING: usize = 64;

/// A class with how probable it is that a picture shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Label.
    pub label: String,
    /// 0..1 where answers are probabilities, else -1..1.
    pub probability: f32,
    /// Whether the class answers by its imprinted shots while it is being learned.
    pub provisional: bool,
}

/// What a picture shows, and what it is like.
#[derive(Clone, Debug)]
pub struct Looked {
    /// The classes, most probable first.
    pub named: Vec<Named>,
    /// Whether it is like anything known at all.
    pub known: bool,
    /// Its features.
    pub features: Vec<f32>,
    /// What was known then, by its number ([`Knowledge::number`]).
    pub by: u64,
    /// The stored exemplars that it is most like, as many as were asked for.
    pub like: Vec<Like>,
}

/// A stored exemplar that a picture is like.
#[derive(Clone, Debug, PartialEq)]
pub struct Like {
    /// Label of its class.
    pub label: String,
    /// Cosine of the features, -1..1.
    pub similarity: f32,
    /// The stored shot; `None` for an exemplar of the bundle's.
    pub shot: Option<Stored>,
}

/// A stored shot of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// SHA-256 of its exemplar, which identifies it.
    pub digest: [u8; 32],
    /// Its place among the stored shots of the class, from 1; another one may have that after the next change.
    pub number: usize,
}

/// What is known at a moment, as answers are given by it.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    /// Rises each time that the state is read.
    pub number: u64,
    /// How often the state was saved; 0 if nothing was saved yet.
    pub generation: u64,
    /// Why the state cannot be used any more, in a sentence: answers go on from what was known before.
    pub problem: Option<String>,
    /// Base classes come first; so many are base classes.
    pub base: usize,
    /// All classes.
    pub classes: Vec<Class>,
    /// Stored shots of every class, those of the bundle left out.
    pub shots: Vec<usize>,
    /// SHA-256 of each of them, by which thumbnails are found.
    pub digests: Vec<Vec<[u8; 32]>>,
    /// Pseudo-targets that no class has.
    pub free_targets: usize,
    /// What counts how much.
    pub balance: Balance,
    /// Accuracies to be expected on base classes and learned ones, where answers have a border.
    pub expected: Option<(f32, f32)>,
    /// Sessions since the bundle.
    pub sessions: u32,
    /// The changes that are remembered, oldest first.
    pub history: Vec<HistoryEntry>,
}

impl Knowledge {
    /// Index of the class of that label, base classes first.
    ///
    /// # Errors
    /// [`Refusal`] if no class has it.
    pub fn class(&self, label: &str) -> Result<usize, Refusal> {
        let index = self.classes.iter().position(|class| label::same(&class.label, label));
        index.ok_or_else(|| Refusal::missing(format!("no class has the label \"{label}\"")))
    }

    fn of(learner: &Learner, number: u64, problem: Option<String>) -> Self {
        let (base_model, state) = (learner.base_model(), learner.state());
        let classes: Vec<Class> = learner.classes().cloned().collect();
        let mut digests = vec![Vec::new(); classes.len()];
        for (exemplar, class) in state.exemplars.classes().iter().enumerate() {
            digests[*class as usize].push(state.exemplars.digest_of(exemplar));
        }
        let shots = digests.iter().map(Vec::len).collect();
        Self {
            number,
            generation: learner.generation(),
            problem,
            base: base_model.classes.len(),
            classes,
            shots,
            digests,
            free_targets: state.free_targets(base_model).len(),
            balance: state.balance,
            expected: state.calibration.map(|calibration| (calibration.border.base, calibration.border.new)),
            sessions: state.sessions,
            history: learner.history().entries().to_vec(),
        }
    }
}

/// A shot: its features, and the classes that it looks like.
pub type Taken = (Array2<f32>, Vec<Named>);

/// What a feature vector is like, by every class.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The label of the most probable class.
    pub label: String,
    /// Of every class in their order, one that is being learned last; not finite where the features were too great.
    pub probabilities: Vec<f32>,
    /// Whether it is like anything known at all.
    pub known: bool,
}

type Reply<T> = oneshot::Sender<Result<T, EncodeError>>;

enum Request {
    Look {
        picture: Admitted<RgbImage>,
        like: usize,
        reply: Reply<Looked>,
    },
    Enough {
        label: String,
        shots: Array3<f32>,
        curve: Option<LearningCurve>,
        reply: Reply<(ShotSufficiency, Vec<String>)>,
    },
    Rows {
        rows: Array2<f32>,
        reply: Reply<Vec<Judged>>,
    },
    Shot {
        picture: Admitted<RgbImage>,
        reply: Reply<Taken>,
    },
    Imprint {
        label: String,
        shots: Array3<f32>,
    },
    Refresh {
        done: oneshot::Sender<()>,
    },
    Alive {
        reply: Reply<()>,
    },
}

/// Asks the thread that answers.
#[derive(Clone)]
pub struct Answers {
    requests: SyncSender<Request>,
    knowledge: Arc<RwLock<Arc<Knowledge>>>,
    handled: Arc<AtomicU64>,
}

impl Answers {
    /// Starts the thread. `open` makes its learner there, since engines stay on the thread that started them; the
    /// engine is started before this returns. Where the thread breaks off, it is opened anew.
    ///
    /// # Errors
    /// [`ServeError`] if the learner cannot be opened or its backbone not started.
    pub(crate) fn start(
        open: impl FnMut() -> Result<Learner, ServeError> + Send + 'static,
        inbox: Inbox,
        (health, events, metrics): (Health, Events, Metrics),
    ) -> Result<Self, ServeError> {
        let (requests, receiver) = mpsc::sync_channel(WAITING);
        let (knowledge, handled): (Arc<RwLock<Arc<Knowledge>>>, Arc<AtomicU64>) = Default::default();
        let answers = Self { requests, knowledge: Arc::clone(&knowledge), handled: Arc::clone(&handled) };
        let worker = Answering {
            open: Box::new(open),
            requests: receiver,
            inbox,
            knowledge,
            handled,
            health: health.clone(),
            events,
            metrics,
        };
        worker::start(worker, &health)?;
        Ok(answers)
    }

    /// What is known now.
    pub fn knowledge(&self) -> Arc<Knowledge> {
        Arc::clone(&self.knowledge.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a picture shows, whether it is like anything known, and the `like` stored exemplars that it is most like.
    ///
    /// # Errors
    /// [`Refusal`] if too many wait, or the backbone fails.
    pub async fn look(&self, picture: Admitted<RgbImage>, like: usize) -> Result<Looked, Refusal> {
        self.ask(|reply| Request::Look { picture, like, reply }).await
    }

    /// Whether shots are enough for a class, `[shots, views, features]`, and the labels of the classes that the answer
    /// names, by their indices.
    ///
    /// # Errors
    /// As for [`Answers::look`].
    pub async fn enough(
        &self,
        label: &str,
        shots: Array3<f32>,
        curve: Option<LearningCurve>,
    ) -> Result<(ShotSufficiency, Vec<String>), Refusal> {
        self.ask(|reply| Request::Enough { label: label.to_owned(), shots, curve, reply }).await
    }

    /// What a picture shows, for a thread, which waits; `None` if too many wait already.
    pub(crate) fn look_between(&self, picture: Admitted<RgbImage>) -> Option<Result<Looked, Refusal>> {
        let (reply, answer) = oneshot::channel();
        match self.requests.try_send(Request::Look { picture, like: 0, reply }) {
            Err(TrySendError::Full(_)) => return None,
            Err(TrySendError::Disconnected(_)) => return Some(Err(Refusal::stopping())),
            Ok(()) => {}
        }
        Some(answer.blocking_recv().map_err(|_| Refusal::lost()).and_then(|answer| answer.map_err(failed)))
    }

    /// What pictures show whose features are known, `[pictures, features]`.
    ///
    /// # Errors
    /// As for [`Answers::look`].
    pub async fn classify_features(&self, rows: Array2<f32>) -> Result<Vec<Judged>, Refusal> {
        self.ask(|reply| Request::Rows { rows, reply }).await
    }

    /// Features of a shot, `[views, features]`, and what it looks like: nothing, where it is like nothing known.
    ///
    /// # Errors
    /// As for [`Answers::look`].
    pub async fn shot(&self, picture: Admitted<RgbImage>) -> Result<Taken, Refusal> {
        self.ask(|reply| Request::Shot { picture, reply }).await
    }

    /// Returns once the thread has come to this request: it lives, and hangs in none.
    ///
    /// # Errors
    /// [`Refusal`] if too many wait, or the thread has ended.
    pub async fn alive(&self) -> Result<(), Refusal> {
        self.ask(|reply| Request::Alive { reply }).await
    }

    /// Requests that the thread has come to since it was started.
    pub fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        self.requests.try_send(request(reply)).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::busy("too many pictures wait for an answer; try again"),
            TrySendError::Disconnected(_) => Refusal::stopping(),
        })?;
        answer.await.map_err(|_| Refusal::lost())?.map_err(failed)
    }

    /// Lets a class answer by its shots while it is learned; for threads.
    pub(crate) fn imprint(&self, label: &str, shots: Array3<f32>) {
        // A service that stops answers nobody.
        let _ = self.requests.send(Request::Imprint { label: label.to_owned(), shots });
    }

    /// Reads the state anew and waits until answers follow it; for threads.
    pub(crate) fn refresh(&self) {
        let (done, wait) = oneshot::channel();
        if self.requests.send(Request::Refresh { done }).is_ok() {
            let _ = wait.blocking_recv();
        }
    }
}

fn failed(error: EncodeError) -> Refusal {
    Refusal::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, sentence(&error))
}

#[cfg(test)]
impl Answers {
    /// One whose thread comes to no request while the receiver is held.
    pub(crate) fn stuck() -> (Self, impl Sized) {
        let (requests, receiver) = mpsc::sync_channel(1);
        (Self { requests, knowledge: Arc::default(), handled: Arc::default() }, receiver)
    }
}

fn judged(answer: Answer) -> Judged {
    let mut probabilities = vec![0.0; answer.matches.len()];
    answer.matches.iter().for_each(|found| probabilities[found.class] = found.score);
    let known = !answer.is_unknown();
    Judged { label: answer.label, probabilities, known }
}

/// What the thread keeps between two lives.
struct Answering {
    open: Box<dyn FnMut() -> Result<Learner, ServeError> + Send>,
    requests: Receiver<Request>,
    inbox: Inbox,
    knowledge: Arc<RwLock<Arc<Knowledge>>>,
    handled: Arc<AtomicU64>,
    health: Health,
    events: Events,
    metrics: Metrics,
}

impl Worker for Answering {
    const NAME: &'static str = "answers";

    fn live(&mut self, up: &mut dyn FnMut()) -> Result<(), ServeError> {
        self.health.pass("answers: opening");
        let mut learner = (self.open)()?;
        learner.engine(Workload::Shots)?;
        learner.engine(Workload::Pictures(usize::MAX))?;
        learner.warnings().iter().for_each(|warning| log::warn!("{warning}"));
        let mut thread = Thread {
            revision: learner.store().revision(),
            learner,
            inbox: self.inbox.clone(),
            watched: Instant::now(),
            // It goes on rising.
            reads: self.knowledge.read().unwrap_or_else(PoisonError::into_inner).number,
            knowledge: Arc::clone(&self.knowledge),
            handled: Arc::clone(&self.handled),
            health: self.health.clone(),
            events: self.events.clone(),
            metrics: self.metrics.clone(),
        };
        thread.publish(None);
        up();
        thread.run(&self.requests);
        Ok(())
    }

    /// Whoever asks is told that there is no answer, rather than waiting for one.
    fn rest(&mut self, pause: Duration) -> bool {
        let end = Instant::now() + pause;
        loop {
            match self.requests.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => return true,
            }
        }
    }
}

struct Thread {
    learner: Learner,
    inbox: Inbox,
    /// The files that the state was read from.
    revision: Revision,
    /// When they were looked at last.
    watched: Instant,
    /// How often the state was read.
    reads: u64,
    knowledge: Arc<RwLock<Arc<Knowledge>>>,
    handled: Arc<AtomicU64>,
    health: Health,
    events: Events,
    metrics: Metrics,
}

impl Thread {
    fn run(&mut self, requests: &Receiver<Request>) {
        loop {
            let left = watch::EVERY.saturating_sub(self.watched.elapsed());
            if left.is_zero() {
                self.watch();
                self.watched = Instant::now();
                continue;
            }
            let request = match requests.recv_timeout(left) {
                Ok(request) => request,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.handled.fetch_add(1, Ordering::Relaxed);
            self.health.pass("answers: asked");
            match request {
                // Who asked is gone.
                Request::Look { reply, .. } if reply.is_closed() => {}
                Request::Shot { reply, .. } if reply.is_closed() => {}
                Request::Rows { reply, .. } if reply.is_closed() => {}
                Request::Look { picture, like, reply } => drop(reply.send(self.look(&picture, like))),
                Request::Enough { label, shots, curve, reply } => {
                    let enough = self.learner.enough(&label, shots.view(), curve.as_ref());
                    let known = enough.taken_for.iter().flatten().max().map_or(0, |most| most + 1);
                    let labels = (0..known).map(|class| self.learner.label(class).to_owned()).collect();
                    drop(reply.send(Ok((enough, labels))));
                }
                Request::Rows { rows, reply } => {
                    let answers = self.learner.classify_features(rows.view());
                    drop(reply.send(Ok(answers.into_iter().map(judged).collect())));
                }
                Request::Shot { picture, reply } => drop(reply.send(self.shot(&picture))),
                Request::Alive { reply } => drop(reply.send(Ok(()))),
                Request::Imprint { label, shots } => {
                    if let Err(error) = self.learner.imprint(&label, shots.view()) {
                        log::warn!("{label} does not answer before it is learned: {error}");
                    }
                }
                Request::Refresh { done } => {
                    if self.read() {
                        self.tell();
                    }
                    let _ = done.send(());
                }
            }
        }
    }

    fn publish(&mut self, problem: Option<String>) {
        self.reads += 1;
        let knowledge = Knowledge::of(&self.learner, self.reads, problem);
        self.metrics.classes.set(knowledge.classes.len() as i64);
        self.metrics.free_targets.set(knowledge.free_targets as i64);
        *self.knowledge.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(knowledge);
    }

    fn look(&mut self, picture: &RgbImage, like: usize) -> Result<Looked, EncodeError> {
        let started = Instant::now();
        let features = self.learner.features(picture, 1)?;
        let answer = self.learner.classify_features(features.view()).swap_remove(0);
        self.metrics.classify_seconds.observe(started.elapsed().as_secs_f64());
        let neighbours = if like > 0 { self.learner.nearest(features.row(0), like) } else { Vec::new() };
        let bank = &self.learner.state().exemplars;
        let like = neighbours.iter().map(|neighbour| Like {
            label: self.learner.label(neighbour.class).to_owned(),
            similarity: neighbour.similarity,
            shot: match neighbour.place {
                ExemplarId::Device(exemplar) => {
                    Some(Stored { digest: bank.digest_of(exemplar), number: neighbour.number })
                }
                ExemplarId::Bundle(_) => None,
            },
        });
        let like = like.collect();
        let (named, features) = (self.named(&answer), features.row(0).to_vec());
        Ok(Looked { named, known: !answer.is_unknown(), features, by: self.reads, like })
    }

    fn shot(&mut self, picture: &RgbImage) -> Result<Taken, EncodeError> {
        let features = self.learner.shot_features(picture)?;
        let clean = features.slice(orco_runtime::ndarray::s![..1, ..]);
        let answer = self.learner.classify_features(clean).swap_remove(0);
        let named = if answer.is_unknown() { Vec::new() } else { self.named(&answer) };
        Ok((features, named))
    }

    fn named(&self, answer: &Answer) -> Vec<Named> {
        let known = self.learner.classes().count();
        let named = answer.matches.iter().map(|found| Named {
            label: self.learner.label(found.class).to_owned(),
            probability: found.score,
            provisional: found.class >= known,
        });
        named.collect()
    }
}
