//! How the projections of measured pictures lie after a session: the columns of the paper's Table 4.

use std::ops::ControlFlow;

use orco_benchmark::benchmark::Benchmark;
use orco_benchmark::spread::mean_of_any;
use orco_benchmark::{EvaluateError, SessionScores};
use orco_core::math::{add_scaled, dot, normalise_rows};
use orco_core::workers::Workers;
use orco_state::state::{BaseModel, State};
use orco_state::target::argmax;
use serde::{Deserialize, Serialize};

use crate::measurement::Measurement;

/// What a way of learning makes of the first draw's sessions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionGeometry {
    /// How classes lie after the last session.
    pub last: Geometry,
    /// Classes of earlier sessions that changed their pseudo-targets, over all sessions.
    pub moved: usize,
    /// Of how many: the earlier classes of every session.
    pub earlier: usize,
}

impl SessionGeometry {
    /// Leads a system that keeps a device's state through the first draw; nothing of one that keeps none.
    ///
    /// # Errors
    /// [`EvaluateError`] if a session cannot be learned, or was cancelled.
    pub fn of(
        measurement: &Measurement<'_>,
        workers: &dyn Workers,
        on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<Option<Self>, EvaluateError> {
        let Measurement { base_model, benchmark, .. } = *measurement;
        let (mut last, mut before) = (None, Vec::<u32>::new());
        let (mut moved, mut earlier) = (0, 0);
        measurement.run_sessions(0, workers, &mut |_, _| on_epoch(), &mut |scored, _| {
            let Some(state) = scored.state else { return };
            let targets: Vec<u32> = state.classes.iter().map(|class| class.target).collect();
            moved += before.iter().zip(&targets).filter(|(before, now)| before != now).count();
            earlier += before.len();
            before = targets;
            if scored.session == benchmark.ways.len() {
                last = Some(Geometry::of(base_model, benchmark, state, scored));
            }
        })?;
        Ok(last.map(|last| Self { last, moved, earlier }))
    }

    /// A line for a table under [`SessionGeometry::HEADING`].
    pub fn line(&self) -> String {
        let Geometry { false_incremental, between_classes, to_target, base_to_target, incremental_to_target } =
            self.last;
        let incremental = incremental_to_target.map_or("-".into(), |cosine| format!("{cosine:.3}"));
        format!(
            "{false_incremental:8.2} {between_classes:9.3} {to_target:14.3} {base_to_target:9.3} {incremental:>9} {:>6}/{}",
            self.moved, self.earlier
        )
    }

    /// What stands above such lines.
    pub const HEADING: &str = "  FP_inc   Sim_cls  Sim_cls-target      base       new  moved";
}

/// How classes lie, on the projections of measured pictures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Geometry {
    /// Answers that wrongly name an incremental class, in percent of all measured pictures (FP_inc).
    pub false_incremental: f64,
    /// Mean cosine between the mean directions of two classes, over all pairs (Sim_cls).
    pub between_classes: f64,
    /// Mean cosine between a class's mean direction and its pseudo-target, over all classes (Sim_cls-to-target).
    pub to_target: f64,
    /// Mean cosine between a class's mean direction and its pseudo-target, over base classes alone.
    pub base_to_target: f64,
    /// Mean cosine between a class's mean direction and its pseudo-target, over incremental classes alone; none before
    /// the first session.
    pub incremental_to_target: Option<f64>,
}

impl Geometry {
    /// Of a device's state after a session, with the pictures of the classes that it knows.
    pub fn of(base_model: &BaseModel, benchmark: &Benchmark, state: &State, scored: &SessionScores<'_>) -> Self {
        let SessionScores { base, classes, .. } = *scored;
        let (projected, of) = measured_projections(base_model, benchmark, state, classes);
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
            to_target: mean_of_any(to_target.iter().copied()).unwrap_or_default(),
            base_to_target: mean_of_any(to_target[..of_base].iter().copied()).unwrap_or_default(),
            incremental_to_target: mean_of_any(to_target[of_base..].iter().copied()),
        }
    }
}

/// Projections of the measured pictures of the first `classes` classes by a state's head, `[pictures, dimension]`, and
/// the class of each.
pub(crate) fn measured_projections(
    base_model: &BaseModel,
    benchmark: &Benchmark,
    state: &State,
    classes: usize,
) -> (Vec<f32>, Vec<usize>) {
    let features = benchmark.measured.clean();
    let pictures = features.chunks_exact(base_model.head.inputs).zip(benchmark.measured.classes());
    let (rows, of): (Vec<&[f32]>, Vec<usize>) =
        pictures.map(|(row, class)| (row, *class as usize)).filter(|(_, class)| *class < classes).unzip();
    (state.head(base_model).project(&rows.concat()), of)
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
    mean_of_any(pairs).unwrap_or_default()
}

/// Cosine of a unit row with row `class` of the targets.
fn cosine(direction: &[f32], targets: &[f32], class: usize) -> f64 {
    f64::from(dot(direction, &targets[class * direction.len()..][..direction.len()]))
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
