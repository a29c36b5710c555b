//! Keeps the pictures of the shots that a change learns from.

use ::image::RgbImage;
use orco_state::bank::Bank;

use super::Learner;
use crate::bundle::Bundle;
use crate::store::kept_pictures;
use crate::store::picture_guard::PictureGuard;
use crate::store::{BundleRecord, LockedStore, StoreError};

/// Writes pictures while their shots are read, so that one at a time is in memory. Removes them again unless the change
/// is [done](ShotKeeper::done).
pub(super) struct ShotKeeper<'a> {
    pictures: PictureGuard<'a>,
    /// Pictures that were kept before.
    before: usize,
}

impl<'a> ShotKeeper<'a> {
    pub(super) fn begin(locked: &'a LockedStore, bundle: &Bundle) -> Result<Self, StoreError> {
        let pictures = PictureGuard::new(locked, bundle.digest);
        let before = pictures.begin(&BundleRecord::of(bundle))?;
        Ok(Self { pictures, before })
    }

    /// Refuses `more` pictures if that would be too many.
    pub(super) fn check_room(&self, more: usize) -> Result<(), StoreError> {
        self.pictures.locked().check_room(self.before + more)
    }

    /// Keeps the picture of a shot. `bank` has the layout of the one that stores the exemplar.
    pub(super) fn keep(&mut self, bank: &Bank, features: &[f32], fitted: &RgbImage) -> Result<(), StoreError> {
        let path = || self.pictures.locked().store().pictures(self.pictures.digest()).folder().to_owned();
        let bytes = kept_pictures::encoded(fitted).map_err(|source| StoreError::Write { path: path(), source })?;
        self.keep_file(bank, features, &bytes)
    }

    /// Keeps the picture of a shot from the bytes of its file.
    pub(super) fn keep_file(&mut self, bank: &Bank, features: &[f32], bytes: &[u8]) -> Result<(), StoreError> {
        self.pictures.keep(bank.digest_of_shot(features), bytes)
    }

    /// To be asked before the change is saved: whether the pictures are still there for it.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.pictures.locked().check_in_place()
    }

    /// The change is made.
    pub(super) fn done(self) {
        self.pictures.release();
    }
}

/// How many pictures of shots are kept, and how many bytes they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptPicturesReport {
    /// Shots of the present state whose picture is kept.
    pub shots: usize,
    /// Kept pictures of shots of the state or its history, including shots that only undoing brings back.
    pub pictures: usize,
    /// Bytes of their files.
    pub bytes: u64,
    /// Most bytes that one takes.
    pub bytes_each: u64,
}

impl Learner {
    /// How many pictures of shots are kept: none where the folder cannot be read.
    pub fn kept_pictures(&self) -> KeptPicturesReport {
        let pictures = self.store.pictures(&self.bundle.digest);
        let there = pictures.exemplars().unwrap_or_default();
        let kept_pictures::KeptUsage { pictures, bytes } =
            pictures.usage(&self.saved.exemplar_digests()).unwrap_or_default();
        let exemplars = &self.saved.state.exemplars;
        let shots = (0..exemplars.len()).filter(|exemplar| there.contains(&exemplars.digest_of(*exemplar))).count();
        let [width, height] = self.bundle.manifest.preprocessing.canvas();
        KeptPicturesReport { shots, pictures, bytes, bytes_each: kept_pictures::most_bytes(width, height) }
    }
}
