//! The service without HTTP: its learners, pending shots, inbox and camera.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::thread::JoinHandle;

use orco_camera::{Camera, CameraSource};
use orco_runtime::bundle::Bundle;
use orco_runtime::image;
use orco_runtime::learner::{AlignmentTime, Learner, LearnerSettings, ScopeFile};
use orco_runtime::manifest::Manifest;
use orco_runtime::state::sufficiency::LearningCurve;
use orco_runtime::store::Store;
use orco_runtime::store::kept_pictures::{self, KeptPictures};
use orco_runtime::threads::lock;
use orco_runtime::thumbnails::Thumbnails;

use crate::admission::{self, Admission};
use crate::answers::Answers;
use crate::camera_regions::CameraRegions;
use crate::camera_scene::CameraScene;
use crate::changes::{BaseClassChoice, ChangeRequest, Changes, ClassRecords, LabelledShots, PurgeHook};
use crate::error::ServeError;
use crate::event::Events;
use crate::health::Health;
use crate::inbox::{self, Inbox};
use crate::inference_statistics::InferenceStatistics;
use crate::job::Job;
use crate::live::{self, LiveCamera};
use crate::metric::Metrics;
use crate::pending_shots::{self, PendingShots};
use crate::refusal::{ErrorCode, Refusal};
use crate::sightings::Sightings;
use crate::telemetry::Telemetry;
use crate::transfer::Transfer;
use crate::turns::TurnQueue;
use crate::worker;

/// What pictures are kept, and what memory they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionOptions {
    /// Whether small pictures of learned shots are kept beside the state.
    pub thumbnails: bool,
    /// Most frames that were not recognised and are kept in memory.
    pub frames: usize,
    /// Most bytes that the pictures of all requests take together ([`crate::admission`]).
    pub memory: u64,
}

impl Default for RetentionOptions {
    /// Thumbnails, [`inbox::DEFAULT_CAPACITY`] frames, memory as by [`admission::default_memory`].
    fn default() -> Self {
        Self { thumbnails: true, frames: inbox::DEFAULT_CAPACITY, memory: admission::default_memory() }
    }
}

orco_runtime::setters! {
    RetentionOptions:
    thumbnails: bool,
    frames: usize,
    memory: u64,
}

/// How the bundle's error rate falls with the number of shots, measured at the first use.
type LazyCurve = LazyLock<Option<LearningCurve>, Box<dyn FnOnce() -> Option<LearningCurve> + Send>>;

/// A device that is taught and asked by many at a time.
///
/// Dropping it cancels the change that is being made, which leaves the state as it was. The drop waits for the thread
/// that makes changes, so drop the last [`Arc`] on a thread that may block.
pub struct Service {
    /// What the bundle says of itself.
    pub manifest: Manifest,
    /// Numbers in a feature vector.
    pub features: usize,
    /// Whether the pictures of shots are kept.
    pub keeps_shots: bool,
    /// Whether heads are aligned in the background.
    pub aligns: bool,
    /// The thread that answers.
    pub answers: Answers,
    /// Shots that were not learned yet.
    pub pending_shots: PendingShots,
    /// Frames that were not recognised.
    pub inbox: Inbox,
    /// Small pictures of learned shots.
    pub thumbnails: Thumbnails,
    /// Kept pictures of shots, shown where there is no thumbnail; none where thumbnails are off.
    kept_pictures: Option<KeptPictures>,
    /// Held while a kept picture is decoded: only one at a time takes memory.
    decoding_kept: Mutex<()>,
    /// The background of the service's own camera.
    pub scene: CameraScene,
    /// The regions of that camera's frames.
    pub regions: CameraRegions,
    /// What that camera saw.
    pub sightings: Sightings,
    /// Which classes are answered, as it was chosen on this device.
    pub scope: ScopeFile,
    /// Removes a purged class from records of other crates ([`Service::on_purge`]).
    purge_hook: PurgeHook,
    /// Backups and packs.
    pub transfer: Transfer,
    /// How much memory pictures take together.
    pub admission: Admission,
    /// What is wrong, if anything is.
    pub health: Health,
    /// What page and programs are told as it happens.
    pub events: Events,
    /// Metrics for Prometheus.
    pub metrics: Metrics,
    /// Counts and times of requests by the Open Inference Protocol.
    pub statistics: InferenceStatistics,
    curve: LazyCurve,
    live: OnceLock<LiveCamera>,
    changes: Option<Changes>,
    changes_thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut service = f.debug_struct("Service");
        service.field("bundle", &self.manifest.name).field("camera", &self.live.get().is_some()).finish_non_exhaustive()
    }
}

impl Service {
    /// Opens a bundle's state twice: for the thread that answers, and for the one that changes. Where the settings say
    /// [`AlignmentTime::Later`], that one aligns the head as soon as no change waits.
    ///
    /// # Errors
    /// [`ServeError`] if the state cannot be used, or the backbone or a thread not started.
    pub fn open(bundle: Bundle, store: Store, settings: LearnerSettings) -> Result<Arc<Self>, ServeError> {
        Self::open_with(bundle, store, settings, RetentionOptions::default())
    }

    /// As [`Service::open`], with other retention options than the default ones.
    ///
    /// # Errors
    /// As for [`Service::open`].
    pub fn open_with(
        bundle: Bundle,
        store: Store,
        settings: LearnerSettings,
        retention: RetentionOptions,
    ) -> Result<Arc<Self>, ServeError> {
        let (metrics, events) = (Metrics::default(), Events::default());
        let health = Health::new(store.folder(), events.clone());
        let pending_shots = PendingShots::new(metrics.clone());
        let inbox = Inbox::new(&bundle.base_model, retention.frames, events.clone());
        let thumbnails = Thumbnails::of(&store);
        let kept_pictures = retention.thumbnails.then(|| store.pictures(&bundle.digest));
        let (scene, regions) = (CameraScene::of(&store), CameraRegions::of(&store));
        let opener = |pictures_ahead| {
            learner_opener(bundle.clone(), store.clone(), settings.clone().pictures_ahead(pictures_ahead))
        };
        let turns = TurnQueue::default();
        let transfer = Transfer::new(bundle.clone(), store.clone(), settings.clone(), turns.clone());
        let telemetry = Telemetry { health: health.clone(), events: events.clone(), metrics: metrics.clone() };
        let answers = Answers::start(opener(usize::MAX), store.clone(), inbox.clone(), telemetry.clone())?;
        let (sightings, purge_hook) = (Sightings::default(), PurgeHook::default());
        let records = ClassRecords {
            pending_shots: pending_shots.clone(),
            thumbnails: retention.thumbnails.then(|| thumbnails.clone()),
            sightings: sightings.clone(),
            purge_hook: purge_hook.clone(),
        };
        let (changes, changes_thread) = Changes::start(opener(1), answers.clone(), records, telemetry, turns)?;
        Ok(Arc::new(Self {
            manifest: bundle.manifest.clone(),
            features: bundle.base_model.head.inputs,
            keeps_shots: settings.keep_shots,
            aligns: settings.alignment == AlignmentTime::Later,
            answers,
            pending_shots,
            inbox,
            thumbnails,
            kept_pictures,
            decoding_kept: Mutex::default(),
            scene,
            regions,
            transfer,
            scope: ScopeFile::of(store.folder()),
            sightings,
            purge_hook,
            admission: Admission::new(retention.memory),
            health,
            events,
            metrics,
            statistics: InferenceStatistics::default(),
            curve: lazy_curve(bundle),
            live: OnceLock::new(),
            changes: Some(changes),
            changes_thread: Some(changes_thread),
        }))
    }

    /// How the bundle's error rate falls with the number of shots; the first call measures it.
    pub fn learning_curve(&self) -> Option<&LearningCurve> {
        self.curve.as_ref()
    }

    /// A small JPEG of a stored shot: its thumbnail, else of the picture that was kept of it, as where `orco upgrade`
    /// or `orco learn` learned it.
    pub fn picture_of_shot(&self, exemplar: &[u8; 32]) -> Option<Vec<u8>> {
        self.thumbnails.read(exemplar).or_else(|| {
            let pictures = self.kept_pictures.as_ref()?;
            let _turn = lock(&self.decoding_kept);
            let kept = pictures.read(exemplar).ok()?;
            Some(image::reduced_jpeg(&kept_pictures::decoded(&kept).ok()?, pending_shots::THUMBNAIL_SIDE))
        })
    }

    /// Whether a stored shot has a [small picture](Service::picture_of_shot).
    pub fn has_picture_of_shot(&self, exemplar: &[u8; 32]) -> bool {
        let is_kept = |kept: &KeptPictures| kept.path(exemplar).is_file();
        self.thumbnails.has(exemplar) || self.kept_pictures.as_ref().is_some_and(is_kept)
    }

    /// The stored shots that have a [small picture](Service::picture_of_shot).
    pub fn pictured_shots(&self) -> BTreeSet<[u8; 32]> {
        let mut pictured = self.thumbnails.all();
        let kept = self.kept_pictures.iter().filter_map(|kept| kept.exemplars().ok());
        pictured.extend(kept.flatten());
        pictured
    }

    /// Watches a camera of its own from now on; one that is not there is tried again and again. A second camera is
    /// ignored.
    ///
    /// # Errors
    /// [`ServeError`] if a thread cannot be started, or the source is a folder and something else lies there.
    pub fn watch_camera(&self, source: CameraSource, settings: live::LiveSettings) -> Result<(), ServeError> {
        if let CameraSource::Folder(path) = &source
            && path.exists()
            && !path.is_dir()
        {
            return Err(ServeError::Camera(format!(
                "the camera {source} is no folder: name the folder into which pictures are put"
            )));
        }
        let camera = Camera::open(source).map_err(ServeError::Threads)?;
        let (input, admission) = (self.manifest.preprocessing, self.admission.clone());
        let telemetry =
            Telemetry { health: self.health.clone(), events: self.events.clone(), metrics: self.metrics.clone() };
        let (inbox, answers) = (self.inbox.clone(), self.answers.clone());
        let (scene, regions) = (self.scene.clone(), self.regions.clone());
        let peers = live::LivePeers { inbox, answers, scene, regions, telemetry };
        let _ = self.live.set(LiveCamera::start(camera, settings, input, admission, peers)?);
        Ok(())
    }

    /// Calls `remove` with the labels of each class that is purged from now on, for records that this crate does not
    /// know. If `remove` returns why something is left, the change's result says so. Only the first call of this method
    /// counts.
    pub fn on_purge(&self, remove: impl Fn(&BTreeSet<String>) -> Result<(), String> + Send + Sync + 'static) {
        self.purge_hook.set(Box::new(remove));
    }

    /// Ends the server with [`ServeError::NewBundle`] once another program has moved the state to another bundle and
    /// `can_restart` says that a new start would run with that one. From the move on, it is asked every second. Only
    /// the first call of this method counts.
    pub fn end_on_new_bundle(&self, can_restart: impl Fn() -> bool + Send + Sync + 'static) {
        self.answers.end_on_new_bundle(Box::new(can_restart));
    }

    /// The camera of its own, if it has one.
    pub fn live(&self) -> Option<&LiveCamera> {
        self.live.get()
    }

    /// The thread that changes.
    ///
    /// # Panics
    /// Never: it is there until the service is dropped.
    pub fn changes(&self) -> &Changes {
        self.changes.as_ref().expect("it is there until the service is dropped")
    }

    /// Queues learning the shots of a label.
    ///
    /// # Errors
    /// [`Refusal`] if there are none, no target is free, or the change cannot be queued.
    pub fn learn(&self, label: &str, choice: BaseClassChoice) -> Result<Job, Refusal> {
        let shots = self.pending_shots.of(label);
        let Some(features) = pending_shots::features(&shots) else {
            let sentence = format!("there are no shots of \"{label}\": take some first");
            return Err(Refusal::new(ErrorCode::NothingToLearn, sentence).with("label", label));
        };
        let knowledge = self.answers.knowledge();
        let is_new = knowledge
            .class(label)
            .map_or(true, |class| class < knowledge.base_classes && choice == BaseClassChoice::Replace);
        if is_new {
            knowledge.check_free_target()?;
        }
        let ids = shots.iter().map(|shot| shot.id).collect();
        let pictures = pending_shots::pictures(&shots);
        self.changes().request(ChangeRequest::Learn(LabelledShots {
            label: label.to_owned(),
            features,
            pictures,
            ids,
            choice,
        }))
    }
}

/// Opens a learner whenever it is called: a thread that panicked goes on with a new one.
fn learner_opener(
    bundle: Bundle,
    store: Store,
    settings: LearnerSettings,
) -> impl Fn() -> Result<Learner, ServeError> + Send {
    move || Ok(Learner::new(bundle.clone(), store.clone(), settings.clone())?)
}

fn lazy_curve(bundle: Bundle) -> LazyCurve {
    LazyLock::new(Box::new(move || LearningCurve::of(&bundle.base_model)))
}

impl Drop for Service {
    fn drop(&mut self) {
        self.changes().stop();
        // The queue ends with its last sender.
        self.changes = None;
        self.changes_thread.take().into_iter().for_each(worker::join);
    }
}
