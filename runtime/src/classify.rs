//! The answer: the class whose assigned pseudo-target is nearest.

use alloc::vec::Vec;

use crate::head::Projector;
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
