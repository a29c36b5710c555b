//! What a workstation knows of the base classes' features beyond a few exemplars: means over all their images, and the
//! covariance that they share.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::bank::Bank;
use crate::codec::{self, DecodeError, FileKind};
use crate::state::BaseModel;

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
    /// What whitening takes away along each axis, 0..1.
    pub damping: Vec<f32>,
    /// By what it multiplies the rest.
    pub factor: f32,
    /// Mean of each base class's directions from the centre, one view each.
    pub directions: Bank,
    /// Mean of each base class's whitened directions of roots from their centre, one view each.
    pub whitened: Bank,
    /// Deviation of the scores by targets, by means and by discriminant over base images and classes.
    pub deviations: [f32; 3],
    /// The border of a device on which nothing was learned yet, from sessions played with base classes.
    pub start: f32,
    /// Samples of base classes that were set aside: none of these numbers was computed from them.
    pub set_aside: Bank,
}

impl Statistics {
    /// Decodes a bundle's file.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none, or does not fit the bundle.
    pub fn decode(bytes: &[u8], base_model: &BaseModel) -> Result<Self, DecodeError> {
        let statistics: Self = codec::decode(FileKind::Statistics, bytes)?;
        if statistics.is_sound(base_model) { Ok(statistics) } else { Err(DecodeError::Body) }
    }

    /// Encodes them as a bundle's file.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode(FileKind::Statistics, self)
    }

    /// Whether all parts fit together and onto the base model.
    pub fn is_sound(&self, base_model: &BaseModel) -> bool {
        let (inputs, base) = (base_model.head.inputs, base_model.classes.len());
        let finite = |values: &[f32]| values.iter().all(|value| value.is_finite());
        let one_of_each = |bank: &Bank, count: usize| {
            bank.is_sound()
                && bank.dimension() == inputs
                && bank.views() == 1
                && bank.classes().iter().copied().eq(0..count as u32)
        };
        self.centre.len() == inputs
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
            && self.start.is_finite()
            && self.set_aside.is_sound()
            && self.set_aside.dimension() == inputs
            && self.set_aside.classes().iter().all(|class| (*class as usize) < base)
    }
}
