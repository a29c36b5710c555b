//! A step of SGD on the processor in one pass over memory.
//!
//! Written as tensor operations a step reads and writes every parameter several times over; for networks of millions of
//! parameters that is a good part of the time of a whole step of training. libtorch's own fused step is not among the
//! operations that tch offers.

use std::thread;

use tch::{Device, Kind, Tensor};

/// Numbers that a thread takes at a time.
const CHUNK: usize = 1 << 16;

/// The settings of a step, the same for every parameter; see [`super::SgdConfig`].
#[derive(Clone, Copy, Debug)]
pub(super) struct FusedStep {
    pub momentum: f32,
    /// Weight of the new gradient: 1 - dampening.
    pub gradient_weight: f32,
    pub weight_decay: f32,
    pub nesterov: bool,
    pub learning_rate: f32,
}

/// A parameter, its momentum and its gradient, in the same memory layout.
#[derive(Debug)]
pub(super) struct FusedTensors<'a> {
    weights: &'a mut [f32],
    momentum: &'a mut [f32],
    gradient: &'a [f32],
    decays: bool,
    /// Whether the momentum holds nothing yet.
    first: bool,
}

impl<'a> FusedTensors<'a> {
    /// Whether all three tensors are f32 on the processor, dense, and of the same memory layout.
    pub fn fits(weights: &Tensor, momentum: &Tensor, gradient: &Tensor) -> bool {
        let fits = |tensor: &Tensor| tensor.device() == Device::Cpu && tensor.kind() == Kind::Float && is_dense(tensor);
        let alike = order(weights) == order(momentum) && order(weights) == order(gradient);
        fits(weights) && fits(momentum) && fits(gradient) && alike
    }

    /// The numbers of three tensors.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn new(
        weights: &'a mut Tensor,
        momentum: &'a mut Tensor,
        gradient: &'a Tensor,
        decays: bool,
        first: bool,
    ) -> Self {
        assert!(Self::fits(weights, momentum, gradient), "tensors of different layouts");
        let count = weights.numel();
        // SAFETY: each tensor holds `count` numbers of f32 without gaps from its data pointer on. They are three
        // storages of their own: the weights are a leaf, the momentum belongs to the optimiser alone, the gradient was
        // made by the backward pass. Nothing else computes while a step is taken.
        unsafe {
            Self {
                weights: std::slice::from_raw_parts_mut(weights.data_ptr().cast(), count),
                momentum: std::slice::from_raw_parts_mut(momentum.data_ptr().cast(), count),
                gradient: std::slice::from_raw_parts(gradient.data_ptr().cast(), count),
                decays,
                first,
            }
        }
    }

    fn chunks(self) -> impl Iterator<Item = Self> {
        let (decays, first) = (self.decays, self.first);
        let both = self.weights.chunks_mut(CHUNK).zip(self.momentum.chunks_mut(CHUNK));
        both.zip(self.gradient.chunks(CHUNK)).map(move |((weights, momentum), gradient)| FusedTensors {
            weights,
            momentum,
            gradient,
            decays,
            first,
        })
    }

    fn apply(&mut self, step: FusedStep) {
        let decay = if self.decays { step.weight_decay } else { 0.0 };
        // On the first step the direction is the gradient itself, as in PyTorch.
        let (momentum_weight, gradient_weight) =
            if self.first { (0.0, 1.0) } else { (step.momentum, step.gradient_weight) };
        let (own, ahead) = if step.nesterov { (1.0, step.momentum) } else { (0.0, 1.0) };
        let each = self.weights.iter_mut().zip(self.momentum.iter_mut()).zip(self.gradient);
        for ((weight, momentum), &gradient) in each {
            let gradient = gradient + *weight * decay;
            let direction = *momentum * momentum_weight + gradient * gradient_weight;
            *weight -= (gradient * own + direction * ahead) * step.learning_rate;
            *momentum = direction;
        }
    }
}

/// Applies the step to every part, in as many threads as libtorch uses.
pub(super) fn apply(parts: Vec<FusedTensors<'_>>, step: FusedStep) {
    let mut chunks: Vec<FusedTensors<'_>> = parts.into_iter().flat_map(FusedTensors::chunks).collect();
    let threads = usize::try_from(tch::get_num_threads()).unwrap_or(1).max(1);
    let share = chunks.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let mut shares = chunks.chunks_mut(share);
        let own = shares.next();
        for share in shares {
            scope.spawn(move || share.iter_mut().for_each(|part| part.apply(step)));
        }
        own.into_iter().flatten().for_each(|part| part.apply(step));
    });
}

/// Sizes and strides, without dimensions of length one, whose strides mean nothing.
fn order(tensor: &Tensor) -> Vec<(i64, i64)> {
    tensor.size().into_iter().zip(tensor.stride()).filter(|&(size, _)| size != 1).collect()
}

/// Whether the numbers fill their stretch of memory, in whatever order of dimensions.
fn is_dense(tensor: &Tensor) -> bool {
    let mut dimensions = order(tensor);
    dimensions.sort_by_key(|&(_, stride)| stride);
    let mut next = 1;
    dimensions.into_iter().all(|(size, stride)| {
        let follows = stride == next;
        next *= size;
        follows
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_is_what_has_neither_gaps_nor_repeats() {
        let tensor = Tensor::zeros([2, 3, 4, 5], (Kind::Float, Device::Cpu));
        assert!(is_dense(&tensor) && is_dense(&tensor.permute([0, 2, 3, 1])));
        assert!(!is_dense(&tensor.narrow(1, 0, 2)));
        assert!(!is_dense(&Tensor::zeros([3, 1], (Kind::Float, Device::Cpu)).expand([3, 4], false)));
        assert!(is_dense(&tensor.narrow(1, 0, 1).narrow(0, 0, 1)));
    }
}
