//! The trainer's losses, head and optimiser, differentiated by libtorch, against the reference vectors.

use orco_core::loss::contrast::ContrastForm;
use orco_tests::compare::{GRADIENT, LOSS, Mismatch, assert_close};
use orco_tests::golden::{Array, Golden};
use orco_tests::golden_checks::{check_phase_1, check_target_generation};
use orco_tests::phase3::{
    CROSS_ENTROPY, DAMPENING, Deviation, Losses, MOMENTUM, PARAMETERS, Phase3, RATE, TEMPERATURE, WEIGHT_DECAY,
};
use orco_trainer::model::backbone::{ProjectionHead, unit};
use orco_trainer::model::store::Parameter;
use orco_trainer::platform::mkl;
use orco_trainer::train::loss::{contrast, cosine_cross_entropy, orthogonality, unit_class_means};
use orco_trainer::train::optimiser::{Sgd, SgdConfig, gradients};
use tch::{Kind, Tensor, no_grad};

#[test]
fn contrast_by_class_is_that_of_the_reference() {
    check_phase_1(&vectors(Golden::open), "scl", "phase1.labels", inside_contrast);
}

#[test]
fn contrast_by_instance_is_that_of_the_reference() {
    check_phase_1(&vectors(Golden::open), "sscl", "phase1.instances", inside_contrast);
}

/// The loss of phase 1 and its gradient by unnormalised rows.
fn inside_contrast(z: &Array<f32>, classes: &[u32], temperature: f64) -> (f64, Vec<f32>) {
    let z = tensor(z).set_requires_grad(true);
    let loss = contrast(&z, &labels(classes), temperature, ContrastForm::Inside);
    loss.backward();
    (value(&loss), values(&z.grad()))
}

/// Descent on L_TG by the trainer's [`orthogonality`], gradients accumulated, rows renormalised.
#[test]
fn generated_targets_are_those_of_the_reference() {
    let golden = vectors(Golden::open);
    let mut targets = tensor(&golden.f32("targets.initial")).set_requires_grad(true);
    check_target_generation(&golden, || {
        let loss = orthogonality(&targets);
        loss.backward();
        let moved = no_grad(|| unit(&(&targets - targets.grad())));
        no_grad(|| targets.copy_(&moved));
        (value(&loss), values(&targets))
    });
}

#[test]
fn gradients_of_each_loss_are_those_of_the_reference() {
    let golden = vectors(Golden::open);
    let phase = Phase3::new(&golden);
    let projection = head(&phase).forward(&features(&phase, 0)).detach();
    golden.f32("phase3.step0.projection").assert_close(&values(&projection), GRADIENT);
    let expected = phase.losses(0);
    let expected = [expected.contrast, expected.cross_entropy, expected.orthogonality];
    for (index, (name, expected)) in ["pscl", "ce", "orth"].iter().zip(expected).enumerate() {
        let projection = projection.copy().set_requires_grad(true);
        let loss = &terms(&phase, 0, &projection)[index];
        loss.backward();
        let key = format!("phase3.step0.{name}.grad_projection");
        assert_close(&format!("phase3.loss.{name}"), &[value(loss)], &[expected], LOSS);
        golden.f32(&key).assert_close(&values(&projection.grad()), GRADIENT);
    }
}

#[test]
fn gradients_of_the_head_are_those_of_the_reference() {
    let golden = vectors(Golden::open);
    let phase = Phase3::new(&golden);
    let head = head(&phase);
    let [contrast, cross_entropy, orthogonality] = terms(&phase, 0, &head.forward(&features(&phase, 0)));
    (contrast + cross_entropy + orthogonality).backward();
    for (name, parameter) in PARAMETERS.iter().zip(head.parameters()) {
        let key = format!("phase3.step0.grad_{name}");
        golden.f32(&key).assert_close(&values(&parameter.grad()), GRADIENT);
    }
}

#[test]
fn all_steps_of_training_are_those_of_the_reference() {
    let golden = vectors(Golden::open);
    let phase = Phase3::new(&golden);
    match trajectory(&phase, settings()) {
        Ok(deviation) => println!("trajectory of {} steps: {deviation}", phase.steps),
        Err(mismatch) => panic!("{mismatch}"),
    }
}

/// So that agreement means something: another optimiser's training must not agree.
#[test]
fn training_with_other_settings_does_not_agree() {
    let golden = vectors(Golden::open_kept);
    let phase = Phase3::new(&golden);
    let others = [
        ("momentum", SgdConfig { momentum: 0.89, ..settings() }),
        ("dampening", SgdConfig { dampening: 0.89, ..settings() }),
        ("no weight decay", SgdConfig { weight_decay: 0.0, ..settings() }),
        ("nesterov", SgdConfig { nesterov: true, ..settings() }),
    ];
    for (what, other) in others {
        match trajectory(&phase, other) {
            Ok(deviation) => panic!("{what} altered, yet the training agrees: {deviation}"),
            Err(mismatch) => println!("{what} altered: {mismatch}"),
        }
    }
}

fn trajectory(phase: &Phase3, settings: SgdConfig) -> Result<Deviation, Mismatch> {
    let head = head(phase);
    let parameters = PARAMETERS.iter().zip(head.parameters());
    let parameters = parameters.map(|(name, parameter)| Parameter {
        name: (*name).to_owned(),
        tensor: parameter.shallow_clone(),
        decays: true,
    });
    let mut optimiser = Sgd::new(parameters.collect(), settings);
    phase.follow(|step| {
        let terms = terms(phase, step, &head.forward(&features(phase, step)));
        let total = terms.iter().sum::<Tensor>();
        let gradients = gradients(&total, optimiser.parameters());
        optimiser.step(&gradients, f64::from(RATE));
        let [contrast, cross_entropy, orthogonality] = terms.each_ref().map(value);
        let losses = Losses { contrast, cross_entropy, orthogonality, total: value(&total) };
        (losses, head.parameters().map(values))
    })
}

/// Opens the reference vectors, and leaves the other cores to other tests: the arrays are small.
fn vectors(open: fn() -> Golden) -> Golden {
    mkl::warm_up();
    tch::set_num_threads(1);
    open()
}

/// The settings of the recorded alignment.
fn settings() -> SgdConfig {
    SgdConfig {
        momentum: f64::from(MOMENTUM),
        dampening: f64::from(DAMPENING),
        weight_decay: f64::from(WEIGHT_DECAY),
        nesterov: false,
    }
}

/// PSCL, CE with its weight, and ORTH of a recorded step at unnormalised projections of both views.
fn terms(phase: &Phase3, step: usize, projection: &Tensor) -> [Tensor; 3] {
    let (classes, perturbed_labels) = (labels(phase.classes(step)), labels(phase.perturbed_labels(step)));
    let (assigned, free) = (tensor(&phase.assigned), tensor(&phase.free));

    let perturbed = Tensor::from_slice(&phase.perturbed(step)).view((-1, phase.dimension as i64));
    let contrast = contrast(
        &Tensor::cat(&[projection, &perturbed], 0),
        &Tensor::cat(&[&classes, &classes, &perturbed_labels, &perturbed_labels], 0),
        f64::from(TEMPERATURE),
        ContrastForm::Outside,
    );

    let both = Tensor::cat(&[&classes, &classes], 0);
    let counted = both.ge(i64::from(phase.base_classes)).nonzero().flatten(0, -1);
    let cross_entropy =
        cosine_cross_entropy(&projection.index_select(0, &counted), &assigned, &both.index_select(0, &counted))
            * f64::from(CROSS_ENTROPY);

    let counted = classes.ge(i64::from(phase.base_classes)).nonzero().flatten(0, -1);
    let (projection, classes) = (projection.index_select(0, &counted), classes.index_select(0, &counted));
    let (means, present) = unit_class_means(&projection, &classes, 0..assigned.size()[0]);
    let orthogonality = orthogonality(&Tensor::cat(&[means.where_self(&present, &assigned), free], 0));

    [contrast, cross_entropy, orthogonality]
}

fn head(phase: &Phase3) -> ProjectionHead {
    let [w1, b1, w2, b2] = phase.head.each_ref().map(|array| tensor(array).set_requires_grad(true));
    ProjectionHead { w1, b1, w2, b2 }
}

fn features(phase: &Phase3, step: usize) -> Tensor {
    Tensor::from_slice(&phase.features(step)).view((-1, phase.inputs as i64))
}

fn labels(labels: &[u32]) -> Tensor {
    Tensor::from_slice(&labels.iter().copied().map(i64::from).collect::<Vec<i64>>())
}

fn tensor(array: &Array<f32>) -> Tensor {
    let shape: Vec<i64> = array.shape.iter().map(|&length| length as i64).collect();
    Tensor::from_slice(&array.values).view(shape.as_slice())
}

fn value(scalar: &Tensor) -> f64 {
    scalar.double_value(&[])
}

fn values(tensor: &Tensor) -> Vec<f32> {
    let flat = tensor.detach().to_kind(Kind::Float).contiguous().view(-1);
    Vec::try_from(flat).expect("a flat f32 tensor")
}
