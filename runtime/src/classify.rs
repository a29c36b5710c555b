//! The answer: the class whose assigned pseudo-target is nearest, and whose exemplars are.

use alloc::vec;
use alloc::vec::Vec;

use crate::head::Projector;
use crate::math::{add_scaled, normalise};
use crate::session::NewClass;
use crate::state::{Foundation, State};
use crate::target::{cosines, largest};

/// A class with how near a picture came to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Index among the known classes, base classes first.
    pub class: usize,
    /// As [`Classifier::scores`] says, -1..1.
    pub score: f32,
}

/// A state made ready for classifying.
///
/// A class's score is the cosine between the projected picture and the class's pseudo-target (OrCo, section 3.2); where
/// [`class_means`](crate::config::Config::class_means) has a weight w, the mean of that, with weight 1, and of the cosine
/// between the picture's features and the mean feature vector of the class's exemplars, with weight w. The one follows
/// the alignment, the other cannot forget; they err on different pictures.
#[derive(Clone, Debug)]
pub struct Classifier {
    head: Projector,
    targets: Vec<f32>,
    dimension: usize,
    /// Mean directions of the classes' exemplars, `[classes, inputs]`, zero without exemplars; empty without a weight.
    means: Vec<f32>,
    weight: f32,
}

impl Classifier {
    /// Collects what classifying needs, with the bundle's weight of class means.
    pub fn new(foundation: &Foundation, state: &State) -> Self {
        Self::weighing(foundation, state, foundation.config.class_means)
    }

    /// The same with another weight of class means; 0 stands for targets alone.
    pub fn weighing(foundation: &Foundation, state: &State, class_means: f32) -> Self {
        let targets = state.assigned_targets(foundation);
        let means = if class_means > 0.0 { mean_exemplars(foundation, state) } else { Vec::new() };
        let head = Projector::new(state.head(foundation));
        Self { head, targets, dimension: foundation.dimension, means, weight: class_means }
    }

    /// Knows one more class at once, without training: by the mean direction of its shots' clean views under the head in
    /// use, in place of a target (imprinting, Qi et al. 2018). Provisional, for as long as [`crate::session::learn`] takes.
    ///
    /// # Panics
    /// If a shot has no whole feature vector.
    pub fn imprint(&mut self, class: &NewClass) {
        let inputs = self.head.inputs();
        let clean: Vec<f32> = class.shots.iter().flat_map(|shot| &shot[..inputs]).copied().collect();
        self.targets.extend(mean_direction(&self.head.project(&clean), self.dimension));
        if self.weight > 0.0 {
            self.means.extend(mean_direction(&clean, inputs));
        }
    }

    /// Index of the class with the highest score for each row of features, the first of equal ones.
    ///
    /// # Shapes
    /// `features` `[n, inputs]`; returns `[n]`.
    pub fn nearest(&self, features: &[f32]) -> Vec<usize> {
        let classes = self.targets.len() / self.dimension;
        self.scores(features).chunks_exact(classes.max(1)).map(largest).collect()
    }

    /// The `count` classes with the highest scores for one feature vector, highest first.
    pub fn matches(&self, features: &[f32], count: usize) -> Vec<Match> {
        let scores = self.scores(features);
        let mut matches: Vec<Match> = scores.iter().enumerate().map(|(class, &score)| Match { class, score }).collect();
        matches.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.class.cmp(&b.class)));
        matches.truncate(count);
        matches
    }

    /// Scores of every class: `features` `[n, inputs]`, result `[n, classes]`. A class without exemplars counts by its
    /// target alone.
    pub fn scores(&self, features: &[f32]) -> Vec<f32> {
        let mut scores = cosines(&self.head.project(features), &self.targets, self.dimension);
        if self.weight > 0.0 {
            let inputs = self.head.inputs();
            let mut directions = features.to_vec();
            directions.chunks_exact_mut(inputs).for_each(|row| {
                normalise(row);
            });
            let near = cosines(&directions, &self.means, inputs);
            let shown: Vec<bool> = self.means.chunks_exact(inputs).map(|mean| mean.iter().any(|x| *x != 0.0)).collect();
            let classes = shown.iter().cycle();
            for ((score, near), _) in scores.iter_mut().zip(near).zip(classes).filter(|(_, shown)| **shown) {
                *score = (*score + self.weight * near) / (1.0 + self.weight);
            }
        }
        scores
    }
}

/// Mean directions of the clean views of each known class's exemplars, the bundle's and the device's,
/// `[classes, inputs]`.
fn mean_exemplars(foundation: &Foundation, state: &State) -> Vec<f32> {
    let inputs = foundation.head.inputs;
    let mut sums = vec![0.0; state.known(foundation).count() * inputs];
    for bank in [&foundation.exemplars, &state.exemplars] {
        for (row, &class) in bank.clean().chunks_exact(inputs).zip(bank.classes()) {
            add_scaled(&mut sums[class as usize * inputs..][..inputs], 1.0, row);
        }
    }
    sums.chunks_exact_mut(inputs).for_each(|sum| {
        normalise(sum);
    });
    sums
}

/// Normalised mean of rows.
pub(crate) fn mean_direction(rows: &[f32], dimension: usize) -> Vec<f32> {
    let mut mean = vec![0.0; dimension];
    rows.chunks_exact(dimension).for_each(|row| add_scaled(&mut mean, 1.0, row));
    normalise(&mut mean);
    mean
}
