//! How near projections of test pictures come to pseudo-targets: their own, those of other classes, and free ones.

use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use super::BundleReport;
use super::picture::{
    Area, Axes, Curve, DrawError, DrawnPicture, Figure, INK, LegendEntry, Mark, SERIES, legend_height,
};

/// Between what cosines are, each in a colour of its own.
pub(super) const KINDS: [&str; 4] =
    ["base class, its target", "new class, its target", "targets of other classes", "free targets"];

/// Bins between the cosines -1 and 1.
const BINS: usize = 50;

/// Distributions of cosines after a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Similarities {
    /// The session, 0 before anything is learned.
    pub session: usize,
    /// The distributions.
    pub kinds: Vec<SimilarityKind>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimilarityKind {
    /// Between what: one of four.
    pub name: String,
    /// Mean cosine.
    pub mean: f64,
    /// Share of the cosines in each of the bins between -1 and 1, in percent.
    pub shares: Vec<f64>,
}

impl SimilarityKind {
    /// Of cosines; none if there are none.
    pub(super) fn of(name: &str, cosines: &[f32]) -> Option<Self> {
        let mut counts = vec![0usize; BINS];
        for cosine in cosines {
            let bin = (f64::from(*cosine) + 1.0) / 2.0 * BINS as f64;
            counts[(bin.max(0.0) as usize).min(BINS - 1)] += 1;
        }
        let total = cosines.len() as f64;
        let shares = counts.into_iter().map(|count| (1e5 * count as f64 / total).round() / 1e3).collect();
        let mean = cosines.iter().map(|cosine| f64::from(*cosine)).sum::<f64>() / total;
        (!cosines.is_empty()).then(|| Self { name: name.into(), mean, shares })
    }

    fn curve(&self) -> Curve {
        let colour = KINDS.iter().zip(SERIES).find(|(name, _)| **name == self.name).map_or(INK, |(_, colour)| colour);
        let middle = |bin: usize| (bin as f64 + 0.5) * 2.0 / BINS as f64 - 1.0;
        Curve {
            entry: LegendEntry { name: self.name.clone(), colour, mark: Mark::Line },
            points: self.shares.iter().enumerate().map(|(bin, share)| (middle(bin), *share)).collect(),
            dots: false,
        }
    }
}

pub(super) fn pictures(report: &BundleReport) -> Result<Vec<(String, DrawnPicture)>, DrawError> {
    let similarities = report.similarities.iter();
    similarities.map(|after| Ok((format!("similarities-{}", after.session), after.drawn()?))).collect()
}

impl Figure for Similarities {
    fn height(&self) -> u32 {
        320 + legend_height(self.kinds.len())
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>) -> Result<(), DrawError> {
        let most = self.kinds.iter().flat_map(|kind| &kind.shares).fold(1.0f64, |most, share| most.max(*share));
        let axes = Axes {
            x: (-1.0, 1.0),
            y: (0.0, (most / 5.0).ceil() * 5.0),
            x_name: "cosine",
            y_name: "share, percent",
            labels: (9, 6),
            decimals: (2, 0),
        };
        axes.draw_curves(area, self.kinds.iter().map(SimilarityKind::curve).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_fall_into_their_bins() {
        let kind = SimilarityKind::of("all", &[-1.0, 1.0, 0.0, 0.01]).unwrap();
        assert_eq!((kind.shares[0], kind.shares[BINS - 1], kind.shares[BINS / 2]), (25.0, 25.0, 50.0));
        assert!((kind.mean - 0.0025).abs() < 1e-6);
        assert!(SimilarityKind::of("none", &[]).is_none());
    }
}
