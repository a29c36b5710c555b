//! The runtime against the reference vectors.

use orco_core::align::{HeadTrainer, StepBatch, StepExtent, TargetRows};
use orco_core::config::{MethodConfig, UnperturbedTargets};
use orco_core::linalg::{pack_transposed, padded, transpose};
use orco_core::loss::contrast::{ContrastBatch, ContrastForm, ContrastSettings};
use orco_core::loss::cross_entropy::CrossEntropyBatch;
use orco_core::loss::orthogonality::{OrthogonalityBatch, OrthogonalityTargets};
use orco_core::loss::{GradientAccumulator, PairScratch, UnitRows, contrast, cross_entropy, orthogonality};
use orco_core::math::normalise;
use orco_core::projection::{self, HeadShape};
use orco_core::schedule::Schedule;
use orco_core::workers::Serial;
use orco_state::head::Head;
use orco_state::session::SessionMemory;
use orco_state::target::{TargetGenerator, assign_by_cosine};
use orco_tests::compare::{GRADIENT, LOSS, Mismatch, assert_close, compare};
use orco_tests::golden::{Array, Golden};
use orco_tests::golden_checks::{check_phase_1, check_target_generation};
use orco_tests::phase3::{
    CROSS_ENTROPY, DAMPENING, Deviation, Losses, MOMENTUM, PARAMETERS, Phase3, RATE, TEMPERATURE, WEIGHT_DECAY,
};

#[test]
fn contrast_by_class_is_that_of_the_reference() {
    check_phase_1(&Golden::open(), "scl", "phase1.labels", inside_contrast);
}

#[test]
fn contrast_by_instance_is_that_of_the_reference() {
    check_phase_1(&Golden::open(), "sscl", "phase1.instances", inside_contrast);
}

/// The loss of phase 1 and its gradient with respect to unnormalised rows.
fn inside_contrast(z: &Array<f32>, labels: &[u32], temperature: f32) -> (f32, Vec<f32>) {
    let dimension = z.length(1);
    let width = padded(dimension);
    let mut unit = widened(&z.values, dimension);
    let mut norms: Vec<f32> = unit.chunks_exact_mut(width).map(normalise).collect();
    let mut gradient = vec![0.0; unit.len()];
    let rows = UnitRows { values: &unit, width };
    let settings = ContrastSettings { temperature, form: ContrastForm::Inside };
    let into = GradientAccumulator { weight: 1.0, values: &mut gradient };
    let batch = ContrastBatch { rows, labels, settings };
    let loss = contrast::loss(batch, into, &mut pairs(rows.count(), width).lend(), &Serial);
    let pass = projection::HeadBatch { features: &[], hidden: &mut [], z: &mut unit, norms: &mut norms };
    HeadShape { inputs: 0, hidden: 0, outputs: dimension }.backward_normalisation(&pass, &mut gradient);
    (loss, narrowed(&gradient, dimension))
}

/// Rows filled up with zeros to the width that the learner works with.
fn widened(rows: &[f32], dimension: usize) -> Vec<f32> {
    let fill = |row: &[f32]| [row, &vec![0.0; padded(dimension) - dimension]].concat();
    rows.chunks_exact(dimension).flat_map(fill).collect()
}

/// Such rows without what fills them up.
fn narrowed(rows: &[f32], dimension: usize) -> Vec<f32> {
    rows.chunks_exact(padded(dimension)).flat_map(|row| &row[..dimension]).copied().collect()
}

/// Working memory of the losses over pairs of rows.
struct PairsMemory(Vec<f32>);

impl PairsMemory {
    fn lend(&mut self) -> PairScratch<'_> {
        PairScratch { memory: &mut self.0 }
    }
}

fn pairs(rows: usize, width: usize) -> PairsMemory {
    PairsMemory(vec![0.0; PairScratch::length(rows, rows, width)])
}

#[test]
fn generated_targets_are_those_of_the_reference() {
    let golden = Golden::open();
    let initial = golden.f32("targets.initial");
    let mut generator = TargetGenerator::new(initial.length(0), initial.length(1));
    let mut targets = initial.values;
    check_target_generation(&golden, || (generator.step(&mut targets, 1.0), targets.clone()));
}

#[test]
fn assigned_targets_are_those_of_the_reference() {
    let golden = Golden::open();
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
        let places = assign_by_cosine(&prototypes, &rows, dimension);
        let taken: Vec<u32> = places.into_iter().map(|index| free[index] as u32).collect();
        assert_eq!(taken, golden.labels(&format!("assign.{name}_target_index")).values, "assignment of {name}");
        free.retain(|&row| !taken.contains(&(row as u32)));
    }
}

#[test]
fn learning_rates_are_those_of_the_reference() {
    let golden = Golden::open();
    for (key, warmup, peak, end) in [("schedule.phase2", 3, 0.25, 1e-5), ("schedule.phase3", 10, 0.1, 0.0)] {
        let expected = golden.f64(key);
        let schedule = Schedule { steps: expected.length(0), warmup, start: 3e-5, peak, end };
        for (epoch, &rate) in expected.values.iter().enumerate() {
            assert_close(&format!("{key} of epoch {epoch}"), &[schedule.rate(epoch)], &[rate], LOSS);
        }
    }
}

#[test]
fn gradients_of_each_loss_are_those_of_the_reference() {
    let golden = Golden::open();
    let phase = Phase3::new(&golden);
    let dimension = phase.dimension;
    let (head, width) = (head(&phase), padded(dimension));
    let features = phase.features(0);
    let shape = head.shape();
    let count = features.len() / shape.inputs;
    let mut parameters = vec![0.0; shape.parameters()];
    shape.load(head.as_parameters(), &mut parameters);
    let mut hidden = vec![0.0; shape.activations(count)];
    let (mut z, mut norms) = (vec![0.0; count * width], vec![0.0; count]);
    let mut pass = projection::HeadBatch { features: &features, hidden: &mut hidden, z: &mut z, norms: &mut norms };
    shape.forward(&parameters, &mut pass, &Serial);
    let scaled = |(row, norm): (&[f32], &f32)| row[..dimension].iter().map(|value| value * norm).collect::<Vec<f32>>();
    let projection: Vec<f32> = pass.z.chunks_exact(width).zip(&*pass.norms).flat_map(scaled).collect();
    golden.f32("phase3.step0.projection").assert_close(&projection, GRADIENT);

    let (classes, perturbed_labels) = (phase.classes(0), phase.perturbed_labels(0));
    let unit = pass.z.to_vec();
    let samples = unit.len();
    let check = |term: &str, loss: f32, expected_loss: f64, mut gradient: Vec<f32>| {
        shape.backward_normalisation(&pass, &mut gradient);
        let key = format!("phase3.step0.{term}.grad_projection");
        assert_close(&format!("phase3.loss.{term}"), &[loss], &[expected_loss], LOSS);
        golden.f32(&key).assert_close(&narrowed(&gradient, dimension), GRADIENT);
    };

    let rows = [unit.clone(), widened(&phase.perturbed(0), dimension)].concat();
    let rows = UnitRows { values: &rows, width };
    let labels = [classes, classes, perturbed_labels, perturbed_labels].concat();
    let mut gradient = vec![0.0; samples];
    let mut memory = pairs(rows.count(), width);
    let settings = ContrastSettings { temperature: TEMPERATURE, form: ContrastForm::Outside };
    let batch = ContrastBatch { rows, labels: &labels, settings };
    let into = GradientAccumulator { weight: 1.0, values: &mut gradient };
    let loss = contrast::loss(batch, into, &mut memory.lend(), &Serial);
    check("pscl", loss, phase.losses(0).contrast, gradient);

    let both = [classes, classes].concat();
    let label = |row: usize| phase.is_incremental(both[row]).then_some(both[row] as usize);
    let assigned = widened(&phase.assigned.values, dimension);
    let known = phase.assigned.length(0);
    let mut transposed = vec![0.0; width * padded(known)];
    transpose(known, width, &assigned, &mut transposed);
    let targets =
        cross_entropy::ClassRows { targets: UnitRows { values: &assigned, width }, transposed: &transposed, first: 0 };
    let mut gradient = vec![0.0; samples];
    let mut scratch = vec![0.0; cross_entropy::memory(count, known)];
    let rows = UnitRows { values: &unit, width };
    let batch = CrossEntropyBatch { rows, label, classes: targets };
    let into = GradientAccumulator { weight: CROSS_ENTROPY, values: &mut gradient };
    let loss = cross_entropy::loss(batch, into, &mut scratch, &Serial);
    check("ce", CROSS_ENTROPY * loss, phase.losses(0).cross_entropy, gradient);

    let mut present: Vec<u32> = classes.iter().copied().filter(|&class| phase.is_incremental(class)).collect();
    present.sort_unstable();
    present.dedup();
    let all = widened(&[phase.assigned.values.clone(), phase.free.values.clone()].concat(), dimension);
    let (means, count) = (present.len(), all.len() / width);
    let mut transposed = vec![0.0; width * padded(count)];
    pack_transposed(count, width, &all, &mut transposed);
    let (mut sums, mut numbers) = (vec![0.0; count], vec![0.0; orthogonality::memory(means, count, width)]);
    let rows = UnitRows { values: &all, width };
    orthogonality::target_sums(rows, &transposed, &mut sums, &mut numbers, &Serial);
    let targets = OrthogonalityTargets { rows, transposed: &transposed, sums: &sums };
    let scratch = orthogonality::OrthogonalityScratch {
        numbers: &mut numbers,
        gradient: &mut vec![0.0; means * width],
        norms: &mut vec![0.0; means],
        counts: &mut vec![0; means],
    };
    let mut gradient = vec![0.0; samples];
    let rows = UnitRows { values: &unit[..classes.len() * width], width };
    let into = GradientAccumulator { weight: 1.0, values: &mut gradient[..classes.len() * width] };
    let mean_of = |row: usize| present.binary_search(&classes[row]).ok();
    let batch = OrthogonalityBatch { rows, mean_of, target_of_mean: &present };
    let loss = orthogonality::loss(batch, targets, into, scratch, &Serial);
    check("orth", loss, phase.losses(0).orthogonality, gradient);
}

#[test]
fn gradients_of_the_head_are_those_of_the_reference() {
    let golden = Golden::open();
    let phase = Phase3::new(&golden);
    let mut gradient = head(&phase);
    with_trainer(&phase, phase.base_classes, |trainer| {
        trainer.gradient(&batch(&phase, 0).lend(&phase, 0), &config(), gradient.as_parameters_mut())
    });
    for (name, gradient) in PARAMETERS.iter().zip(gradient.parameters()) {
        let key = format!("phase3.step0.grad_{name}");
        golden.f32(&key).assert_close(gradient, GRADIENT);
    }
}

#[test]
fn all_steps_of_training_are_those_of_the_reference() {
    let golden = Golden::open();
    let phase = Phase3::new(&golden);
    match trajectory(&phase, &config(), RATE, phase.base_classes) {
        Ok(deviation) => println!("trajectory of {} steps: {deviation}", phase.steps),
        Err(mismatch) => panic!("{mismatch}"),
    }
}

/// So that agreement means something: another method's training must not agree.
#[test]
fn training_with_other_settings_does_not_agree() {
    let golden = Golden::open_kept();
    let phase = Phase3::new(&golden);
    let base = phase.base_classes;
    let others = [
        ("momentum", MethodConfig { momentum: MOMENTUM * 0.99, ..config() }),
        ("dampening", MethodConfig { dampening: DAMPENING * 0.99, ..config() }),
        ("no weight decay", MethodConfig { weight_decay: 0.0, ..config() }),
        ("temperature", MethodConfig { temperature: TEMPERATURE * 1.001, ..config() }),
        ("form of PSCL", MethodConfig { contrast_form: ContrastForm::Inside, ..config() }),
        ("weight of CE", MethodConfig { cross_entropy: CROSS_ENTROPY * 1.001, ..config() }),
        ("samples of CE", MethodConfig { base_cross_entropy: CROSS_ENTROPY, ..config() }),
        ("weight of ORTH", MethodConfig { orthogonality: 1.001, ..config() }),
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
fn altered_vectors_do_not_agree() {
    let golden = Golden::open();
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
    for index in [0, expected.len() / 2, expected.len() - 1] {
        let mut altered = expected.clone();
        altered[index] += 3e-4 * largest;
        assert!(compare("gradient", &gradient, &altered, GRADIENT).is_err(), "entry {index} altered");
    }
    let scaled: Vec<f32> = expected.iter().map(|value| value * 1.001).collect();
    assert!(compare("gradient", &gradient, &scaled, GRADIENT).is_err());
    assert!(compare("gradient", &gradient[1..], &expected, GRADIENT).is_err());
}

/// The settings of the recorded alignment.
fn config() -> MethodConfig {
    MethodConfig {
        momentum: MOMENTUM,
        dampening: DAMPENING,
        weight_decay: WEIGHT_DECAY,
        contrast: 1.0,
        contrast_form: ContrastForm::Outside,
        temperature: TEMPERATURE,
        cross_entropy: CROSS_ENTROPY,
        orthogonality: 1.0,
        ..MethodConfig::published()
    }
}

fn head(phase: &Phase3) -> Head {
    let shape = HeadShape { inputs: phase.inputs, hidden: phase.hidden, outputs: phase.dimension };
    let mut head = Head::zeros(shape);
    for (parameter, values) in head.parameters_mut().into_iter().zip(&phase.head) {
        parameter.copy_from_slice(&values.values);
    }
    head
}

fn trajectory(phase: &Phase3, config: &MethodConfig, rate: f32, base_classes: u32) -> Result<Deviation, Mismatch> {
    with_trainer(phase, base_classes, |trainer| {
        phase.follow(|step| {
            let losses = trainer.step(&batch(phase, step).lend(phase, step), config, rate);
            let mut head = head(phase);
            trainer.store(head.as_parameters_mut());
            let losses = Losses {
                contrast: losses.contrast.into(),
                cross_entropy: losses.cross_entropy.into(),
                orthogonality: losses.orthogonality.into(),
                total: losses.total().into(),
            };
            (losses, head.parameters().map(<[f32]>::to_vec))
        })
    })
}

/// Gives `work` a training that starts from the recorded head.
fn with_trainer<T>(phase: &Phase3, base_classes: u32, work: impl FnOnce(&mut HeadTrainer<'_>) -> T) -> T {
    let (head, assigned, free) = (head(phase), &phase.assigned.values, &phase.free.values);
    let classes = phase.assigned.length(0);
    let extent = StepExtent {
        shape: head.shape(),
        samples: phase.classes(0).len(),
        views: 2,
        classes,
        targets: (assigned.len() + free.len()) / phase.dimension,
        unperturbed_targets: UnperturbedTargets::NONE,
    };
    let target_rows = TargetRows { base_classes: base_classes as usize, assigned, free };
    let mut memory = SessionMemory::new(extent.workspace_size());
    work(&mut HeadTrainer::new(&extent, head.as_parameters(), &target_rows, memory.workspace(&Serial)))
}

/// The features and perturbed targets of a recorded step.
struct RecordedStep {
    features: Vec<f32>,
    perturbed: Vec<f32>,
}

fn batch(phase: &Phase3, step: usize) -> RecordedStep {
    RecordedStep { features: phase.features(step), perturbed: phase.perturbed(step) }
}

impl RecordedStep {
    fn lend<'a>(&'a self, phase: &'a Phase3, step: usize) -> StepBatch<'a> {
        StepBatch {
            features: &self.features,
            classes: phase.classes(step),
            perturbed: &self.perturbed,
            perturbed_labels: phase.perturbed_labels(step),
        }
    }
}
