//! Batch norm: statistics over the images of all ranks, and running statistics estimated anew for changed weights.

use tch::{Kind, Tensor, no_grad};

use super::network::{ConvNormTensors, NORM_MOMENTUM};
use super::{ForwardMode, Network};
use crate::config::Precision;
use crate::platform::distributed::RankGroup;

/// Normalises by the statistics of all ranks' images, through which gradients flow, and moves the running ones, as
/// batch norm does over the same images in a single process.
///
/// # Shapes
/// `x` `[n, channels, h, w]`, n the same on every rank; returns the same shape, in f32 or f64.
///
/// # Panics
/// If another rank is gone, with the words by which [`crate::platform::failure`] knows that, as libtorch's own failures
/// do.
pub(super) fn synchronised(
    x: &Tensor,
    tensors: &ConvNormTensors,
    momentum: f64,
    epsilon: f64,
    group: &RankGroup,
) -> Tensor {
    let kind = if x.kind() == Kind::Double { Kind::Double } else { Kind::Float };
    let x = x.to_kind(kind);
    let channels = x.size()[1];
    let count = (x.numel() as i64 / channels) as f64 * group.size() as f64;
    let mean_of = |values: &Tensor| {
        let own = values.sum_dim_intlist([0i64, 2, 3].as_slice(), false, kind);
        group.all_reduce_sum(&own).unwrap_or_else(|lost| panic!("{lost}")) / count
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

impl Network {
    /// Sets the running statistics of all norms to their means over batches, for weights that no step has led to, such
    /// as a mean of weights. Every batch counts the same; without batches nothing changes.
    ///
    /// # Shapes
    /// Every batch f32 `[n, channels, h, w]`, normalised.
    pub fn estimate_norms(&self, batches: impl Iterator<Item = Tensor>, precision: Precision) {
        let statistics = self.description.convolutions().flat_map(|conv| {
            let tensors = self.tensors(conv);
            [tensors.mean.shallow_clone(), tensors.variance.shallow_clone()]
        });
        let mut statistics: Vec<Tensor> = statistics.collect();
        let mut sums: Vec<Tensor> = statistics.iter().map(|own| own.to_kind(Kind::Double).zeros_like()).collect();
        let mut count = 0;
        no_grad(|| {
            for batch in batches {
                // From zero, a forward pass leaves its batch's statistics times the momentum.
                for own in &mut statistics {
                    let _ = own.zero_();
                }
                let _features = self.forward(&batch, precision, ForwardMode::Training);
                for (sum, own) in sums.iter_mut().zip(&statistics) {
                    *sum += own.to_kind(Kind::Double);
                }
                count += 1;
            }
            if count > 0 {
                for (sum, own) in sums.iter().zip(&mut statistics) {
                    own.copy_(&(sum / (f64::from(count) * NORM_MOMENTUM)));
                }
            }
        });
    }
}
