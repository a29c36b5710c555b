//! Figures of the paper that a bundle's report does not have: angles between targets against the dimension, projections
//! before and after the sessions with their targets, losses over the epochs, and who is taken for whom by whom.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use orco_benchmark::EvaluateError;
use orco_benchmark::benchmark::Benchmark;
use orco_core::align::LossTerms;
use orco_core::workers::Workers;
use orco_runtime::bundle::Bundle;
use orco_state::state::{BaseModel, State};
use orco_state::target::{TargetMethod, generate};
use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use super::angles::{AngleOf, AngleRange};
use super::collect::{confusion, shown_pictures};
use super::confusion::Matrix;
use super::picture::{
    Area, Axes, Curve, DrawError, DrawnPicture, Figure, LegendEntry, Mark, SERIES, failed, legend_height,
};
use super::scatter::Scatter;
use super::{Confusion, FeaturePlane, PICTURES, WriteError, is_made_by, writable, write_file, write_picture};
use crate::measurement::Measurement;
use crate::system::System;

/// Dimensions of the sphere that targets are made in.
const DIMENSIONS: [usize; 7] = [16, 32, 64, 96, 128, 256, 512];
/// Steps of the descent.
const STEPS: usize = 1000;
/// Name of the file that holds all of the figures, and is written first.
const FIGURES: &str = "figures.json";
/// Grey, for what is there to compare with.
const GREY: RGBColor = SERIES[7];

/// Angles between the pseudo-targets of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DimensionAngles {
    /// The dimension.
    pub dimension: usize,
    /// Of as many random directions.
    pub random: AngleRange,
    /// Of targets after 1,000 steps of the published program's descent.
    pub optimised: AngleRange,
}

impl DimensionAngles {
    fn of(count: usize, dimension: usize, seed: u64) -> Self {
        let of = |method| AngleRange::of(&generate(method, count, dimension, STEPS, seed), dimension);
        Self { dimension, random: of(TargetMethod::Random), optimised: of(TargetMethod::Optimised) }
    }
}

/// Mean losses of an epoch, with their weights.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochLosses {
    /// The epoch, from 1.
    pub epoch: usize,
    /// PSCL.
    pub contrast: f32,
    /// Cross entropy.
    pub cross_entropy: f32,
    /// ORTH.
    pub orthogonality: f32,
}

impl EpochLosses {
    fn of(epoch: usize, losses: LossTerms) -> Self {
        let LossTerms { contrast, cross_entropy, orthogonality } = losses;
        Self { epoch, contrast, cross_entropy, orthogonality }
    }
}

/// Answers of a system after the last session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SystemConfusion {
    /// Name of the system.
    pub system: String,
    /// The answers.
    pub answers: Confusion,
}

/// The figures, made on the first draw of a bundle's benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperFigures {
    /// The bundle.
    pub bundle: String,
    /// What was measured on.
    pub source: String,
    /// The command that makes them.
    pub command: String,
    /// Seed of the draw, of shuffling and of perturbation.
    pub seed: u64,
    /// Angles against the dimension.
    pub angles: Vec<DimensionAngles>,
    /// Test pictures of some classes, and their targets, before the first session and after the last, in the plane of
    /// the main axes of both together: phase 3 by the published program.
    pub planes: Option<[FeaturePlane; 2]>,
    /// Losses of the last session, by the published program.
    pub losses: Vec<EpochLosses>,
    /// Answers after the last session.
    pub confusion: Vec<SystemConfusion>,
    /// Classes known after each session.
    #[serde(rename = "ends")]
    classes_after: Vec<usize>,
}

/// The systems whose answers are shown.
const SHOWN_SYSTEMS: [System; 3] = [System::DEVICE, System::PROGRAM, System::NC_FSCIL];

/// Makes the figures; `on_epoch` is told of every epoch of training and may cancel there.
///
/// # Errors
/// [`EvaluateError`] if a session cannot be learned, or was cancelled.
pub fn paper_figures(
    bundle: &Bundle,
    benchmark: &Benchmark,
    seed: u64,
    command: &str,
    workers: &dyn Workers,
    on_epoch: &(dyn Fn() -> ControlFlow<()> + Sync),
) -> Result<PaperFigures, EvaluateError> {
    let base_model = &bundle.base_model;
    let count = base_model.target_count();
    let angles = DIMENSIONS.map(|dimension| DimensionAngles::of(count, dimension, bundle.manifest.provenance.seed));
    let last = benchmark.ways.len();
    let (mut losses, mut all_answers, mut planes) = (Vec::new(), Vec::new(), None);
    for system in SHOWN_SYSTEMS {
        let measurement = Measurement { base_model, benchmark, system, config: &base_model.config, seed };
        let is_program = system == System::PROGRAM;
        let mut before: Option<State> = None;
        let mut of_last = Vec::new();
        measurement.run_sessions(
            0,
            workers,
            &mut |session, progress| {
                if is_program && session == last {
                    of_last.push(EpochLosses::of(progress.epoch, progress.losses));
                }
                on_epoch()
            },
            &mut |scored, _| {
                if is_program && scored.session == 0 {
                    before = scored.state.cloned();
                }
                if scored.session == last {
                    all_answers.push(SystemConfusion { system: system.name().into(), answers: confusion(scored) });
                    if let (Some(before), Some(after)) = (&before, scored.state) {
                        planes = both_planes(base_model, benchmark, [before, after]);
                    }
                }
            },
        )?;
        losses.extend(of_last);
    }
    Ok(PaperFigures {
        bundle: bundle.manifest.name.clone(),
        source: benchmark.source.clone(),
        command: command.into(),
        seed,
        angles: angles.into(),
        planes,
        losses,
        confusion: all_answers,
        classes_after: benchmark.classes_after(base_model.classes.len()),
    })
}

/// Pictures by the head before and after, each with the targets that their classes have in the end, in one plane.
fn both_planes(base_model: &BaseModel, benchmark: &Benchmark, states: [&State; 2]) -> Option<[FeaturePlane; 2]> {
    let shown = shown_pictures(base_model, benchmark);
    let dimension = base_model.dimension;
    let assigned = states[1].assigned_targets(base_model);
    let targets: Vec<f32> =
        shown.classes.iter().flat_map(|class| &assigned[class * dimension..][..dimension]).copied().collect();
    let named = shown.plane_classes(base_model, states[1])?;
    // Of each state the projections of all pictures, then the target of each class: `[pictures + classes, dimension]`.
    let rows_of_states = states.map(|state| [state.head(base_model).project(&shown.rows), targets.clone()].concat());
    let class_of_row: Vec<usize> = shown.of.iter().copied().chain(0..shown.classes.len()).collect();
    let classes_of_both = [&*class_of_row, &*class_of_row].concat();
    let together = FeaturePlane::of(&rows_of_states.concat(), dimension, &classes_of_both, named.clone());
    let (rows, pictures) = (class_of_row.len(), shown.of.len());
    let plane = |number: usize| {
        let (points, targets) = together.points[number * rows..][..rows].split_at(pictures);
        let projections = &rows_of_states[number][..pictures * dimension];
        let own = FeaturePlane::of(projections, dimension, &shown.of, named.clone());
        let (points, targets) = (points.to_vec(), targets.to_vec());
        FeaturePlane { points, targets, explained: together.explained, ..own }
    };
    Some([plane(0), plane(1)])
}

/// Makes the folder of figures, before anything is measured for it.
///
/// # Errors
/// [`WriteError`] if nothing can be written there, or it has files under their names that are no figures.
pub fn prepare(folder: &Path) -> Result<(), WriteError> {
    let [json, pictures] = [FIGURES, PICTURES].map(|name| folder.join(name));
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    if (is_there(&json) || is_there(&pictures)) && !is_made_by(&json, "figures") {
        return Err(WriteError::NoFigures { path: folder.into() });
    }
    writable(folder).map_err(WriteError::file(folder))
}

impl PaperFigures {
    /// Writes `figures.json` and `pictures/*.svg`, `*.png` into a folder, which is made.
    ///
    /// # Errors
    /// [`WriteError`] if a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), WriteError> {
        let pictures = folder.join(PICTURES);
        writable(folder).map_err(WriteError::file(folder))?;
        let json = serde_json::to_string(self).expect("numbers and texts") + "\n";
        // First, so that what is left of a stopped run is known for ours.
        write_file(&folder.join(FIGURES), json.as_bytes())?;
        writable(&pictures).map_err(WriteError::file(&pictures))?;
        for (name, drawn) in self.pictures()? {
            write_picture(&pictures, &name, &drawn)?;
        }
        Ok(())
    }

    /// All pictures, by name.
    fn pictures(&self) -> Result<Vec<(String, DrawnPicture)>, DrawError> {
        let mut all = vec![
            ("angles-against-dimension".to_owned(), DimensionPicture(&self.angles).drawn()?),
            ("losses".to_owned(), LossPicture(&self.losses).drawn()?),
        ];
        if let Some([before, after]) = &self.planes {
            all.push(("projections-before".to_owned(), Scatter(before).drawn()?));
            all.push(("projections-after".to_owned(), Scatter(after).drawn()?));
        }
        for SystemConfusion { system, answers } in &self.confusion {
            let name = system.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
            all.push((
                format!("confusion-{name}"),
                Matrix { confusion: answers, classes_after: &self.classes_after }.drawn()?,
            ));
        }
        Ok(all)
    }
}

/// Angles against the dimension, whose axis is logarithmic.
struct DimensionPicture<'a>(&'a [DimensionAngles]);

impl Figure for DimensionPicture<'_> {
    fn height(&self) -> u32 {
        320 + legend_height(6)
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>) -> Result<(), DrawError> {
        let x = |dimension: usize| (dimension as f64).log2();
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else {
            return Err(failed("no angles were measured"));
        };
        let smallest = self.0.iter().map(|angles| angles.random.smallest).fold(90.0, f64::min);
        let largest = self.0.iter().map(|angles| angles.random.largest).fold(90.0, f64::max);
        let axes = Axes {
            x: (x(first.dimension), x(last.dimension)),
            y: ((smallest / 10.0).floor() * 10.0, (largest / 10.0).ceil() * 10.0),
            x_name: "dimension of the sphere, as powers of two",
            y_name: "angle, degrees",
            labels: (6, 8),
            decimals: (0, 0),
        };
        let kinds: [(&str, AngleOf); 3] = [
            ("largest", |angles| angles.largest),
            ("mean", |angles| angles.mean),
            ("smallest", |angles| angles.smallest),
        ];
        let curve = |of: &dyn Fn(&DimensionAngles) -> f64, name: String, colour, mark: Mark| Curve {
            entry: LegendEntry { name, colour, mark },
            points: self.0.iter().map(|angles| (x(angles.dimension), of(angles))).collect(),
            dots: mark == Mark::Line,
        };
        let random = kinds
            .into_iter()
            .map(|(name, of)| curve(&|angles| of(&angles.random), format!("{name}, random"), GREY, Mark::Dashes));
        let optimised = kinds.into_iter().zip([SERIES[1], SERIES[2], SERIES[0]]).map(|((name, of), colour)| {
            curve(&|angles| of(&angles.optimised), format!("{name}, optimised"), colour, Mark::Line)
        });
        axes.draw_curves(area, random.chain(optimised).collect())
    }
}

/// Losses over the epochs of a session.
struct LossPicture<'a>(&'a [EpochLosses]);

/// Which of the losses of an epoch.
type LossOf = fn(&EpochLosses) -> f32;

impl Figure for LossPicture<'_> {
    fn height(&self) -> u32 {
        320 + legend_height(3)
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>) -> Result<(), DrawError> {
        let kinds: [(&str, LossOf); 3] = [
            ("PSCL", |epoch| epoch.contrast),
            ("cross entropy", |epoch| epoch.cross_entropy),
            ("ORTH", |epoch| epoch.orthogonality),
        ];
        let most = kinds.iter().flat_map(|(_, of)| self.0.iter().map(of)).fold(1.0f32, f32::max);
        let axes = Axes {
            x: (1.0, self.0.len().max(2) as f64),
            y: (0.0, f64::from(most.ceil())),
            x_name: "epoch of the last session",
            y_name: "loss, weighted",
            labels: (6, 6),
            decimals: (0, 1),
        };
        let curve = |((name, of), colour): ((&str, LossOf), RGBColor)| Curve {
            entry: LegendEntry { name: name.into(), colour, mark: Mark::Line },
            points: self.0.iter().map(|epoch| (epoch.epoch as f64, f64::from(of(epoch)))).collect(),
            dots: false,
        };
        axes.draw_curves(area, kinds.into_iter().zip(SERIES).map(curve).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimised_targets_stand_farther_apart_than_random_ones_in_every_dimension() {
        let at = |dimension| DimensionAngles::of(20, dimension, 1);
        let (narrow, wide) = (at(8), at(32));
        assert!(narrow.optimised.smallest > narrow.random.smallest && wide.optimised.smallest > wide.random.smallest);
        // Where there is room for a simplex, all angles are its: the arc cosine of -1/19.
        let simplex = (-1.0f64 / 19.0).acos().to_degrees();
        assert!((wide.optimised.smallest - simplex).abs() < 0.1 && (wide.optimised.largest - simplex).abs() < 0.1);
        assert!(narrow.optimised.smallest < simplex - 1.0);
        // Angles of random directions gather around the right angle.
        assert!((wide.random.mean - 90.0).abs() < 2.0);
    }
}
