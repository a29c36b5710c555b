//! What a step of BiDist's sessions minimises.

use tch::{Kind, Tensor};

/// Shots in a step that are distilled too, the last ones.
const DISTILLED: i64 = 5;
/// Temperature of distillation, `--ft_T`, and its weight, `--w_d`.
const TEMPERATURE: f64 = 16.0;
const DISTILLATION: f64 = 100.0;
/// Weight of cross entropy on exemplars, `--w_e`.
const EXEMPLAR: f64 = 5.0;
/// Weight of a pull towards the base teacher, `--w_l`.
const BASE_TEACHER: f64 = 1.0;
/// Weights of the merged answer and of telling the branches apart, `--w_BC_cls`, `--w_BC_binary`.
const MERGED: f64 = 5.0;
const SELECTION: f64 = 50.0;

/// Logits of a step's images, `[n, seen]`: the session's shots in random order, exemplars then.
pub(super) struct BidistStep {
    pub student: Tensor,
    pub by_base: Tensor,
    pub by_before: Tensor,
    pub labels: Tensor,
    /// Shots among the images.
    pub new: i64,
    /// Number of base classes.
    pub base: i64,
    /// Whether nothing was learned before this session.
    pub first: bool,
}

impl BidistStep {
    /// What a step minimises. `trust` is the small network that says from the likeness of each learned class to the
    /// base classes (`likeness`, `[learned, base]`) how much the base teacher counts; `selector` is the one that
    /// chooses between the branches.
    pub fn loss(
        &self,
        trust: &dyn Fn(&Tensor) -> Tensor,
        selector: &dyn Fn(&Tensor) -> Tensor,
        likeness: &Tensor,
    ) -> Tensor {
        let Self { student, by_base, by_before, labels, new, base, first } = self;
        let old = labels.size()[0] - new;
        let mut loss = student.narrow(0, 0, *new).cross_entropy_for_logits(&labels.narrow(0, 0, *new));
        loss += student.narrow(0, *new, old).cross_entropy_for_logits(&labels.narrow(0, *new, old)) * EXEMPLAR;

        let distilled = old + DISTILLED.min(*new);
        let from = |rows: &Tensor| rows.narrow(0, rows.size()[0] - distilled, distilled);
        let (classes, mut teacher) = (from(labels), from(by_base));
        if !first {
            let learned = classes.ge(*base).unsqueeze(1);
            let likeness = likeness.index_select(0, &(&classes - *base).clamp_min(0));
            let trust = trust(&likeness).narrow(1, 0, 1).sigmoid();
            let distrust: Tensor = 1.0f64 - &trust;
            let distrust = distrust.where_self(&learned, &trust.zeros_like());
            teacher = &teacher - &distrust * (&teacher - from(by_before));
            loss += distrust.sum(Kind::Float) / learned.to_kind(Kind::Float).sum(Kind::Float) * BASE_TEACHER;
        }
        loss += distillation(&from(student), &teacher) * DISTILLATION;

        let (by_base, branch) = (by_base.detach(), student.detach());
        let selected = selector(&both(&by_base, &branch));
        let merged = merged(&by_base, &branch, &selected);
        loss += merged.cross_entropy_for_logits(labels) * MERGED;
        loss + selected.cross_entropy_for_logits(&labels.ge(*base).to_kind(Kind::Int64)) * SELECTION
    }
}

/// Divergence of the student's answers from the teacher's, both softened, mean over rows.
fn distillation(student: &Tensor, teacher: &Tensor) -> Tensor {
    let soft = |logits: &Tensor| (logits / TEMPERATURE).log_softmax(1, Kind::Float);
    let (log_p, log_q) = (soft(student), soft(teacher));
    let divergence = (log_q.exp() * (&log_q - log_p)).sum_dim_intlist([1].as_slice(), false, Kind::Float);
    divergence.mean(Kind::Float) * TEMPERATURE * TEMPERATURE
}

/// What the selector is asked: the probabilities of both branches, `[n, 2 seen]`.
pub(super) fn both(by_base: &Tensor, branch: &Tensor) -> Tensor {
    Tensor::cat(&[by_base.softmax(1, Kind::Float), branch.softmax(1, Kind::Float)], 1)
}

/// The logits of both branches, weighed as the selector says, `[n, seen]`.
pub(super) fn merged(by_base: &Tensor, branch: &Tensor, selected: &Tensor) -> Tensor {
    let weights = selected.softmax(1, Kind::Float);
    weights.narrow(1, 0, 1) * by_base + weights.narrow(1, 1, 1) * branch
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::rival::tests::rows;

    fn near(value: &Tensor, expected: f64) {
        let value = value.double_value(&[]);
        assert!((value - expected).abs() < 1e-4, "{value}, not {expected}");
    }

    #[test]
    fn distillation_compares_softened_answers() {
        // A quarter and three quarters, and halves, at temperature 16.
        let student = rows(&[0.0, 16.0 * 3f32.ln()]);
        near(&distillation(&student, &rows(&[5.0, 5.0])), 256.0 * 0.5 * (4f64 / 3.0).ln());
        near(&distillation(&student, &student), 0.0);
    }

    #[test]
    fn an_answer_weighs_the_branches() {
        let merged = merged(&rows(&[4.0, 0.0]), &rows(&[0.0, 8.0]), &rows(&[0.0, 3f32.ln()]));
        near(&(merged - rows(&[1.0, 6.0])).abs().max(), 0.0);
    }

    #[test]
    fn the_loss_of_a_step_is_that_of_the_authors_program() {
        // A shot of the learned class 1 and an exemplar of the base class 0; all answer alike, 3 to 1 for the right
        // class, but for what the branch said before of the exemplar, which does not count for base classes.
        let alike = || rows(&[0.0, 3f32.ln(), 3f32.ln(), 0.0]);
        let step = BidistStep {
            student: alike(),
            by_base: alike(),
            by_before: rows(&[0.0, 3f32.ln(), -50.0, 50.0]),
            labels: Tensor::from_slice(&[1i64, 0]),
            new: 1,
            base: 1,
            first: false,
        };
        let undecided = |asked: &Tensor| Tensor::zeros([asked.size()[0], 2], (Kind::Float, Device::Cpu));
        let loss = step.loss(&undecided, &undecided, &Tensor::ones([1, 1], (Kind::Float, Device::Cpu)));
        // Cross entropies ln 4/3 with weights 1, 5 and 5; half a distrust of the base teacher; ln 2 of the selector.
        near(&loss, 11.0 * (4f64 / 3.0).ln() + 0.5 + 50.0 * 2f64.ln());
    }
}
