//! The losses of phases 2 and 3 by the paper's text, setting by setting, against an implementation in numpy
//! (`golden/text.py`): the learner's in closed form, the trainer's differentiated by libtorch.

use std::path::Path;

use orco_core::align::{HeadTrainer, LossTerms, PerturbedTargets, StepBatch, StepExtent, TargetRows};
use orco_core::config::{ClassScope, MethodConfig, UnperturbedTargets};
use orco_core::loss::contrast::ContrastForm;
use orco_core::projection::HeadShape;
use orco_core::workers::Serial;
use orco_state::head::Head;
use orco_state::session::SessionMemory;
use orco_tests::compare::{GRADIENT, LOSS, Mismatch, compare};
use orco_tests::golden::Golden;
use orco_tests::phase3::PARAMETERS;
use orco_trainer::config::BaseAlignConfig;
use orco_trainer::model::backbone::unit;
use orco_trainer::platform::mkl;
use orco_trainer::train::objective::{Objective, ObjectiveConfig, Targets};
use tch::Tensor;

/// A phase with its classes.
#[derive(Clone, Copy, Debug)]
struct Phase {
    name: &'static str,
    base_classes: usize,
    known_classes: usize,
}

/// The learner knows phase 2 as a session without earlier classes.
const PHASES: [Phase; 2] = [
    Phase { name: "phase2", base_classes: 0, known_classes: 4 },
    Phase { name: "phase3", base_classes: 4, known_classes: 7 },
];

/// The settings of every case.
fn cases() -> [(&'static str, MethodConfig); 8] {
    let program = MethodConfig::published;
    let assigned = UnperturbedTargets { assigned: true, free: false };
    let free = UnperturbedTargets { assigned: false, free: true };
    [
        ("program", program()),
        ("text", MethodConfig::paper_text()),
        ("negatives_only", MethodConfig { contrast_form: ContrastForm::Negatives, ..program() }),
        ("clean_assigned", MethodConfig { unperturbed_targets: assigned, ..program() }),
        ("clean_free", MethodConfig { unperturbed_targets: free, ..program() }),
        ("cross_entropy", MethodConfig { cross_entropy: 1.0, ..program() }),
        ("cross_entropy_incremental", MethodConfig { cross_entropy_classes: ClassScope::Incremental, ..program() }),
        ("orthogonality_all", MethodConfig { orthogonality_classes: ClassScope::All, ..program() }),
    ]
}

fn vectors() -> Golden {
    Golden::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/text-vectors.safetensors"))
}

fn head(golden: &Golden) -> Head {
    let (w1, w2) = (golden.f32("head.w1"), golden.f32("head.w2"));
    let mut head = Head::zeros(HeadShape { inputs: w1.length(1), hidden: w1.length(0), outputs: w2.length(0) });
    for (parameter, name) in head.parameters_mut().into_iter().zip(PARAMETERS) {
        parameter.copy_from_slice(&golden.f32(&format!("head.{name}")).values);
    }
    head
}

/// The learner's losses and gradient with these settings, on the perturbed targets of that kind.
fn learner(golden: &Golden, phase: Phase, kind: &str, config: &MethodConfig) -> (LossTerms, Head) {
    let (head, targets) = (head(golden), golden.f32("targets"));
    let Phase { name, base_classes, known_classes } = phase;
    let classes = golden.labels(&format!("{name}.classes")).values;
    let extent = StepExtent {
        shape: head.shape(),
        samples: classes.len(),
        views: 2,
        classes: known_classes,
        targets: targets.length(0),
        unperturbed_targets: config.unperturbed_targets,
    };
    let (assigned, free) = targets.values.split_at(known_classes * head.outputs);
    let target_rows = TargetRows { base_classes, assigned, free };
    let mut memory = SessionMemory::new(extent.workspace_size());
    let mut trainer = HeadTrainer::new(&extent, head.as_parameters(), &target_rows, memory.workspace(&Serial));
    let mut gradient = Head::zeros(head.shape());
    let batch = StepBatch {
        features: &golden.f32(&format!("{name}.features")).values,
        classes: &classes,
        perturbed: &golden.f32(&format!("{name}.{kind}.perturbed")).values,
        perturbed_labels: &golden.labels(&format!("{name}.perturbed_labels")).values,
    };
    (trainer.gradient(&batch, config, gradient.as_parameters_mut()), gradient)
}

/// Compares losses and gradients with those of a case.
fn against(golden: &Golden, case: &str, losses: &[f64], gradient: [&[f32]; 4]) -> Result<(), Mismatch> {
    let expected = golden.f64(&format!("{case}.losses")).values;
    if let [loss] = losses {
        compare(case, &[*loss], &[expected.iter().sum::<f64>()], LOSS)?;
    } else {
        let terms = losses.iter().zip(&expected);
        terms.map(|(loss, expected)| compare(case, &[*loss], &[*expected], LOSS)).collect::<Result<Vec<_>, _>>()?;
    }
    for (name, gradient) in PARAMETERS.iter().zip(gradient) {
        let expected = golden.f64(&format!("{case}.grad_{name}"));
        compare(&expected.key, gradient, &expected.values, GRADIENT)?;
    }
    Ok(())
}

fn of_learner(golden: &Golden, phase: Phase, kind: &str, case: &str, config: &MethodConfig) -> Result<(), Mismatch> {
    let (losses, gradient) = learner(golden, phase, kind, config);
    let losses = [losses.contrast, losses.cross_entropy, losses.orthogonality].map(f64::from);
    against(golden, &format!("{}.{kind}.{case}", phase.name), &losses, gradient.parameters())
}

#[test]
fn losses_of_the_learner_are_those_of_the_papers_text() {
    let golden = vectors();
    for (phase, kind) in PHASES.into_iter().flat_map(|phase| ["moved", "still"].map(|kind| (phase, kind))) {
        for (case, config) in cases() {
            of_learner(&golden, phase, kind, case, &config).unwrap_or_else(|mismatch| panic!("{mismatch}"));
        }
    }
}

/// So that agreement means something: in phase 3, where every setting matters, no case agrees with another.
#[test]
fn losses_of_other_settings_do_not_agree() {
    let golden = vectors();
    let cases = cases();
    for (case, _) in &cases {
        for (other, config) in cases.iter().filter(|(other, _)| other != case) {
            let outcome = of_learner(&golden, PHASES[1], "moved", case, config);
            assert!(outcome.is_err(), "the settings of {other} give the numbers of {case}");
        }
    }
}

/// The trainer draws its perturbed targets itself: without noise, and with as many rows as make every perturbable
/// target come equally often, they are those of the vectors.
#[test]
fn losses_of_the_trainer_are_those_of_the_papers_text() {
    mkl::warm_up();
    tch::set_num_threads(1);
    let golden = vectors();
    let whole = golden.f32("targets");
    let shaped = |key: &str| {
        let array = golden.f32(key);
        let shape: Vec<i64> = array.shape.iter().map(|&length| length as i64).collect();
        Tensor::from_slice(&array.values).view(shape.as_slice())
    };
    for phase in PHASES {
        let Phase { name, base_classes, known_classes } = phase;
        let classes: Vec<i64> = golden.labels(&format!("{name}.classes")).values.into_iter().map(i64::from).collect();
        let rows = (0..known_classes as i64).collect();
        let targets =
            Targets { vectors: Tensor::from_slice(&whole.values).view_as(&shaped("targets")), assignment: rows };
        for (case, config) in cases() {
            let config = MethodConfig { perturbation_width: 0.0, ..config };
            let objective = if base_classes == 0 {
                let align = BaseAlignConfig {
                    contrast_form: config.contrast_form,
                    unperturbed_targets: config.unperturbed_targets,
                    cross_entropy: config.cross_entropy.into(),
                    perturbation_width: 0.0,
                    perturbed: PerturbedTargets { base: false, incremental: false, free: true },
                    ..BaseAlignConfig::default()
                };
                Objective::of_base(&targets, ObjectiveConfig::from(&align))
            } else {
                Objective::of_session(&targets, ObjectiveConfig::from(&config), base_classes as i64)
            };
            let parameters = PARAMETERS.map(|name| shaped(&format!("head.{name}")).set_requires_grad(true));
            let [w1, b1, w2, b2] = &parameters;
            let features = shaped(&format!("{name}.features"));
            let z = unit(&features.linear(w1, Some(b1)).relu().linear(w2, Some(b2)));
            let loss = objective.loss(&z, &Tensor::from_slice(&classes));
            let gradients = Tensor::run_backward(&[&loss], &parameters.each_ref(), false, false);
            let gradients: Vec<Vec<f32>> =
                gradients.iter().map(|tensor| Vec::try_from(tensor.contiguous().view(-1)).unwrap()).collect();
            let gradients: [&[f32]; 4] = std::array::from_fn(|index| &*gradients[index]);
            let agrees = against(&golden, &format!("{name}.still.{case}"), &[loss.double_value(&[])], gradients);
            agrees.unwrap_or_else(|mismatch| panic!("{mismatch}"));
        }
    }
}
