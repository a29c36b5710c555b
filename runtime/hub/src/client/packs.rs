//! Learning what the channel holds, and forgetting what it took back.

use orco_runtime::files;
use orco_runtime::learner::{ChangeError, Learner, PackClass};
use orco_runtime::pack::{self, Pack};
use orco_runtime::state::history::{EntryId, HistoryEntry};
use orco_runtime::state::label;
use orco_runtime::state::sentence::with_causes;

use super::Round;
use super::download::{self, WantedObject};
use super::error::SyncError;
use super::observer::{SyncStep, proceed};
use super::progress::LearnedPack;
use super::shots_digest::{class_shots_digest, shots_digest};
use super::target_outcome::TargetOutcome;
use crate::protocol::{ObjectDigest, PackTarget, ReleaseOutcome};

/// What is to be done about a pack of the channel.
#[derive(Debug, PartialEq, Eq)]
enum PackAction {
    /// Nothing: the device holds it.
    Hold,
    /// It is learned.
    Learn,
    /// It is learned in the place of a class of its label, which came from the channel or is part of the pack.
    Replace,
    /// A class of its label was taught here, unless it is the pack itself, learned before the power failed.
    Compare,
}

impl Round<'_, '_> {
    /// Learns the packs that the channel holds, in their order, and forgets the classes of packs that it took back.
    pub(super) fn follow_packs(&mut self, packs: &[PackTarget]) -> Result<Vec<ReleaseOutcome>, SyncError> {
        let Some(mut learner) = self.learner.take() else { return Ok(Vec::new()) };
        let followed = self.follow_all(&mut learner, packs);
        self.learner = Some(learner);
        followed
    }

    fn follow_all(&mut self, learner: &mut Learner, packs: &[PackTarget]) -> Result<Vec<ReleaseOutcome>, SyncError> {
        // Opened when the round began, and somebody may have taught since.
        learner.refresh()?;
        self.settle_learning(learner)?;
        self.settle_restored(learner)?;
        self.forget_withdrawn(learner, packs)?;
        let mut outcomes = Vec::with_capacity(packs.len());
        for target in packs {
            let outcome = self.follow_pack(learner, target).or_else(TargetOutcome::deferred)?;
            outcomes.push(outcome.of_release(target.release));
        }
        Ok(outcomes)
    }

    fn follow_pack(&mut self, learner: &mut Learner, target: &PackTarget) -> Result<TargetOutcome, SyncError> {
        if self.action(learner, target) == PackAction::Hold {
            return Ok(TargetOutcome::Held);
        }
        // It is read into memory as a whole.
        if target.size > pack::MAX_FILE {
            let reason = format!("the pack has {} bytes, but may have {}", target.size, pack::MAX_FILE);
            return Ok(TargetOutcome::Refused(reason));
        }
        let wanted = WantedObject { digest: target.digest, size: target.size };
        let path = download::fetch(&mut self.connection, wanted, self.observer)?;
        let bytes = download::read(&path, target.digest)?;
        let pack = match pack::open(&bytes, self.device.settings.key.as_ref()) {
            Ok(pack) if label::same(&pack.label, &target.label) => pack,
            Ok(_) => return Ok(TargetOutcome::Refused("the pack has another label than the channel says".into())),
            Err(error) => return Ok(TargetOutcome::Refused(with_causes(&error))),
        };
        // Fetching may take long.
        learner.refresh()?;
        let action = self.action(learner, target);
        if action == PackAction::Hold {
            return Ok(TargetOutcome::Held);
        }
        let (shots_digest, bundle_digest) = (shots_digest(&pack), ObjectDigest::new(pack.bundle_digest));
        let record = LearnedPack { pack: target.digest, bundle_digest, label: pack.label.clone(), shots_digest };
        if class_shots_digest(learner, &pack.label) != Some(shots_digest) {
            if action == PackAction::Compare {
                return Ok(taught_another(&target.label));
            }
            let learned = self.learn(learner, &pack, target, &record)?;
            if learned != TargetOutcome::Held {
                return Ok(learned);
            }
        }
        self.progress.remember_learned(record);
        self.keep_progress()?;
        if let Err(error) = files::remove_if_there(&path) {
            log::warn!("{} is left: {error}", path.display());
        }
        Ok(TargetOutcome::Held)
    }

    /// The power may have failed when a pack was learned, but not noted yet: the state tells.
    fn settle_learning(&mut self, learner: &Learner) -> Result<(), SyncError> {
        let Some(learning) = self.progress.learning.take() else { return Ok(()) };
        if class_shots_digest(learner, &learning.label) == Some(learning.shots_digest) {
            self.progress.remember_learned(learning);
        }
        self.keep_progress()
    }

    /// A backup may have brought classes back that the channel replaced or took back since: they are the channel's, not
    /// the device's own.
    fn settle_restored(&mut self, learner: &Learner) -> Result<(), SyncError> {
        if !std::mem::take(&mut self.progress.is_restored) {
            return Ok(());
        }
        for former in self.progress.former.clone() {
            if class_shots_digest(learner, &former.label) == Some(former.shots_digest)
                && !self.is_from_channel(learner, &former.label)
            {
                self.progress.remember_learned(former);
            }
        }
        self.keep_progress()
    }

    /// Decides by what the device knows, without fetching anything.
    fn action(&self, learner: &Learner, target: &PackTarget) -> PackAction {
        // Even if somebody forgot the class since: that was meant. What was pushed and purged here stays away in merged
        // packs, too.
        if self.progress.learned(&target.digest).is_some()
            || target.origins.iter().any(|pack| self.progress.has_purged(pack))
        {
            return PackAction::Hold;
        }
        // The channel gives the device's own class to others: if it got further shots or another label here, or was
        // forgotten, that was meant as well.
        if let [pack] = target.origins.as_slice()
            && self.progress.has_pushed(pack)
            && !self.is_from_channel(learner, &target.label)
        {
            return PackAction::Hold;
        }
        let classes = &learner.state().classes;
        match classes.iter().find(|class| self.is_origin(learner, &class.label, &target.origins)) {
            // The channel gives the device's own class to others.
            Some(_) if target.origins.len() == 1 => return PackAction::Hold,
            Some(class) if label::same(&class.label, &target.label) => return PackAction::Replace,
            _ => {}
        }
        match classes.iter().find(|class| label::same(&class.label, &target.label)) {
            None => PackAction::Learn,
            Some(class) if self.is_from_channel(learner, &class.label) => PackAction::Replace,
            Some(_) => PackAction::Compare,
        }
    }

    /// Whether a class is, as it is now, one that the device pushed and that a release was made of.
    fn is_origin(&self, learner: &Learner, label: &str, origins: &[ObjectDigest]) -> bool {
        let mut pushed = self.progress.pushed.iter().filter(|pushed| label::same(&pushed.label, label));
        pushed.any(|pushed| {
            origins.contains(&pushed.pack) && class_shots_digest(learner, label) == Some(pushed.shots_digest)
        })
    }

    /// Whether a class is, as it is now, one that the device learned because its channel held it.
    pub(super) fn is_from_channel(&self, learner: &Learner, label: &str) -> bool {
        let mut learned = self.progress.learned.iter().filter(|learned| label::same(&learned.label, label));
        learned.any(|learned| class_shots_digest(learner, label) == Some(learned.shots_digest))
    }

    /// Learns a pack, an entry of the history, or refuses it. Its record is kept before: by the next round the channel
    /// may hold another one, or none.
    fn learn(
        &mut self,
        learner: &mut Learner,
        pack: &Pack,
        target: &PackTarget,
        record: &LearnedPack,
    ) -> Result<TargetOutcome, SyncError> {
        if let Err(error) = pack.to_class(&learner.bundle().digest) {
            return Ok(TargetOutcome::Refused(with_causes(&error)));
        }
        let mut replaced = None;
        if class_shots_digest(learner, &pack.label).is_some() {
            let is_replaced = |round: &Self, learner: &Learner| round.action(learner, target) == PackAction::Replace;
            if self.forget(learner, &pack.label, is_replaced)? {
                replaced = learner.history().entries().last().map(HistoryEntry::id);
            } else if class_shots_digest(learner, &pack.label).is_some() {
                return Ok(taught_another(&pack.label));
            }
        }
        self.progress.learning = Some(record.clone());
        self.keep_progress()?;
        proceed(self.observer, SyncStep::Import(pack.label.clone()))?;
        match learner.import(&[PackClass { pack, label: None }], &mut ()) {
            Ok(outcome) => {
                if replaced.is_some() {
                    self.outcome.forgotten.pop();
                }
                self.outcome.imported.push(pack.label.clone());
                outcome.durable()?;
            }
            Err(error @ (ChangeError::Store(_) | ChangeError::Cancelled)) => return Err(error.into()),
            Err(error) => {
                self.progress.learning = None;
                // What it was to replace may be the device's own.
                if let Some(entry) = replaced
                    && undo_forgetting(learner, entry, &pack.label)?
                {
                    self.outcome.forgotten.pop();
                }
                return Ok(TargetOutcome::Refused(with_causes(&error)));
            }
        }
        Ok(TargetOutcome::Held)
    }

    /// Forgets a class if that is still meant when nobody else can change it any more; notes and returns whether it
    /// did.
    fn forget(
        &mut self,
        learner: &mut Learner,
        label: &str,
        is_meant: impl FnOnce(&Self, &Learner) -> bool,
    ) -> Result<bool, SyncError> {
        proceed(self.observer, SyncStep::Forget(label.to_owned()))?;
        let round = &*self;
        let Some(outcome) = learner.forget_if(label, |learner| is_meant(round, learner), &mut ())? else {
            return Ok(false);
        };
        self.outcome.forgotten.push(label.to_owned());
        outcome.durable()?;
        Ok(true)
    }

    /// Forgets classes whose packs the channel holds no more. A class that got further shots here stays: it is the
    /// device's own by now.
    fn forget_withdrawn(&mut self, learner: &mut Learner, packs: &[PackTarget]) -> Result<(), SyncError> {
        let bundle_digest = ObjectDigest::new(learner.bundle().digest);
        let is_held = |learned: &LearnedPack| {
            packs.iter().any(|target| target.digest == learned.pack || label::same(&target.label, &learned.label))
        };
        let all = self.progress.learned.iter();
        let withdrawn: Vec<LearnedPack> =
            all.filter(|learned| learned.bundle_digest == bundle_digest && !is_held(learned)).cloned().collect();
        for LearnedPack { pack, label, .. } in withdrawn {
            let is_from_channel = |round: &Self, learner: &Learner| round.is_from_channel(learner, &label);
            if is_from_channel(self, learner) {
                self.forget(learner, &label, is_from_channel)?;
            }
            if class_shots_digest(learner, &label).is_none() {
                // What the device had pushed under that label may have gone with it.
                self.progress.forget_pushed(|pushed| label::same(&pushed.label, &label));
            }
            self.progress.retire(|learned| learned.pack == pack);
            self.keep_progress()?;
        }
        Ok(())
    }
}

fn taught_another(label: &str) -> TargetOutcome {
    // As a purge has it.
    let label = label::normal(label);
    let reason = format!("this device was taught another \"{label}\"; merge both, or keep them apart");
    TargetOutcome::Refused(reason)
}

/// Brings a forgotten class back, unless somebody changed the state since: that change is not ours to undo. Returns
/// whether it did.
fn undo_forgetting(learner: &mut Learner, forgotten: EntryId, label: &str) -> Result<bool, SyncError> {
    match learner.undo_if_last(forgotten, &mut ()) {
        Err(error @ (ChangeError::NotLast { .. } | ChangeError::OtherEntry { .. })) => {
            log::warn!("\"{label}\" stays forgotten; entry {} of the history forgot it: {error}", forgotten.number);
            Ok(false)
        }
        undone => {
            undone?.durable()?;
            Ok(true)
        }
    }
}
