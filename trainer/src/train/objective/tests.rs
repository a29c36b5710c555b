//! The trainer's objective: what the phases and the settings choose, and that its loss is the runtime's.

use orco_core::align::{HeadTrainer, StepBatch, StepExtent, TargetRows, Workspace};
use orco_core::projection::HeadShape;
use orco_core::workers::Serial;
use orco_state::head::Head;

use super::*;
use crate::config::Recipe;

#[test]
fn the_settings_say_which_targets_are_perturbed_and_how_much() {
    let recipe: Recipe = toml::from_str(include_str!("../../../recipes/cifar100-edge.toml")).unwrap();
    let targets = Targets { vectors: Tensor::eye(5, (Kind::Float, Device::Cpu)), assignment: vec![4, 1] };
    let drawn = |[base, free]: [bool; 2], perturbation, perturbation_width| {
        let perturbed = PerturbedTargets { base, incremental: false, free };
        let config = BaseAlignConfig { perturbed, perturbation, perturbation_width, ..recipe.align.clone() };
        let objective = Objective::of_base(&targets, ObjectiveConfig::from(&config));
        let (rows, labels) = objective.with_perturbed(&objective.assigned, &Tensor::from_slice(&[0i64, 1]), 60);
        let mut labels: Vec<i64> = Vec::try_from(labels.slice(0, 2, None, 1)).unwrap();
        labels.sort_unstable();
        labels.dedup();
        let (all, added) = (&objective.all, rows.slice(0, 2, None, 1));
        let gap = (&added - all.index_select(0, &added.matmul(&all.transpose(0, 1)).argmax(1, false))).abs();
        (labels, if gap.numel() == 0 { 0.0 } else { gap.max().double_value(&[]) })
    };
    assert_eq!(drawn([false, false], Perturbation::Uniform, 0.01), (vec![], 0.0));
    let (labels, widest) = drawn([false, true], Perturbation::Uniform, 0.01);
    assert_eq!(labels, [2, 3, 4]);
    assert!((0.004..0.0051).contains(&widest), "{widest}");
    let (labels, widest) = drawn([true, false], Perturbation::Uniform, 0.02);
    assert_eq!(labels, [0, 1]);
    assert!((0.008..0.0102).contains(&widest), "{widest}");
    let (labels, widest) = drawn([true, true], Perturbation::Gaussian, 0.01);
    assert_eq!(labels, [0, 1, 2, 3, 4]);
    assert!(widest > 0.015, "{widest}");
    assert_eq!(drawn([true, true], Perturbation::None, 0.01), (vec![0, 1, 2, 3, 4], 0.0));
}

/// In phase 2 base classes enter ORTH by their means, in a session by their targets, and cross entropy counts others.
#[test]
fn the_phases_differ_in_who_counts() {
    tch::manual_seed(3);
    let recipe: Recipe = toml::from_str(include_str!("../../../recipes/cifar100-edge.toml")).unwrap();
    let vectors = unit(&Tensor::randn([6, 4], (Kind::Float, Device::Cpu)));
    let targets = Targets { vectors, assignment: vec![0, 1, 2, 3] };
    let z = unit(&Tensor::randn([8, 4], (Kind::Float, Device::Cpu)));
    let labels = Tensor::from_slice(&[0i64, 1, 2, 3]);
    let none = MethodConfig { contrast: 0.0, cross_entropy: 0.0, orthogonality: 0.0, ..MethodConfig::published() };
    let phase_2 =
        |config: BaseAlignConfig| Objective::of_base(&targets, ObjectiveConfig::from(&config)).loss(&z, &labels);
    let session =
        |config: MethodConfig| Objective::of_session(&targets, ObjectiveConfig::from(&config), 2).loss(&z, &labels);
    let value = |loss: Tensor| loss.double_value(&[]);
    let base = BaseAlignConfig { contrast: 0.0, cross_entropy: 0.0, orthogonality: 1.0, ..recipe.align.clone() };
    let by_means = value(orthogonality(&Tensor::cat(&[unit(&z.narrow(0, 0, 4)), targets.free()], 0)));
    assert!((value(phase_2(base.clone())) - by_means).abs() < 1e-6);
    let mixed = Tensor::cat(&[targets.assigned().narrow(0, 0, 2), unit(&z.narrow(0, 2, 2)), targets.free()], 0);
    let orth = session(MethodConfig { orthogonality: 1.0, ..none.clone() });
    assert!((value(orth) - value(orthogonality(&mixed))).abs() < 1e-6);
    let all = BaseAlignConfig { orthogonality: 0.0, cross_entropy: 1.0, ..base };
    let both = labels.repeat([2]);
    assert_eq!(value(phase_2(all)), value(cosine_cross_entropy(&z, &targets.assigned(), &both)));
    let new = Tensor::from_slice(&[2i64, 3, 6, 7]);
    let incremental = session(MethodConfig { cross_entropy: 1.0, ..none });
    let expected = cosine_cross_entropy(&z.index_select(0, &new), &targets.assigned(), &both.index_select(0, &new));
    assert_eq!(value(incremental), value(expected));
}

#[test]
fn the_loss_is_the_runtimes() {
    let mixed = || MethodConfig { cross_entropy: 0.5, base_cross_entropy: 0.6, ..MethodConfig::published() };
    for contrast_form in [ContrastForm::Outside, ContrastForm::Inside, ContrastForm::Negatives] {
        the_loss_with(&MethodConfig { contrast_form, ..mixed() });
    }
    the_loss_with(&MethodConfig::paper_text());
    for unperturbed_targets in
        [UnperturbedTargets { assigned: true, free: false }, UnperturbedTargets { assigned: false, free: true }]
    {
        the_loss_with(&MethodConfig { unperturbed_targets, ..mixed() });
    }
    for scope in [ClassScope::All, ClassScope::Incremental] {
        the_loss_with(&MethodConfig { cross_entropy_classes: scope, orthogonality_classes: scope, ..mixed() });
    }
}

/// No target is perturbed.
const NONE: PerturbedTargets = PerturbedTargets { base: false, incremental: false, free: false };

/// The runtime's loss of the same batch, without perturbed targets: number and gradients must be the same. The batch
/// lacks two classes.
fn the_loss_with(config: &MethodConfig) {
    tch::manual_seed(7);
    let random = |shape: &[i64]| Tensor::randn(shape, (Kind::Float, Device::Cpu));
    let flat = |tensor: &Tensor| Vec::<f32>::try_from(tensor.contiguous().view(-1)).unwrap();
    let targets = unit(&random(&[9, 6]));
    let (assigned, free) = (flat(&targets.narrow(0, 0, 7)), flat(&targets.narrow(0, 7, 2)));
    let classes = [0i64, 5, 2, 6, 5, 0, 1];
    let weights = [random(&[5, 4]), random(&[5]), random(&[6, 5]), random(&[6])];
    let [w1, b1, w2, b2] = weights.each_ref().map(|weight| weight.set_requires_grad(true));
    let features = random(&[14, 4]);
    let z = unit(&features.linear(&w1, Some(&b1)).relu().linear(&w2, Some(&b2)));
    let known = Targets { vectors: targets, assignment: (0..7).collect() };
    let objective =
        Objective::of_session(&known, ObjectiveConfig { perturbed: NONE, ..ObjectiveConfig::from(config) }, 4);
    let loss = objective.loss(&z, &Tensor::from_slice(&classes));
    let gradients = Tensor::run_backward(&[&loss], &[&w1, &b1, &w2, &b2], false, false);
    let ours = loss.double_value(&[]);

    let shape = HeadShape { inputs: 4, hidden: 5, outputs: 6 };
    let [w1, b1, w2, b2] = weights.map(|tensor| flat(&tensor.detach()));
    let head = Head { inputs: 4, hidden: 5, outputs: 6, w1, b1, w2, b2 };
    let extent = StepExtent {
        shape,
        samples: 7,
        views: 2,
        classes: 7,
        targets: 9,
        unperturbed_targets: config.unperturbed_targets,
    };
    let (mut numbers, mut indices) =
        (vec![0.0; extent.workspace_size().numbers], vec![0; extent.workspace_size().indices]);
    let target_rows = TargetRows { base_classes: 4, assigned: &assigned, free: &free };
    let workspace = Workspace { numbers: &mut numbers, indices: &mut indices, workers: &Serial };
    let mut trainer = HeadTrainer::new(&extent, head.as_parameters(), &target_rows, workspace);
    let classes = classes.map(|class| class as u32);
    let batch = StepBatch { features: &flat(&features), classes: &classes, perturbed: &[], perturbed_labels: &[] };
    let mut gradient = head.clone();
    let theirs = f64::from(trainer.gradient(&batch, config, gradient.as_parameters_mut()).total());
    assert!((ours - theirs).abs() < 1e-4 * theirs.abs(), "{ours}, the runtime's {theirs}");
    for (ours, theirs) in gradients.iter().zip([&gradient.w1, &gradient.b1, &gradient.w2, &gradient.b2]) {
        let ours = flat(ours);
        let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-4 * (1.0 + b.abs());
        assert!(ours.len() == theirs.len() && ours.iter().zip(theirs).all(near), "{ours:?}, the runtime's {theirs:?}");
    }
}
