//! Answers: from a classifier's scores to a label with its probability, whether the picture is unknown, and the set of
//! likely labels.
//!
//! Scores and probabilities come from [`orco_state::classify`], thresholds from [`orco_state::unknown`] and
//! [`orco_state::prediction_set`].

use ::image::RgbImage;
use ndarray::{ArrayView1, ArrayView2};
use orco_state::answer::AnsweredClasses;
use orco_state::classify::{Classifier, Match, Score, prediction_set};
use orco_state::nearest::{self, Neighbour};
use orco_state::prediction_set::{COVERAGE, SetThresholds};
use orco_state::session::SessionMemory;
use orco_state::unknown::{KnownScores, LearnedThresholds};
use orco_state::{BaseModel, State};

use super::Learner;
use crate::encoder::EncodeError;
use crate::threads::Threads;

/// What a picture shows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// Label of the class with the highest score; empty if no class may be answered.
    pub label: String,
    /// Its score.
    pub score: Score,
    /// Whether the picture is like anything known: whether its scores reach the threshold that all but
    /// [`false_alarms`](field@super::LearnerSettings::false_alarms) of known pictures pass ([`orco_state::unknown`]).
    /// `None` where answers do not use the bundle's statistics: nothing can be told to be unknown then.
    pub known: Option<bool>,
    /// All classes that may be answered ([`scope`](field@super::LearnerSettings::scope)) with their scores, highest
    /// first; [`Learner::label`] names them. The first one's score is [`Answer::score`].
    pub matches: Vec<Match>,
    /// The fewest classes that hold the right one with a probability of [`COVERAGE`], the most probable first: two or
    /// more where the picture may show either ([`orco_state::prediction_set`]). Empty if the picture shows nothing
    /// known, if answers do not use the bundle's statistics, or if they name learned classes alone and fewer than nine
    /// shots could be left out.
    pub set: Vec<usize>,
}

impl Answer {
    /// Whether the picture is like nothing that is known, as far as that can be told.
    pub fn is_unknown(&self) -> bool {
        self.known == Some(false)
    }
}

/// What the classifier says of one picture.
struct Ranking {
    is_known: Option<bool>,
    matches: Vec<Match>,
    set: Vec<usize>,
}

/// The classifier made from a state, and what goes with it.
pub(super) struct StateClassifier {
    pub(super) classifier: Classifier,
    /// What known pictures score, by which unknown ones are told, where the bundle has statistics.
    known_scores: Option<KnownScores>,
    /// For every base class, whether a learned class replaces it.
    replaced: Vec<bool>,
}

impl StateClassifier {
    fn of(base_model: &BaseModel, state: &State, memory: &mut SessionMemory, threads: &Threads) -> Self {
        let (config, cache) = (&base_model.config, memory.cache());
        let (classifier, known_scores) = Classifier::with_known_scores(base_model, state, config, cache, threads);
        Self { classifier, known_scores, replaced: state.replaced(base_model) }
    }
}

/// How scores become answers.
struct AnswerRule<'a> {
    classifier: &'a StateClassifier,
    /// Number of base classes.
    base: usize,
    answered: AnsweredClasses,
    thresholds: Option<AnswerThresholds>,
}

/// Thresholds that come from the scores of known pictures.
struct AnswerThresholds {
    /// Least familiarity of a picture that is like anything known.
    familiarity: f32,
    /// Those where answers name learned classes alone; none where no shot tells.
    learned: Option<LearnedThresholds>,
    /// Those of sets of labels.
    sets: SetThresholds,
}

impl AnswerRule<'_> {
    /// Whether a picture of these scores is like anything that may be answered.
    fn is_known(&self, scores: &[f32]) -> Option<bool> {
        let AnswerThresholds { familiarity: least, learned, .. } = self.thresholds.as_ref()?;
        let is_familiar = self.classifier.classifier.familiarity(scores)? >= *least;
        if self.answered == AnsweredClasses::All {
            return Some(is_familiar);
        }
        // Without thresholds of learned classes, the best of them must score at least as high as the best base class.
        let least = LearnedThresholds { familiarity: *least, margin: 0.0 };
        Some(learned.unwrap_or(least).are_reached(scores, self.base))
    }

    /// Orders the classes that may be answered by how well they fit a picture's features.
    fn rank(&self, features: ArrayView1<'_, f32>) -> Ranking {
        let StateClassifier { classifier, replaced, .. } = self.classifier;
        let mut scores = classifier.scores(features.to_slice().expect("rows of the standard layout"));
        let is_known = self.is_known(&scores);
        let mut matches = classifier.ranked_from(&mut scores, self.answered.first(self.base));
        matches.retain(|found| replaced.get(found.class) != Some(&true));
        let sets = self.thresholds.as_ref().filter(|_| is_known == Some(true)).map(|thresholds| &thresholds.sets);
        let set = sets.map(|sets| prediction_set(&matches, sets, self.base, self.answered));
        Ranking { is_known, matches, set: set.unwrap_or_default() }
    }
}

impl Learner {
    /// Says what a picture shows.
    ///
    /// # Errors
    /// [`EncodeError`] if the picture has no pixels, or the backbone cannot be started or fails.
    pub fn classify(&mut self, picture: &RgbImage) -> Result<Answer, EncodeError> {
        let features = self.features(picture)?;
        Ok(self.classify_features(features.view()).swap_remove(0))
    }

    /// Says what pictures show whose features are known already.
    ///
    /// # Shapes
    /// `features` `[pictures, features]`, finite, of the clean view of each.
    /// # Panics
    /// If rows have another length than the bundle's features.
    pub fn classify_features(&mut self, features: ArrayView2<'_, f32>) -> Vec<Answer> {
        let inputs = self.base_model().head.inputs;
        assert_eq!(features.ncols(), inputs, "rows have another length than the bundle's features");
        let false_alarms = self.settings.false_alarms;
        let (base, answered) = (self.base_model().classes.len(), self.answered_classes());
        let classifier = &*self.classifier();
        let thresholds = classifier.known_scores.as_ref().map(|scores| AnswerThresholds {
            familiarity: scores.threshold(false_alarms),
            learned: scores.learned_thresholds(false_alarms),
            sets: scores.set_thresholds(COVERAGE),
        });
        let rule = AnswerRule { classifier, base, answered, thresholds };
        let rows = features.as_standard_layout();
        let rankings: Vec<Ranking> = rows.rows().into_iter().map(|row| rule.rank(row)).collect();
        rankings.into_iter().map(|ranking| self.answer(ranking)).collect()
    }

    fn answer(&self, Ranking { is_known, matches, set }: Ranking) -> Answer {
        let base_model = &self.bundle.base_model;
        let is_probable = base_model.scoring(&base_model.config).is_some();
        let none = if is_probable { Score::Probability(0.0) } else { Score::Cosine(0.0) };
        let (label, score) = match matches.first() {
            Some(best) => (self.label(best.class).to_owned(), best.score),
            None => (String::new(), none),
        };
        Answer { label, score, known: is_known, matches, set }
    }

    /// The classifier made from the state as it is; made now if there is none.
    pub(super) fn classifier(&mut self) -> &mut StateClassifier {
        let (base_model, state, memory) = (&self.bundle.base_model, &self.saved.state, &mut self.memory);
        let threads = self.threads.get_or_insert_with(Threads::usable);
        self.classifier.get_or_insert_with(|| StateClassifier::of(base_model, state, memory, threads))
    }

    /// The `count` stored exemplars that a picture is most like, by its features: why an answer was given.
    ///
    /// # Panics
    /// If `features` have another length than the bundle's.
    pub fn nearest(&self, features: ArrayView1<'_, f32>, count: usize) -> Vec<Neighbour> {
        let features = features.to_vec();
        nearest::nearest(&self.bundle.base_model, &self.saved.state, &features, count)
    }
}
