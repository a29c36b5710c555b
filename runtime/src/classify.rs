//! The answer: the class whose assigned pseudo-target is nearest.

use alloc::vec;
use alloc::vec::Vec;

use crate::head::Projector;
use crate::math::{add_scaled, normalise};
use crate::session::NewClass;
use crate::state::{Foundation, State};
use crate::target::{cosines, nearest};

/// A class with how near a picture came to its pseudo-target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Index among the known classes, base classes first.
    pub class: usize,
    /// Cosine between the projected picture and the class's pseudo-target, -1..1.
    pub cosine: f32,
}

/// A state made ready for classifying.
#[derive(Clone, Debug)]
pub struct Classifier {
    head: Projector,
    targets: Vec<f32>,
    dimension: usize,
}

impl Classifier {
    /// Collects what classifying needs.
    pub fn new(foundation: &Foundation, state: &State) -> Self {
        let targets = state.assigned_targets(foundation);
        Self { head: Projector::new(state.head(foundation)), targets, dimension: foundation.dimension }
    }

    /// Knows one more class at once, without training: by the mean direction of its shots' clean views under the head in
    /// use, in place of a target (imprinting, Qi et al. 2018). Provisional, for as long as [`crate::session::learn`] takes.
    ///
    /// # Panics
    /// If a shot has no whole feature vector.
    pub fn imprint(&mut self, class: &NewClass) {
        let clean: Vec<f32> = class.shots.iter().flat_map(|shot| &shot[..self.head.inputs()]).copied().collect();
        self.targets.extend(mean_direction(&self.head.project(&clean), self.dimension));
    }

    /// Index of the nearest class for each row of features.
    ///
    /// # Shapes
    /// `features` `[n, inputs]`; returns `[n]`.
    pub fn nearest(&self, features: &[f32]) -> Vec<usize> {
        nearest(&self.head.project(features), &self.targets, self.dimension)
    }

    /// The `count` nearest classes for one feature vector, nearest first.
    pub fn matches(&self, features: &[f32], count: usize) -> Vec<Match> {
        let cosines = self.cosines(features);
        let mut matches: Vec<Match> =
            cosines.iter().enumerate().map(|(class, &cosine)| Match { class, cosine }).collect();
        matches.sort_by(|a, b| b.cosine.total_cmp(&a.cosine).then(a.class.cmp(&b.class)));
        matches.truncate(count);
        matches
    }

    /// Cosines with every class's target: `features` `[n, inputs]`, result `[n, classes]`.
    pub fn cosines(&self, features: &[f32]) -> Vec<f32> {
        cosines(&self.head.project(features), &self.targets, self.dimension)
    }
}

/// Normalised mean of unit rows.
pub(crate) fn mean_direction(rows: &[f32], dimension: usize) -> Vec<f32> {
    let mut mean = vec![0.0; dimension];
    rows.chunks_exact(dimension).for_each(|row| add_scaled(&mut mean, 1.0, row));
    normalise(&mut mean);
    mean
}
