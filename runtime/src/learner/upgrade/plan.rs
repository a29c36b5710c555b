//! What is to be learned again, from which pictures.

use std::io;
use std::ops::ControlFlow;

use ::image::RgbImage;
use orco_state::codec;
use orco_state::history::SavedState;
use orco_state::label;
use orco_state::state::Class;

use super::{UpgradeError, UpgradeOptions};
use crate::bundle::Bundle;
use crate::learner::{ChangeStep, Observer};
use crate::store::BundleRecord;
use crate::store::kept_pictures::{self, KeptPictures};

/// What is to be learned again.
pub struct UpgradePlan {
    /// The bundle of the old state.
    pub from: BundleRecord,
    /// Learned classes in the order of learning, then base classes that were given further shots.
    pub classes: Vec<PlannedClass>,
    /// What is wrong with pictures, in sentences.
    pub warnings: Vec<String>,
    pictures: KeptPictures,
}

/// A class that is to be learned again.
pub struct PlannedClass {
    /// Its label.
    pub label: String,
    /// Its place among the learned classes of the old state.
    pub learned: Option<usize>,
    /// What becomes of it.
    pub role: ClassRole,
    /// Shots that the old state has of it.
    pub shots: usize,
    /// The pictures that are there and can be used.
    pub files: Vec<KeptPicture>,
}

impl PlannedClass {
    /// Whether it was learned and the new bundle brings it: without pictures it is still known.
    fn is_brought(&self) -> bool {
        self.learned.is_some() && self.role == ClassRole::Base
    }
}

/// A picture that was checked and can be used. There may be far more of them than memory has room for, so it is read
/// once more to be learned from; by its digest it is the same then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptPicture {
    /// The exemplar that came of it.
    exemplar: [u8; 32],
    /// SHA-256 of its file.
    digest: [u8; 32],
}

/// What becomes of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassRole {
    /// The new bundle brings it; its shots are further ones.
    Base,
    /// It is learned, in the place of a base class if it replaced one already.
    Learned {
        /// In which session of the old state; classes of the old bundle that the new one does not have come last.
        session: u32,
    },
}

impl ClassRole {
    /// The role of a class that is not known to replace a base class.
    fn of(bundle: &Bundle, label: &str, session: u32) -> Self {
        let is_brought = bundle.base_model.classes.iter().any(|class| label::same(&class.label, label));
        if is_brought { Self::Base } else { Self::Learned { session } }
    }
}

impl UpgradePlan {
    /// Plans by the pictures that are kept of a state's shots, each of which is decoded.
    ///
    /// # Errors
    /// [`UpgradeError::NotKept`] if the bundle that the pictures were kept with is unknown, [`UpgradeError::Picture`]
    /// if a picture is there but cannot be read, [`UpgradeError::Cancelled`] if the observer cancels.
    pub fn of(
        old: &SavedState,
        pictures: &KeptPictures,
        bundle: &Bundle,
        options: UpgradeOptions,
        observer: &mut dyn Observer,
    ) -> Result<Self, UpgradeError> {
        let state = &old.state;
        let knows_nothing = state.exemplars.is_empty() && state.classes.is_empty();
        let from = match pictures.kept_with() {
            Ok(from) => from,
            Err(_) if knows_nothing => unknown_bundle(),
            Err(source) if source.kind() == io::ErrorKind::NotFound && options.gives_up() => {
                return Ok(Self::without_any_pictures(old, pictures, bundle));
            }
            Err(source) => return Err(UpgradeError::NotKept { folder: pictures.folder().into(), source }),
        };
        let mut plan = Self { from, classes: Vec::new(), warnings: Vec::new(), pictures: pictures.clone() };
        let base = plan.from.labels.len();
        let learned = state.classes.iter().enumerate().map(|(index, class)| (base + index, &class.label, Some(index)));
        let base_labels = plan.from.labels.clone();
        let brought = base_labels.iter().enumerate().map(|(index, label)| (index, label, None));
        let (mut done, total) = (0, state.exemplars.len());
        let mut one_more = || {
            done += 1;
            observer.step(ChangeStep::Pictures { done, total })
        };
        for (class, label, learned) in learned.chain(brought) {
            let bank = &state.exemplars;
            let own: Vec<[u8; 32]> = bank.members(class as u32).map(|shot| bank.digest_of(shot)).collect();
            if learned.is_none() && own.is_empty() {
                continue;
            }
            let is_replacement = state.classes.iter().any(|class| label::same(&class.label, label))
                && base_labels.iter().any(|base_label| label::same(base_label, label));
            if is_replacement && learned.is_none() {
                plan.warnings.push(format!("shots of the base class \"{label}\" are left out, since it was replaced"));
                continue;
            }
            let session = learned.map_or(u32::MAX, |index| state.classes[index].session);
            let role =
                if is_replacement { ClassRole::Learned { session } } else { ClassRole::of(bundle, label, session) };
            let files = plan.usable(label, &own, &mut one_more)?;
            plan.classes.push(PlannedClass { label: label.clone(), learned, role, shots: own.len(), files });
        }
        Ok(plan)
    }

    /// No picture was ever kept, as on a device whose classes came in packs: there is nothing to learn again. Which
    /// classes took the place of base classes is not known.
    fn without_any_pictures(old: &SavedState, pictures: &KeptPictures, bundle: &Bundle) -> Self {
        let class = |(index, class): (usize, &Class)| {
            let role = ClassRole::of(bundle, &class.label, class.session);
            PlannedClass { label: class.label.clone(), learned: Some(index), role, shots: 0, files: Vec::new() }
        };
        let classes = old.state.classes.iter().enumerate().map(class).collect();
        let warnings = vec!["no pictures were kept, so all shots that were learned from are given up".into()];
        Self { from: unknown_bundle(), classes, warnings, pictures: pictures.clone() }
    }

    /// The pictures of exemplars that can be used; says which are missing or damaged.
    ///
    /// # Errors
    /// [`UpgradeError::Picture`] if one is there but cannot be read: it may be sound, and is not to be lost.
    fn usable(
        &mut self,
        label: &str,
        exemplars: &[[u8; 32]],
        one_more: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Vec<KeptPicture>, UpgradeError> {
        let mut usable = Vec::with_capacity(exemplars.len());
        let mut missing = 0;
        for exemplar in exemplars {
            let path = self.pictures.path(exemplar);
            match self.pictures.read(exemplar) {
                Ok(bytes) => match kept_pictures::decoded(&bytes) {
                    Ok(_) => usable.push(KeptPicture { exemplar: *exemplar, digest: codec::digest(&bytes) }),
                    Err(error) => self.warnings.push(format!("{}, a shot of \"{label}\", {error}", path.display())),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing += 1,
                Err(source) => return Err(UpgradeError::Picture { path, label: label.into(), source }),
            }
            if one_more().is_break() {
                return Err(UpgradeError::Cancelled);
            }
        }
        if missing > 0 {
            self.warnings
                .push(format!("of {missing} of the {} shots of \"{label}\" no picture is kept", exemplars.len()));
        }
        Ok(usable)
    }

    /// A picture of a class, which could be used when it was checked.
    ///
    /// # Errors
    /// [`UpgradeError::Picture`] if it cannot be read any more, or is another one now.
    pub fn open(&self, label: &str, usable: &KeptPicture) -> Result<(Vec<u8>, RgbImage), UpgradeError> {
        let bytes = self.pictures.read(&usable.exemplar).and_then(|bytes| {
            let changed = || io::Error::other("it changed while it was in use");
            if codec::digest(&bytes) == usable.digest { Ok(bytes) } else { Err(changed()) }
        });
        let opened = bytes.and_then(|bytes| {
            let picture = kept_pictures::decoded(&bytes).map_err(|error| io::Error::other(format!("it {error}")))?;
            Ok((bytes, picture))
        });
        let path = || self.pictures.path(&usable.exemplar);
        opened.map_err(|source| UpgradeError::Picture { path: path(), label: label.into(), source })
    }

    /// Labels of classes of which there is no picture, and which the new bundle does not bring itself.
    pub fn without_pictures(&self) -> Vec<String> {
        let is_lost = |class: &&PlannedClass| class.files.is_empty() && !class.is_brought();
        self.classes.iter().filter(is_lost).map(|class| class.label.clone()).collect()
    }

    /// Number of pictures.
    pub fn pictures(&self) -> usize {
        self.classes.iter().map(|class| class.files.len()).sum()
    }
}

/// The bundle of a state of which no picture was kept.
fn unknown_bundle() -> BundleRecord {
    BundleRecord { name: String::new(), release: 0, digest: String::new(), labels: Vec::new() }
}
