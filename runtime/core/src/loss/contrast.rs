//! Contrastive losses over rows with labels: the form of phase 1 (SCL, SSCL) and PSCL of phases 2 and 3.

use serde::{Deserialize, Serialize};

use super::{GradientAccumulator, PairScratch, UnitRows, exponentiate};
use crate::linalg::kernel::on_vector_units;
use crate::math::{exp, ln, sum_of_label};
use crate::workers::Workers;

/// The loss of an anchor, by the positives p among the other rows k, with s of the anchor as in [`loss`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContrastForm {
    /// Mean over the positives p of -log(e^{s_p} / sum_{k != anchor} e^{s_k}): PSCL in the published program.
    #[default]
    Outside,
    /// -log(sum_p e^{s_p} / sum_{k != anchor} e^{s_k}): SCL and SSCL in the published program.
    Inside,
    /// Mean over the positives p of -log(e^{s_p} / sum_n e^{s_n}), n over the negatives alone: the paper's text, in
    /// Eq. 2 (SCL) and Eq. 6 (PSCL).
    Negatives,
}

/// What PSCL depends on besides its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContrastSettings {
    /// tau: what inner products are divided by.
    pub temperature: f32,
    /// Which rows the denominator holds, and whether the mean over the positives is inside or outside the logarithm.
    pub form: ContrastForm,
}

/// What PSCL is computed over.
#[derive(Clone, Copy, Debug)]
pub struct ContrastBatch<'a> {
    /// `[n, width]` unit rows: projections, and targets beside them.
    pub rows: UnitRows<'a>,
    /// `[n]`: rows of equal label are each other's positives.
    pub labels: &'a [u32],
    /// Temperature and form.
    pub settings: ContrastSettings,
}

/// Contrastive loss (Eq. 2 over samples, Eq. 6 with perturbed targets among the rows): the mean over all anchors that
/// have a positive (a row of equal label other than itself) and, for [`ContrastForm::Negatives`], a negative.
///
/// With s_ik = z_i . z_k / tau, tau the temperature, and p_i the softmax of s_i over the rows in the denominator, the
/// gradient with respect to s_ik is p_ik - q_ik, where q_i is uniform over the positives ([`ContrastForm::Outside`],
/// [`ContrastForm::Negatives`]) or proportional to e^{s_ik} over them ([`ContrastForm::Inside`]). `PairScratch`
/// carries it on to the rows.
///
/// # Shapes
/// `gradient` is `[m, width]`, m up to n; `pairs` is for n rows, m of them with gradients. Returns the loss, 0 if there
/// is no such anchor.
pub fn loss(
    batch: ContrastBatch<'_>,
    gradient: GradientAccumulator<'_>,
    pairs: &mut PairScratch<'_>,
    workers: &dyn Workers,
) -> f32 {
    let ContrastBatch { rows, labels, settings: ContrastSettings { temperature, form } } = batch;
    let GradientAccumulator { weight, values: gradient } = gradient;
    let n = labels.len();
    let positives_of = |i: usize| {
        let positives = count(labels, labels[i]) - 1;
        let usable = positives > 0 && (form != ContrastForm::Negatives || positives + 1 < n);
        usable.then_some(positives)
    };
    let anchors = (0..n).filter(|&i| positives_of(i).is_some()).count();
    if anchors == 0 {
        return 0.0;
    }
    let total = pairs.sum_over_rows(rows, 1.0 / temperature, weight / anchors as f32, gradient, workers, |i, row| {
        let Some(positives) = positives_of(i) else {
            row.fill(0.0);
            return 0.0;
        };
        match form {
            ContrastForm::Inside => {
                row[i] = f32::NEG_INFINITY;
                inside(row, i, labels)
            }
            ContrastForm::Outside | ContrastForm::Negatives => outside(row, i, labels, 1.0 / positives as f32, form),
        }
    });
    (total / anchors as f64) as f32
}

on_vector_units! {
    /// How many of the labels are the given one.
    fn count(labels: &[u32], own: u32) -> usize {
        labels.iter().map(|label| u32::from(*label == own)).sum::<u32>() as usize
    }
}

on_vector_units! {
    /// The loss of anchor i, whose row becomes its gradient, by [`ContrastForm::Outside`] or
    /// [`ContrastForm::Negatives`], which keeps positives out of the denominator. `share` is 1 / number of positives.
    fn outside(row: &mut [f32], i: usize, labels: &[u32], share: f32, form: ContrastForm) -> f32 {
        let own = labels[i];
        let hits = sum_of_label(row, labels, own) - row[i];
        row[i] = f32::NEG_INFINITY;
        if form == ContrastForm::Negatives {
            row.iter_mut().zip(labels).for_each(|(s, label)| *s = if *label == own { f32::NEG_INFINITY } else { *s });
        }
        let (log_sum, sum) = exponentiate(row);
        let inverse = 1.0 / sum;
        for (value, label) in row.iter_mut().zip(labels) {
            *value = *value * inverse - if *label == own { share } else { 0.0 };
        }
        row[i] = 0.0;
        log_sum - hits * share
    }
}

/// The loss of anchor i, whose row becomes its gradient, by [`ContrastForm::Inside`]; its own entry is minus infinity.
/// Both softmaxes are taken from their logarithms, so that positives far away keep their gradient.
fn inside(row: &mut [f32], i: usize, labels: &[u32]) -> f32 {
    let log_sum = |row: &[f32], chosen: &dyn Fn(u32) -> bool| {
        let entries = || row.iter().zip(labels).filter(|(_, label)| chosen(**label)).map(|(value, _)| *value);
        let highest = entries().fold(f32::MIN, f32::max);
        highest + ln(entries().map(|value| exp(value - highest)).sum())
    };
    let own = labels[i];
    let (of_all, of_positives) = (log_sum(row, &|_| true), log_sum(row, &|label| label == own));
    for (value, label) in row.iter_mut().zip(labels) {
        let share = if *label == own { exp(*value - of_positives) } else { 0.0 };
        *value = exp(*value - of_all) - share;
    }
    of_all - of_positives
}
