//! Scores of all classes for a picture's features, and their ranking.
//!
//! Where the bundle has statistics, four scores are combined into a probability ([`crate::answer`]). Otherwise a score
//! is the cosine to the class's pseudo-target, as in the paper. Whether a picture is unknown is [`crate::unknown`]'s.
//!
//! ```
//! use orco_state::classify::Classifier;
//! use orco_state::state::{BaseModel, State};
//!
//! // A bundle that knows "cat" at (1, 0) and "dog" at (0, 1), and a device that has learned nothing.
//! let base_model = BaseModel::example();
//! let state = State::fresh(&base_model, [0; 32]);
//! let classifier = Classifier::new(&base_model, &state);
//! let best = classifier.matches(&[0.3, 0.9], 1)[0];
//! assert_eq!(state.class(&base_model, best.class).unwrap().label, "dog");
//! assert!(best.score.value() > 0.9);
//! assert_eq!(classifier.nearest(&[0.3, 0.9, 2.0, 0.1]), [1, 0]);
//! ```

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::answer::{AnsweredClasses, Predictor, ScoringCache, ScoringWork, familiarity};
use crate::head::Projector;
use crate::prediction_set::{ProbabilityScale, SetThresholds};
use crate::state::{BaseModel, State};
use crate::target::{argmax, cosines};
use crate::unknown::KnownScores;
use orco_core::config::MethodConfig;
use orco_core::math::{add_scaled, normalise, normalise_rows};
use orco_core::workers::Workers;

/// How well a class fits a picture. A bundle's answers are all of one kind, and there are no other kinds than these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// The probability of the class, 0..1; those of all classes add up to 1. All shipped bundles answer so.
    Probability(f32),
    /// The cosine between the picture and the class, -1..1, where answers do not use the bundle's statistics. Cosines
    /// order the classes of one picture; they say little about how sure the answer is.
    Cosine(f32),
}

impl Score {
    /// The number alone.
    pub fn value(self) -> f32 {
        match self {
            Self::Probability(value) | Self::Cosine(value) => value,
        }
    }

    /// The probability, 0..1; `None` if the score is a cosine.
    pub fn probability(self) -> Option<f32> {
        match self {
            Self::Probability(value) => Some(value),
            Self::Cosine(_) => None,
        }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

/// A class with how well a picture fits it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Index among the known classes, base classes first.
    pub class: usize,
    /// How well the picture fits.
    pub score: Score,
}

/// A state made ready for classifying.
///
/// The score of class c is z . t_c, the cosine between the projected picture and the class's pseudo-target (OrCo,
/// section 3.2). With [`MethodConfig::class_means`] as a weight w it is (z . t_c + w cos(f, m_c)) / (1 + w), f the
/// picture's features and m_c the mean feature vector of the class's exemplars: the first term follows the alignment,
/// the second cannot forget, and they err on different pictures. Means count only where every class has an exemplar.
///
/// Where [`MethodConfig::answer`] has weights and the bundle has statistics, the score is a class's probability by all
/// that is known ([`crate::answer`]).
#[derive(Clone, Debug)]
pub struct Classifier(ClassifierKind);

#[derive(Clone, Debug)]
enum ClassifierKind {
    NearestTarget(NearestTarget),
    Predictor(Box<Predictor>),
}

/// Answers by targets, and by class means where these have a weight.
#[derive(Clone, Debug)]
struct NearestTarget {
    head: Projector,
    targets: Vec<f32>,
    dimension: usize,
    /// Mean directions of the classes' exemplars, `[classes, inputs]`, if they count.
    means: Option<Vec<f32>>,
    weight: f32,
    /// For every base class, whether a learned class replaces it.
    replaced: Vec<bool>,
}

impl Classifier {
    /// Collects what classifying needs, with the bundle's settings.
    pub fn new(base_model: &BaseModel, state: &State) -> Self {
        Self::with_config(base_model, state, &base_model.config)
    }

    /// Collects what classifying needs, with settings of which [`MethodConfig::answer`], [`MethodConfig::class_means`]
    /// and [`MethodConfig::base_exemplars`] matter.
    pub fn with_config(base_model: &BaseModel, state: &State, config: &MethodConfig) -> Self {
        Self(match base_model.scoring(config) {
            Some(scoring) => {
                let predictor = Predictor::new(base_model, state, scoring, &mut ScoringWork::alone());
                ClassifierKind::Predictor(Box::new(predictor))
            }
            None => ClassifierKind::NearestTarget(NearestTarget::new(base_model, state, config)),
        })
    }

    /// A classifier, and the scores of known pictures, by which thresholds of unknown ones are chosen; these are `None`
    /// where answers do not use the bundle's statistics. `cache` saves time and changes no result.
    pub fn with_known_scores(
        base_model: &BaseModel,
        state: &State,
        config: &MethodConfig,
        cache: Option<&mut ScoringCache>,
        workers: &dyn Workers,
    ) -> (Self, Option<KnownScores>) {
        let Some(scoring) = base_model.scoring(config) else {
            return (Self::with_config(base_model, state, config), None);
        };
        let work = &mut ScoringWork { cache, workers };
        let (predictor, samples) = Predictor::with_samples(base_model, state, scoring, work);
        let scale = ProbabilityScale {
            base: base_model.classes.len(),
            temperature: predictor.temperature(),
            ratio: scoring.statistics.accuracy_ratio(),
        };
        let scores = KnownScores::of(&samples, scale);
        (Self(ClassifierKind::Predictor(Box::new(predictor))), scores)
    }

    /// Adds a class at once, without training: by the mean direction of its shots' clean views under the head
    /// in use, in place of a target (imprinting, Qi et al. 2018), and by their mean features where means count.
    /// Use it until [`crate::session::Session::learn`] is done: only a stored class adds the scatter of its shots.
    ///
    /// # Shapes
    /// For each shot the features of its views, `[1.., inputs]`, the clean view first.
    /// # Panics
    /// If a shot has no whole feature vector.
    pub fn imprint(&mut self, shots: &[Vec<f32>]) {
        match &mut self.0 {
            ClassifierKind::NearestTarget(nearest) => nearest.imprint(shots.iter().map(Vec::as_slice)),
            ClassifierKind::Predictor(predictor) => predictor.imprint(shots.iter().map(Vec::as_slice)),
        }
    }

    /// Index of the class with the highest score for each row of features, the first of equal ones.
    ///
    /// # Shapes
    /// `features` `[n, inputs]`; returns `[n]`.
    pub fn nearest(&self, features: &[f32]) -> Vec<usize> {
        self.scores(features).chunks_exact(self.classes().max(1)).map(argmax).collect()
    }

    /// The `count` classes with the highest scores for one feature vector, highest first.
    pub fn matches(&self, features: &[f32], count: usize) -> Vec<Match> {
        let mut matches = self.ranked(&mut self.scores(features));
        matches.truncate(count);
        matches
    }

    /// All classes, ordered by one picture's [scores](Self::scores), highest first.
    ///
    /// # Shapes
    /// `scores` `[classes]`; turned into probabilities in place where answers use the bundle's statistics.
    pub fn ranked(&self, scores: &mut [f32]) -> Vec<Match> {
        self.ranked_from(scores, 0)
    }

    /// As [`Self::ranked`], for the classes from number `first` on, as if there were no others.
    ///
    /// # Panics
    /// If `first` is larger than the number of classes.
    pub fn ranked_from(&self, scores: &mut [f32], first: usize) -> Vec<Match> {
        let scores = &mut scores[first..];
        let kind = match &self.0 {
            ClassifierKind::NearestTarget(_) => Score::Cosine,
            ClassifierKind::Predictor(predictor) => {
                predictor.probabilities(scores);
                Score::Probability
            }
        };
        let found = |(class, &value): (usize, &f32)| Match { class: first + class, score: kind(value) };
        let mut matches: Vec<Match> = scores.iter().enumerate().map(found).collect();
        matches.sort_by(|a, b| b.score.value().total_cmp(&a.score.value()).then(a.class.cmp(&b.class)));
        matches
    }

    /// Scores of every class, by which they are ordered.
    ///
    /// # Shapes
    /// `features` `[n, inputs]`; returns `[n, classes]`.
    pub fn scores(&self, features: &[f32]) -> Vec<f32> {
        match &self.0 {
            ClassifierKind::NearestTarget(nearest) => nearest.scores(features),
            ClassifierKind::Predictor(predictor) => predictor.scores(features),
        }
    }

    /// Scores of one more class, which is known by a subset of these shots: those that [`Classifier::imprint`] and
    /// [`Classifier::scores`] would give, but the classifier does not change.
    ///
    /// # Shapes
    /// `shots` as for [`Classifier::imprint`], `subsets` their indices, `features` `[n, inputs]`; returns
    /// `[subsets, n]`.
    /// # Panics
    /// If a shot has no whole feature vector, or there is no such shot.
    pub fn scores_of_subsets(&self, shots: &[Vec<f32>], subsets: &[Vec<usize>], features: &[f32]) -> Vec<Vec<f32>> {
        match &self.0 {
            ClassifierKind::NearestTarget(nearest) => {
                let scores = |subset: &Vec<usize>| {
                    nearest.scores_of(subset.iter().map(|shot| shots[*shot].as_slice()), features)
                };
                subsets.iter().map(scores).collect()
            }
            ClassifierKind::Predictor(predictor) => predictor.scores_of_subsets(shots, subsets, features),
        }
    }

    /// How much a picture is like anything known, by its scores; a picture below
    /// [`crate::unknown::KnownScores::threshold`] is unknown. `None` where answers do not use the bundle's statistics.
    pub fn familiarity(&self, scores: &[f32]) -> Option<f32> {
        matches!(self.0, ClassifierKind::Predictor(_)).then(|| familiarity(scores))
    }

    /// Number of known classes, imprinted ones among them.
    pub fn classes(&self) -> usize {
        match &self.0 {
            ClassifierKind::NearestTarget(nearest) => nearest.targets.len() / nearest.dimension,
            ClassifierKind::Predictor(predictor) => predictor.classes(),
        }
    }
}

impl NearestTarget {
    fn new(base_model: &BaseModel, state: &State, config: &MethodConfig) -> Self {
        let weight = config.class_means;
        let means = if weight > 0.0 { class_means(base_model, state, config) } else { None };
        let targets = state.assigned_targets(base_model);
        let replaced = state.replaced(base_model);
        let (head, dimension) = (Projector::new(state.head(base_model)), base_model.dimension);
        Self { head, targets, dimension, means, weight, replaced }
    }

    fn imprint<'a>(&mut self, shots: impl Iterator<Item = &'a [f32]>) {
        let inputs = self.head.inputs();
        let clean: Vec<f32> = shots.flat_map(|shot| &shot[..inputs]).copied().collect();
        self.targets.extend(mean_direction(&self.head.project(&clean), self.dimension));
        if let Some(means) = &mut self.means {
            means.extend(mean_direction(&clean, inputs));
        }
    }

    /// Scores of a class with these shots alone.
    fn scores_of<'a>(&self, shots: impl Iterator<Item = &'a [f32]>, features: &[f32]) -> Vec<f32> {
        let none = Vec::new();
        let (targets, means) = (none.clone(), self.means.as_ref().map(|_| none));
        let mut alone = Self { targets, means, replaced: Vec::new(), ..self.clone() };
        alone.imprint(shots);
        alone.scores(features)
    }

    fn scores(&self, features: &[f32]) -> Vec<f32> {
        let mut scores = cosines(&self.head.project(features), &self.targets, self.dimension);
        if let Some(means) = &self.means {
            let inputs = self.head.inputs();
            let mut directions = features.to_vec();
            normalise_rows(&mut directions, inputs);
            let to_means = cosines(&directions, means, inputs);
            debug_assert_eq!(scores.len(), to_means.len());
            for (score, to_mean) in scores.iter_mut().zip(to_means) {
                *score = (*score + self.weight * to_mean) / (1.0 + self.weight);
            }
        }
        for row in scores.chunks_exact_mut((self.targets.len() / self.dimension).max(1)) {
            let replaced = row.iter_mut().zip(&self.replaced).filter(|(_, is_replaced)| **is_replaced);
            // Replaced classes are not answered. Scores stay cosines, so theirs is the least that there is.
            replaced.for_each(|(score, _)| *score = -1.0);
        }
        scores
    }
}

/// Mean directions of the clean views of each known class's exemplars, the bundle's and the device's,
/// `[classes, inputs]`; none if a class has no exemplar.
fn class_means(base_model: &BaseModel, state: &State, config: &MethodConfig) -> Option<Vec<f32>> {
    let (inputs, classes) = (base_model.head.inputs, state.known_classes(base_model).count());
    let mut used = Vec::new();
    let mut has_exemplar = vec![false; classes];
    for (bank, most) in [(&base_model.exemplars, config.base_exemplars), (&state.exemplars, usize::MAX)] {
        let mut counts = vec![0; classes];
        for (exemplar, class) in bank.classes().iter().map(|class| *class as usize).enumerate() {
            if counts[class] < most {
                counts[class] += 1;
                has_exemplar[class] = true;
                used.push((bank, exemplar, class));
            }
        }
    }
    // Checked before memory is taken for the means, so that the exemplars bound it.
    if has_exemplar.contains(&false) {
        return None;
    }
    let (mut means, mut features) = (vec![0.0; classes * inputs], vec![0.0; inputs]);
    for (bank, exemplar, class) in used {
        bank.as_exemplars().read(exemplar, 0, &mut features);
        add_scaled(&mut means[class * inputs..][..inputs], 1.0, &features);
    }
    normalise_rows(&mut means, inputs);
    Some(means)
}

/// The classes of a prediction set, the most probable first: the best match, and all others that reach the threshold of
/// their side. The set holds the right class with the probability that the thresholds were chosen for; it is empty
/// where they support no set.
///
/// `matches` are sorted by probability, the highest first; `base` is the number of base classes.
pub fn prediction_set(
    matches: &[Match],
    thresholds: &SetThresholds,
    base: usize,
    answered: AnsweredClasses,
) -> Vec<usize> {
    let is_in = |(place, found): &(usize, &Match)| {
        let threshold = thresholds.of_class(found.class, base, answered);
        threshold.is_some_and(|threshold| *place == 0 || found.score.value() >= threshold)
    };
    matches.iter().enumerate().filter(is_in).map(|(_, found)| found.class).collect()
}

/// Normalised mean of rows: `rows` `[n, dimension]`, returns `[dimension]`.
pub fn mean_direction(rows: &[f32], dimension: usize) -> Vec<f32> {
    let mut mean = vec![0.0; dimension];
    rows.chunks_exact(dimension).for_each(|row| add_scaled(&mut mean, 1.0, row));
    normalise(&mut mean);
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_the_first_label_and_all_that_reach_their_threshold() {
        let matches = [(4, 0.5), (0, 0.3), (3, 0.15), (1, 0.05)]
            .map(|(class, score)| Match { class, score: Score::Probability(score) });
        let thresholds = SetThresholds { base: 0.2, learned: 0.1, learned_only: Some(0.4) };
        assert_eq!(prediction_set(&matches, &thresholds, 3, AnsweredClasses::All), [4, 0, 3]);
        assert_eq!(prediction_set(&matches, &thresholds, 3, AnsweredClasses::Learned), [4]);
        let unsure = SetThresholds { base: 0.9, learned: 0.9, learned_only: None };
        assert_eq!(prediction_set(&matches, &unsure, 3, AnsweredClasses::All), [4], "never empty");
        let of_learned = prediction_set(&matches, &unsure, 3, AnsweredClasses::Learned);
        assert!(of_learned.is_empty(), "nothing supports a set");
    }
}
