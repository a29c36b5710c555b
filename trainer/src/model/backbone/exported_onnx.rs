//! Weights out of an ONNX file that this program exported; one of another program is an imported backbone
//! ([`super::OnnxBackbone`]). Norms are folded into the convolutions there, which is all that inference needs; to be
//! trained further a network needs them back.

use std::collections::HashMap;

use half::f16;
use prost::Message;
use tch::{Kind, Tensor, no_grad};

use super::{ConvNorm, Description, Network};
use crate::model::onnx_proto::{FLOAT, FLOAT16, INT8, ModelProto, TensorProto};

/// Length that the weights of an output get: that of Kaiming's initialisation, by inputs. The norm behind them takes
/// every length out of what is computed, but how far a step turns them depends on it.
const LENGTH: f64 = std::f64::consts::SQRT_2;

/// Why an ONNX file cannot give weights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportedOnnxError {
    /// The bytes are no model.
    #[error("it is no safetensors file, no .pth file, and no ONNX file that `orco-train` exported")]
    Kind,
    /// A model without a convolution that the backbone has.
    #[error(
        "it lacks the convolution {convolution} of {backbone}: `orco-train` exported it from another architecture, or \
         did not export it at all; a model of others is named as backbone.onnx"
    )]
    MissingConvolution {
        /// The convolution's name.
        convolution: String,
        /// Name of the backbone.
        backbone: String,
    },
    /// A tensor is not stored as an export in floating point stores it.
    #[error("its tensor {0} is not stored as `orco-train` stores weights; take the bundle's `backbone.onnx`")]
    Content(String),
}

/// The tensors of a model's convolutions, named as in checkpoints, with norms that compute `W x + b`.
///
/// # Errors
/// [`ExportedOnnxError`] if it lacks one of them, or one is stored otherwise.
pub fn tensors(model: &ModelProto, description: &Description) -> Result<Vec<(String, Tensor)>, ExportedOnnxError> {
    let initializers = model.graph.iter().flat_map(|graph| &graph.initializer);
    let stored: HashMap<&str, &TensorProto> = initializers.map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let wrong = |part: &TensorProto| ExportedOnnxError::Content(part.name.clone());
    let mut tensors = Vec::new();
    for conv in description.convolutions() {
        let part = |name: &str| stored.get(format!("{}.{name}", conv.name).as_str()).copied();
        let (Some(weight), Some(bias)) = (part("weight"), part("bias")) else {
            return Err(ExportedOnnxError::MissingConvolution {
                convolution: conv.name.clone(),
                backbone: description.name.clone(),
            });
        };
        let mut weight = floats(weight)?;
        if let Some(scale) = part("weight.scale") {
            weight = weight.f_mul(&floats(scale)?).map_err(|_| wrong(scale))?;
        }
        let offset = floats(bias)?;
        let variance = offset.ones_like() - description.norm_epsilon;
        let (mean, scale) = (offset.zeros_like(), offset.ones_like());
        let parts = [
            ("weight", weight),
            ("norm_bias", offset),
            ("norm_mean", mean),
            ("norm_scale", scale),
            ("norm_variance", variance),
        ];
        tensors.extend(parts.map(|(name, tensor)| (format!("backbone.{}.{name}", conv.variable()), tensor)));
    }
    Ok(tensors)
}

/// A model's bytes, read.
///
/// # Errors
/// [`ExportedOnnxError::Kind`].
pub fn model(file: &[u8]) -> Result<ModelProto, ExportedOnnxError> {
    ModelProto::decode(file).ok().filter(|model| model.graph.is_some()).ok_or(ExportedOnnxError::Kind)
}

/// The numbers of a stored tensor as f32.
fn floats(tensor: &TensorProto) -> Result<Tensor, ExportedOnnxError> {
    let bytes = &tensor.raw_data;
    let read: Vec<f32> = match tensor.data_type {
        FLOAT => bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect(),
        FLOAT16 => bytes.as_chunks::<2>().0.iter().map(|two| f16::from_le_bytes(*two).to_f32()).collect(),
        INT8 => bytes.iter().map(|byte| f32::from(byte.cast_signed())).collect(),
        _ => Vec::new(),
    };
    Tensor::from_slice(&read).f_view(&*tensor.dims).map_err(|_| ExportedOnnxError::Content(tensor.name.clone()))
}

impl Network {
    /// Gives convolutions that came out of [`tensors`] their norms: statistics are those of these images, and features
    /// in inference mode stay what they were.
    ///
    /// # Shapes
    /// Every batch f32 `[n, channels, h, w]`, normalised.
    pub fn restore_norms(&self, batches: impl Iterator<Item = Tensor>) {
        let mut sums: HashMap<String, ChannelSums> = HashMap::new();
        no_grad(|| {
            for batch in batches {
                self.observe(&batch, &mut |name, value| {
                    let seen = ChannelSums::of(value);
                    sums.entry(name.to_owned()).and_modify(|sums| sums.add(&seen)).or_insert(seen);
                });
            }
            for conv in self.description.convolutions() {
                if let Some(sums) = sums.get(&conv.name) {
                    self.set_norm(conv, sums);
                }
            }
        });
    }

    fn set_norm(&self, conv: &ConvNorm, sums: &ChannelSums) {
        let tensors = self.tensors(conv);
        let epsilon = self.description.norm_epsilon;
        let (mean, variance) = sums.moments();
        let lengths = tensors.weight.to_kind(Kind::Double).flatten(1, -1).square().sum_dim_intlist(1, false, None);
        // What has no weights to speak of stays as it is.
        let factor = (LENGTH / lengths.sqrt()).where_scalarother(&lengths.gt(1e-12), 1.0);
        let scaled = &variance * factor.square();
        let set = |own: &Tensor, new: Tensor| own.shallow_clone().copy_(&new);
        set(&tensors.mean, (&mean - &tensors.offset) * &factor);
        set(&tensors.scale, (&scaled + epsilon).sqrt() / &factor);
        set(&tensors.variance, scaled);
        set(&tensors.offset, mean);
        set(&tensors.weight, &tensors.weight * factor.view([-1, 1, 1, 1]));
    }
}

/// What a channel's mean and variance are made of, each f64 `[channels]`.
struct ChannelSums {
    count: i64,
    sum: Tensor,
    squares: Tensor,
}

impl ChannelSums {
    /// Of a value `[n, channels, h, w]`.
    fn of(value: &Tensor) -> Self {
        let value = value.to_kind(Kind::Double);
        let over = |value: &Tensor| value.sum_dim_intlist([0, 2, 3].as_slice(), false, Kind::Double);
        let sum = over(&value);
        Self { count: value.numel() as i64 / sum.numel().max(1) as i64, squares: over(&value.square()), sum }
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += &other.sum;
        self.squares += &other.squares;
    }

    fn moments(&self) -> (Tensor, Tensor) {
        let mean = &self.sum / self.count;
        let variance = (&self.squares / self.count - mean.square()).clamp_min(0.0);
        (mean, variance)
    }
}
