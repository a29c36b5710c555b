//! Batch norm whose statistics are those of all ranks' images.

use tch::{Kind, Tensor, no_grad};

use super::network::ConvNormTensors;
use crate::distributed::Group;

/// Normalises by the statistics of all ranks' images, through which gradients flow, and moves the running ones, as
/// batch norm does over the same images in a single process.
///
/// # Shapes
/// `x` `[n, channels, h, w]`, n the same on every rank; returns the same shape, in f32 or f64.
///
/// # Panics
/// If another rank is gone, with the words by which [`crate::failure`] knows that, as libtorch's own failures do.
pub(super) fn synchronised(
    x: &Tensor,
    tensors: &ConvNormTensors,
    (momentum, epsilon): (f64, f64),
    group: &Group,
) -> Tensor {
    let kind = if x.kind() == Kind::Double { Kind::Double } else { Kind::Float };
    let x = x.to_kind(kind);
    let channels = x.size()[1];
    let count = (x.numel() as i64 / channels) as f64 * group.size() as f64;
    let mean_of = |values: &Tensor| {
        let own = values.sum_dim_intlist([0i64, 2, 3].as_slice(), false, kind);
        group.sum(&own).unwrap_or_else(|lost| panic!("{lost}")) / count
    };
    let per_channel = |values: &Tensor| values.view([1, channels, 1, 1]);
    let mean = mean_of(&x);
    let centred = x - per_channel(&mean);
    let variance = mean_of(&centred.square());
    no_grad(|| {
        let unbiased = variance.detach() * (count / (count - 1.0).max(1.0));
        for (running, new) in [(&tensors.mean, &mean.detach()), (&tensors.variance, &unbiased)] {
            let moved = running * (1.0 - momentum) + new * momentum;
            running.shallow_clone().copy_(&moved);
        }
    });
    centred * per_channel(&(&tensors.scale * (variance + epsilon).rsqrt())) + per_channel(&tensors.offset)
}
