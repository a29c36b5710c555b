//! What the service answers about a picture or a feature vector.

use orco_runtime::learner::{Answer, Learner};
use orco_runtime::ndarray::Array2;
use serde_json::{Value, json};

/// A class with how probable it is that a picture shows it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClassProbability {
    /// Label.
    pub label: String,
    /// How probable it is, 0..1; a cosine, -1..1, where the bundle has no statistics.
    pub probability: f32,
    /// Whether the class answers by its imprinted shots while it is being learned.
    pub provisional: bool,
    /// Whether it is in the set, which aims to hold the right label for 90 % of pictures.
    pub in_set: bool,
}

impl ClassProbability {
    /// All classes of a learner's answer, most probable first.
    pub fn of_answer(learner: &Learner, answer: &Answer) -> Vec<Self> {
        let known = learner.classes().count();
        let classes = answer.matches.iter().map(|found| Self {
            label: learner.label(found.class).to_owned(),
            probability: found.score.value(),
            provisional: found.class >= known,
            in_set: answer.set.contains(&found.class),
        });
        classes.collect()
    }

    /// Labels of the set.
    pub(crate) fn set(classes: &[Self]) -> impl Iterator<Item = &str> {
        classes.iter().filter(|class| class.in_set).map(|class| &*class.label)
    }

    /// Labels of the set, as JSON.
    pub(crate) fn set_json(classes: &[Self]) -> Value {
        Self::set(classes).collect()
    }

    /// The first `top` of several, at least one, as JSON.
    pub(crate) fn list_json(classes: &[Self], top: usize) -> Value {
        classes.iter().take(top.max(1)).map(Self::json).collect()
    }

    fn json(&self) -> Value {
        json!({ "label": self.label, "probability": self.probability, "provisional": self.provisional })
    }
}

/// Best class of a picture, and whether the picture is like anything known.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Recognition {
    /// The most probable class.
    pub best: Option<ClassProbability>,
    /// Whether the picture is like anything known at all.
    pub known: bool,
}

/// Probabilities of all classes for a picture or a feature vector, by class index.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prediction {
    /// The label of the most probable class.
    pub label: String,
    /// One for each class in order, a class that is being learned last. Not finite if the features were too large.
    pub probabilities: Vec<f32>,
    /// Whether it is like anything known at all.
    pub known: bool,
}

/// Classes of a picture by probability, its features, and similar exemplars.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PictureAnswer {
    /// The classes, most probable first.
    pub classes: Vec<ClassProbability>,
    /// Whether it is like anything known at all.
    pub known: bool,
    /// Its features.
    pub features: Vec<f32>,
    /// Version of the knowledge that it was answered by ([`crate::knowledge::Knowledge::version`]).
    pub knowledge_version: u64,
    /// The most similar stored exemplars, as many as were asked for.
    pub similar: Vec<SimilarExemplar>,
}

/// A stored exemplar that is similar to a picture.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SimilarExemplar {
    /// Label of its class.
    pub label: String,
    /// Cosine of the features, -1..1.
    pub similarity: f32,
    /// The stored shot; `None` for an exemplar of the bundle.
    pub shot: Option<StoredShot>,
}

/// A stored shot of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredShot {
    /// SHA-256 of its exemplar, which identifies it.
    pub digest: [u8; 32],
    /// Its place among the stored shots of the class, from 1. The next change may give the place to another shot.
    pub number: usize,
}

/// Features of a shot, and the classes that it looks like.
#[derive(Clone, Debug)]
pub struct ShotFeatures {
    /// `[views, features]`.
    pub features: Array2<f32>,
    /// The classes, most probable first; empty if the shot is like nothing known.
    pub classes: Vec<ClassProbability>,
}
