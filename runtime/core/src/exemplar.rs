//! Exemplars: the few samples of each class that are kept, as quantised backbone features. Borrowed, as the learner
//! reads them; `orco_state::bank` owns them.

use serde::{Deserialize, Serialize};

/// Most views that an exemplar may have.
pub const MAX_VIEWS: usize = 64;

/// How features are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExemplarPrecision {
    /// One byte per number and one scale per vector: `feature = scale * value`, scale = max|feature| / 127.
    #[default]
    Int8,
    /// Half precision (IEEE 754 binary16).
    F16,
}

impl ExemplarPrecision {
    /// Its name in recipes and manifests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::F16 => "f16",
        }
    }

    /// Bytes of a number.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Int8 => 1,
            Self::F16 => 2,
        }
    }
}

/// Quantises a feature vector: passes its bytes to `write` in order, and returns the scale; `None` for half precision.
/// Numbers beyond the range of half precision become the largest ones.
pub fn quantise(row: &[f32], precision: ExemplarPrecision, mut write: impl FnMut(u8)) -> Option<f32> {
    match precision {
        ExemplarPrecision::Int8 => {
            let scale = row.iter().fold(0.0f32, |highest, value| highest.max(value.abs())) / 127.0;
            let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
            row.iter().for_each(|value| write((libm::roundf(value * inverse) as i8).cast_unsigned()));
            Some(scale)
        }
        ExemplarPrecision::F16 => {
            let limit = half::f16::MAX.to_f32();
            let halves = row.iter().map(|value| half::f16::from_f32(value.clamp(-limit, limit)));
            halves.flat_map(half::f16::to_le_bytes).for_each(write);
            None
        }
    }
}

/// Exemplars of the same number of views each; view 0 is the clean one.
#[derive(Clone, Copy, Debug)]
pub struct Exemplars<'a> {
    /// Length of a feature vector: the head's inputs.
    pub inputs: usize,
    /// Views per exemplar.
    pub views: usize,
    /// How the numbers are stored.
    pub precision: ExemplarPrecision,
    /// Class of each exemplar, `[len]`.
    pub classes: &'a [u32],
    /// Scale of each vector, `[len, views]`; unused in half precision.
    pub scales: &'a [f32],
    /// The stored numbers, little endian, `[len, views, inputs]`.
    pub values: &'a [u8],
}

impl Exemplars<'_> {
    /// Number of exemplars.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Writes one view of an exemplar into `features`, `[inputs]`.
    ///
    /// # Panics
    /// If there is no such exemplar or view.
    pub fn read(&self, exemplar: usize, view: usize, features: &mut [f32]) {
        let row = exemplar * self.views + view;
        let length = self.inputs * self.precision.bytes();
        let values = &self.values[row * length..][..length];
        match self.precision {
            ExemplarPrecision::Int8 => {
                let scale = self.scales[row];
                features.iter_mut().zip(values).for_each(|(to, byte)| *to = scale * f32::from(byte.cast_signed()));
            }
            ExemplarPrecision::F16 => {
                let halves = values.as_chunks::<2>().0;
                features.iter_mut().zip(halves).for_each(|(to, half)| *to = half::f16::from_le_bytes(*half).to_f32());
            }
        }
    }
}
