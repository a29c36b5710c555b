//! The answer: the class whose assigned pseudo-target is nearest, and whose exemplars are.

use alloc::vec;
use alloc::vec::Vec;

use crate::config::Config;
use crate::head::Projector;
use crate::math::{add_scaled, normalise, normalise_rows};
use crate::session::{NewClass, lesson};
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
/// [`Config::class_means`] is a weight w, the mean of that, with weight 1, and of the cosine between the picture's features
/// and the mean feature vector of the class's exemplars, with weight w. The one follows the alignment, the other cannot
/// forget; they err on different pictures. Means count only where every class has an exemplar.
#[derive(Clone, Debug)]
pub struct Classifier {
    head: Projector,
    targets: Vec<f32>,
    dimension: usize,
    /// Mean directions of the classes' exemplars, `[classes, inputs]`, if they count.
    means: Option<Vec<f32>>,
    weight: f32,
}

impl Classifier {
    /// Collects what classifying needs, with the bundle's settings.
    pub fn new(foundation: &Foundation, state: &State) -> Self {
        Self::with(foundation, state, &foundation.config)
    }

    /// The same with other settings, of which [`Config::class_means`] and [`Config::base_exemplars`] matter.
    pub fn with(foundation: &Foundation, state: &State, config: &Config) -> Self {
        let weight = config.class_means;
        let means = if weight > 0.0 { mean_exemplars(foundation, state, config) } else { None };
        let targets = state.assigned_targets(foundation);
        Self { head: Projector::new(state.head(foundation)), targets, dimension: foundation.dimension, means, weight }
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
        if let Some(means) = &mut self.means {
            means.extend(mean_direction(&clean, inputs));
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

    /// Scores of every class: `features` `[n, inputs]`, result `[n, classes]`.
    pub fn scores(&self, features: &[f32]) -> Vec<f32> {
        let mut scores = cosines(&self.head.project(features), &self.targets, self.dimension);
        if let Some(means) = &self.means {
            let inputs = self.head.inputs();
            let mut directions = features.to_vec();
            normalise_rows(&mut directions, inputs);
            for (score, near) in scores.iter_mut().zip(cosines(&directions, means, inputs)) {
                *score = (*score + self.weight * near) / (1.0 + self.weight);
            }
        }
        scores
    }
}

/// Mean directions of the clean views of each known class's exemplars, the bundle's and the device's,
/// `[classes, inputs]`; none if a class has no exemplar.
fn mean_exemplars(foundation: &Foundation, state: &State, config: &Config) -> Option<Vec<f32>> {
    let (inputs, classes) = (foundation.head.inputs, state.known(foundation).count());
    let (mut means, mut shown) = (vec![0.0; classes * inputs], vec![false; classes]);
    let mut features = vec![0.0; inputs];
    let lesson = lesson(foundation, state);
    for exemplar in lesson.exemplars(config) {
        let (bank, exemplar) = lesson.find(exemplar);
        bank.read(exemplar, 0, &mut features);
        let class = bank.classes[exemplar] as usize;
        add_scaled(&mut means[class * inputs..][..inputs], 1.0, &features);
        shown[class] = true;
    }
    normalise_rows(&mut means, inputs);
    shown.iter().all(|shown| *shown).then_some(means)
}

/// Normalised mean of rows.
pub(crate) fn mean_direction(rows: &[f32], dimension: usize) -> Vec<f32> {
    let mut mean = vec![0.0; dimension];
    rows.chunks_exact(dimension).for_each(|row| add_scaled(&mut mean, 1.0, row));
    normalise(&mut mean);
    mean
}
