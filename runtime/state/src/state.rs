//! What a device knows: the unchanging base model from the bundle, and the state learned on top of it.

mod first_recognitions;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::bank::Bank;
use crate::codec::{self, DecodeError};
use crate::head::Head;
use crate::label;
use crate::statistics::Statistics;
use orco_core::border::{Border, BorderWeights};
use orco_core::config::{AnswerWeights, MethodConfig};
use orco_core::exemplar::ExemplarPrecision;
use orco_core::math;
use orco_core::projection::HeadShape;

pub use first_recognitions::{FirstRecognition, FirstRecognitions};

/// Most shots of a class that a device keeps and learns from, whether they come from pictures or from packs. Few-shot
/// learning needs few, and each costs a session time and memory.
pub const MAX_SHOTS: usize = 1000;

/// Most pseudo-targets of a bundle, and so most classes that a device can know.
pub(crate) const MAX_TARGETS: usize = 4096;

/// A class with its pseudo-target. Bundles (`learner.postcard`), states and their histories store its fields in this
/// order, without names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// Name for people; unique.
    pub label: String,
    /// Row of its pseudo-target.
    pub target: u32,
    /// Session in which it was learned; 0 for base classes.
    pub session: u32,
}

/// What the bundle brings and the device never changes. `learner.postcard` stores its fields in this order, without
/// names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BaseModel {
    /// Dimension d of the sphere.
    pub dimension: usize,
    /// Pseudo-targets, unit rows `[targets, dimension]`.
    pub targets: Vec<f32>,
    /// The projection head after phase 2.
    pub head: Head,
    /// The base classes.
    #[serde(deserialize_with = "codec::bounded::<_, _, MAX_TARGETS>")]
    pub classes: Vec<Class>,
    /// Exemplars of the base classes, by index into `classes`.
    pub exemplars: Bank,
    /// How the method runs: alignment (phase 3), what is kept of a shot, and answers. From the bundle's manifest.
    #[serde(skip)]
    pub config: MethodConfig,
    /// Statistics of the base classes, where the bundle brings them.
    #[serde(skip)]
    pub statistics: Option<Statistics>,
}

/// Weights and statistics of the default answers ([`crate::answer`]).
#[derive(Clone, Copy, Debug)]
pub struct Scoring<'a> {
    /// Weights of the scores by targets under each of the two heads, by means and by discriminant.
    pub weights: AnswerWeights,
    /// Statistics of the base classes.
    pub statistics: &'a Statistics,
}

/// How much base classes count against learned ones, where the border between them is chosen: by a mixture of the
/// harmonic mean of both accuracies and the accuracy over all classes.
///
/// A state stores it by its position (`slots/STATE.md`), JSON by its name: a new one goes to the end here, and between
/// the others in [`Balance::ALL`] alone. It needs a new version of a slot's body, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// One part harmonic mean, in which base classes count three times as much, and four parts accuracy over all
    /// classes: old answers stay as they were, wherever possible.
    KeepBase,
    /// Equal parts, or down to one part harmonic mean and four parts accuracy over all classes as far as answers would
    /// otherwise be right less often, over all classes, than those of the nearest class mean.
    #[default]
    Balanced,
    /// The harmonic mean alone, in which both count alike.
    FavourNew,
}

impl Balance {
    /// All of them, in the order in which people choose.
    pub const ALL: [Self; 3] = [Self::KeepBase, Self::Balanced, Self::FavourNew];

    /// What the border is chosen by. Of several weights of the harmonic mean, a lower one than the first counts only
    /// where answers would otherwise be right less often than those of the nearest class mean.
    pub fn weights(self) -> BorderWeights<'static> {
        match self {
            Self::KeepBase => BorderWeights { base: 0.75, harmonic: &[0.2] },
            Self::Balanced => BorderWeights { base: 0.5, harmonic: &[0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2] },
            Self::FavourNew => BorderWeights { base: 0.5, harmonic: &[1.0] },
        }
    }

    /// Whether the border is chosen so that the accuracy over all classes does not fall below that of the nearest class
    /// mean.
    pub fn has_accuracy_floor(self) -> bool {
        match self {
            Self::Balanced => true,
            Self::KeepBase | Self::FavourNew => false,
        }
    }

    /// Its name, as people give it.
    pub fn name(self) -> &'static str {
        match self {
            Self::KeepBase => "keep-base",
            Self::Balanced => "balanced",
            Self::FavourNew => "favour-new",
        }
    }

    /// The balance of that [name](Self::name): `keep-base`, `balanced` or `favour-new`. `None` for any other text.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|balance| balance.name() == name)
    }
}

/// The border and the temperature that a session chose, for answers that use the bundle's statistics.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The border between base classes and learned ones, and the accuracies to be expected.
    pub border: Border,
    /// What scores are divided by before they become probabilities.
    pub temperature: f32,
}

impl Calibration {
    /// The temperature where there are no samples to choose it from.
    pub const TEMPERATURE: f32 = 0.1;

    fn is_sound(&self) -> bool {
        let Border { shift, base, learned } = self.border;
        let shares = [base, learned].iter().all(|share| (0.0..=1.0).contains(share));
        shift.is_finite() && shares && self.temperature.is_finite() && self.temperature > 0.0
    }
}

/// What the device has learned since.
///
/// Its fields in this order are the first part of a slot's body (`slots/STATE.md`). They are stored without names and
/// cannot have defaults, so a further one needs a new version of the body: "Versions" there says how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// SHA-256 of the bundle's learner file that this state belongs to.
    pub bundle_digest: [u8; 32],
    /// Learned classes, in the order of learning.
    #[serde(deserialize_with = "codec::bounded::<_, _, MAX_TARGETS>")]
    pub classes: Vec<Class>,
    /// Their shots, and later ones of base classes; the index of a class counts on from the base classes.
    pub exemplars: Bank,
    /// The projection head as phase 3 aligned it; `None` before the first session and until it is aligned, when the
    /// base model's holds.
    pub head: Option<Head>,
    /// Number of sessions learned.
    pub sessions: u32,
    /// How much base classes count against learned ones.
    pub balance: Balance,
    /// Border and temperature that the last session chose; `None` where answers do not use the bundle's statistics.
    pub calibration: Option<Calibration>,
    /// How the learned classes were recognised at first. The history's entries keep it.
    #[serde(skip)]
    pub first_recognitions: FirstRecognitions,
}

impl BaseModel {
    /// Weights and statistics of answers; `None` where these follow the paper, or the bundle has no statistics.
    pub fn scoring<'a>(&'a self, config: &MethodConfig) -> Option<Scoring<'a>> {
        let (weights, statistics) = config.answer.zip(self.statistics.as_ref())?;
        Some(Scoring { weights, statistics })
    }

    /// A base model for examples: "cat" at (1, 0), "dog" at (0, 1), a head that hands these two features on, and a free
    /// pseudo-target at (-1, 0). It has no statistics, so answers follow the paper.
    pub fn example() -> Self {
        let identity = vec![1.0, 0.0, 0.0, 1.0];
        let shape = HeadShape { inputs: 2, hidden: 2, outputs: 2 };
        let class = |label: &str, target| Class { label: label.into(), target, session: 0 };
        let mut exemplars = Bank::new(2, 1, ExemplarPrecision::F16);
        exemplars.push(0, &[1.0, 0.0]);
        exemplars.push(1, &[0.0, 1.0]);
        Self {
            dimension: 2,
            targets: vec![1.0, 0.0, 0.0, 1.0, -1.0, 0.0],
            head: Head { w1: identity.clone(), w2: identity, ..Head::zeros(shape) },
            classes: vec![class("cat", 0), class("dog", 1)],
            exemplars,
            config: MethodConfig { views: 1, precision: ExemplarPrecision::F16, ..MethodConfig::edge() },
            statistics: None,
        }
    }

    /// Decodes the file in which a bundle brings the statistics of its base classes ([`Statistics::encode`]).
    ///
    /// # Errors
    /// [`DecodeError`] if it is none, or does not fit this base model.
    pub fn decode_statistics(&self, bytes: &[u8]) -> Result<Statistics, DecodeError> {
        let statistics = Statistics::decode(bytes)?;
        let fits = statistics.is_sound(self.head.inputs, self.classes.len());
        if fits { Ok(statistics) } else { Err(DecodeError::Body) }
    }

    /// Gives memory back that decoding took in advance: long vectors grow while they are read.
    pub fn shrink_to_fit(&mut self) {
        self.targets.shrink_to_fit();
        let Head { w1, b1, w2, b2, .. } = &mut self.head;
        [w1, b1, w2, b2].into_iter().for_each(Vec::shrink_to_fit);
    }

    /// Index among the learned classes of the class with index `class` in a state; `None` for a base class.
    pub(crate) fn learned_index(&self, class: usize) -> Option<usize> {
        class.checked_sub(self.classes.len())
    }

    /// Number of pseudo-targets, which is the most classes that can be known.
    pub fn target_count(&self) -> usize {
        self.targets.len() / self.dimension
    }

    /// Pseudo-target number `target`.
    ///
    /// # Panics
    /// If there is no such target.
    pub fn target(&self, target: u32) -> &[f32] {
        &self.targets[target as usize * self.dimension..][..self.dimension]
    }

    /// Whether all parts fit together; to be asked after decoding.
    pub fn is_sound(&self) -> bool {
        /// Largest dimension: the largest that a recipe may give a head, far above that of any known backbone.
        const MAX_DIMENSION: usize = 65_536;
        let is_unit = |target: &[f32]| (math::dot(target, target) - 1.0).abs() < 1e-3;
        let shapes =
            [self.dimension, self.head.inputs, self.head.hidden].iter().all(|size| (1..=MAX_DIMENSION).contains(size))
                && self.targets.len().is_multiple_of(self.dimension)
                && self.target_count() <= MAX_TARGETS
                && self.targets.chunks_exact(self.dimension).all(is_unit)
                && self.head.is_sound()
                && self.head.outputs == self.dimension
                && self.exemplars.is_sound()
                && self.exemplars.inputs() == self.head.inputs;
        let members = self.exemplars.classes().iter().all(|class| (*class as usize) < self.classes.len());
        shapes
            && members
            && are_distinct(&self.classes, core::iter::empty(), self.target_count())
            && self.config.is_sound()
    }
}

impl State {
    /// The state of a device that has learned nothing yet; `bundle_digest` is that of the bundle's learner file.
    pub fn fresh(base_model: &BaseModel, bundle_digest: [u8; 32]) -> Self {
        let MethodConfig { views, precision, .. } = base_model.config;
        let exemplars = Bank::new(base_model.head.inputs, views, precision);
        Self {
            bundle_digest,
            classes: Vec::new(),
            exemplars,
            head: None,
            sessions: 0,
            balance: Balance::default(),
            calibration: None,
            first_recognitions: FirstRecognitions::default(),
        }
    }

    /// All known classes, base classes first; its index here is a class's index everywhere.
    pub fn known_classes<'a>(&'a self, base_model: &'a BaseModel) -> impl Iterator<Item = &'a Class> + Clone {
        base_model.classes.iter().chain(&self.classes)
    }

    /// The known class of an index.
    pub fn class<'a>(&'a self, base_model: &'a BaseModel, index: usize) -> Option<&'a Class> {
        self.known_classes(base_model).nth(index)
    }

    /// Index of the known class that has a label: the learned one where it replaces a base class.
    pub fn find_class(&self, base_model: &BaseModel, label: &str) -> Option<usize> {
        let find = |classes: &[Class]| classes.iter().position(|class| label::same(&class.label, label));
        let learned = find(&self.classes).map(|index| base_model.classes.len() + index);
        learned.or_else(|| find(&base_model.classes))
    }

    /// Index in this state of the class that has index `class` in `other`. It is the class with the same target and
    /// session, since renaming keeps both. If there is none, it is the class with the same label, unless that one is
    /// another class of `other`.
    pub(crate) fn index_of(&self, base_model: &BaseModel, other: &Self, class: usize) -> Option<usize> {
        let base = base_model.classes.len();
        let Some(learned) = base_model.learned_index(class) else { return Some(class) };
        let is_same = |known: usize, learned: usize| {
            let (one, another) = (&self.classes[known], &other.classes[learned]);
            // After an undo, a new class may get the target and session of one that was undone, but not its shots.
            (one.target, one.session) == (another.target, another.session)
                && (one.label == another.label || self.shares_shot(base + known, other, base + learned))
        };
        let is_namesake = |known: usize| {
            self.classes[known].label == other.classes[learned].label
                && !(0..other.classes.len()).any(|another| is_same(known, another))
        };
        let mut known = 0..self.classes.len();
        let same = known.clone().find(|&known| is_same(known, learned));
        same.or_else(|| known.find(|&known| is_namesake(known))).map(|index| base + index)
    }

    /// Whether a class of this state has a shot that a class of another one has.
    fn shares_shot(&self, class: usize, other: &Self, class_of_other: usize) -> bool {
        let of_other: Vec<usize> = other.exemplars.members(class_of_other as u32).collect();
        let is_in_other = |own: usize| of_other.iter().any(|&shot| self.exemplars.is_same(own, &other.exemplars, shot));
        self.exemplars.members(class as u32).any(is_in_other)
    }

    /// For every base class, whether a learned class of the same label replaces it: it is not answered then.
    pub fn replaced(&self, base_model: &BaseModel) -> Vec<bool> {
        let learned: BTreeSet<&str> = self.classes.iter().map(|class| class.label.as_str()).collect();
        // Learned labels are in normal form; a bundle's need not be.
        base_model.classes.iter().map(|class| learned.contains(label::normal(&class.label).as_str())).collect()
    }

    /// The head in use.
    pub fn head<'a>(&'a self, base_model: &'a BaseModel) -> &'a Head {
        self.head.as_ref().unwrap_or(&base_model.head)
    }

    /// Whether these settings align a head, and it has not been aligned to what was learned yet.
    pub fn awaits_alignment(&self, config: &MethodConfig) -> bool {
        config.epochs > 0 && self.head.is_none() && !(self.classes.is_empty() && self.exemplars.is_empty())
    }

    /// Whether a head aligned to another state would be the same as one aligned to this: labels and the border do not
    /// matter.
    pub fn aligns_alike(&self, other: &Self) -> bool {
        let targets = |state: &Self| state.classes.iter().map(|class| class.target).collect::<Vec<_>>();
        targets(self) == targets(other) && self.exemplars == other.exemplars
    }

    /// Pseudo-targets of all known classes, `[classes, dimension]`.
    pub fn assigned_targets(&self, base_model: &BaseModel) -> Vec<f32> {
        self.known_classes(base_model).flat_map(|class| base_model.target(class.target)).copied().collect()
    }

    /// Rows of the pseudo-targets that no class has.
    pub fn free_targets(&self, base_model: &BaseModel) -> Vec<u32> {
        let mut taken = vec![false; base_model.target_count()];
        self.known_classes(base_model).for_each(|class| taken[class.target as usize] = true);
        (0..base_model.target_count() as u32).filter(|&target| !taken[target as usize]).collect()
    }

    /// Whether all parts fit together and onto the base model; to be asked after decoding.
    pub fn is_sound(&self, base_model: &BaseModel) -> bool {
        let base = base_model.classes.len();
        let head = self.head.as_ref().is_none_or(|head| head.is_sound() && head.shape() == base_model.head.shape());
        let members = self.exemplars.classes().iter().all(|class| (*class as usize) < base + self.classes.len());
        let sessions = self.classes.iter().all(|class| (1..=self.sessions).contains(&class.session));
        head && members
            && self.calibration.is_none_or(|calibration| calibration.is_sound())
            && sessions
            && self.first_recognitions.is_sound(self.classes.len())
            && within_shot_limit(self.exemplars.classes())
            && self.exemplars.is_sound()
            && self.exemplars.views() == base_model.config.views
            && self.exemplars.precision() == base_model.config.precision
            && self.exemplars.inputs() == base_model.head.inputs
            && are_distinct(&base_model.classes, self.classes.iter(), base_model.target_count())
    }
}

/// Whether no class has more than [`MAX_SHOTS`] of the exemplars, whose classes these are.
pub(crate) fn within_shot_limit(classes: &[u32]) -> bool {
    if classes.len() <= MAX_SHOTS {
        return true;
    }
    let mut sorted = classes.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|one, next| one == next).all(|own| own.len() <= MAX_SHOTS)
}

/// Whether the classes have different targets, all of which exist, and different labels. A learned class may have the
/// label of a base class, which it replaces.
pub(crate) fn are_distinct<'a>(
    base: &'a [Class],
    learned: impl Iterator<Item = &'a Class> + Clone,
    targets: usize,
) -> bool {
    let mut taken = vec![false; targets];
    let targets_differ = base.iter().chain(learned.clone()).all(|class| match taken.get_mut(class.target as usize) {
        Some(taken) => !core::mem::replace(taken, true),
        None => false,
    });
    let labels_differ = |classes: Vec<&Class>| {
        let mut labels: Vec<&str> = classes.iter().map(|class| class.label.as_str()).collect();
        labels.sort_unstable();
        labels.windows(2).all(|pair| pair[0] != pair[1])
    };
    targets_differ && labels_differ(base.iter().collect()) && labels_differ(learned.collect())
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::codec::FileKind;

    #[test]
    fn more_base_classes_than_a_bundle_can_have_are_not_even_decoded() {
        let mut base_model = BaseModel::example();
        let class = |target: usize| Class { label: target.to_string(), target: target as u32, session: 0 };
        for (classes, fits) in [(MAX_TARGETS, true), (MAX_TARGETS + 1, false)] {
            base_model.classes = (0..classes).map(class).collect();
            let file = codec::encode(FileKind::Learner, &base_model);
            let decoded = codec::decode::<BaseModel>(FileKind::Learner, &file).map(|decoded| decoded.classes.len());
            assert_eq!(decoded, if fits { Ok(classes) } else { Err(DecodeError::Body) });
        }
    }
}
