//! The device's side of a fleet: it enrols once, then makes one round after the other: report, pull what its channel
//! holds, push what it may share.
//!
//! A round may end anywhere, by an error or a power cut: every step is durable by itself and decided by what is on the
//! disk, so the next round goes on from there. Doing a step twice has no effect.

mod bundle_folder;
mod bundles;
mod connection;
mod download;
mod error;
mod folder;
mod observer;
mod packs;
mod progress;
mod purge;
mod push;
mod report;
mod shots_digest;
mod target_outcome;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use orco_runtime::bundle::{Bundle, OpenError};
use orco_runtime::learner::{Learner, LearnerSettings};
use orco_runtime::signature::PublicKey;
use orco_runtime::store::Store;

pub use connection::{HttpTransport, RetryPolicy, Transport, TransportError, WireAnswer, WireRequest};
use connection::{HubCall, HubConnection, HubKey};
pub use error::SyncError;
pub use folder::DeviceFolder;
use folder::DeviceIdentity;
pub use observer::{SyncObserver, SyncStep};
use progress::SyncProgress;
pub use purge::LockedDeviceFolder;
pub use push::SharedClasses;

use crate::protocol::{
    ChannelTarget, DeviceReport, ENROL_PATH, Enrolment, EnrolmentAnswer, EnrolmentCode, ObjectDigest, REPORT_PATH,
    ReleaseOutcome, SigningKey, bounded, is_device_name,
};

/// Name of the file that says who the device is, in its folder.
const IDENTITY: &str = "identity.json";
/// Name of the file that says how far it has come.
const PROGRESS: &str = "progress.json";
/// Rounds in a row that begin with a number that the hub had seen, from which on somebody is warned.
const MANY_REPLAYS: u32 = 2;

/// How a device takes part in a fleet.
pub struct FleetSettings<'a> {
    /// Version of its program.
    pub version: String,
    /// The bundle that it runs with until its channel names one.
    pub bundle: Option<PathBuf>,
    /// How it learns.
    pub learner: LearnerSettings,
    /// Opens a bundle, and refuses one that the device does not accept, such as one without a valid signature.
    pub open: &'a dyn Fn(&Path) -> Result<Bundle, OpenError>,
    /// The device's own check of a bundle that it moved to; where it fails, the device goes back.
    pub check: &'a dyn Fn(&Bundle) -> Result<(), String>,
    /// The key that packs must be signed with.
    pub key: Option<PublicKey>,
    /// Which classes the device may share.
    pub shared: SharedClasses,
    /// Whether it may share the kept pictures of their shots, too.
    pub share_pictures: bool,
    /// How often and how soon a request is sent again.
    pub retry: RetryPolicy,
}

/// Without its functions.
impl fmt::Debug for FleetSettings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, bundle, learner, open: _, check: _, key, shared, share_pictures, retry } = self;
        let mut settings = f.debug_struct("FleetSettings");
        settings.field("version", version).field("bundle", bundle).field("learner", learner).field("key", key);
        settings.field("shared", shared).field("share_pictures", share_pictures).field("retry", retry);
        settings.finish_non_exhaustive()
    }
}

/// A device of a fleet.
#[derive(Debug)]
pub struct FleetDevice<'a> {
    folder: DeviceFolder,
    state: PathBuf,
    settings: FleetSettings<'a>,
}

/// What a round did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncOutcome {
    /// Name of the bundle that the device moved to.
    pub bundle: Option<String>,
    /// Classes that it learned.
    pub imported: Vec<String>,
    /// Classes that its channel took back.
    pub forgotten: Vec<String>,
    /// Classes that it pushed.
    pub pushed: Vec<String>,
    /// Pictures that it pushed.
    pub pictures: usize,
    /// Each release of its channel, with the reason where the device refused it.
    pub outcomes: Vec<ReleaseOutcome>,
}

/// A round that is under way.
struct Round<'r, 'a> {
    device: &'r FleetDevice<'a>,
    connection: HubConnection<'r>,
    observer: &'r mut dyn SyncObserver,
    progress: SyncProgress,
    learner: Option<Learner>,
    warnings: Vec<String>,
    /// Packs that were pushed, but of which the hub has no record or no bytes any more.
    lost: BTreeSet<ObjectDigest>,
    /// Packs of which the hub has fewer pictures than were pushed.
    lost_pictures: BTreeSet<ObjectDigest>,
    outcome: SyncOutcome,
}

impl<'a> FleetDevice<'a> {
    /// The device whose state lies in one folder, and its part in the fleet in another.
    pub fn new(folder: DeviceFolder, state: impl AsRef<Path>, settings: FleetSettings<'a>) -> Self {
        Self { folder, state: state.as_ref().into(), settings }
    }

    /// Enrols with a code from `orco hub code`; returns the channel that the device follows. A device that is enrolled
    /// with the same hub may repeat it, as after a lost answer.
    ///
    /// # Errors
    /// [`SyncError`] if no device can have the name, or the hub cannot be reached or does not take the code.
    pub fn enrol(
        &self,
        transport: &mut dyn Transport,
        code: &EnrolmentCode,
        name: &str,
        observer: &mut dyn SyncObserver,
    ) -> Result<String, SyncError> {
        if !is_device_name(name) {
            return Err(SyncError::Name { name: name.into() });
        }
        let _locked = self.folder.lock()?;
        let mut identity = match self.folder.identity()? {
            Some(identity) if identity.fingerprint == code.fingerprint => identity,
            Some(identity) if identity.hub.is_some() => {
                return Err(SyncError::OtherHub { folder: self.folder.path().into() });
            }
            // None, or one for a hub that did not take its code: it may have been the wrong one.
            _ => {
                // A new key counts anew: a former hub may have said that it had seen the highest number there is.
                if self.folder.sequence()? > 0 {
                    self.folder.keep_sequence(0, observer)?;
                }
                // Before the hub hears of it: a key that it knows must not get lost.
                let new = DeviceIdentity::new(&SigningKey::generate().ok_or(SyncError::Random)?, code.fingerprint);
                self.folder.keep_identity(&new, observer)?;
                new
            }
        };
        let key = self.signing_key(&identity)?;
        let device = key.verifying_key();
        let proof = ObjectDigest::new(code.key().prove(&device));
        let enrolment = Enrolment { code: code.id(), key: device, name: bounded(name), proof };
        let body = serde_json::to_vec(&enrolment).map_err(answer_error)?;
        let hub = HubKey::Expected(code.fingerprint);
        let mut connection = HubConnection::new(transport, &self.folder, key, hub, self.settings.retry);
        let answer = connection.call(HubCall::post(ENROL_PATH, &body), observer)?;
        let enrolled: EnrolmentAnswer = serde_json::from_slice(&answer).map_err(answer_error)?;
        identity.hub = Some(enrolled.hub);
        self.folder.keep_identity(&identity, observer)?;
        Ok(enrolled.channel)
    }

    /// One round: reports, pulls what the channel holds, pushes what may be shared, and reports again if anything
    /// changed.
    ///
    /// # Errors
    /// [`SyncError`] if the round had to stop. What was done stays, and the next round goes on.
    pub fn sync(
        &self,
        transport: &mut dyn Transport,
        observer: &mut dyn SyncObserver,
    ) -> Result<SyncOutcome, SyncError> {
        let mut done = SyncOutcome::default();
        self.sync_noting(transport, observer, &mut done)?;
        Ok(done)
    }

    /// One round as [`FleetDevice::sync`], for programs that must know what was done even where the round had to stop:
    /// `done` holds it in either case.
    ///
    /// # Errors
    /// As for [`FleetDevice::sync`].
    pub fn sync_noting(
        &self,
        transport: &mut dyn Transport,
        observer: &mut dyn SyncObserver,
        done: &mut SyncOutcome,
    ) -> Result<(), SyncError> {
        let identity = self.folder.identity()?.ok_or(SyncError::NotEnrolled)?;
        let _locked = self.folder.lock()?;
        let hub = HubKey::Known(identity.hub.ok_or(SyncError::NotEnrolled)?);
        let key = self.signing_key(&identity)?;
        let mut round = Round {
            device: self,
            connection: HubConnection::new(transport, &self.folder, key, hub, self.settings.retry),
            observer,
            progress: self.folder.progress()?,
            learner: None,
            warnings: Vec::new(),
            lost: BTreeSet::new(),
            lost_pictures: BTreeSet::new(),
            outcome: SyncOutcome::default(),
        };
        let ended = round.run();
        *done = round.outcome;
        ended
    }

    fn signing_key(&self, identity: &DeviceIdentity) -> Result<SigningKey, SyncError> {
        let path = self.folder.path().join(IDENTITY);
        identity.signing_key().ok_or_else(|| SyncError::Damaged { path, reason: "it holds no key".into() })
    }

    fn store(&self) -> Store {
        Store::new(&self.state)
    }

    /// The folder of the bundle that the device runs with. One that was fetched may be damaged or gone.
    fn current_folder(&self) -> Option<PathBuf> {
        let current = self.folder.current_bundle();
        let link = std::fs::read_link(&current);
        // Settings may name the link before the channel's first bundle came.
        let first = || self.settings.bundle.clone().filter(|bundle| *bundle != current);
        link.map(|folder| self.folder.bundles().join(folder)).ok().or_else(first)
    }

    fn open_learner(&self, folder: &Path) -> Result<Learner, SyncError> {
        Ok(Learner::new((self.settings.open)(folder)?, self.store(), self.settings.learner.clone())?)
    }
}

impl Round<'_, '_> {
    fn run(&mut self) -> Result<(), SyncError> {
        self.open_current()?;
        let mut sent = self.report();
        let nonce = getrandom::u64().map_err(|_| SyncError::Random)?;
        let pushed = self.pushed_classes();
        let asking = DeviceReport {
            pushed: pushed.iter().map(|class| class.pack).collect(),
            pictured: self.pushed_pictures(&pushed),
            nonce: Some(nonce),
            ..sent.clone()
        };
        let mut target = self.send(&asking)?;
        self.lost = target.lost.iter().copied().collect();
        self.lost_pictures = target.lost_pictures.iter().copied().collect();
        self.count_replays()?;
        if let Some(bundle) = target.bundle.clone() {
            let outcome = self.follow_bundle(&bundle)?.of_release(bundle.release);
            let is_new = !self.progress.outcomes.contains(&outcome);
            self.outcome.outcomes.push(outcome);
            if is_new {
                // The hub offers packs of the bundle that was reported: the new one, before packs are pulled.
                self.keep_outcomes()?;
                sent = self.report();
                target = self.send(&sent)?;
            }
        }
        if self.learner.is_none() {
            // A state of another bundle than those at hand is a person's to settle.
            let opened = self.device.current_folder().map(|folder| self.device.open_learner(&folder));
            return Err(match opened {
                Some(Err(error @ SyncError::Learner(_))) => error,
                _ => SyncError::NoBundle,
            });
        }
        let followed = self.follow_packs(&target.packs)?;
        self.outcome.outcomes.extend(followed);
        self.clear_objects(&target.packs);
        self.keep_outcomes()?;
        // Pushing may take long and be cut off: what became of releases is said before.
        let sent = self.send_if_changed(sent)?;
        self.push_classes()?;
        self.send_if_changed(sent)?;
        Ok(())
    }

    /// Counts rounds that began with a number that the hub had seen before. After a restored backup one does; where it
    /// goes on, another device counts on, too.
    fn count_replays(&mut self) -> Result<(), SyncError> {
        let replays = if self.connection.replayed { (self.progress.replays + 1).min(MANY_REPLAYS) } else { 0 };
        if replays != self.progress.replays {
            self.progress.replays = replays;
            self.keep_progress()?;
        }
        if replays == MANY_REPLAYS {
            self.warn(format!(
                "two devices may use the same key, as after a disk was copied: the hub got messages that this one did \
                 not send; on one of them, remove {IDENTITY} and {PROGRESS} in {}, but not the bundles there, and \
                 enrol that one again",
                self.device.folder.path().display()
            ));
        }
        Ok(())
    }

    /// Warns whoever looks at the device, and at the hub with the next report.
    fn warn(&mut self, warning: String) {
        log::warn!("{warning}");
        self.warnings.push(warning);
    }

    /// Reports again if anything changed; returns the last report.
    fn send_if_changed(&mut self, sent: DeviceReport) -> Result<DeviceReport, SyncError> {
        let report = self.report();
        if report != sent {
            self.send(&report)?;
        }
        Ok(report)
    }

    /// Keeps what became of releases for the next report.
    fn keep_outcomes(&mut self) -> Result<(), SyncError> {
        if self.progress.outcomes == self.outcome.outcomes {
            return Ok(());
        }
        self.progress.outcomes.clone_from(&self.outcome.outcomes);
        self.keep_progress()
    }

    fn keep_progress(&mut self) -> Result<(), SyncError> {
        self.device.folder.keep_progress(&self.progress, self.observer)
    }

    fn send(&mut self, report: &DeviceReport) -> Result<ChannelTarget, SyncError> {
        let body = serde_json::to_vec(report).map_err(answer_error)?;
        let answer = self.connection.call(HubCall::post(REPORT_PATH, &body), self.observer)?;
        serde_json::from_slice(&answer).map_err(answer_error)
    }
}

fn answer_error(error: serde_json::Error) -> SyncError {
    SyncError::Answer { reason: error.to_string() }
}
