//! The runtime against the reference vectors.

use orco_runtime::config::{Config, CrossEntropyOn};
use orco_runtime::head::{Activations, Head};
use orco_runtime::loss::contrast::Form;
use orco_runtime::loss::{contrast, cross_entropy, orthogonality};
use orco_runtime::math::normalise;
use orco_runtime::schedule::Schedule;
use orco_runtime::session::{Alignment, Batch, Goals};
use orco_runtime::target::{Generator, assign};
use orco_tests::compare::{GRADIENT, LOSS, Mismatch, assert_close, compare};
use orco_tests::golden::{Array, Golden};
use orco_tests::phase3::{
    CROSS_ENTROPY, DAMPENING, Deviation, Losses, MOMENTUM, PARAMETERS, Phase3, RATE, TEMPERATURE, WEIGHT_DECAY,
};

#[test]
fn golden_contrast_by_class() {
    phase1("scl", "phase1.labels");
}

#[test]
fn golden_contrast_by_instance() {
    phase1("sscl", "phase1.instances");
}

fn phase1(name: &str, labels: &str) {
    let Some(golden) = Golden::open() else { return };
    let z = golden.f32("phase1.z");
    let labels = golden.labels(labels).shaped(&[z.length(0)]);
    for temperature in golden.names(&format!("phase1.{name}.t"), ".loss") {
        let key = format!("phase1.{name}.t{temperature}");
        let temperature = temperature.parse().expect("a temperature stands in the key");
        let (loss, gradient) = inside_contrast(&z, &labels.values, temperature);
        golden.f32(&format!("{key}.loss")).assert_close(&[loss], LOSS);
        golden.f32(&format!("{key}.grad_z")).assert_close(&gradient, GRADIENT);
    }
}

/// The loss of phase 1 and its gradient with respect to unnormalised rows.
fn inside_contrast(z: &Array<f32>, labels: &[u32], temperature: f32) -> (f32, Vec<f32>) {
    let dimension = z.length(1);
    let mut activations = Activations::default();
    activations.z = z.values.clone();
    activations.norms = activations.z.chunks_exact_mut(dimension).map(normalise).collect();
    let mut gradient = vec![0.0; z.values.len()];
    let mut scratch = contrast::Scratch::default();
    let unit = &activations.z;
    let loss = contrast::loss(unit, dimension, labels, temperature, Form::Inside, &mut gradient, &mut scratch);
    Head::zeros(0, 0, dimension).unnormalise_gradient(&activations, &mut gradient);
    (loss, gradient)
}

#[test]
fn golden_target_generation() {
    let Some(golden) = Golden::open() else { return };
    let initial = golden.f32("targets.initial");
    let after = golden.numbers("targets.after", "");
    let with_loss = golden.numbers("targets.loss", "");
    let mut generator = Generator::new(initial.length(0), initial.length(1));
    let mut targets = initial.values;
    for step in 1..=after.iter().chain(&with_loss).copied().max().unwrap_or(0) {
        let loss = generator.step(&mut targets, 1.0);
        if with_loss.contains(&step) {
            golden.f32(&format!("targets.loss{step}")).assert_close(&[loss], LOSS);
        }
        if after.contains(&step) {
            golden.f32(&format!("targets.after{step}")).assert_close(&targets, GRADIENT);
        }
    }
}

#[test]
fn golden_assignment() {
    let Some(golden) = Golden::open() else { return };
    let last = golden.numbers("targets.after", "").into_iter().max().expect("there is one");
    let targets = golden.f32(&format!("targets.after{last}"));
    let (count, dimension) = (targets.length(0), targets.length(1));
    let mut free: Vec<usize> = (0..count).collect();
    let sessions = golden.numbers("assign.session", "_prototypes");
    let names = sessions.into_iter().map(|session| format!("session{session}"));
    for name in std::iter::once("base".to_owned()).chain(names) {
        let mut prototypes = golden.f32(&format!("assign.{name}_prototypes")).values;
        prototypes.chunks_exact_mut(dimension).for_each(|row| {
            normalise(row);
        });
        let rows: Vec<f32> = free.iter().flat_map(|&row| targets.part(row)).copied().collect();
        let places = assign(&prototypes, &rows, dimension);
        let taken: Vec<u32> = places.into_iter().map(|place| free[place] as u32).collect();
        assert_eq!(taken, golden.labels(&format!("assign.{name}_target_index")).values, "assignment of {name}");
        free.retain(|&row| !taken.contains(&(row as u32)));
    }
}

#[test]
fn golden_schedule() {
    let Some(golden) = Golden::open() else { return };
    for (key, warmup, peak, end) in [("schedule.phase2", 3, 0.25, 1e-5), ("schedule.phase3", 10, 0.1, 0.0)] {
        let expected = golden.f64(key);
        let schedule = Schedule { steps: expected.length(0), warmup, start: 3e-5, peak, end };
        for (epoch, &rate) in expected.values.iter().enumerate() {
            assert_close(&format!("{key} of epoch {epoch}"), &[schedule.rate(epoch)], &[rate], LOSS);
        }
    }
}

#[test]
fn golden_first_step_gradients_of_terms() {
    let Some(golden) = Golden::open() else { return };
    let phase = Phase3::new(&golden);
    let dimension = phase.dimension;
    let head = head(&phase);
    let mut activations = Activations::default();
    head.forward(&phase.features(0), &mut activations);
    let scaled = |(row, norm): (&[f32], &f32)| row.iter().map(|value| value * norm).collect::<Vec<f32>>();
    let unit = activations.z.chunks_exact(dimension);
    let projection: Vec<f32> = unit.zip(&activations.norms).flat_map(scaled).collect();
    golden.f32("phase3.step0.projection").assert_close(&projection, GRADIENT);

    let (classes, perturbed_labels) = (phase.classes(0), phase.perturbed_labels(0));
    let samples = activations.z.len();
    let check = |term: &str, loss: f32, expected_loss: f64, mut gradient: Vec<f32>| {
        head.unnormalise_gradient(&activations, &mut gradient);
        let key = format!("phase3.step0.{term}.grad_projection");
        assert_close(&format!("phase3.loss.{term}"), &[loss], &[expected_loss], LOSS);
        golden.f32(&key).assert_close(&gradient, GRADIENT);
    };

    let rows = [activations.z.clone(), phase.perturbed(0)].concat();
    let labels = [classes, classes, perturbed_labels, perturbed_labels].concat();
    let mut gradient = vec![0.0; rows.len()];
    let mut scratch = contrast::Scratch::default();
    let loss = contrast::loss(&rows, dimension, &labels, TEMPERATURE, Form::Outside, &mut gradient, &mut scratch);
    gradient.truncate(samples);
    check("pscl", loss, phase.losses(0).contrast, gradient);

    let labels: Vec<Option<usize>> = [classes, classes]
        .concat()
        .iter()
        .map(|&class| phase.is_incremental(class).then_some(class as usize))
        .collect();
    let mut gradient = vec![0.0; samples];
    let loss = cross_entropy::loss(
        &activations.z,
        dimension,
        &phase.assigned.values,
        &labels,
        CROSS_ENTROPY,
        &mut gradient,
        &mut cross_entropy::Scratch::default(),
    );
    check("ce", CROSS_ENTROPY * loss, phase.losses(0).cross_entropy, gradient);

    let mut present: Vec<u32> = classes.iter().copied().filter(|&class| phase.is_incremental(class)).collect();
    present.sort_unstable();
    present.dedup();
    let of_rows: Vec<Option<usize>> = classes.iter().map(|class| present.binary_search(class).ok()).collect();
    let absent = (0..phase.assigned.length(0)).filter(|&class| !present.contains(&(class as u32)));
    let absent: Vec<f32> = absent.flat_map(|class| phase.assigned.part(class)).copied().collect();
    let mut gradient = vec![0.0; samples];
    let loss = orthogonality::with_means(
        &activations.z[..of_rows.len() * dimension],
        dimension,
        &orthogonality::Members { of_rows: &of_rows, means: present.len() },
        &[&absent[..], &phase.free.values].concat(),
        1.0,
        &mut gradient[..of_rows.len() * dimension],
        &mut orthogonality::Scratch::default(),
    );
    check("orth", loss, phase.losses(0).orthogonality, gradient);
}

#[test]
fn golden_first_step_gradients_of_weights() {
    let Some(golden) = Golden::open() else { return };
    let phase = Phase3::new(&golden);
    let mut alignment = Alignment::new(head(&phase));
    step_gradient(&phase, &mut alignment, 0, &config(), phase.base_classes);
    for (name, gradient) in PARAMETERS.iter().zip(alignment.last_gradient().parameters()) {
        let key = format!("phase3.step0.grad_{name}");
        golden.f32(&key).assert_close(gradient, GRADIENT);
    }
}

#[test]
fn golden_trajectory() {
    let Some(golden) = Golden::open() else { return };
    let phase = Phase3::new(&golden);
    match trajectory(&phase, &config(), RATE, phase.base_classes) {
        Ok(deviation) => println!("trajectory of {} steps: {deviation}", phase.steps),
        Err(mismatch) => panic!("{mismatch}"),
    }
}

/// So that agreement means something: another method's training must not agree.
#[test]
fn golden_trajectory_of_other_settings_is_rejected() {
    let Some(golden) = Golden::open_beside() else {
        return;
    };
    let phase = Phase3::new(&golden);
    let base = phase.base_classes;
    let others = [
        ("momentum", Config { momentum: MOMENTUM * 0.99, ..config() }),
        ("dampening", Config { dampening: DAMPENING * 0.99, ..config() }),
        ("no weight decay", Config { weight_decay: 0.0, ..config() }),
        ("temperature", Config { temperature: TEMPERATURE * 1.001, ..config() }),
        ("form of PSCL", Config { contrast_form: Form::Inside, ..config() }),
        ("weight of CE", Config { cross_entropy: CROSS_ENTROPY * 1.001, ..config() }),
        ("samples of CE", Config { cross_entropy_on: CrossEntropyOn::All, ..config() }),
        ("weight of ORTH", Config { orthogonality: 1.001, ..config() }),
    ];
    for (what, other) in &others {
        rejected(what, trajectory(&phase, other, RATE, base));
    }
    rejected("learning rate", trajectory(&phase, &config(), RATE * 1.01, base));
    rejected("number of base classes", trajectory(&phase, &config(), RATE, base - 1));
}

#[track_caller]
fn rejected(what: &str, outcome: Result<Deviation, Mismatch>) {
    match outcome {
        Ok(deviation) => panic!("{what} altered, yet the training agrees: {deviation}"),
        Err(mismatch) => println!("{what} altered: {mismatch}"),
    }
}

/// So that agreement means something: vectors that differ a little must not agree.
#[test]
fn golden_altered_vectors_are_rejected() {
    let Some(golden) = Golden::open() else { return };
    let z = golden.f32("phase1.z");
    let labels = golden.labels("phase1.labels").values;
    let temperature = &golden.names("phase1.scl.t", ".loss")[0];
    let key = format!("phase1.scl.t{temperature}");
    let temperature = temperature.parse().expect("a temperature stands in the key");
    let (loss, gradient) = inside_contrast(&z, &labels, temperature);

    let expected = golden.f32(&format!("{key}.loss")).values[0];
    assert!(compare("loss", &[loss], &[expected], LOSS).is_ok());
    for factor in [1.001, 0.999, 1.0 + 3e-5, -1.0] {
        assert!(compare("loss", &[loss], &[expected * factor], LOSS).is_err(), "loss times {factor}");
    }

    let expected = golden.f32(&format!("{key}.grad_z")).values;
    let largest = expected.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    for place in [0, expected.len() / 2, expected.len() - 1] {
        let mut altered = expected.clone();
        altered[place] += 3e-4 * largest;
        assert!(compare("gradient", &gradient, &altered, GRADIENT).is_err(), "entry {place} altered");
    }
    let scaled: Vec<f32> = expected.iter().map(|value| value * 1.001).collect();
    assert!(compare("gradient", &gradient, &scaled, GRADIENT).is_err());
    assert!(compare("gradient", &gradient[1..], &expected, GRADIENT).is_err());
}

/// The settings of the recorded alignment.
fn config() -> Config {
    Config {
        momentum: MOMENTUM,
        dampening: DAMPENING,
        weight_decay: WEIGHT_DECAY,
        contrast: 1.0,
        contrast_form: Form::Outside,
        temperature: TEMPERATURE,
        cross_entropy: CROSS_ENTROPY,
        cross_entropy_on: CrossEntropyOn::Incremental,
        orthogonality: 1.0,
        ..Config::orco()
    }
}

fn head(phase: &Phase3) -> Head {
    let mut head = Head::zeros(phase.inputs, phase.hidden, phase.dimension);
    for (parameter, values) in head.parameters_mut().into_iter().zip(&phase.head) {
        parameter.copy_from_slice(&values.values);
    }
    head
}

fn trajectory(phase: &Phase3, config: &Config, rate: f32, base_classes: u32) -> Result<Deviation, Mismatch> {
    let mut alignment = Alignment::new(head(phase));
    phase.follow(|step| {
        let losses = step_gradient(phase, &mut alignment, step, config, base_classes);
        alignment.update(rate, config);
        (losses, alignment.head().parameters().map(<[f32]>::to_vec))
    })
}

/// Computes losses and gradient of a recorded step at the head as trained so far.
fn step_gradient(phase: &Phase3, alignment: &mut Alignment, step: usize, config: &Config, base_classes: u32) -> Losses {
    let goals = Goals {
        dimension: phase.dimension,
        base_classes: base_classes as usize,
        assigned: &phase.assigned.values,
        free: &phase.free.values,
    };
    let batch = Batch {
        features: &phase.features(step),
        classes: phase.classes(step),
        perturbed: &phase.perturbed(step),
        perturbed_labels: phase.perturbed_labels(step),
    };
    let losses = alignment.gradient(&goals, &batch, config);
    Losses {
        contrast: losses.contrast.into(),
        cross_entropy: losses.cross_entropy.into(),
        orthogonality: losses.orthogonality.into(),
        total: losses.total().into(),
    }
}
