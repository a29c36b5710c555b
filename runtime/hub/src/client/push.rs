//! Pushing what the device was taught and may share.

use std::collections::BTreeSet;
use std::io;

use orco_runtime::learner::Learner;
use orco_runtime::pack::{self, PackOrigin};
use orco_runtime::state::label;

use super::connection::HubCall;
use super::error::SyncError;
use super::progress::PushedClass;
use super::shots_digest::class_shots_digest;
use super::{Round, answer_error};
use crate::protocol::{MAX_CLASSES, MAX_PACK, ObjectDigest, PACKS_PATH, PushAnswer, PushedPictures, RefusalKind};

/// Which classes a device may share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SharedClasses {
    /// None.
    #[default]
    None,
    /// All that it was taught.
    All,
    /// Those with these labels.
    Labels(Vec<String>),
}

impl SharedClasses {
    fn includes(&self, class: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Labels(labels) => labels.iter().any(|label| label::same(label, class)),
        }
    }
}

impl Round<'_, '_> {
    /// What was pushed of what may be shared as it is now, whether the hub still has it or not.
    pub(super) fn pushed_classes(&self) -> Vec<&PushedClass> {
        let Some(learner) = self.learner.as_ref().filter(|_| !self.progress.pushed.is_empty()) else {
            return Vec::new();
        };
        let labels = learner.state().classes.iter().map(|class| &class.label);
        let pushed = labels.filter(|label| self.device.settings.shared.includes(label)).filter_map(|label| {
            let shots_digest = class_shots_digest(learner, label)?;
            self.progress.pushed(label, shots_digest)
        });
        pushed.take(MAX_CLASSES).collect()
    }

    /// How many pictures were pushed of these classes, where pictures may be shared.
    pub(super) fn pushed_pictures(&self, classes: &[&PushedClass]) -> Vec<PushedPictures> {
        if !self.device.settings.share_pictures {
            return Vec::new();
        }
        let counted = classes.iter().filter_map(|class| Some((class.pack, class.picture_count?)));
        counted.filter(|(_, count)| *count > 0).map(|(pack, count)| PushedPictures { pack, count }).collect()
    }

    /// Pushes classes that were taught here and are not pushed as they are now, or that the hub lost since, or their
    /// pictures.
    pub(super) fn push_classes(&mut self) -> Result<(), SyncError> {
        let Some(mut learner) = self.learner.take() else { return Ok(()) };
        let pushed = self.push_all(&mut learner);
        self.learner = Some(learner);
        pushed
    }

    fn push_all(&mut self, learner: &mut Learner) -> Result<(), SyncError> {
        let labels: Vec<String> = learner.state().classes.iter().map(|class| class.label.clone()).collect();
        for label in labels.iter().filter(|label| self.device.settings.shared.includes(label)) {
            let Some(shots_digest) = class_shots_digest(learner, label) else { continue };
            if self.is_from_channel(learner, label) {
                continue;
            }
            let known = self.progress.pushed(label, shots_digest).filter(|pushed| !self.lost.contains(&pushed.pack));
            let class = match known.cloned() {
                Some(class) => class,
                None => match self.push_class(learner, label, shots_digest)? {
                    Some(class) => class,
                    None => continue,
                },
            };
            let are_counted = class.pictures && class.picture_count.is_some();
            let has_pictures = are_counted && !self.lost_pictures.contains(&class.pack);
            if self.device.settings.share_pictures && !has_pictures {
                let count = self.push_pictures(learner, label, &class)?;
                if let Some(pushed) =
                    self.progress.pushed.iter_mut().find(|pushed| pushed.has_shots(label, shots_digest))
                {
                    (pushed.pictures, pushed.picture_count) = (true, Some(count));
                }
                self.keep_progress()?;
            }
        }
        Ok(())
    }

    fn push_class(
        &mut self,
        learner: &mut Learner,
        label: &str,
        shots_digest: ObjectDigest,
    ) -> Result<Option<PushedClass>, SyncError> {
        let bytes = pack::seal(&learner.export(label, PackOrigin::default())?.to_be_signed(), "");
        if bytes.len() > MAX_PACK {
            self.warn(format!("\"{label}\" is too large to be shared"));
            return Ok(None);
        }
        let answer = match self.connection.call(HubCall::post(PACKS_PATH, &bytes), self.observer) {
            Err(SyncError::Refused { reason, .. }) => {
                self.warn(format!("\"{label}\" is not shared: {reason}"));
                return Ok(None);
            }
            answer => answer?,
        };
        let PushAnswer { digest: pack } = serde_json::from_slice(&answer).map_err(answer_error)?;
        let bundle_digest = Some(ObjectDigest::new(learner.bundle().digest));
        let class = PushedClass {
            label: label.to_owned(),
            shots_digest,
            pack,
            bundle_digest,
            pictures: false,
            picture_count: None,
        };
        self.progress.remember_pushed(class.clone());
        self.keep_progress()?;
        self.outcome.pushed.push(label.to_owned());
        Ok(Some(class))
    }

    /// Pushes the kept pictures of a class's shots, and returns how many different ones the hub took. Those that are
    /// not kept are passed over; what is wrong with others is a warning.
    fn push_pictures(&mut self, learner: &Learner, label: &str, class: &PushedClass) -> Result<u32, SyncError> {
        let state = learner.state();
        let Some(index) = state.find_class(learner.base_model(), label) else { return Ok(0) };
        let kept = learner.store().pictures(&learner.bundle().digest);
        let path = format!("{PACKS_PATH}/{}/pictures", class.pack);
        let mut taken = BTreeSet::new();
        for exemplar in state.exemplars.members(index as u32).map(|shot| state.exemplars.digest_of(shot)) {
            let picture = match kept.read(&exemplar) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.warn_of_picture(label, &error.to_string());
                    continue;
                }
                Ok(picture) => picture,
            };
            match self.connection.call(HubCall::post(&path, &picture), self.observer) {
                // As where another device pushed the very same pack, such as one with a copy of this one's card.
                Err(SyncError::Refused { kind: RefusalKind::Missing, reason }) => {
                    self.warn(format!("pictures of \"{label}\" are not shared: {reason}"));
                    break;
                }
                Err(SyncError::Refused { kind: RefusalKind::Invalid, reason }) => {
                    self.warn_of_picture(label, &reason);
                    continue;
                }
                answer => drop(answer?),
            }
            taken.insert(ObjectDigest::of(&picture));
            self.outcome.pictures += 1;
        }
        Ok(u32::try_from(taken.len()).unwrap_or(u32::MAX))
    }

    fn warn_of_picture(&mut self, label: &str, reason: &str) {
        self.warn(format!("a picture of \"{label}\" is not shared: {reason}"));
    }
}
