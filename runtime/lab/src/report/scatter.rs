//! Test pictures of a few classes in the plane of their two main axes: as the backbone leaves them, and after the head.

use nalgebra::{DMatrix, SymmetricEigen};
use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use super::BundleReport;
use super::picture::{
    Area, Axes, DrawError, DrawnPicture, Figure, LegendEntry, Mark, SERIES, failed, legend, legend_height,
};

/// A plane with points in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeaturePlane {
    /// Classes of the points.
    pub classes: Vec<PlaneClass>,
    /// The points.
    pub points: Vec<PlanePoint>,
    /// The classes' pseudo-targets, where they lie in the plane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<PlanePoint>,
    /// Shares of the variance along the two axes, in percent.
    pub explained: [f64; 2],
    /// Mean distance of a picture to its class's mean over that between the means of two classes, in all dimensions:
    /// the smaller, the tighter the classes.
    pub spread: f64,
}

/// A class in a plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaneClass {
    /// Its label.
    pub label: String,
    /// Whether it is a base class.
    pub is_base: bool,
}

/// A picture in a plane.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanePoint {
    /// Index of its class in [`FeaturePlane::classes`].
    pub class: usize,
    /// Along the first axis.
    pub x: f64,
    /// Along the second one.
    pub y: f64,
}

impl FeaturePlane {
    /// The plane of the first two principal components of unit rows `[n, dimension]`, of which each has an index of
    /// `classes`.
    pub(super) fn of(rows: &[f32], dimension: usize, of: &[usize], classes: Vec<PlaneClass>) -> Self {
        let count = of.len();
        // Columns are samples.
        let mut samples = DMatrix::from_iterator(dimension, count, rows.iter().map(|value| f64::from(*value)));
        let mean = samples.column_mean();
        samples.column_iter_mut().for_each(|mut column| column -= &mean);
        let spread = spread(&samples, of, classes.len());
        // The smaller of the two products has the same eigenvalues other than zero.
        let gram = SymmetricEigen::new(samples.transpose() * &samples);
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| gram.eigenvalues[b].total_cmp(&gram.eigenvalues[a]));
        let all: f64 = gram.eigenvalues.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let axis = |number: usize| {
            let Some(&index) = order.get(number) else { return (vec![0.0; count], 0.0) };
            let value = gram.eigenvalues[index].max(0.0);
            let vector = gram.eigenvectors.column(index);
            // Which of both directions is the positive one is nobody's choice: the first point's is made it.
            let sign = vector.iter().find(|entry| entry.abs() > 1e-9).map_or(1.0, |entry| entry.signum());
            let along = vector.iter().map(|entry| (sign * entry * value.sqrt() * 1e4).round() / 1e4).collect();
            (along, 100.0 * value / all)
        };
        let ((x, first), (y, second)) = (axis(0), axis(1));
        let points = of.iter().zip(x).zip(y).map(|((class, x), y)| PlanePoint { class: *class, x, y }).collect();
        Self { classes, points, targets: Vec::new(), explained: [first, second], spread }
    }
}

fn spread(samples: &DMatrix<f64>, of: &[usize], classes: usize) -> f64 {
    let mut means = DMatrix::<f64>::zeros(samples.nrows(), classes);
    let mut counts = vec![0usize; classes];
    for (column, &class) in samples.column_iter().zip(of) {
        means.column_mut(class).iter_mut().zip(column.iter()).for_each(|(sum, value)| *sum += value);
        counts[class] += 1;
    }
    for (mut mean, &count) in means.column_iter_mut().zip(&counts) {
        mean /= count.max(1) as f64;
    }
    let within = samples.column_iter().zip(of).map(|(column, class)| (column - means.column(*class)).norm());
    let within = within.sum::<f64>() / of.len().max(1) as f64;
    let pairs = (0..classes).flat_map(|a| (0..a).map(move |b| (a, b)));
    let between: Vec<f64> = pairs.map(|(a, b)| (means.column(a) - means.column(b)).norm()).collect();
    within / (between.iter().sum::<f64>() / between.len().max(1) as f64).max(f64::MIN_POSITIVE)
}

pub(super) fn pictures(report: &BundleReport) -> Result<Vec<(String, DrawnPicture)>, DrawError> {
    let Some([before, after]) = &report.planes else { return Ok(Vec::new()) };
    Ok(vec![("features".to_owned(), Scatter(before).drawn()?), ("projections".to_owned(), Scatter(after).drawn()?)])
}

pub(super) struct Scatter<'a>(pub(super) &'a FeaturePlane);

impl Figure for Scatter<'_> {
    fn height(&self) -> u32 {
        340 + legend_height(self.0.classes.len())
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>) -> Result<(), DrawError> {
        let FeaturePlane { classes, points, targets, .. } = self.0;
        let most =
            points.iter().chain(targets).flat_map(|point| [point.x.abs(), point.y.abs()]).fold(0.1, f64::max) * 1.05;
        let axes = Axes {
            x: (-most, most),
            y: (-most, most),
            x_name: "first principal component",
            y_name: "second",
            labels: (7, 7),
            decimals: (1, 1),
        };
        let mut chart = axes.draw(area, classes.len())?;
        for PlanePoint { class, x, y } in points {
            let colour = SERIES[class % SERIES.len()];
            // New classes are rings.
            let style = if classes[*class].is_base { colour.mix(0.75).filled() } else { colour.stroke_width(1) };
            chart.draw_series([Circle::new((*x, *y), 3, style)]).map_err(failed)?;
        }
        for PlanePoint { class, x, y } in targets {
            let colour = SERIES[class % SERIES.len()];
            chart.draw_series([Cross::new((*x, *y), 6, colour.stroke_width(2))]).map_err(failed)?;
        }
        let entries = classes.iter().enumerate().map(|(index, PlaneClass { label, is_base })| LegendEntry {
            name: if *is_base { label.clone() } else { format!("{label} (new)") },
            colour: SERIES[index % SERIES.len()],
            mark: if *is_base { Mark::Dot } else { Mark::Ring },
        });
        legend(area, &entries.collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_lie_along_the_first_axis() {
        let rows: Vec<f32> = [-2.0f32, -1.0, 1.0, 2.0].iter().flat_map(|t| [3.0 * t, 1.0, 4.0 * t]).collect();
        let classes = [("a", true), ("b", false)];
        let classes = classes.map(|(label, is_base)| PlaneClass { label: label.into(), is_base }).into();
        let plane = FeaturePlane::of(&rows, 3, &[0, 0, 1, 1], classes);
        // The line's direction is (3, 0, 4) / 5: distances from the centre 10, 5, 5, 10, the first point positive.
        let x: Vec<f64> = plane.points.iter().map(|point| point.x).collect();
        assert_eq!(x, [10.0, 5.0, -5.0, -10.0]);
        assert!((plane.explained[0] - 100.0).abs() < 1e-6);
        // Within a class 2.5 from its mean, 15 between the means.
        assert!((plane.spread - 2.5 / 15.0).abs() < 1e-9, "{}", plane.spread);
    }
}
