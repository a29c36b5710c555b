//! The method's losses in tch, checked against the same reference vectors as the runtime's.
//!
//! Rows need not be normalised: every loss projects its rows onto the unit sphere first.

use std::ops::Range;

use orco_core::loss::contrast::ContrastForm;
use tch::{Kind, Tensor};

use crate::model::backbone::unit;

/// What masked logits are set to. Minus infinity would give NaN gradients to a row that is masked throughout. This is
/// so far below any cosine over 0.001, the lowest temperature of a recipe, that its exponential vanishes beside theirs.
pub const MASKED_LOGIT: f64 = -1e9;

/// Contrastive loss over rows with labels, as [`orco_core::loss::contrast::loss`] computes it on the device: the mean
/// over all anchors that have a positive (a row of equal label) and, for [`ContrastForm::Negatives`], a negative. With
/// class labels it is SCL (OrCo, Eq. 2), with image identities SSCL; over views of a batch and perturbed targets it is
/// PSCL (Eq. 6).
///
/// With s_ik = z_i . z_k / tau, tau the temperature, P_i the positives of anchor i and N_i its negatives:
///
/// | form | loss of anchor i | Khosla et al. (2020) |
/// |---|---|---|
/// | [`Outside`](ContrastForm::Outside) | mean over p in P_i of -log(e^{s_ip} / sum_{k != i} e^{s_ik}) | L_out |
/// | [`Inside`](ContrastForm::Inside) | -log(sum_{p in P_i} e^{s_ip} / sum_{k != i} e^{s_ik}) | L_in less log \|P_i\| |
/// | [`Negatives`](ContrastForm::Negatives) | mean over p in P_i of -log(e^{s_ip} / sum_{n in N_i} e^{s_in}) | |
///
/// # Shapes
/// `z` f32 or f64 `[n, d]`, `labels` i64 `[n]`; returns a scalar of the same kind, 0 if there is no such anchor.
pub fn contrast(z: &Tensor, labels: &Tensor, temperature: f64, form: ContrastForm) -> Tensor {
    let kind = z.kind();
    let (similarity, itself, same) = pairs(z, labels, temperature);
    let positive = same.logical_and(&itself.logical_not());
    let left_out = if form == ContrastForm::Negatives { &same } else { &itself };
    let denominator = similarity.masked_fill(left_out, MASKED_LOGIT).logsumexp([1].as_slice(), true);
    let mut anchors = positive.any_dim(1, false);
    if form == ContrastForm::Negatives {
        anchors = anchors.logical_and(&same.all_dim(1, false).logical_not());
    }
    let losses = if form == ContrastForm::Inside {
        denominator.squeeze_dim(1)
            - similarity.masked_fill(&positive.logical_not(), MASKED_LOGIT).logsumexp([1].as_slice(), false)
    } else {
        let positive = positive.to_kind(kind);
        let count = positive.sum_dim_intlist([1].as_slice(), false, kind).clamp_min(1.0);
        ((denominator - similarity) * positive).sum_dim_intlist([1].as_slice(), false, kind) / count
    };
    let anchors = anchors.to_kind(kind);
    (losses * &anchors).sum(kind) / anchors.sum(kind).clamp_min(1.0)
}

/// ORTH (OrCo, Eq. 7) at temperature 1: mean over rows of log sum_j exp(t_i . t_j), self included.
///
/// # Shapes
/// `rows` f32 `[n, d]`; returns a scalar.
pub fn orthogonality(rows: &Tensor) -> Tensor {
    let rows = unit(rows);
    rows.matmul(&rows.transpose(0, 1)).logsumexp([1].as_slice(), false).mean(Kind::Float)
}

/// CE (OrCo, Eq. 5): cross entropy over cosine logits (temperature 1).
///
/// # Shapes
/// `z` f32 `[n, d]`, `targets` f32 `[classes, d]` of unit rows, `labels` i64 `[n]`; returns a scalar.
pub fn cosine_cross_entropy(z: &Tensor, targets: &Tensor, labels: &Tensor) -> Tensor {
    unit(z).matmul(&targets.transpose(0, 1)).cross_entropy_for_logits(labels)
}

/// The normalised mean of the unit rows of each class in `classes`, and whether the class has a row; without one, its
/// mean is zero.
///
/// Shapes do not depend on the labels, so the program need not wait for a GPU.
///
/// # Shapes
/// `z` f32 `[n, d]`, `labels` i64 `[n]`; returns f32 `[k, d]`, bool `[k, 1]` for k classes.
pub fn unit_class_means(z: &Tensor, labels: &Tensor, classes: Range<i64>) -> (Tensor, Tensor) {
    let classes = Tensor::arange_start(classes.start, classes.end, (Kind::Int64, z.device()));
    let member = classes.unsqueeze(1).eq_tensor(&labels.unsqueeze(0));
    (unit(&member.to_kind(Kind::Float).matmul(&unit(z))), member.any_dim(1, true))
}

/// For every pair of rows: the cosine over the temperature, whether both are the same row, and whether their labels are
/// equal; each `[n, n]`.
fn pairs(z: &Tensor, labels: &Tensor, temperature: f64) -> (Tensor, Tensor, Tensor) {
    let z = unit(z);
    let itself = Tensor::eye(z.size()[0], (Kind::Bool, z.device()));
    let same = labels.unsqueeze(0).eq_tensor(&labels.unsqueeze(1));
    (z.matmul(&z.transpose(0, 1)) / temperature, itself, same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_a_positive_or_a_negative_do_not_count() {
        let z = Tensor::from_slice(&[1.0f32, 0.0, 0.6, 0.8, 0.0, 1.0]).view([3, 2]);
        let value = |labels: [i64; 3], form| {
            let z = z.copy().set_requires_grad(true);
            let loss = contrast(&z, &Tensor::from_slice(&labels), 1.0, form);
            loss.backward();
            assert!(z.grad().isfinite().all().int64_value(&[]) == 1, "{form:?}");
            loss.double_value(&[])
        };
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-6, "{value}, not {expected}");
        let e = f64::exp;
        // Anchors 0 and 1 have one positive each (cosine 0.6) and row 2 as their negative; row 2 has no positive.
        let shared = ((e(0.6) + e(0.0)).ln() + (e(0.6) + e(0.8)).ln()) / 2.0 - 0.6;
        near(value([4, 4, 7], ContrastForm::Inside), shared);
        near(value([4, 4, 7], ContrastForm::Outside), shared);
        near(value([4, 4, 7], ContrastForm::Negatives), (0.0 + 0.8) / 2.0 - 0.6);
        for form in [ContrastForm::Inside, ContrastForm::Outside, ContrastForm::Negatives] {
            near(value([1, 2, 3], form), 0.0);
        }
        near(value([1, 1, 1], ContrastForm::Inside), 0.0);
        near(value([1, 1, 1], ContrastForm::Negatives), 0.0);
    }
}
