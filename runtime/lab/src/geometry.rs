//! How the projections of measured pictures lie after a session: the columns of the paper's Table 4.

use orco_benchmark::SessionScores;
use orco_benchmark::benchmark::Benchmark;
use orco_core::math::{add_scaled, dot, normalise_rows};
use orco_state::state::{BaseModel, State};
use orco_state::target::argmax;
use serde::{Deserialize, Serialize};

/// How classes lie, on the projections of measured pictures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Geometry {
    /// Answers that wrongly name an incremental class, in percent of all measured pictures (FP_inc).
    pub false_incremental: f64,
    /// Mean cosine between the mean directions of two classes, over all pairs (Sim_cls).
    pub between_classes: f64,
    /// Mean cosine between a class's mean direction and its pseudo-target, over all classes (Sim_cls-to-target).
    pub to_target: f64,
    /// The same over base classes alone.
    pub base_to_target: f64,
    /// The same over incremental classes alone; none before the first session.
    pub incremental_to_target: Option<f64>,
}

impl Geometry {
    /// Of a device's state after a session, with the pictures of the classes that it knows.
    pub fn of(base_model: &BaseModel, benchmark: &Benchmark, state: &State, scored: &SessionScores<'_>) -> Self {
        let SessionScores { base, classes, .. } = *scored;
        let inputs = base_model.head.inputs;
        let features = benchmark.measured.clean();
        let pictures = features.chunks_exact(inputs).zip(benchmark.measured.classes());
        let (rows, of): (Vec<&[f32]>, Vec<usize>) =
            pictures.map(|(row, class)| (row, *class as usize)).filter(|(_, class)| *class < classes).unzip();
        let projected = state.head(base_model).project(&rows.concat());
        let means = class_directions(&projected, &of, base_model.dimension, classes);
        let targets = state.assigned_targets(base_model);
        let answers = scored.pictures().map(|(class, scores)| (class, argmax(scores)));
        let (mut wrong, mut all) = (0usize, 0usize);
        for (class, answer) in answers {
            all += 1;
            wrong += usize::from(answer != class && answer >= base);
        }
        let to_target: Vec<f64> = means.iter().map(|(class, mean)| cosine(mean, &targets, *class)).collect();
        let of_base = means.iter().filter(|(class, _)| *class < base).count();
        Self {
            false_incremental: 100.0 * wrong as f64 / all.max(1) as f64,
            between_classes: between(&means),
            to_target: mean(&to_target).unwrap_or_default(),
            base_to_target: mean(&to_target[..of_base]).unwrap_or_default(),
            incremental_to_target: mean(&to_target[of_base..]),
        }
    }
}

/// The direction of a class's mean projection, with the class.
type ClassDirection = (usize, Vec<f32>);

/// Those of all classes below `classes` that have pictures, rising.
fn class_directions(projected: &[f32], of: &[usize], dimension: usize, classes: usize) -> Vec<ClassDirection> {
    let mut sums = vec![0.0; classes * dimension];
    for (row, class) in projected.chunks_exact(dimension).zip(of) {
        add_scaled(&mut sums[class * dimension..][..dimension], 1.0, row);
    }
    normalise_rows(&mut sums, dimension);
    let present = |class: &usize| of.contains(class);
    (0..classes).filter(present).map(|class| (class, sums[class * dimension..][..dimension].to_vec())).collect()
}

/// Mean cosine over all pairs.
fn between(means: &[ClassDirection]) -> f64 {
    let pairs = means
        .iter()
        .enumerate()
        .flat_map(|(index, (_, one))| means[..index].iter().map(move |(_, other)| f64::from(dot(one, other))));
    mean(&pairs.collect::<Vec<_>>()).unwrap_or_default()
}

/// Cosine of a unit row with row `class` of the targets.
fn cosine(direction: &[f32], targets: &[f32], class: usize) -> f64 {
    f64::from(dot(direction, &targets[class * direction.len()..][..direction.len()]))
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_those_of_the_classes_that_have_pictures() {
        let projected = [1.0, 0.0, 0.0, 1.0, 0.6, 0.8];
        let directions = class_directions(&projected, &[0, 0, 2], 2, 3);
        let half = f32::sqrt(0.5);
        assert_eq!(directions.iter().map(|(class, _)| *class).collect::<Vec<_>>(), [0, 2]);
        assert!((directions[0].1[0] - half).abs() < 1e-6 && (directions[0].1[1] - half).abs() < 1e-6);
        let expected = f64::from(half) * 1.4;
        assert!((between(&directions) - expected).abs() < 1e-6);
        let targets = [0.0, 1.0, 0.0, 0.0, 1.0, 0.0];
        assert!((cosine(&directions[1].1, &targets, 2) - 0.6).abs() < 1e-6);
    }
}
