//! Statistics of the base classes, computed on the workstation from the features of all their images.

use nalgebra::{DMatrix, DVector, SymmetricEigen};
use orco_benchmark::AccuracyCounts;
use orco_benchmark::spread::median;
use orco_core::config::{AnswerWeights, MethodConfig};
use orco_core::discriminant::{Whitening, direction, signed_sqrt};
use orco_core::exemplar::{ExemplarPrecision, Exemplars};
use orco_core::math::add_scaled;
use orco_core::random::Random;
use orco_core::workers::Serial;
use orco_state::bank::Bank;
use orco_state::classify::Classifier;
use orco_state::session::{NewClass, Session, SessionMemory};
use orco_state::state::{BaseModel, Class, State};
use orco_state::statistics::Statistics;

/// Principal axes that are kept. On our bundles 64 of 128 to 1,280 axes gave discriminants as accurate as all of them;
/// more only cost memory.
const AXES: usize = 64;
/// a: share of the multiple of the identity in the shrunk covariance.
pub const SHRINKAGE: f64 = 0.5;
/// Rows whose products are added at a time.
const CHUNK: usize = 512;
/// Images on which the deviation of scores is measured.
const MEASURED: usize = 2000;
/// Sessions simulated with base classes.
const ROUNDS: usize = 5;
/// Shots of a class in them.
const SHOTS: usize = 5;

/// Features of base images with their classes.
#[derive(Clone, Copy, Debug)]
pub struct Features<'a> {
    /// `[n, inputs]`.
    pub values: &'a [f32],
    /// `[n]`.
    pub classes: &'a [u32],
}

impl Features<'_> {
    fn rows(&self, inputs: usize) -> impl Iterator<Item = (&[f32], usize)> {
        self.values.chunks_exact(inputs).zip(self.classes.iter().map(|class| *class as usize))
    }
}

/// Base pictures that no phase was trained on, for the expected accuracy.
#[derive(Clone, Copy, Debug)]
pub enum UnseenPictures<'a> {
    /// There are none: a phase was trained on the samples that are set aside, too.
    None,
    /// The samples that are set aside themselves.
    SetAside,
    /// Others, by their features.
    Others(Features<'a>),
}

/// Base pictures that are not part of the statistics, but judge what is answered by them.
#[derive(Clone, Debug)]
pub struct ValidationPictures<'a> {
    /// The samples that are set aside: they choose borders, that of a fresh device among them.
    pub set_aside: Bank,
    /// What these samples are compared with, to tell how much easier they are than unseen pictures.
    pub unseen: UnseenPictures<'a>,
}

/// Computes the statistics of a bundle's base classes. Only borders and [`Statistics::base_accuracy_ratio`] depend on
/// the pictures for validation.
///
/// # Panics
/// If a base class has no image, or rows are not as long as the head's inputs.
pub fn fit(
    base_model: &BaseModel,
    features: Features<'_>,
    validation: ValidationPictures<'_>,
    seed: u64,
) -> Statistics {
    let ValidationPictures { set_aside, unseen } = validation;
    let (inputs, base) = (base_model.head.inputs, base_model.classes.len());
    assert_eq!(features.values.len(), features.classes.len() * inputs, "features are not rows of {inputs}");
    // For the nearest class mean: directions of the features from their mean.
    let centre = mean(features, inputs);
    let centred = directions(features, &centre);
    let means = class_means(Features { values: &centred, ..features }, inputs, base);
    // For the linear discriminant: the same of their signed square roots, whitened.
    let mut roots = features.values.to_vec();
    signed_sqrt(&mut roots);
    let roots = Features { values: &roots, ..features };
    let root_centre = mean(roots, inputs);
    let centred_roots = directions(roots, &root_centre);
    let centred_roots = Features { values: &centred_roots, ..features };
    let mut whitened = class_means(centred_roots, inputs, base);
    let (axes, damping, factor) = whitening(centred_roots, &whitened, inputs);
    let transform = Whitening { axes: &axes, damping: &damping, factor };
    whitened.chunks_exact_mut(inputs).for_each(|row| transform.apply(row));
    let bank = |rows: &[f32], precision: ExemplarPrecision| {
        let mut bank = Bank::new(inputs, 1, precision);
        rows.chunks_exact(inputs).enumerate().for_each(|(index, row)| bank.push(index as u32, row));
        bank
    };
    let mut statistics = Statistics {
        centre,
        root_centre,
        axes: bank(&axes, ExemplarPrecision::Int8),
        damping,
        factor,
        directions: bank(&means, ExemplarPrecision::F16),
        whitened: bank(&whitened, ExemplarPrecision::F16),
        deviations: [1.0; 3],
        initial_shift: 0.0,
        set_aside,
        base_accuracy_ratio: None,
    };
    statistics.deviations = deviations(base_model, &statistics, features);
    statistics.base_accuracy_ratio = base_accuracy_ratio(base_model, &statistics, unseen);
    statistics.initial_shift = initial_shift(base_model, &statistics, features, seed);
    statistics
}

/// The mean of all rows, `[inputs]`.
fn mean(features: Features<'_>, inputs: usize) -> Vec<f32> {
    let mut sum = DVector::<f64>::zeros(inputs);
    for (row, _) in features.rows(inputs) {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    sum.iter().map(|sum| (sum / features.classes.len().max(1) as f64) as f32).collect()
}

/// The directions of all rows from a centre, `[n, inputs]`.
fn directions(features: Features<'_>, centre: &[f32]) -> Vec<f32> {
    let mut values = features.values.to_vec();
    values.chunks_exact_mut(centre.len()).for_each(|row| direction(row, centre));
    values
}

/// Means of the classes `0..classes`, `[classes, inputs]`.
///
/// # Panics
/// If a class has no row, or a row another class.
pub fn class_means(features: Features<'_>, inputs: usize, classes: usize) -> Vec<f32> {
    let mut counts = vec![0usize; classes];
    features.classes.iter().for_each(|class| counts[*class as usize] += 1);
    let mut means = vec![0.0; classes * inputs];
    for (row, class) in features.rows(inputs) {
        add_scaled(&mut means[class * inputs..][..inputs], 1.0 / counts[class] as f32, row);
    }
    if let Some(class) = counts.iter().position(|count| *count == 0) {
        panic!("base class {class} has no image");
    }
    means
}

/// Mean variance within classes, of vectors of length 1, that is no more than rounding.
const NO_SCATTER: f64 = 1e-10;

/// Axes, damping and factor that whiten by the covariance S within classes, shrunk to C = (1 - a) S + a (tr S / d) I
/// with the [`SHRINKAGE`] a and the length d of a feature vector; what lies beyond the axes counts as equally spread.
fn whitening(features: Features<'_>, means: &[f32], inputs: usize) -> (Vec<f32>, Vec<f32>, f32) {
    let mut covariance = DMatrix::<f64>::zeros(inputs, inputs);
    let centred: Vec<f64> = features
        .rows(inputs)
        .flat_map(|(row, class)| row.iter().zip(&means[class * inputs..][..inputs]).map(|(x, m)| f64::from(x - m)))
        .collect();
    for rows in centred.chunks(CHUNK * inputs) {
        // Columns of the matrix are samples.
        let rows = DMatrix::from_column_slice(inputs, rows.len() / inputs, rows);
        covariance.gemm(1.0, &rows, &rows.transpose(), 1.0);
    }
    let classes = means.len() / inputs;
    covariance /= features.classes.len().saturating_sub(classes).max(1) as f64;
    let kept = AXES.min(inputs);
    let mean = covariance.trace() / inputs as f64;
    if mean <= NO_SCATTER {
        // Classes of one image each, or of equal ones, do not say how theirs are spread: nothing is whitened.
        let axes = DMatrix::<f32>::identity(inputs, kept);
        return (axes.as_slice().to_vec(), vec![0.0; kept], 1.0);
    }
    // Shrunk first, no eigenvalue is near 0. Where features never change, the unshrunk covariance has so many zeros
    // that rounding underflows, and nalgebra divides 0 by 0.
    covariance *= 1.0 - SHRINKAGE;
    (0..inputs).for_each(|at| covariance[(at, at)] += SHRINKAGE * mean);
    let eigen = SymmetricEigen::new(covariance);
    let mut order: Vec<usize> = (0..inputs).collect();
    order.sort_by(|&a, &b| eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a]));
    let beyond: f64 = order[kept..].iter().map(|&index| eigen.eigenvalues[index]).sum();
    let rest = if kept < inputs { beyond / (inputs - kept) as f64 } else { eigen.eigenvalues[order[kept - 1]] };
    let kept = &order[..kept];
    let axes =
        kept.iter().flat_map(|&index| eigen.eigenvectors.column(index).iter().map(|x| *x as f32).collect::<Vec<_>>());
    let damping = kept.iter().map(|&index| (1.0 - (rest / eigen.eigenvalues[index]).sqrt()).clamp(0.0, 1.0) as f32);
    (axes.collect(), damping.collect(), (1.0 / rest.sqrt()) as f32)
}

/// Deviations of the scores by each part alone, over base images and classes.
fn deviations(base_model: &BaseModel, statistics: &Statistics, features: Features<'_>) -> [f32; 3] {
    let inputs = base_model.head.inputs;
    let every = features.classes.len().div_ceil(MEASURED).max(1);
    let sample: Vec<f32> =
        features.values.chunks_exact(inputs).step_by(every).flat_map(<[f32]>::iter).copied().collect();
    let alone = AnswerWeights { means: 0.0, ..AnswerWeights::NEAREST_MEAN };
    let parts = [
        AnswerWeights { targets: 1.0, ..alone },
        AnswerWeights { means: 1.0, ..alone },
        AnswerWeights { discriminant: 1.0, ..alone },
    ];
    let base_model = BaseModel { statistics: Some(statistics.clone()), ..base_model.clone() };
    let fresh = State::fresh(&base_model, [0; 32]);
    parts.map(|answer| {
        let config = MethodConfig { answer: Some(answer), ..base_model.config.clone() };
        let scores = Classifier::with_config(&base_model, &fresh, &config).scores(&sample);
        let count = scores.len().max(1) as f64;
        let mean = scores.iter().map(|score| f64::from(*score)).sum::<f64>() / count;
        let squares = scores.iter().map(|score| (f64::from(*score) - mean).powi(2)).sum::<f64>();
        ((squares / count).sqrt() as f32).max(1e-6)
    })
}

/// Accuracy among the base classes on unseen pictures, divided by that on the samples set aside.
fn base_accuracy_ratio(base_model: &BaseModel, statistics: &Statistics, unseen: UnseenPictures<'_>) -> Option<f32> {
    let unseen = match unseen {
        UnseenPictures::None => return None,
        UnseenPictures::SetAside => return Some(1.0),
        UnseenPictures::Others(unseen) => unseen,
    };
    let set_aside = statistics.set_aside.clean();
    let set_aside = Features { values: &set_aside, classes: statistics.set_aside.classes() };
    let [unseen, set_aside] = [unseen, set_aside].map(|features| base_accuracy(base_model, statistics, features));
    let ratio = unseen? / set_aside.filter(|accuracy| *accuracy > 0.0)?;
    (ratio > 0.0).then(|| (ratio as f32).min(Statistics::HIGHEST_ACCURACY_RATIO))
}

/// Mean over the base classes of the accuracies among them; none without features.
fn base_accuracy(base_model: &BaseModel, statistics: &Statistics, features: Features<'_>) -> Option<f64> {
    let base = base_model.classes.len();
    let answer = base_model.config.answer.or(MethodConfig::closed_form().answer);
    let config = MethodConfig { answer, ..base_model.config.clone() };
    let base_model = BaseModel { statistics: Some(statistics.clone()), ..base_model.clone() };
    let fresh = State::fresh(&base_model, [0; 32]);
    let answers = Classifier::with_config(&base_model, &fresh, &config).nearest(features.values);
    let mut counts = AccuracyCounts::new(base, base);
    features.classes.iter().zip(answers).for_each(|(class, answer)| counts.count(*class as usize, answer));
    (!features.classes.is_empty()).then(|| counts.row(0).base)
}

/// The median shift of the border that sessions simulated with base classes choose: in each, a fifth of them are new.
fn initial_shift(base_model: &BaseModel, statistics: &Statistics, features: Features<'_>, seed: u64) -> f32 {
    let mut random = Random::new(seed, "sessions played with base classes");
    let shifts =
        (0..ROUNDS).filter_map(|_| simulated_shift(base_model, statistics, features, &mut random)).map(f64::from);
    median(shifts.collect()).unwrap_or(0.0) as f32
}

/// The shift of the border of one of these sessions; none where there are too few classes or samples.
fn simulated_shift(
    base_model: &BaseModel,
    statistics: &Statistics,
    features: Features<'_>,
    random: &mut Random,
) -> Option<f32> {
    let (inputs, base) = (base_model.head.inputs, base_model.classes.len());
    let mut order: Vec<u32> = (0..base as u32).collect();
    random.shuffle(&mut order);
    let (new, old) = order.split_at(base / 5);
    if new.is_empty() || old.len() < 2 {
        return None;
    }
    let Exemplars { precision, views, .. } = base_model.exemplars.as_exemplars();
    let config = MethodConfig { precision, views, ..MethodConfig::closed_form() };
    let reduced = BaseModel { config: config.clone(), ..with_classes_alone(base_model, statistics, old) };
    let mut shots = |class: u32| -> Vec<Vec<f32>> {
        let mut members: Vec<usize> =
            (0..features.classes.len()).filter(|index| features.classes[*index] == class).collect();
        random.shuffle(&mut members);
        let row = |index: &usize| features.values[index * inputs..][..inputs].to_vec();
        members.iter().take(SHOTS).map(row).collect()
    };
    let new: Vec<NewClass> = new
        .iter()
        .map(|&class| {
            let Class { label, .. } = &base_model.classes[class as usize];
            NewClass { label: label.clone(), shots: shots(class) }
        })
        .collect();
    let (memory, on_progress) = (&mut SessionMemory::default(), &mut |_| std::ops::ControlFlow::Continue(()));
    let mut session = Session { base_model: &reduced, config: &config, seed: 1, memory, workers: &Serial, on_progress };
    let (state, _) = session.learn(&State::fresh(&reduced, [0; 32]), &new).ok()?;
    state.calibration.filter(|calibration| calibration.border.learned > 0.0).map(|calibration| calibration.border.shift)
}

/// The base model that knows these of its classes alone, renumbered in their order.
fn with_classes_alone(base_model: &BaseModel, statistics: &Statistics, classes: &[u32]) -> BaseModel {
    let only = |bank: &Bank| {
        let mut kept = bank.empty_like();
        for (number, class) in classes.iter().enumerate() {
            for exemplar in bank.members(*class) {
                kept.push_from(bank, exemplar, number as u32);
            }
        }
        kept
    };
    BaseModel {
        classes: classes.iter().map(|class| base_model.classes[*class as usize].clone()).collect(),
        exemplars: only(&base_model.exemplars),
        statistics: Some(Statistics {
            directions: only(&statistics.directions),
            whitened: only(&statistics.whitened),
            set_aside: only(&statistics.set_aside),
            ..statistics.clone()
        }),
        ..base_model.clone()
    }
}

#[cfg(test)]
mod tests {
    use orco_core::math::normalise;

    use super::*;

    #[test]
    fn features_that_never_change_do_not_spoil_the_whitening() {
        const INPUTS: usize = 200;
        const CLASSES: usize = 3;
        let classes = [0, 1, 2, 0, 1, 2];
        for seed in 0..4 {
            let mut random = Random::new(seed, "features");
            let mut values = vec![0.0; classes.len() * INPUTS];
            for row in values.chunks_exact_mut(INPUTS) {
                // All but 12 are 0 in every picture.
                row.iter_mut().step_by(17).for_each(|value| *value = random.uniform(-1.0, 1.0));
                normalise(row);
            }
            let features = Features { values: &values, classes: &classes };
            let means = class_means(features, INPUTS, CLASSES);
            let (axes, damping, factor) = whitening(features, &means, INPUTS);
            assert!(factor.is_finite() && factor > 0.0, "seed {seed}: {factor}");
            assert!(damping[0] > 0.5 && damping.is_sorted_by(|a, b| a >= b), "seed {seed}: {damping:?}");
            for axis in axes.chunks_exact(INPUTS) {
                let length: f32 = axis.iter().map(|x| x * x).sum();
                assert!((length - 1.0).abs() < 1e-4, "seed {seed}: {length}");
            }
        }
    }
}
