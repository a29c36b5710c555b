//! Gradients against finite differences of the losses written out in f64, and what the sampler draws.

use proptest::prelude::*;

use orco_core::align::{
    AlignmentData, AlignmentExtent, AlignmentInput, HeadTrainer, PerturbedTargets, Sampler, Sampling, StepBatch,
    StepExtent, TargetRows,
};
use orco_core::config::{ClassScope, MethodConfig, SampleViews, UnperturbedTargets};
use orco_core::loss::contrast::ContrastForm;
use orco_core::projection::HeadShape;
use orco_core::random::Random;
use orco_core::workers::Serial;
use orco_state::head::Head;
use orco_state::session::SessionMemory;
use orco_state::target::{TargetMethod, generate};

/// The loss of a batch as a function of the head, in f64 and written down from the equations alone.
struct Reference<'a> {
    shape: HeadShape,
    target_rows: TargetRows<'a>,
    batch: StepBatch<'a>,
    config: &'a MethodConfig,
}

type Row = Vec<f64>;

impl Reference<'_> {
    /// Hidden units before the ReLU, `[rows][hidden]`.
    fn hidden(&self, head: &[Row; 4]) -> Vec<Row> {
        let unit = |unit: usize, features: &[f32]| -> f64 {
            let weights = &head[0][unit * self.shape.inputs..][..self.shape.inputs];
            head[1][unit] + weights.iter().zip(features).map(|(w, x)| w * f64::from(*x)).sum::<f64>()
        };
        let rows = self.batch.features.chunks_exact(self.shape.inputs);
        rows.map(|row| (0..self.shape.hidden).map(|number| unit(number, row)).collect()).collect()
    }

    fn loss(&self, head: &[Row; 4]) -> f64 {
        let Self { shape, target_rows, batch, config } = self;
        let output = |output: usize, hidden: &Row| -> f64 {
            let weights = &head[2][output * shape.hidden..][..shape.hidden];
            head[3][output] + weights.iter().zip(hidden).map(|(w, h)| w * h.max(0.0)).sum::<f64>()
        };
        let project = |hidden: &Row| unit((0..shape.outputs).map(|number| output(number, hidden)).collect());
        let z: Vec<Row> = self.hidden(head).iter().map(project).collect();
        let samples = batch.classes.len();

        let mut rows = z.clone();
        rows.extend(widened(batch.perturbed, shape.outputs));
        let classes = (0..z.len()).map(|row| batch.classes[row % samples]);
        let mut labels: Vec<u32> =
            classes.chain(batch.perturbed_labels.iter().copied().cycle()).take(rows.len()).collect();
        let targets = widened(target_rows.assigned, shape.outputs);
        let free = widened(target_rows.free, shape.outputs);
        if config.unperturbed_targets.assigned {
            rows.extend(targets.iter().cloned());
            labels.extend(0..targets.len() as u32);
        }
        if config.unperturbed_targets.free {
            rows.extend(free.iter().cloned());
            labels.extend((targets.len()..targets.len() + free.len()).map(|label| label as u32));
        }
        let contrast = contrast(&rows, &labels, f64::from(config.temperature), config.contrast_form);

        let incremental = |class: u32| class as usize >= target_rows.base_classes;
        let entropy = |row: usize, first: usize| {
            let cosines: Row = targets.iter().map(|target| dot(&z[row], target)).collect();
            log_sum(&cosines[first..].to_vec()) - cosines[batch.classes[row % samples] as usize]
        };
        let mean_entropy = |counts: &dyn Fn(u32) -> bool, first: usize| {
            let counted = (0..z.len()).filter(|row| counts(batch.classes[row % samples]));
            let entropies: Vec<f64> = counted.map(|row| entropy(row, first)).collect();
            entropies.iter().sum::<f64>() / entropies.len().max(1) as f64
        };
        let alternatives = if config.cross_entropy_classes == ClassScope::All { 0 } else { target_rows.base_classes };

        let mut spread = Vec::new();
        for class in 0..targets.len() as u32 {
            let own: Vec<&Row> = (0..samples).filter(|&row| batch.classes[row] == class).map(|row| &z[row]).collect();
            let by_mean = incremental(class) || config.orthogonality_classes == ClassScope::All;
            if by_mean && !own.is_empty() {
                spread.push(unit((0..shape.outputs).map(|d| own.iter().map(|row| row[d]).sum()).collect()));
            } else {
                spread.push(targets[class as usize].clone());
            }
        }
        spread.extend(free);
        let logs = spread.iter().map(|a| log_sum(&spread.iter().map(|b| dot(a, b)).collect::<Row>()));
        let orthogonality = logs.sum::<f64>() / spread.len() as f64;
        let weight = |weight: f32| f64::from(weight);
        weight(config.contrast) * contrast
            + weight(config.cross_entropy) * mean_entropy(&|class| incremental(class), alternatives)
            + weight(config.base_cross_entropy) * mean_entropy(&|class| !incremental(class), 0)
            + weight(config.orthogonality) * orthogonality
    }
}

fn contrast(rows: &[Row], labels: &[u32], temperature: f64, form: ContrastForm) -> f64 {
    let mut losses = Vec::new();
    for anchor in 0..rows.len() {
        let others = || (0..rows.len()).filter(|&row| row != anchor);
        let s = |row: usize| dot(&rows[anchor], &rows[row]) / temperature;
        let positives: Row = others().filter(|&row| labels[row] == labels[anchor]).map(s).collect();
        let negatives: Row = others().filter(|&row| labels[row] != labels[anchor]).map(s).collect();
        if positives.is_empty() || (form == ContrastForm::Negatives && negatives.is_empty()) {
            continue;
        }
        let all = log_sum(&others().map(s).collect::<Row>());
        let mean = positives.iter().sum::<f64>() / positives.len() as f64;
        losses.push(match form {
            ContrastForm::Outside => all - mean,
            ContrastForm::Inside => all - log_sum(&positives),
            ContrastForm::Negatives => log_sum(&negatives) - mean,
        });
    }
    losses.iter().sum::<f64>() / losses.len().max(1) as f64
}

fn widened(values: &[f32], length: usize) -> Vec<Row> {
    values.chunks_exact(length).map(|row| row.iter().map(|value| f64::from(*value)).collect()).collect()
}

fn dot(a: &Row, b: &Row) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn unit(row: Row) -> Row {
    let norm = dot(&row, &row).sqrt();
    row.into_iter().map(|value| value / norm).collect()
}

fn log_sum(values: &Row) -> f64 {
    let highest = values.iter().copied().fold(f64::MIN, f64::max);
    highest + values.iter().map(|value| (value - highest).exp()).sum::<f64>().ln()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_gradient_is_that_of_finite_differences(
        seed in 0u64..1000, form in 0usize..3, sharp: bool, views in 1usize..3,
        weights in prop::array::uniform4(0.0f32..2.0), unperturbed in prop::array::uniform2(any::<bool>()),
        scopes in prop::array::uniform2(any::<bool>())
    ) {
        let mut random = Random::new(seed, "gradient");
        let shape = HeadShape { inputs: 5, hidden: 37, outputs: 4 };
        let mut head = Head::zeros(shape);
        for values in head.parameters_mut() {
            values.iter_mut().for_each(|value| *value = random.normal());
        }
        let targets = generate(TargetMethod::Random, 6, shape.outputs, 0, seed);
        let (assigned, free) = targets.split_at(4 * shape.outputs);
        let target_rows = TargetRows { base_classes: 2, assigned, free };
        let classes = [0, 2, 3, 2, 1];
        let features: Vec<f32> = (0..views * classes.len() * shape.inputs).map(|_| random.normal()).collect();
        let perturbed = generate(TargetMethod::Random, 6, shape.outputs, 0, seed + 1);
        let batch =
            StepBatch { features: &features, classes: &classes, perturbed: &perturbed, perturbed_labels: &[2, 4, 5] };
        let config = MethodConfig {
            temperature: if sharp { 0.02 } else { 0.5 },
            contrast_form: [ContrastForm::Outside, ContrastForm::Inside, ContrastForm::Negatives][form],
            contrast: weights[0],
            cross_entropy: weights[1],
            orthogonality: weights[2],
            base_cross_entropy: weights[3],
            unperturbed_targets: UnperturbedTargets { assigned: unperturbed[0], free: unperturbed[1] },
            cross_entropy_classes: if scopes[0] { ClassScope::All } else { ClassScope::Incremental },
            orthogonality_classes: if scopes[1] { ClassScope::All } else { ClassScope::Incremental },
            ..MethodConfig::default()
        };
        let unperturbed_targets = config.unperturbed_targets;
        let extent = StepExtent { shape, samples: classes.len(), views, classes: 4, targets: 6, unperturbed_targets };
        let mut memory = SessionMemory::new(extent.workspace_size());
        let mut trainer = HeadTrainer::new(&extent, head.as_parameters(), &target_rows, memory.workspace(&Serial));
        let mut gradient = Head::zeros(shape);
        let losses = trainer.gradient(&batch, &config, gradient.as_parameters_mut());

        let reference = Reference { shape, target_rows, batch, config: &config };
        let exact = head.parameters().map(|values| values.iter().map(|value| f64::from(*value)).collect::<Row>());
        let expected = reference.loss(&exact);
        let apart = (f64::from(losses.total()) - expected).abs();
        prop_assert!(apart < 1e-5 * (1.0 + expected.abs()), "{losses:?}, {expected}");
        const STEP: f64 = 1e-6;
        let active =
            |head: &[Row; 4]| -> Vec<bool> { reference.hidden(head).concat().iter().map(|h| *h > 0.0).collect() };
        let largest = gradient.parameters().iter().flat_map(|values| values.iter()).fold(0.0f32, |m, v| m.max(v.abs()));
        let mut skipped = 0;
        for part in 0..4 {
            for index in 0..exact[part].len() {
                let moved = |by: f64| {
                    let mut moved = exact.clone();
                    moved[part][index] += by;
                    moved
                };
                // Where a step carries a hidden unit across its kink, the difference is no derivative.
                if active(&moved(STEP)) != active(&moved(-STEP)) {
                    skipped += 1;
                    continue;
                }
                let difference = (reference.loss(&moved(STEP)) - reference.loss(&moved(-STEP))) / (2.0 * STEP);
                let error = (difference - f64::from(gradient.parameters()[part][index])).abs();
                let limit = 2e-5 * f64::from(largest) + 1e-6;
                prop_assert!(error <= limit, "parameter {part}, entry {index}: off by {error}, more than {limit}");
            }
        }
        prop_assert!(skipped < 5, "{skipped} entries were skipped");
    }
}

/// Data of 3 base classes with 3, 1 and 7 exemplars and one learned class with 2, of 3 views each.
fn with_data(work: impl FnOnce(&AlignmentData<'_>, &[u32])) {
    use orco_core::exemplar::ExemplarPrecision;
    use orco_state::bank::Bank;
    let shape = HeadShape { inputs: 4, hidden: 8, outputs: 8 };
    let (mut base, mut learned) = (Bank::new(4, 3, ExemplarPrecision::Int8), Bank::new(4, 3, ExemplarPrecision::Int8));
    for (class, count) in [(0, 3), (1, 1), (2, 7)] {
        (0..count).for_each(|_| base.push(class, &[1.0; 12]));
    }
    (0..2).for_each(|_| learned.push(3, &[1.0; 12]));
    let (head, targets) = (Head::zeros(shape), generate(TargetMethod::Random, 8, 8, 0, 1));
    let (base, learned) = (base.as_exemplars(), learned.as_exemplars());
    work(
        &AlignmentData { shape, head: head.as_parameters(), targets: &targets, base_classes: 3, base, learned },
        &[0, 1, 2, 3],
    );
}

/// Draws the only batch of an epoch.
fn draw(
    (data, assigned): (&AlignmentData<'_>, &[u32]),
    config: &MethodConfig,
    sampling: Sampling,
    look: impl FnOnce(&StepBatch<'_>),
) {
    let mut memory = SessionMemory::new(data.workspace_size(assigned.len(), 0, config));
    let workspace = memory.workspace(&Serial);
    let (known, free) = data.targets.split_at(assigned.len() * data.shape.outputs);
    let target_rows = TargetRows { base_classes: data.base_classes, assigned: known, free };
    let input = AlignmentInput { data, assigned, config, sampling };
    let mut sampler = Sampler::new(&input, target_rows, workspace.numbers, workspace.indices);
    let count = sampler.start_epoch();
    look(&sampler.batch(0, count));
}

#[test]
fn perturbed_targets_are_those_of_the_setting() {
    for (base, incremental, free) in
        [(true, false, false), (false, true, false), (false, true, true), (true, true, true), (false, false, false)]
    {
        let sampling = Sampling { perturbed: PerturbedTargets { base, incremental, free }, ..Sampling::seeded(1) };
        with_data(|data, assigned| {
            draw((data, assigned), &MethodConfig::default(), sampling, |batch| {
                let mut labels = batch.perturbed_labels.to_vec();
                labels.sort_unstable();
                labels.dedup();
                let wanted = |label: &u32| match *label {
                    0..3 => base,
                    3 => incremental,
                    _ => free,
                };
                assert_eq!(labels, (0..8).filter(wanted).collect::<Vec<_>>());
                let count = if base || incremental || free { batch.classes.len() } else { 0 };
                assert_eq!(batch.perturbed.len(), 2 * count * data.shape.outputs);
            });
        });
    }
}

#[test]
fn an_epoch_holds_every_exemplar_once_or_more_of_classes_with_few() {
    let counts = |config: &MethodConfig| {
        let mut counts = vec![0; 4];
        with_data(|data, assigned| {
            draw((data, assigned), config, Sampling::seeded(1), |batch| {
                batch.classes.iter().for_each(|class| counts[*class as usize] += 1);
                let views = batch.features.len() / data.shape.inputs / batch.classes.len();
                assert_eq!(views, if config.sample == SampleViews::Pair { 2 } else { 1 });
            });
        });
        counts
    };
    let all = MethodConfig { base_exemplars: 9, ..MethodConfig::default() };
    assert_eq!(counts(&all), [3, 1, 7, 2]);
    assert_eq!(counts(&MethodConfig { base_exemplars: 2, ..all.clone() }), [2, 1, 2, 2]);
    for sample in [SampleViews::Pair, SampleViews::One] {
        let balanced = counts(&MethodConfig { balanced: true, sample, ..all.clone() });
        assert_eq!(balanced.iter().sum::<usize>(), 13, "as many as there are exemplars");
        // 13 of the 3 + 3 + 7 + 3 that are drawn.
        assert!(balanced[0] <= 3 && balanced[1] <= 3 && balanced[2] <= 7 && balanced[3] <= 3, "{balanced:?}");
    }
}

#[test]
fn an_epoch_holds_no_more_samples_than_the_limit() {
    let limited = MethodConfig { base_exemplars: 9, epoch_samples: 5, ..MethodConfig::default() };
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..20 {
        with_data(|data, assigned| {
            draw((data, assigned), &limited, Sampling::seeded(seed), |batch| {
                assert_eq!(batch.classes.len(), 5);
                seen.extend(batch.classes.iter().copied());
            });
        });
    }
    assert_eq!(seen.len(), 4, "every class comes, in one epoch or another");
}

#[test]
fn the_combined_answer_trains_for_less_than_four_tenths_of_the_arithmetic_and_within_bounds() {
    let shape = HeadShape { inputs: 128, hidden: 2048, outputs: 128 };
    let operations = |learned: usize, config: &MethodConfig| {
        let (classes, exemplars) = (60 + learned, 300 + 5 * learned);
        AlignmentExtent { shape, targets: 2000, classes, exemplars }.operations(config) as f64
    };
    for learned in [1, 40, 140, 1000] {
        let share = operations(learned, &MethodConfig::combined()) / operations(learned, &MethodConfig::edge());
        assert!(share <= 0.4, "{share} beside {learned}");
    }
    let growth = operations(1000, &MethodConfig::combined()) / operations(140, &MethodConfig::combined());
    assert!(growth < 1.2, "{growth}");
}
