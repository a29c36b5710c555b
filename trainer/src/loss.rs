//! The method's losses in tch, checked against the same reference vectors as the runtime's.
//!
//! Rows need not be normalised: every loss projects its rows onto the unit sphere first.

use std::ops::Range;

use tch::{Kind, Tensor};

use crate::backbone::unit;

/// Contrastive loss of phase 1 in the published program's form: for every anchor, minus the log of the share that
/// its positives have in the sum over all other rows; the sum over the positives stands inside the logarithm.
/// With class labels this is SCL, with image identities SSCL. Anchors without a positive do not count.
///
/// # Shapes
/// `z` f32 `[n, d]`, `labels` i64 `[n]`; returns a scalar.
pub fn contrast(z: &Tensor, labels: &Tensor, temperature: f64) -> Tensor {
    let (similarity, positive) = pairs(z, labels, temperature);
    let all = similarity.logsumexp([1].as_slice(), false);
    let hits = similarity.masked_fill(&positive.logical_not(), NEVER).logsumexp([1].as_slice(), false);
    let counts = positive.any_dim(1, false).to_kind(Kind::Float);
    ((all - hits) * &counts).sum(Kind::Float) / counts.sum(Kind::Float).clamp_min(1.0)
}

/// PSCL (OrCo, Eq. 6) over rows = views of a batch and perturbed targets: the mean over the positives stands outside
/// the logarithm, the denominator runs over all rows but the anchor itself.
///
/// # Shapes
/// `z` f32 `[n, d]`, `labels` i64 `[n]`; returns a scalar.
pub fn perturbed_supervised_contrast(z: &Tensor, labels: &Tensor, temperature: f64) -> Tensor {
    let (similarity, positive) = pairs(z, labels, temperature);
    let all = similarity.logsumexp([1].as_slice(), true);
    let positive = positive.to_kind(Kind::Float);
    let count = positive.sum_dim_intlist([1].as_slice(), false, Kind::Float);
    let mean =
        ((all - similarity) * &positive).sum_dim_intlist([1].as_slice(), false, Kind::Float) / count.clamp_min(1.0);
    let anchors = count.gt(0.0).to_kind(Kind::Float).sum(Kind::Float).clamp_min(1.0);
    mean.sum(Kind::Float) / anchors
}

/// ORTH (OrCo, Eq. 7) at temperature 1: mean over rows of log sum_j exp(t_i . t_j), self included.
///
/// # Shapes
/// `rows` f32 `[n, d]`; returns a scalar.
pub fn orthogonality(rows: &Tensor) -> Tensor {
    let rows = unit(rows);
    rows.matmul(&rows.transpose(0, 1)).logsumexp([1].as_slice(), false).mean(Kind::Float)
}

/// Cross entropy over cosine logits (temperature 1).
///
/// # Shapes
/// `z` f32 `[n, d]`, `targets` f32 `[classes, d]` of unit rows, `labels` i64 `[n]`; returns a scalar.
pub fn cosine_cross_entropy(z: &Tensor, targets: &Tensor, labels: &Tensor) -> Tensor {
    unit(z).matmul(&targets.transpose(0, 1)).cross_entropy_for_logits(labels)
}

/// Normalised means of the rows of each class in `classes`, and whether it has any; without, its mean is zero.
///
/// Shapes do not depend on the labels, so a GPU need not be waited for.
///
/// # Shapes
/// `z` f32 `[n, d]`, `labels` i64 `[n]`; returns f32 `[k, d]`, bool `[k, 1]` for k classes.
pub fn class_means(z: &Tensor, labels: &Tensor, classes: Range<i64>) -> (Tensor, Tensor) {
    let classes = Tensor::arange_start(classes.start, classes.end, (Kind::Int64, z.device()));
    let member = classes.unsqueeze(1).eq_tensor(&labels.unsqueeze(0));
    (unit(&member.to_kind(Kind::Float).matmul(&unit(z))), member.any_dim(1, true))
}

/// Stands for minus infinity where a gradient must stay finite.
const NEVER: f64 = -1e9;

/// Cosine similarity over temperature with the diagonal struck out, and which pairs are positive.
fn pairs(z: &Tensor, labels: &Tensor, temperature: f64) -> (Tensor, Tensor) {
    let z = unit(z);
    let itself = Tensor::eye(z.size()[0], (Kind::Bool, z.device()));
    let similarity = (z.matmul(&z.transpose(0, 1)) / temperature).masked_fill(&itself, NEVER);
    let positive = labels.unsqueeze(0).eq_tensor(&labels.unsqueeze(1)).logical_and(&itself.logical_not());
    (similarity, positive)
}
