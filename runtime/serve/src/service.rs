//! The service without HTTP: what is known, who answers, who changes, what was shot.

use std::sync::{Arc, LazyLock, OnceLock};
use std::thread::JoinHandle;

use orco_camera::{Camera, Source};
use orco_runtime::bundle::Bundle;
use orco_runtime::enough::LearningCurve;
use orco_runtime::learner::{Learner, LearnerSettings};
use orco_runtime::manifest::Manifest;
use orco_runtime::store::Store;
use orco_runtime::thumbnails::Thumbnails;

use crate::admission::{self, Admission};
use crate::answers::Answers;
use crate::changes::{Change, Changes, Job};
use crate::error::{Refusal, ServeError};
use crate::event::Events;
use crate::health::Health;
use crate::inbox::{self, Inbox};
use crate::live::{self, Live};
use crate::metric::Metrics;
use crate::shooting::{self, Shooting};

/// What pictures are kept, and what memory they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// Whether small pictures of learned shots are kept beside the state.
    pub thumbnails: bool,
    /// Most frames that were not recognised and are kept in memory.
    pub frames: usize,
    /// Most bytes that the pictures of all requests take together ([`crate::admission`]).
    pub memory: u64,
}

impl Default for Keeping {
    /// Thumbnails, as many frames as [`inbox::FRAMES`] says, as much memory as [`admission::default_memory`] does.
    fn default() -> Self {
        Self { thumbnails: true, frames: inbox::FRAMES, memory: admission::default_memory() }
    }
}

/// A device that is taught and asked by many at a time.
///
/// When the last one who holds it lets it go, a change that is being made is cancelled: nothing is changed then.
pub struct Service {
    /// What the bundle says of itself.
    pub manifest: Manifest,
    /// Numbers in a feature vector.
    pub features: usize,
    /// Whether the pictures of shots are kept.
    pub keeps_shots: bool,
    /// Who answers.
    pub answers: Answers,
    /// Shots that were not learned yet.
    pub shooting: Shooting,
    /// Frames that were not recognised.
    pub inbox: Inbox,
    /// Small pictures of learned shots.
    pub thumbnails: Thumbnails,
    /// How much memory pictures take together.
    pub admission: Admission,
    /// What is wrong, if anything is.
    pub health: Health,
    /// What is told as it happens.
    pub events: Events,
    /// Figures.
    pub metrics: Metrics,
    curve: LazyLock<Option<LearningCurve>, Box<dyn FnOnce() -> Option<LearningCurve> + Send>>,
    live: OnceLock<Live>,
    changes: Option<Changes>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Opens a bundle's state twice: for the thread that answers, and for the one that changes.
    ///
    /// # Errors
    /// [`ServeError`] if the state cannot be used, or the backbone or a thread not started.
    pub fn open(bundle: Bundle, store: Store, settings: LearnerSettings) -> Result<Arc<Self>, ServeError> {
        Self::open_keeping(bundle, store, settings, Keeping::default())
    }

    /// The same, and says what pictures are kept.
    ///
    /// # Errors
    /// As for [`Service::open`].
    pub fn open_keeping(
        bundle: Bundle,
        store: Store,
        settings: LearnerSettings,
        keeping: Keeping,
    ) -> Result<Arc<Self>, ServeError> {
        let (metrics, events) = (Metrics::default(), Events::default());
        let health = Health::new(store.folder(), events.clone());
        let shooting = Shooting::new(metrics.clone());
        let inbox = Inbox::new(&bundle.base_model, keeping.frames, events.clone());
        let thumbnails = Thumbnails::of(&store);
        let measured = bundle.clone();
        let curve: Box<dyn FnOnce() -> Option<LearningCurve> + Send> =
            Box::new(move || LearningCurve::of(&measured.base_model));
        let curve = LazyLock::new(curve);
        let manifest = bundle.manifest.clone();
        let (features, keeps_shots) = (bundle.base_model.head.inputs, settings.keep_shots);
        let opener = |pictures_ahead| {
            let (bundle, store, settings) = (bundle.clone(), store.clone(), settings.clone());
            move || {
                let settings = settings.clone().pictures_ahead(pictures_ahead);
                Ok(Learner::new(bundle.clone(), store.clone(), settings)?)
            }
        };
        let told = (health.clone(), events.clone(), metrics.clone());
        let answers = Answers::start(opener(usize::MAX), inbox.clone(), told.clone())?;
        let kept = keeping.thumbnails.then(|| thumbnails.clone());
        let (changes, thread) = Changes::start(opener(1), answers.clone(), shooting.clone(), kept, told)?;
        let (changes, thread) = (Some(changes), Some(thread));
        Ok(Arc::new(Self {
            manifest,
            features,
            keeps_shots,
            answers,
            shooting,
            inbox,
            thumbnails,
            admission: Admission::new(keeping.memory),
            health,
            events,
            metrics,
            curve,
            live: OnceLock::new(),
            changes,
            thread,
        }))
    }

    /// How the bundle's errors fall with shots; measured when it is first asked for.
    pub fn curve(&self) -> Option<&LearningCurve> {
        self.curve.as_ref()
    }

    /// Looks at a camera of its own from now on; one that is not there is tried again and again. A second camera is not
    /// taken.
    ///
    /// # Errors
    /// [`ServeError`] if a thread cannot be started, or the source is a folder and something else lies there.
    pub fn look_at(&self, source: Source, settings: live::Settings) -> Result<(), ServeError> {
        if let Source::Folder(path) = &source
            && path.exists()
            && !path.is_dir()
        {
            return Err(ServeError::Camera(format!(
                "the camera {source} is no folder: name the folder into which pictures are put"
            )));
        }
        let pictures = (self.manifest.preprocessing, self.admission.clone());
        let camera = Camera::open(source).map_err(ServeError::Threads)?;
        let told = (self.health.clone(), self.answers.clone(), self.events.clone(), self.metrics.clone());
        let _ = self.live.set(Live::start(camera, settings, pictures, self.inbox.clone(), told)?);
        Ok(())
    }

    /// The camera of its own, if it has one.
    pub fn live(&self) -> Option<&Live> {
        self.live.get()
    }

    /// Who changes.
    ///
    /// # Panics
    /// Never: it is there until the service is let go.
    pub fn changes(&self) -> &Changes {
        self.changes.as_ref().expect("it is there until the service is let go")
    }

    /// Queues learning the shots of a label.
    ///
    /// # Errors
    /// [`Refusal`] if there are none, no target is free, or the change cannot be queued.
    pub fn learn(&self, label: &str) -> Result<Job, Refusal> {
        let shots = self.shooting.of(label);
        let Some(features) = shooting::features(&shots).filter(|_| !shots.is_empty()) else {
            return Err(Refusal::conflict(format!("there are no shots of \"{label}\": take some first")));
        };
        let knowledge = self.answers.knowledge();
        if knowledge.class(label).is_err() && knowledge.free_targets == 0 {
            return Err(Refusal::conflict("no free target is left: forget a class first"));
        }
        let ids = shots.iter().map(|shot| shot.id).collect();
        let pictures = shooting::pictures(&shots);
        self.changes().ask(Change::Learn { label: label.to_owned(), shots: features, pictures, ids })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.changes().stop();
        // The queue ends with its last sender.
        self.changes = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread that changes broke off at its end");
        }
    }
}
