//! What a workstation knows of the base classes' features beyond a few exemplars: means over all their images, and the
//! covariance that they share.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::bank::Bank;
use crate::codec::{self, DecodeError, FileKind};

/// Statistics of the base classes, in a file of their own: a bundle is made without them, too, and what was learned on
/// a bundle does not depend on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// Mean of the base images' features, `[inputs]`.
    pub centre: Vec<f32>,
    /// Mean of their signed roots, `[inputs]`.
    pub root_centre: Vec<f32>,
    /// Orthonormal axes along which samples of a class scatter most, one view each, numbered as classes.
    pub axes: Bank,
    /// What whitening takes away along each axis, `[axes]`, 0..1 ([`orco_core::discriminant::Whitening`]).
    pub damping: Vec<f32>,
    /// Factor of the whitening, on what is left.
    pub factor: f32,
    /// Mean of each base class's directions from the centre, one view each.
    pub directions: Bank,
    /// Mean of each base class's whitened directions of roots from their centre, one view each.
    pub whitened: Bank,
    /// Deviation of the scores by targets, by means and by discriminant over base images and classes.
    pub deviations: [f32; 3],
    /// Shift of the border on a device that has learned nothing yet, from sessions simulated with base classes: what is
    /// added to the scores of learned classes.
    pub initial_shift: f32,
    /// Samples of base classes that were set aside: means, axes and deviations were not computed from them. They chose
    /// `initial_shift`, and may have told phase 2 when to stop.
    pub set_aside: Bank,
    /// Accuracy among the base classes on pictures that no phase of the training has seen, divided by that on the
    /// samples set aside; `None` where nobody measured it. Samples that a phase has seen are easier than pictures to
    /// come.
    ///
    /// It follows the rest in files of version 2; files of version 1 do without it.
    #[serde(skip)]
    pub base_accuracy_ratio: Option<f32>,
}

impl Statistics {
    /// The ratio that is taken where a bundle does not know its own. Not fitted to test images, by which the CIFAR-100
    /// bundles would have 0.80 to 0.82 (`docs/src/journal/2026-11-25-border.md`).
    pub const USUAL_ACCURACY_RATIO: f32 = 0.85;

    /// The highest ratio that is believed. Samples set aside are not harder than unseen pictures: more than 1 is
    /// chance.
    pub const HIGHEST_ACCURACY_RATIO: f32 = 1.25;

    /// The ratio by which accuracies to be expected of base classes are corrected.
    pub fn accuracy_ratio(&self) -> f32 {
        self.base_accuracy_ratio.unwrap_or(Self::USUAL_ACCURACY_RATIO)
    }

    /// Encodes them as a bundle's file, which [`crate::state::BaseModel::decode_statistics`] reads. Without a ratio the
    /// file is one of version 1, so that every release reads it.
    pub fn encode(&self) -> Vec<u8> {
        let content = codec::to_postcard(self);
        match self.base_accuracy_ratio {
            None => codec::seal(FileKind::Statistics, 1, &[&content]),
            Some(ratio) => codec::seal(FileKind::Statistics, 2, &[&content, &codec::to_postcard(&ratio)]),
        }
    }

    /// Decodes such a file.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none, or of a newer version. Whether the parts fit together is not asked.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (version, content) = codec::open(FileKind::Statistics, bytes)?;
        match version {
            1 => codec::from_postcard(content).ok_or(DecodeError::Body),
            2 => {
                let (statistics, ratio): (Self, f32) = codec::from_postcard(content).ok_or(DecodeError::Body)?;
                Ok(Self { base_accuracy_ratio: Some(ratio), ..statistics })
            }
            actual => Err(DecodeError::Version { expected: FileKind::Statistics.version(), actual }),
        }
    }

    /// Whether all parts fit together, and onto features of length `inputs` and `base` base classes.
    pub fn is_sound(&self, inputs: usize, base: usize) -> bool {
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        let one_of_each = |bank: &Bank, count: usize| {
            bank.is_sound()
                && bank.inputs() == inputs
                && bank.views() == 1
                && bank.classes().iter().copied().eq(0..count as u32)
        };
        base > 0
            && self.centre.len() == inputs
            && self.root_centre.len() == inputs
            && finite(&self.centre)
            && finite(&self.root_centre)
            && self.damping.len() <= inputs
            && self.damping.iter().all(|damping| (0.0..=1.0).contains(damping))
            && one_of_each(&self.axes, self.damping.len())
            && one_of_each(&self.directions, base)
            && one_of_each(&self.whitened, base)
            && self.factor.is_finite()
            && self.factor > 0.0
            && self.deviations.iter().all(|deviation| deviation.is_finite() && *deviation > 0.0)
            && self.initial_shift.is_finite()
            && self.base_accuracy_ratio.is_none_or(|ratio| ratio > 0.0 && ratio <= Self::HIGHEST_ACCURACY_RATIO)
            && self.set_aside.is_sound()
            && self.set_aside.inputs() == inputs
            && self.set_aside.classes().iter().all(|class| (*class as usize) < base)
    }
}

#[cfg(test)]
mod tests {
    use orco_core::exemplar::ExemplarPrecision;

    use super::*;

    fn statistics(base_accuracy_ratio: Option<f32>) -> Statistics {
        let bank = |classes: &[u32]| {
            let mut bank = Bank::new(2, 1, ExemplarPrecision::F16);
            classes.iter().for_each(|class| bank.push(*class, &[1.0, 0.5]));
            bank
        };
        Statistics {
            centre: [0.5; 2].into(),
            root_centre: [0.5; 2].into(),
            axes: bank(&[]),
            damping: Vec::new(),
            factor: 1.0,
            directions: bank(&[0]),
            whitened: bank(&[0]),
            deviations: [1.0; 3],
            initial_shift: 0.0,
            set_aside: bank(&[0]),
            base_accuracy_ratio,
        }
    }

    #[test]
    fn the_ratio_comes_back_and_older_files_do_without_it() {
        for ratio in [None, Some(0.8)] {
            let bytes = statistics(ratio).encode();
            assert_eq!(Statistics::decode(&bytes), Ok(statistics(ratio)));
        }
        assert_eq!(codec::open(FileKind::Statistics, &statistics(None).encode()).unwrap().0, 1);
        let [unknown, known] = [None, Some(0.8)].map(|ratio| statistics(ratio).accuracy_ratio());
        assert_eq!((unknown, known), (Statistics::USUAL_ACCURACY_RATIO, 0.8));
        // What a release before the ratio wrote.
        let older = codec::seal(FileKind::Statistics, 1, &[&codec::to_postcard(&statistics(Some(0.8)))]);
        assert_eq!(Statistics::decode(&older), Ok(statistics(None)));
        let newer = codec::seal(FileKind::Statistics, 3, &[]);
        assert_eq!(Statistics::decode(&newer), Err(DecodeError::Version { expected: 2, actual: 3 }));
    }

    #[test]
    fn a_ratio_that_makes_no_sense_is_refused() {
        for (ratio, is_sound) in
            [(0.8, true), (1.02, true), (0.0, false), (-0.1, false), (f32::NAN, false), (f32::INFINITY, false)]
        {
            assert_eq!(statistics(Some(ratio)).is_sound(2, 1), is_sound, "{ratio}");
        }
    }
}
