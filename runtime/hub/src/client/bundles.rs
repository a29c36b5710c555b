//! Moving to the bundle that the channel names, and back where that fails.
//!
//! The state moves first, at once or not at all. Then the link `current` is switched to the new bundle, and last its
//! release counts as used: until then the device may go back to an older one. After a power cut between the first two,
//! state and link name different bundles; the next round settles that.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use orco_runtime::bundle::{Bundle, OpenError};
use orco_runtime::files;
use orco_runtime::learner::upgrade::{self, UpgradeError, UpgradeOptions};
use orco_runtime::learner::{Learner, OpenLearnerError};
use orco_runtime::manifest::MANIFEST;
use orco_runtime::release::ReleaseError;
use orco_runtime::state::history::ChangeKind;
use orco_runtime::state::label;
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::StoreError;

use super::Round;
use super::bundle_folder;
use super::download::{self, WantedObject};
use super::error::SyncError;
use super::folder::DeviceFolder;
use super::observer::{SyncStep, proceed};
use super::progress::RefusedRelease;
use super::target_outcome::TargetOutcome;
use crate::protocol::{self, BundleTarget, ObjectDigest, PackTarget, ReleasedFile, bounded};

impl Round<'_, '_> {
    /// Opens the bundle that the device runs with; none if it has none yet, or one that was fetched and is damaged: the
    /// hub hears of that, and it is fetched again.
    pub(super) fn open_current(&mut self) -> Result<(), SyncError> {
        let Some(folder) = self.device.current_folder() else { return Ok(()) };
        self.learner = match self.device.open_learner(&folder) {
            Err(SyncError::Learner(
                error @ (OpenLearnerError::Store(StoreError::OtherBundle { .. })
                | OpenLearnerError::Release(ReleaseError::Older { .. })),
            )) => self.finish_switch(&folder, error)?,
            Err(SyncError::Bundle(error)) if self.is_damaged(&folder, &error) => {
                self.warn(format!("the bundle that this device runs with cannot be used: {}", with_causes(&error)));
                None
            }
            opened => Some(opened?),
        };
        Ok(())
    }

    /// Whether a bundle that was fetched is no longer what came. Its folder is named by its manifest.
    fn is_damaged(&self, folder: &Path, error: &OpenError) -> bool {
        let name = folder.strip_prefix(self.device.folder.bundles()).ok();
        let manifest = name.and_then(|name| ObjectDigest::parse(name.to_str()?));
        let is_file_damaged = matches!(error, OpenError::Read { .. } | OpenError::Digest { .. });
        manifest.is_some_and(|manifest| is_file_damaged || !bundle_folder::has_manifest(folder, manifest))
    }

    /// The state belongs to another bundle than the link's, as after a power cut, or the link's is an older release
    /// than was used. If the state's is a bundle that was fetched, switches the link to it, or goes back where the
    /// device's check fails.
    ///
    /// Or a person went back to the bundle that the device was set up with: then the link goes, and what the channel
    /// says comes next. So it does where there never was a link: a backup that was made on the channel's bundle was
    /// restored on another device.
    fn finish_switch(&mut self, old: &Path, error: OpenLearnerError) -> Result<Option<Learner>, SyncError> {
        for folder in self.fetched_bundles()? {
            let Ok(learner) = self.device.open_learner(&folder) else { continue };
            if (self.device.settings.check)(learner.bundle()).is_ok() {
                self.run_with(learner.bundle(), &folder)?;
                self.outcome.bundle = Some(learner.bundle().manifest.name.clone());
                return Ok(Some(learner));
            }
            self.go_back(old)?;
            return self.device.open_learner(old).map(Some);
        }
        let link = self.device.folder.current_bundle();
        if !link.is_symlink() && matches!(error, OpenLearnerError::Store(_)) {
            return Ok(None);
        }
        if let Some(first) = self.device.settings.bundle.as_ref().filter(|first| first.as_path() != old)
            && let Ok(learner) = self.device.open_learner(first)
        {
            proceed(self.observer, SyncStep::SwitchBundle)?;
            files::remove_if_there(&link).map_err(SyncError::file(&link))?;
            return Ok(Some(learner));
        }
        Err(error.into())
    }

    fn fetched_bundles(&self) -> Result<Vec<PathBuf>, SyncError> {
        let folder = self.device.folder.bundles();
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(SyncError::file(&folder))?,
        };
        let is_digest =
            |path: &PathBuf| path.file_name().and_then(|name| ObjectDigest::parse(name.to_str()?)).is_some();
        Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_digest).collect())
    }

    /// Moves to the bundle that the channel names, or refuses it and stays with the device's own.
    pub(super) fn follow_bundle(&mut self, target: &BundleTarget) -> Result<TargetOutcome, SyncError> {
        self.fetch_and_change(target).or_else(TargetOutcome::deferred)
    }

    fn fetch_and_change(&mut self, target: &BundleTarget) -> Result<TargetOutcome, SyncError> {
        let manifest = match manifest_of(target) {
            Ok(manifest) => manifest,
            Err(reason) => return Ok(TargetOutcome::Refused(reason)),
        };
        if let Some(reason) = self.progress.refusal(target.release, manifest) {
            return Ok(TargetOutcome::Refused(reason.to_owned()));
        }
        let (current, folder) = (self.device.current_folder(), self.bundle_folder(manifest));
        let is_named = current.as_ref().is_some_and(|current| bundle_folder::has_manifest(current, manifest));
        if let Some(learner) = self.learner.as_ref().filter(|_| is_named) {
            self.use_release(learner.bundle())?;
            return Ok(TargetOutcome::Held);
        }
        let was_there = folder.is_dir();
        if was_there && self.learner.is_none() && current.as_ref() == Some(&folder) {
            // It could not be opened.
            bundle_folder::remove(&folder);
        }
        self.fetch_bundle(target, &folder)?;
        let options = UpgradeOptions::default().force(target.force).give_up_unkept(target.give_up_unkept);
        let changed = match (self.device.settings.open)(&folder) {
            Ok(bundle) => self.change_bundle(&bundle, &folder, options)?,
            // A file is missing or damaged: the next round fetches what is to be fetched.
            Err(error @ (OpenError::Read { .. } | OpenError::Digest { .. })) => {
                bundle_folder::remove(&folder);
                TargetOutcome::Deferred(with_causes(&error))
            }
            // Not signed by whom it should be, or made for a later program.
            Err(error) => TargetOutcome::Refused(with_causes(&error)),
        };
        self.note_outcome(target, manifest, &changed)?;
        if !was_there && matches!(changed, TargetOutcome::Refused(_)) {
            bundle_folder::remove(&folder);
        }
        Ok(changed)
    }

    /// Notes what became of the bundle that the channel names; a refusal is kept, so that it counts in later rounds.
    fn note_outcome(
        &mut self,
        target: &BundleTarget,
        manifest: ObjectDigest,
        outcome: &TargetOutcome,
    ) -> Result<(), SyncError> {
        let BundleTarget { name, release, .. } = target;
        // No warnings: whoever called gets the reasons with the outcomes, and would say them twice.
        match outcome {
            TargetOutcome::Held => self.outcome.bundle = Some(name.clone()),
            // What was fetched stays for the next round, unless it was damaged.
            TargetOutcome::Deferred(reason) => {
                log::info!("the bundle {name} of release {release} has to wait: {reason}");
            }
            TargetOutcome::Refused(reason) => {
                log::info!("the bundle {name} of release {release} is refused: {reason}");
                // Only the release that the channel holds now matters.
                let (release, manifest, reason) = (*release, Some(manifest), bounded(reason));
                self.progress.refused = vec![RefusedRelease { release, manifest, reason }];
                self.keep_progress()?;
            }
        }
        Ok(())
    }

    /// Where a bundle that is fetched lies.
    fn bundle_folder(&self, manifest: ObjectDigest) -> PathBuf {
        self.device.folder.bundles().join(manifest.to_string())
    }

    /// Fetches a bundle's files into a folder of their own, which is there as a whole or not at all.
    fn fetch_bundle(&mut self, target: &BundleTarget, folder: &Path) -> Result<(), SyncError> {
        if folder.is_dir() {
            return Ok(());
        }
        let mut fetched = Vec::new();
        for ReleasedFile { name, digest, size } in &target.files {
            let wanted = WantedObject { digest: *digest, size: *size };
            fetched.push((name.as_str(), download::fetch(&mut self.connection, wanted, self.observer)?));
        }
        proceed(self.observer, SyncStep::Write)?;
        bundle_folder::assemble(folder, &fetched).map_err(SyncError::file(folder))
    }

    /// Takes the state over to a bundle and has the device run with it, or refuses it. After a power cut,
    /// `finish_switch` decides the same.
    fn change_bundle(
        &mut self,
        new: &Bundle,
        folder: &Path,
        options: UpgradeOptions,
    ) -> Result<TargetOutcome, SyncError> {
        if let Some(outcome) = self.objection_to(new).or_else(|| self.lack_of_links(folder)) {
            return Ok(outcome);
        }
        proceed(self.observer, SyncStep::Upgrade)?;
        let goes_back = self.can_undo_upgrade_to(new)?;
        // The release does not count as used before the device runs with it.
        let settings = self.device.settings.learner.clone().compare_releases(false);
        let store = self.device.store();
        let changed = if goes_back {
            upgrade::undo_upgrade(new, &store, &settings).map(|outcome| outcome.durable().map(drop))
        } else {
            self.forget_learned_on(new)?;
            let options = if self.is_brought_by(new)? { options.give_up_unkept(true) } else { options };
            upgrade::upgrade(new, &store, &settings, &options, &mut ()).map(|outcome| outcome.durable().map(drop))
        };
        let has_state_moved = match changed {
            Ok(durable) => {
                // Noted at once: the round may have to stop before the link is switched.
                self.outcome.bundle = Some(new.manifest.name.clone());
                durable?;
                true
            }
            Err(UpgradeError::Nothing { .. } | UpgradeError::Same { .. }) => false,
            Err(error) => return without_upgrade(error),
        };
        match self.device.open_learner(folder) {
            Ok(learner) => {
                self.run_with(new, folder)?;
                if !goes_back {
                    self.forget_given_up(&learner)?;
                }
                self.learner = Some(learner);
                Ok(TargetOutcome::Held)
            }
            Err(error) => {
                if let Some(old) = self.device.current_folder().filter(|_| has_state_moved) {
                    self.go_back(&old)?;
                    self.outcome.bundle = None;
                    self.learner = Some(self.device.open_learner(&old)?);
                }
                Ok(TargetOutcome::Deferred(with_causes(&error)))
            }
        }
    }

    /// Why the device does not take a bundle, if that is known before anything is changed.
    fn objection_to(&self, new: &Bundle) -> Option<TargetOutcome> {
        let settings = &self.device.settings;
        match settings.learner.check_release(new, &self.device.store()) {
            Ok(()) => (settings.check)(new).err().map(TargetOutcome::Refused),
            Err(error @ ReleaseError::Older { .. }) => Some(TargetOutcome::Refused(with_causes(&error))),
            Err(error) => Some(TargetOutcome::Deferred(with_causes(&error))),
        }
    }

    /// Why the device could not run with the bundle in that folder: without a link to it, the state would move and
    /// the device stay behind.
    fn lack_of_links(&self, folder: &Path) -> Option<TargetOutcome> {
        let link = self.device.folder.current_bundle();
        bundle_folder::check_links(folder, &link).err().map(|error| {
            let shown = link.display();
            TargetOutcome::Deferred(format!("no link can be made at {shown}: {error}; FAT and exFAT have none"))
        })
    }

    /// If a bundle is another one than the present, forgets the records of what the device learned on it earlier: the
    /// upgrade makes a new state, which has none of that.
    fn forget_learned_on(&mut self, new: &Bundle) -> Result<(), SyncError> {
        if self.learner.as_ref().is_none_or(|learner| learner.bundle().digest == new.digest) {
            return Ok(());
        }
        let bundle_digest = ObjectDigest::new(new.digest);
        let before = self.progress.learned.len();
        self.progress.learned.retain(|learned| learned.bundle_digest != bundle_digest);
        if self.progress.learned.len() < before { self.keep_progress() } else { Ok(()) }
    }

    /// The learner with the newest state, if that can be had. Somebody may be teaching right now: this waits for them,
    /// so that their class counts, too.
    fn newest_learner(&mut self) -> Result<Option<&Learner>, SyncError> {
        let Some(learner) = &mut self.learner else { return Ok(None) };
        match self.device.store().lock(self.device.settings.learner.wait) {
            Ok(locked) => drop(locked),
            Err(error @ StoreError::Busy { .. }) => return Err(error.into()),
            // The upgrade says so.
            Err(_) => return Ok(None),
        }
        learner.refresh()?;
        Ok(self.learner.as_ref())
    }

    /// Whether a bundle brings all that the device learned, as one that was trained on pictures of the fleet: then
    /// nothing is lost where no pictures were kept. It does not bring further shots of the present bundle's classes,
    /// nor learned classes that replaced one of them.
    fn is_brought_by(&mut self, new: &Bundle) -> Result<bool, SyncError> {
        let Some(learner) = self.newest_learner()? else { return Ok(false) };
        let (state, given) = (learner.state(), &learner.base_model().classes);
        let is_brought = |label: &str| {
            new.base_model.classes.iter().any(|class| label::same(&class.label, label))
                && !given.iter().any(|class| label::same(&class.label, label))
        };
        Ok(state.classes.iter().all(|class| is_brought(&class.label))
            && state.exemplars.classes().iter().all(|class| *class as usize >= given.len()))
    }

    /// Whether the present bundle brought all classes that the device had on `new` when it left that one, and nothing
    /// was changed since. Then the state that was kept aside comes back as it was: learned again, classes of which no
    /// pictures were kept would be lost.
    fn can_undo_upgrade_to(&mut self, new: &Bundle) -> Result<bool, SyncError> {
        let Ok(Some(former)) = upgrade::former_state(new, &self.device.store()) else { return Ok(false) };
        let Some(learner) = self.newest_learner()? else { return Ok(false) };
        let (given, left) = (&learner.base_model().classes, &former.state.classes);
        let is_brought = |label: &str| given.iter().any(|class| label::same(&class.label, label));
        let is_unchanged = matches!(learner.history().entries(), [only] if only.kind == ChangeKind::Upgrade);
        Ok(is_unchanged && !left.is_empty() && left.iter().all(|class| is_brought(&class.label)))
    }

    /// After a return to a bundle: forgets the pushed classes of that bundle which the new state lacks. They were given
    /// up when the device left the bundle; without their records, its channel may bring them back.
    fn forget_given_up(&mut self, learner: &Learner) -> Result<(), SyncError> {
        let classes = &learner.state().classes;
        let bundle_digest = ObjectDigest::new(learner.bundle().digest);
        let is_changed = self.progress.forget_pushed(|pushed| {
            pushed.bundle_digest.is_none_or(|of| of == bundle_digest)
                && !classes.iter().any(|class| label::same(&class.label, &pushed.label))
        });
        if is_changed { self.keep_progress() } else { Ok(()) }
    }

    /// Undoes the upgrade: the state is again, to the bit, what it was with the bundle in that folder.
    fn go_back(&mut self, folder: &Path) -> Result<(), SyncError> {
        proceed(self.observer, SyncStep::Upgrade)?;
        let old = (self.device.settings.open)(folder)?;
        upgrade::undo_upgrade(&old, &self.device.store(), &self.device.settings.learner)?.durable()?;
        Ok(())
    }

    /// Has the device run with a bundle: switches the link, and has its release count as used.
    fn run_with(&mut self, bundle: &Bundle, folder: &Path) -> Result<(), SyncError> {
        self.switch_link(folder)?;
        self.use_release(bundle)
    }

    /// Has the release of the bundle that the device runs with count as used, unless it does.
    fn use_release(&self, bundle: &Bundle) -> Result<(), SyncError> {
        let (store, settings) = (self.device.store(), &self.device.settings.learner);
        if settings.is_release_used(bundle, &store).map_err(OpenLearnerError::Release)? {
            return Ok(());
        }
        match store.lock(settings.wait) {
            Ok(locked) => Ok(settings.accept_release(bundle, &locked).map_err(OpenLearnerError::Release)?),
            // The next round tries again.
            Err(StoreError::Busy { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Switches the link to a bundle; the one before stays, for a person to go back to.
    fn switch_link(&mut self, folder: &Path) -> Result<(), SyncError> {
        proceed(self.observer, SyncStep::SwitchBundle)?;
        let link = self.device.folder.current_bundle();
        let before = fs::canonicalize(&link).ok();
        if before.is_some() && before == fs::canonicalize(folder).ok() {
            // It was damaged and came again: the one before is still the one to go back to.
            return Ok(());
        }
        bundle_folder::replace_link(folder, &link).map_err(SyncError::file(&link))?;
        let stays = |other: &Path| fs::canonicalize(other).ok().is_some_and(|other| Some(other) == before);
        for other in self.fetched_bundles()?.into_iter().filter(|other| other != folder && !stays(other)) {
            if let Err(error) = fs::remove_dir_all(&other) {
                log::warn!("cannot remove {}: {error}", other.display());
            }
        }
        Ok(())
    }

    /// Removes objects that were fetched, except packs that the channel still names. A bundle's files stay: they are
    /// linked into its folder. So do files of others.
    pub(super) fn clear_objects(&self, packs: &[PackTarget]) {
        let Ok(entries) = fs::read_dir(self.device.folder.objects()) else { return };
        let wanted: BTreeSet<ObjectDigest> = packs.iter().map(|pack| pack.digest).collect();
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let is_wanted = ObjectDigest::parse(name).is_some_and(|digest| wanted.contains(&digest));
            if DeviceFolder::is_object(name)
                && !is_wanted
                && let Err(error) = fs::remove_file(&path)
            {
                log::warn!("{} is left: {error}", path.display());
            }
        }
    }
}

/// What becomes of a release whose bundle the state could not move to.
///
/// # Errors
/// The store's, if another program is changing the state: the round stops.
fn without_upgrade(error: UpgradeError) -> Result<TargetOutcome, SyncError> {
    match error {
        UpgradeError::Store(error @ StoreError::Busy { .. }) => Err(error.into()),
        UpgradeError::Worse { .. } | UpgradeError::Learn(_) => Ok(TargetOutcome::Refused(with_causes(&error))),
        _ if is_lack_of_pictures(&error) => {
            let reason = format!("{error}; released with --give-up-unkept, the bundle drops such classes");
            Ok(TargetOutcome::Deferred(reason))
        }
        // Pictures may be readable, or there, the next time, and the disk may have room.
        _ => Ok(TargetOutcome::Deferred(with_causes(&error))),
    }
}

/// Whether an upgrade would succeed if classes without pictures may be given up. Where it is not known any more with
/// which bundle pictures were kept, it would not.
fn is_lack_of_pictures(error: &UpgradeError) -> bool {
    match error {
        UpgradeError::Missing { .. } => true,
        UpgradeError::NotKept { source, .. } => source.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// The digest of a bundle's manifest, or what speaks against its files.
fn manifest_of(target: &BundleTarget) -> Result<ObjectDigest, String> {
    protocol::fault_of_files(target.files.iter().map(|file| file.name.as_str())).map_or(Ok(()), Err)?;
    let manifest = target.files.iter().find(|file| file.name == MANIFEST).map(|file| file.digest);
    manifest.ok_or_else(|| "the bundle has no manifest".into())
}
