//! A backbone description as trainable tensors.

use std::collections::HashMap;
use std::ops::Range;

use tch::nn::{Init, Path};
use tch::{Device, Kind, Tensor, no_grad};

use super::norm::synchronised;
use super::{Activation, Builder, ConvNorm, Description};
use crate::config::Precision;
use crate::platform::distributed::RankGroup;
use crate::platform::system;

/// Weight of a batch's statistics where batch norm moves its running ones; PyTorch's default.
pub const NORM_MOMENTUM: f64 = 0.1;

/// Tensors of one [`ConvNorm`].
#[derive(Debug)]
pub struct ConvNormTensors {
    /// As [`ConvNorm::shape`] says.
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

/// What a pass through the backbone is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardMode {
    /// Norms use the statistics of the batch, and update the running ones.
    Training,
    /// Norms use the running statistics. Where the description says so, features are means over an image and its mirror
    /// image.
    Inference,
}

/// A backbone f with its parameters.
#[derive(Debug)]
pub struct Network {
    /// What it was built from.
    pub description: Description,
    /// The ranks whose images give batch statistics together, where the recipe asks for that in training.
    pub norm_group: Option<RankGroup>,
    tensors: HashMap<String, ConvNormTensors>,
}

impl Network {
    /// Creates the parameters under `path`: Kaiming-normal weights, identity norms.
    pub fn new(path: &Path<'_>, description: Description) -> Self {
        let made = |conv: &ConvNorm| (conv.name.clone(), create(&(path / conv.variable()), conv));
        let tensors = description.convolutions().map(made);
        Self { tensors: tensors.collect(), norm_group: None, description: description.clone() }
    }

    /// The tensors of a convolution of the description.
    pub fn tensors(&self, conv: &ConvNorm) -> &ConvNormTensors {
        &self.tensors[&conv.name]
    }

    /// Computes features f(x).
    ///
    /// # Shapes
    /// `images` f32 `[n, channels, h, w]`, normalised; returns f32 `[n, features]`.
    pub fn forward(&self, images: &Tensor, precision: Precision, mode: ForwardMode) -> Tensor {
        let all = 0..self.description.blocks.len();
        let features = |images: &Tensor| self.pooled(all.clone(), self.stem(images, precision, mode), mode);
        if self.description.mirrored && mode == ForwardMode::Inference {
            return (features(images) + features(&images.flip([3]))) / 2.0;
        }
        features(images)
    }

    /// What the blocks before `until` make of images.
    ///
    /// # Shapes
    /// `images` as in [`Network::forward`]; returns `[n, channels, h, w]` of the precision's kind.
    pub fn lower(&self, images: &Tensor, until: usize, precision: Precision, mode: ForwardMode) -> Tensor {
        let x = self.stem(images, precision, mode);
        self.description.build_blocks(0..until, x, &mut ForwardPass { network: self, mode })
    }

    /// Features, from what [`Network::lower`] gave or a mixture of it.
    ///
    /// # Shapes
    /// `hidden` `[n, channels, h, w]`; returns f32 `[n, features]`.
    pub fn upper(&self, hidden: &Tensor, from: usize, mode: ForwardMode) -> Tensor {
        self.pooled(from..self.description.blocks.len(), hidden.shallow_clone(), mode)
    }

    fn stem(&self, images: &Tensor, precision: Precision, mode: ForwardMode) -> Tensor {
        let kind = match precision {
            Precision::F32 => Kind::Float,
            Precision::Bf16 => Kind::BFloat16,
            Precision::F16 => Kind::Half,
        };
        let x = channels_last(&images.to_kind(kind));
        self.description.build_stem(x, &mut ForwardPass { network: self, mode })
    }

    fn pooled(&self, blocks: Range<usize>, x: Tensor, mode: ForwardMode) -> Tensor {
        let x = self.description.build_blocks(blocks, x, &mut ForwardPass { network: self, mode });
        x.to_kind(Kind::Float).mean_dim([2, 3].as_slice(), false, Kind::Float)
    }

    /// Shows every value that the ONNX file names to `seen`, in inference mode and f32.
    ///
    /// # Shapes
    /// `images` as in [`Network::forward`]; each value `[n, channels, h, w]`, named as its node in the file.
    pub fn observe(&self, images: &Tensor, seen: &mut dyn FnMut(&str, &Tensor)) {
        let forward = ForwardPass { network: self, mode: ForwardMode::Inference };
        let _last = self.description.build(channels_last(images), &mut TracedForward { forward, seen });
    }
}

/// Computes with tensors.
struct ForwardPass<'a> {
    network: &'a Network,
    mode: ForwardMode,
}

impl ForwardPass<'_> {
    fn is_training(&self) -> bool {
        self.mode == ForwardMode::Training
    }
}

impl Builder for ForwardPass<'_> {
    type Value = Tensor;

    fn convolution(&mut self, x: &Tensor, conv: &ConvNorm) -> Tensor {
        let tensors = self.network.tensors(conv);
        let kind = arithmetic(x, conv);
        let (wide, weight) = (x.to_kind(kind), tensors.weight.to_kind(kind));
        let (wide, stride) = strided(wide, conv);
        let [before, after] = conv.padding;
        let (wide, padding) = match before == after {
            true => (wide, before),
            false => (wide.constant_pad_nd([before, after, before, after]), 0),
        };
        let y = wide.conv2d(&weight, None::<Tensor>, [stride; 2], [padding; 2], [1, 1], conv.groups);
        let epsilon = self.network.description.norm_epsilon;
        if let (true, Some(group)) =
            (self.is_training(), self.network.norm_group.as_ref().filter(|group| group.size() > 1))
        {
            return synchronised(&y, tensors, NORM_MOMENTUM, epsilon, group).to_kind(x.kind());
        }
        y.to_kind(x.kind()).batch_norm(
            Some(&tensors.scale),
            Some(&tensors.offset),
            Some(&tensors.mean),
            Some(&tensors.variance),
            self.is_training(),
            NORM_MOMENTUM,
            epsilon,
            true,
        )
    }

    // In training both overwrite what came out of a norm, which nobody else reads: the norm's own gradient needs its
    // input only. In inference mode an observer may still hold it.
    fn activation(&mut self, mut x: Tensor, _name: &str) -> Tensor {
        match self.network.description.activation {
            Activation::Relu if self.is_training() => x.relu_(),
            Activation::Relu => x.relu(),
            Activation::Relu6 if self.is_training() => x.relu6_(),
            Activation::Relu6 => x.relu6(),
            Activation::LeakyRelu(slope) => leaky_relu(&x, slope),
        }
    }

    fn sum(&mut self, mut x: Tensor, shortcut: &Tensor, _name: &str) -> Tensor {
        if self.is_training() { x.g_add_(shortcut) } else { x + shortcut }
    }

    fn pool(&mut self, x: Tensor, side: i64, _name: &str) -> Tensor {
        x.max_pool2d([side, side], [side, side], [0, 0], [1, 1], false)
    }

    fn stem_pool(&mut self, x: Tensor, _name: &str) -> Tensor {
        x.max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false)
    }
}

/// Computes with tensors and shows each of them.
struct TracedForward<'a> {
    forward: ForwardPass<'a>,
    seen: &'a mut dyn FnMut(&str, &Tensor),
}

impl Builder for TracedForward<'_> {
    type Value = Tensor;

    fn convolution(&mut self, x: &Tensor, conv: &ConvNorm) -> Tensor {
        let y = self.forward.convolution(x, conv);
        (self.seen)(&conv.name, &y);
        y
    }

    fn activation(&mut self, x: Tensor, name: &str) -> Tensor {
        let y = self.forward.activation(x, name);
        (self.seen)(&format!("{name}.activation"), &y);
        y
    }

    fn sum(&mut self, x: Tensor, shortcut: &Tensor, name: &str) -> Tensor {
        let y = self.forward.sum(x, shortcut, name);
        (self.seen)(name, &y);
        y
    }

    fn pool(&mut self, x: Tensor, side: i64, name: &str) -> Tensor {
        let y = self.forward.pool(x, side, name);
        (self.seen)(name, &y);
        y
    }

    fn stem_pool(&mut self, x: Tensor, name: &str) -> Tensor {
        let y = self.forward.stem_pool(x, name);
        (self.seen)(name, &y);
        y
    }
}

/// The input of a convolution and the stride that is left to do.
///
/// oneDNN 3.10 (in libtorch 2.11) writes past the end of its memory while it computes gradients of a strided 1x1
/// convolution whose input channels do not fill vectors: that by the weights where the processor has AVX2 only (vectors
/// of 8), that by the input where it has AVX-512 (vectors of 16; seen with 8 and 12 channels and images of 48 x 48 and
/// more, as PyTorch does it, too). Every other pixel of the input, taken beforehand, gives the same numbers at stride
/// 1.
fn strided(x: Tensor, conv: &ConvNorm) -> (Tensor, i64) {
    if conv.kernel == 1 && conv.stride > 1 && conv.inputs % 16 != 0 && x.device() == Device::Cpu {
        let every = |x: Tensor, axis| x.slice(axis, None, None, conv.stride);
        return (channels_last(&every(every(x, 2), 3)), 1);
    }
    (x, conv.stride)
}

fn create(path: &Path<'_>, conv: &ConvNorm) -> ConvNormTensors {
    let deviation = (2.0 / (conv.outputs / conv.groups * conv.kernel * conv.kernel) as f64).sqrt();
    let shape = conv.shape();
    let mut weight = path.var("weight", &shape, Init::Randn { mean: 0.0, stdev: deviation });
    // Laid out as convolutions read it: otherwise every step would turn the weights, and their gradients back.
    weight.set_data(&no_grad(|| channels_last(&weight)));
    ConvNormTensors {
        weight,
        scale: path.var("norm_scale", &[conv.outputs], Init::Const(1.0)),
        offset: path.var("norm_bias", &[conv.outputs], Init::Const(0.0)),
        mean: path.zeros_no_train("norm_mean", &[conv.outputs]),
        variance: path.ones_no_train("norm_variance", &[conv.outputs]),
    }
}

/// A tensor `[n, c, h, w]` with its channels stored last: the layout that convolutions run fastest in.
fn channels_last(x: &Tensor) -> Tensor {
    x.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2])
}

/// What a convolution of `x` computes in: in what x has, but for some with a stride on the processor, for whose
/// gradients its library (oneDNN) has no fast kernel in bf16 or f16: depthwise ones, and all where the processor has no
/// tiles for matrices (AMX). On Zen 4, whose vectors multiply in bf16, the gradients by the weights of a ResNet-18's
/// four strided convolutions took thirty times as long as all others together.
fn arithmetic(x: &Tensor, conv: &ConvNorm) -> Kind {
    let slow = conv.stride > 1 && x.device() == Device::Cpu && (conv.groups > 1 || !system::multiplies_tiles());
    if slow { Kind::Float } else { x.kind() }
}

/// x where it is positive, else slope times x.
///
/// tch's own leaky ReLU has a fixed slope. The derivative that libtorch has for it, g where x is positive and slope
/// times g elsewhere, is the function itself for g = x; its own derivative by g is the one wanted.
fn leaky_relu(x: &Tensor, slope: f64) -> Tensor {
    x.detach().leaky_relu_backward(x, slope, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_shortcuts_have_their_gradients_whatever_their_channels() {
        // The largest pictures are what oneDNN's gradient by the input needs to go wrong.
        for (inputs, outputs, height, width) in
            [(2, 4, 15, 16), (4, 8, 15, 16), (12, 24, 15, 16), (8, 16, 15, 16), (8, 16, 128, 128), (12, 24, 128, 128)]
        {
            let conv =
                ConvNorm { name: "shortcut".into(), inputs, outputs, kernel: 1, stride: 2, padding: [0; 2], groups: 1 };
            let x = channels_last(&Tensor::randn([16, inputs, height, width], (Kind::Float, Device::Cpu)));
            let x = x.set_requires_grad(true);
            let weight = Tensor::randn(conv.shape(), (Kind::Float, Device::Cpu)).set_requires_grad(true);
            let (taken, stride) = strided(x.shallow_clone(), &conv);
            let y = taken.conv2d(&weight, None::<Tensor>, [stride; 2], [0; 2], [1, 1], 1);
            assert_eq!(y.size(), [16, outputs, (height + 1) / 2, (width + 1) / 2]);
            let wanted = channels_last(&y.detach().randn_like());
            (&y * &wanted).sum(Kind::Float).backward();
            // The same as products of matrices, one column for each pixel that counts.
            let columns = |x: &Tensor| x.permute([1, 0, 2, 3]).reshape([x.size()[1], -1]);
            let every_other = |x: &Tensor| x.slice(2, None, None, 2).slice(3, None, None, 2);
            let difference =
                |a: &Tensor, b: &Tensor| (a - b).abs().max().double_value(&[]) / b.abs().max().double_value(&[]);
            let by_weight = columns(&wanted).matmul(&columns(&every_other(&x.detach())).tr());
            let apart = difference(&weight.grad().view([outputs, inputs]), &by_weight);
            assert!(apart < 1e-4, "{inputs} channels, by the weights: {apart}");
            let by_input = weight.detach().view([outputs, inputs]).tr().matmul(&columns(&wanted));
            let apart = difference(&columns(&every_other(&x.grad())), &by_input);
            assert!(apart < 1e-4, "{inputs} channels, by the input: {apart}");
            let others = x.grad().abs().sum(Kind::Double) - every_other(&x.grad()).abs().sum(Kind::Double);
            assert!(others.double_value(&[]).abs() < 1e-3, "{inputs} channels: other pixels");
        }
    }
}
