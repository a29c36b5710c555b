//! Angles between pseudo-targets while they are generated.

use orco_state::state::BaseModel;
use orco_state::target::{TargetGenerator, TargetMethod, cosines, generate};
use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use super::BundleReport;
use super::picture::{Area, Axes, Curve, DrawError, DrawnPicture, Figure, LegendEntry, Mark, SERIES, legend_height};

/// Steps that recipes take.
const STEPS: [usize; 3] = [500, 1000, 2000];

/// Angles between all pairs of rows, in degrees.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AngleRange {
    /// The smallest.
    pub smallest: f64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub largest: f64,
}

impl AngleRange {
    /// Of unit rows.
    pub(super) fn of(rows: &[f32], dimension: usize) -> Self {
        let count = rows.len() / dimension;
        let all = cosines(rows, rows, dimension);
        let pairs = (0..count).flat_map(|row| (0..row).map(move |column| row * count + column));
        let angles = pairs.map(|pair| f64::from(all[pair]).clamp(-1.0, 1.0).acos().to_degrees());
        let (mut smallest, mut largest, mut sum, mut number) = (180.0f64, 0.0f64, 0.0, 0usize);
        for angle in angles {
            (smallest, largest) = (smallest.min(angle), largest.max(angle));
            (sum, number) = (sum + angle, number + 1);
        }
        Self { smallest, mean: sum / number.max(1) as f64, largest }
    }
}

/// Angles between pseudo-targets after some steps of their generation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AngleStep {
    /// Steps done.
    pub step: usize,
    /// The angles.
    #[serde(flatten)]
    pub angles: AngleRange,
}

/// Angles between a bundle's targets while they are generated again from its seed; none if other targets come of it.
pub(super) fn during_generation(base_model: &BaseModel, seed: u64) -> Option<Vec<AngleStep>> {
    let (count, dimension) = (base_model.target_count(), base_model.dimension);
    let mut targets = generate(TargetMethod::Optimised, count, dimension, 0, seed);
    let mut generator = TargetGenerator::new(count, dimension);
    let at = |step: usize, targets: &[f32]| AngleStep { step, angles: AngleRange::of(targets, dimension) };
    let mut angles = vec![at(0, &targets)];
    for step in 1..=STEPS[STEPS.len() - 1] {
        generator.step(&mut targets, 1.0);
        if is_shown(step) {
            angles.push(at(step, &targets));
        }
        let apart = |(a, b): (&f32, &f32)| (a - b).abs();
        let same = || targets.iter().zip(&base_model.targets).map(apart).all(|difference| difference < 1e-3);
        if STEPS.contains(&step) && same() {
            return Some(angles);
        }
    }
    None
}

/// Steps 1, 2, 5, 10, 20, ...
fn is_shown(step: usize) -> bool {
    let mut decade = 1;
    while decade * 10 <= step {
        decade *= 10;
    }
    [1, 2, 5].iter().any(|times| times * decade == step)
}

pub(super) fn pictures(report: &BundleReport) -> Result<Vec<(String, DrawnPicture)>, DrawError> {
    let angles = report.angles.iter();
    angles.map(|angles| Ok(("angles".to_owned(), Angles(angles).drawn()?))).collect()
}

/// Which of the angles after a step.
pub(super) type AngleOf = fn(&AngleRange) -> f64;

struct Angles<'a>(&'a [AngleStep]);

impl Figure for Angles<'_> {
    fn height(&self) -> u32 {
        320 + legend_height(3)
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>) -> Result<(), DrawError> {
        // Steps grow tenfold along the axis; before the first one stands at half of its place.
        let x = |step: usize| (step.max(1) as f64).log10() + if step == 0 { -0.3 } else { 0.0 };
        let low = self.0.iter().map(|step| step.angles.smallest).fold(180.0, f64::min);
        let high = self.0.iter().map(|step| step.angles.largest).fold(0.0, f64::max);
        let last = self.0.last().map_or(1, |step| step.step);
        let axes = Axes {
            x: (-0.3, x(last)),
            y: ((low / 10.0).floor() * 10.0, (high / 10.0).ceil() * 10.0),
            x_name: "steps of the generation, as powers of ten",
            y_name: "angle, degrees",
            labels: (5, 8),
            decimals: (0, 0),
        };
        let kinds: [(&str, AngleOf); 3] = [
            ("largest angle", |range| range.largest),
            ("mean", |range| range.mean),
            ("smallest", |range| range.smallest),
        ];
        let colours = [SERIES[1], SERIES[7], SERIES[0]];
        let curve = |((name, of), colour): ((&str, AngleOf), RGBColor)| Curve {
            entry: LegendEntry { name: name.into(), colour, mark: Mark::Line },
            points: self.0.iter().map(|step| (x(step.step), of(&step.angles))).collect(),
            dots: true,
        };
        axes.draw_curves(area, kinds.into_iter().zip(colours).map(curve).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_the_plane_are_at_right_angles() {
        let found = AngleRange::of(&[1.0, 0.0, 0.0, 1.0, -1.0, 0.0], 2);
        assert!((found.smallest - 90.0).abs() < 1e-4 && (found.largest - 180.0).abs() < 1e-4);
        assert!((found.mean - 120.0).abs() < 1e-4);
    }

    #[test]
    fn shown_steps_are_few() {
        let shown: Vec<usize> = (1..=300).filter(|step| is_shown(*step)).collect();
        assert_eq!(shown, [1, 2, 5, 10, 20, 50, 100, 200]);
    }
}
