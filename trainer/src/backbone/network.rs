//! A backbone description as trainable tensors.

use std::collections::HashMap;

use tch::nn::{Init, Path};
use tch::{Kind, Tensor};

use super::{Activation, ConvNorm, Description};
use crate::config::Precision;

/// Added to the variance in batch norm.
pub const NORM_EPSILON: f64 = 1e-5;
const NORM_MOMENTUM: f64 = 0.1;

/// Tensors of one [`ConvNorm`].
#[derive(Debug)]
pub struct ConvNormTensors {
    /// `[outputs, inputs, kernel, kernel]`.
    pub weight: Tensor,
    /// Scale of the norm, `[outputs]`.
    pub scale: Tensor,
    /// Offset of the norm, `[outputs]`.
    pub offset: Tensor,
    /// Running mean, `[outputs]`.
    pub mean: Tensor,
    /// Running variance, `[outputs]`.
    pub variance: Tensor,
}

/// A backbone f with its parameters.
#[derive(Debug)]
pub struct Network {
    /// What it was built from.
    pub description: Description,
    tensors: HashMap<String, ConvNormTensors>,
}

impl Network {
    /// Creates the parameters under `path`: Kaiming-normal weights, identity norms.
    pub fn new(path: &Path<'_>, description: Description) -> Self {
        let convs = description
            .stem
            .iter()
            .chain(description.blocks.iter().flat_map(|block| block.convs.iter().chain(&block.shortcut)));
        let tensors = convs.map(|conv| (conv.name.clone(), create(&(path / conv.name.replace('.', "_")), conv)));
        Self { tensors: tensors.collect(), description: description.clone() }
    }

    /// The tensors of a convolution of the description.
    pub fn tensors(&self, conv: &ConvNorm) -> &ConvNormTensors {
        &self.tensors[&conv.name]
    }

    /// Computes features f(x).
    ///
    /// # Shapes
    /// `images` f32 `[n, channels, h, w]`, normalised; returns f32 `[n, features]`.
    /// With `train`, batch statistics are used and the running ones updated.
    pub fn forward(&self, images: &Tensor, precision: Precision, train: bool) -> Tensor {
        let kind = match precision {
            Precision::F32 => Kind::Float,
            Precision::Bf16 => Kind::BFloat16,
            Precision::F16 => Kind::Half,
        };
        let mut x = channels_last(&images.to_kind(kind));
        if let Some(stem) = &self.description.stem {
            x = self.activate(self.conv_norm(&x, stem, train));
        }
        for block in &self.description.blocks {
            let mut y = x.shallow_clone();
            for (index, conv) in block.convs.iter().enumerate() {
                y = self.conv_norm(&y, conv, train);
                if index + 1 < block.convs.len() {
                    y = self.activate(y);
                }
            }
            let shortcut = block.shortcut.as_ref().map(|conv| self.conv_norm(&x, conv, train));
            x = self.activate(y + shortcut.unwrap_or(x));
            if let Some(pool) = block.pool {
                x = x.max_pool2d([pool, pool], [pool, pool], [0, 0], [1, 1], false);
            }
        }
        x.to_kind(Kind::Float).mean_dim([2, 3].as_slice(), false, Kind::Float)
    }

    fn conv_norm(&self, x: &Tensor, conv: &ConvNorm, train: bool) -> Tensor {
        let tensors = self.tensors(conv);
        let weight = channels_last(&tensors.weight.to_kind(x.kind()));
        let padding = conv.kernel / 2;
        x.conv2d(&weight, None::<Tensor>, [conv.stride; 2], [padding; 2], [1, 1], 1).batch_norm(
            Some(&tensors.scale),
            Some(&tensors.offset),
            Some(&tensors.mean),
            Some(&tensors.variance),
            train,
            NORM_MOMENTUM,
            NORM_EPSILON,
            true,
        )
    }

    fn activate(&self, x: Tensor) -> Tensor {
        match self.description.activation {
            Activation::Relu => x.relu(),
            Activation::LeakyRelu(slope) => {
                let scaled = &x * slope;
                x.maximum(&scaled)
            }
        }
    }
}

fn create(path: &Path<'_>, conv: &ConvNorm) -> ConvNormTensors {
    let deviation = (2.0 / (conv.outputs * conv.kernel * conv.kernel) as f64).sqrt();
    let shape = [conv.outputs, conv.inputs, conv.kernel, conv.kernel];
    ConvNormTensors {
        weight: path.var("weight", &shape, Init::Randn { mean: 0.0, stdev: deviation }),
        scale: path.var("norm_scale", &[conv.outputs], Init::Const(1.0)),
        offset: path.var("norm_bias", &[conv.outputs], Init::Const(0.0)),
        mean: path.zeros_no_train("norm_mean", &[conv.outputs]),
        variance: path.ones_no_train("norm_variance", &[conv.outputs]),
    }
}

/// The same tensor `[n, c, h, w]`, channels stored last: the layout that convolutions run fastest in.
fn channels_last(x: &Tensor) -> Tensor {
    x.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2])
}
