//! How the method runs on a device: phase 3, what is kept of a shot, how scores are weighed; and presets of all that.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::exemplar::{ExemplarPrecision, MAX_VIEWS};
use crate::loss::contrast::ContrastForm;
use crate::schedule::Schedule;

/// What a step sees of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SampleViews {
    /// Two different ones of its stored views.
    #[default]
    Pair,
    /// One of them: the clean one, or one of the others (see [`MethodConfig::augmented`]).
    One,
}

impl SampleViews {
    /// How many views of a sample a step sees.
    pub const fn views(self) -> usize {
        match self {
            Self::Pair => 2,
            Self::One => 1,
        }
    }
}

/// Which classes a loss takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassScope {
    /// Base classes and incremental ones.
    All,
    /// Incremental classes alone.
    Incremental,
}

impl ClassScope {
    /// Number of the first class that it covers; classes are numbered from the base classes on.
    pub const fn first(self, base_classes: usize) -> usize {
        match self {
            Self::All => 0,
            Self::Incremental => base_classes,
        }
    }

    fn is_all(&self) -> bool {
        *self == Self::All
    }

    fn is_incremental(&self) -> bool {
        *self == Self::Incremental
    }
}

/// Which pseudo-targets enter PSCL unperturbed, in addition to their perturbed copies.
///
/// Such a row carries its target's label. Like every row it is a positive of the rows that share its label, a negative
/// of all others, and an anchor where it has a positive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UnperturbedTargets {
    /// Those of all known classes: samples are drawn to the targets of their classes.
    pub assigned: bool,
    /// Those of no class: anchors whose positives are their perturbed copies.
    pub free: bool,
}

impl UnperturbedTargets {
    /// None, as in the published program.
    pub const NONE: Self = Self { assigned: false, free: false };
    /// All, as in the paper's text.
    pub const ALL: Self = Self { assigned: true, free: true };

    /// How many there are, given the number of known classes and of all targets.
    pub const fn count(self, classes: usize, targets: usize) -> usize {
        let assigned = if self.assigned { classes } else { 0 };
        let free = if self.free { targets - classes } else { 0 };
        assigned + free
    }

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

/// The weights with which scores are combined where the bundle carries statistics of its base classes
/// (`orco_state::answer`), each score brought to unit deviation over samples of base classes first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerWeights {
    /// Weight of the cosine, under the head of phase 2, to a base class's pseudo-target or to the mean projection of a
    /// learned class's shots.
    pub targets: f32,
    /// Weight of the same cosine under the head that phase 3 aligned. Where there is none, the head of phase 2 has this
    /// weight besides its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub aligned: f32,
    /// Weight of the cosine to the class's mean direction, seen from the mean of all base features.
    pub means: f32,
    /// Weight of the linear discriminant with the covariance that the base classes share, on the roots of features.
    pub discriminant: f32,
    /// How much of its excess over others is taken off a learned class's score, 0..1: some classes of few shots lie
    /// nearer to everything (hubs, Radovanović et al. 2010). The excess is what its score leads the best base class's
    /// by, on the set-aside samples of base classes that come nearest to it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub class_offset: f32,
    /// How many observations the covariance of base classes counts as, beside the scatter of the device's shots. Things
    /// need fewer than categories: shots of one thing say more about how its pictures differ than base classes do.
    #[serde(default = "usual_scatter_prior", skip_serializing_if = "is_usual_scatter_prior")]
    pub scatter_prior: f32,
}

impl AnswerWeights {
    /// The prior of bundles that name none.
    pub const SCATTER_PRIOR: f32 = 1000.0;

    /// The simplest one: the nearest class mean alone.
    pub const NEAREST_MEAN: Self = Self {
        targets: 0.0,
        aligned: 0.0,
        means: 1.0,
        discriminant: 0.0,
        class_offset: 0.0,
        scatter_prior: Self::SCATTER_PRIOR,
    };

    /// The weights of scores, in the order of the fields.
    pub const fn values(&self) -> [f32; 4] {
        let Self { targets, aligned, means, discriminant, .. } = *self;
        [targets, aligned, means, discriminant]
    }
}

/// Says which scores answer, and how they are weighed.
impl fmt::Display for AnswerWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [targets, aligned, means, discriminant] = self.values();
        if aligned == 0.0 {
            return write!(f, "discriminant, class means and targets, weighed {discriminant} to {means} to {targets}");
        }
        write!(
            f,
            "discriminant, class means, and targets under the head of phase 2 and under the aligned head, weighed \
             {discriminant} to {means} to {targets} to {aligned}"
        )
    }
}

// A setting that is newer than the first release is omitted while it has the value by which that release behaved: the
// first release refuses settings that it does not know, and can read a file without them.

fn is_zero(value: &f32) -> bool {
    *value == 0.0
}

const fn usual_scatter_prior() -> f32 {
    AnswerWeights::SCATTER_PRIOR
}

fn is_usual_scatter_prior(value: &f32) -> bool {
    *value == AnswerWeights::SCATTER_PRIOR
}

fn is_unlimited(value: &usize) -> bool {
    *value == 0
}

/// How the method runs: every setting of phase 3 (protocol: OrCo, section 3.4, and its released program), of what is
/// kept of a shot, and of answers.
///
/// It belongs to the bundle: a recipe's `[learn]` chooses it on the workstation, and every device that has the bundle
/// learns by it. What the program on one device chooses is `orco_runtime::learner::LearnerSettings`.
///
/// Settings are stored by name. One that a file does not name has the value that [`MethodConfig::default`] gives it, so
/// a new setting's default must be what releases without it did; one that this release does not know is refused by its
/// name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MethodConfig {
    /// Passes over the exemplars and shots; 0 leaves the head as phase 2 aligned it.
    pub epochs: usize,
    /// Samples of an epoch, at most, drawn anew for each from all exemplars: what bounds a session beside many classes.
    /// 0 sets no limit.
    #[serde(skip_serializing_if = "is_unlimited")]
    pub epoch_samples: usize,
    /// Samples per step.
    pub batch: usize,
    /// Highest learning rate.
    pub learning_rate: f64,
    /// Epochs of linear warm-up; training may end within it.
    pub warmup_epochs: usize,
    /// Rate of the first epoch of the warm-up.
    pub warmup_rate: f64,
    /// SGD momentum.
    pub momentum: f32,
    /// SGD dampening: the share of a new gradient that is left out.
    pub dampening: f32,
    /// L2 pull towards zero.
    pub weight_decay: f32,
    /// Weight of PSCL.
    pub contrast: f32,
    /// Form of PSCL.
    pub contrast_form: ContrastForm,
    /// Temperature of PSCL.
    pub temperature: f32,
    /// Width e of the perturbation of targets, U(-e/2, e/2) per coordinate.
    pub perturbation_width: f32,
    /// Targets that are rows of PSCL unperturbed.
    #[serde(skip_serializing_if = "UnperturbedTargets::is_none")]
    pub unperturbed_targets: UnperturbedTargets,
    /// Weight of cross entropy over the samples of incremental classes; 0 leaves it out.
    pub cross_entropy: f32,
    /// Classes in the softmax of that cross entropy.
    #[serde(skip_serializing_if = "ClassScope::is_all")]
    pub cross_entropy_classes: ClassScope,
    /// Weight of the orthogonality loss; 0 leaves it out.
    pub orthogonality: f32,
    /// Classes that enter the orthogonality loss by their means where the batch has samples of them; the others enter
    /// by their targets.
    #[serde(skip_serializing_if = "ClassScope::is_incremental")]
    pub orthogonality_classes: ClassScope,
    /// Exemplars used of each base class, at most.
    pub base_exemplars: usize,
    /// Views of an exemplar that are stored and used: the clean one first, then augmented ones.
    pub views: usize,
    /// What a step sees of a sample.
    pub sample: SampleViews,
    /// Probability that the one view is an augmented one.
    pub augmented: f32,
    /// Whether classes that have fewer exemplars than the average come as often as the average, with further views; an
    /// epoch holds as many samples as there are exemplars all the same.
    pub balanced: bool,
    /// Factors on the learning rate of the hidden layer and of the last one.
    pub layer_rates: [f32; 2],
    /// How features of exemplars are stored.
    pub precision: ExemplarPrecision,
    /// Most bytes that the exemplars collected on the device take, though every class keeps one; 0 sets no limit. Where
    /// they would take more, the first ones of each class are kept, in an order that follows their content.
    pub exemplar_bytes: usize,
    /// Weight of the mean of a class's exemplars in an answer, beside its target's weight of 1
    /// (`orco_state::classify::Classifier`); 0 is the paper's rule, the target alone.
    pub class_means: f32,
    /// Weight of a further cross entropy, over the samples of base classes alone (0.6 on CUB200 in the published
    /// program); 0 leaves it out.
    pub base_cross_entropy: f32,
    /// How scores are combined, with a border between base and new classes that every session chooses anew; without it,
    /// answers follow the paper, and `class_means`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerWeights>,
}

impl MethodConfig {
    /// The published program's settings for CIFAR-100. Its views differ from ours: it draws fresh ones in every epoch
    /// (AutoAugment, cutout), while a device keeps a few of each shot as features.
    pub const fn published() -> Self {
        Self {
            epochs: 100,
            epoch_samples: 0,
            batch: 64,
            learning_rate: 0.1,
            warmup_epochs: 10,
            warmup_rate: 3e-5,
            momentum: 0.9,
            dampening: 0.9,
            weight_decay: 1e-4,
            contrast: 1.0,
            contrast_form: ContrastForm::Outside,
            temperature: 0.07,
            perturbation_width: 9e-5,
            unperturbed_targets: UnperturbedTargets::NONE,
            cross_entropy: 0.5,
            cross_entropy_classes: ClassScope::All,
            orthogonality: 1.0,
            orthogonality_classes: ClassScope::Incremental,
            base_exemplars: 5,
            views: 4,
            sample: SampleViews::Pair,
            augmented: 0.0,
            balanced: false,
            layer_rates: [1.0, 1.0],
            precision: ExemplarPrecision::Int8,
            exemplar_bytes: 0,
            class_means: 0.0,
            base_cross_entropy: 0.0,
            answer: None,
        }
    }

    /// Names of the presets.
    pub const PRESETS: [&str; 5] = ["published", "paper-text", "edge", "combined", "closed-form"];

    /// The preset of that name: `published`, the settings of the authors' program; `paper-text`, the text where it
    /// differs; `edge`, ours with a short training; `combined`, which adds a shorter one to answers in closed form;
    /// `closed-form`, the closed form alone.
    pub fn preset(name: &str) -> Option<Self> {
        match name {
            "published" => Some(Self::published()),
            "paper-text" => Some(Self::paper_text()),
            "edge" => Some(Self::edge()),
            "combined" => Some(Self::combined()),
            "closed-form" => Some(Self::closed_form()),
            _ => None,
        }
    }

    /// The text's reading of [`MethodConfig::published`].
    pub const fn paper_text() -> Self {
        Self::published().with_paper_text()
    }

    /// The published program's settings as the paper's text reads them. In PSCL, negatives alone stand in the
    /// denominator, and unperturbed targets are rows; targets are perturbed by U(-1e-2, 1e-2). Cross entropy has weight
    /// 1, counts samples of incremental classes, and tells them apart among these classes alone (Eq. 5). ORTH takes the
    /// means of all classes in the batch.
    ///
    /// The text has no cross entropy over base samples in phase 3; the program has it on CUB200.
    #[must_use]
    pub const fn with_paper_text(self) -> Self {
        Self {
            contrast_form: ContrastForm::Negatives,
            perturbation_width: 2e-2,
            unperturbed_targets: UnperturbedTargets::ALL,
            cross_entropy: 1.0,
            cross_entropy_classes: ClassScope::Incremental,
            base_cross_entropy: 0.0,
            orthogonality_classes: ClassScope::All,
            ..self
        }
    }

    /// Ours for small devices: a fifth of the published program's arithmetic at most. One view of a sample instead of
    /// two, more of classes with few shots, and most of the change in the hidden layer, so that base classes erode
    /// less; answers by targets and class means together. Chosen on held-out base classes (journal of the book,
    /// 2026-11-22).
    pub const fn edge() -> Self {
        Self {
            epochs: 40,
            batch: 48,
            learning_rate: 0.12,
            warmup_epochs: 12,
            sample: SampleViews::One,
            augmented: 0.25,
            balanced: true,
            layer_rates: [2.0, 0.5],
            class_means: 1.0,
            ..Self::published()
        }
    }

    /// Ours for any pictures and any backbone, and what bundles ship with. Discriminant, class means, the head of phase
    /// 2 and the head that phase 3 aligned answer together, and every session chooses the border between base classes
    /// and new ones. Phase 3 is that of [`MethodConfig::edge`] with fewer epochs, of which most are warm-up: the
    /// aligned head adds to the other scores and need not answer alone.
    pub const fn combined() -> Self {
        let answer = AnswerWeights { targets: 0.125, aligned: 0.125, discriminant: 2.0, ..AnswerWeights::NEAREST_MEAN };
        Self { epochs: 15, epoch_samples: 500, answer: Some(answer), ..Self::edge() }
    }

    /// The closed form alone: nothing is trained on the device, and the aligned head is missing from the answer.
    /// Weights were compared on several data sets (journal of the book, 2026-11-22); none is tuned to one.
    pub const fn closed_form() -> Self {
        let answer = AnswerWeights { targets: 0.5, discriminant: 2.0, ..AnswerWeights::NEAREST_MEAN };
        Self { epochs: 0, answer: Some(answer), ..Self::edge() }
    }

    /// These settings without phase 3: they answer in closed form at once, and hold until a state is aligned.
    #[must_use]
    pub fn without_alignment(&self) -> Self {
        Self { epochs: 0, ..self.clone() }
    }

    /// These settings with the paper's rule of answers, by targets alone.
    pub fn by_targets_alone(&self) -> Self {
        Self { class_means: 0.0, answer: None, ..self.clone() }
    }

    /// Samples of an epoch where there are this many exemplars.
    pub const fn samples_of_epoch(&self, exemplars: usize) -> usize {
        if self.epoch_samples > 0 && self.epoch_samples < exemplars { self.epoch_samples } else { exemplars }
    }

    /// The learning rate over the epochs.
    pub const fn schedule(&self) -> Schedule {
        Schedule {
            steps: self.epochs,
            warmup: self.warmup_epochs,
            start: self.warmup_rate,
            peak: self.learning_rate,
            end: 0.0,
        }
    }

    /// What devices do where measurements have a setting of this name, as a sentence for the refusal of that setting:
    /// devices offer no choice there. `None` for other names.
    pub fn fixed_choice(name: &str) -> Option<&'static str> {
        match name {
            "assignment" => Some("a device gives new classes the free targets that match them best"),
            "perturbed" => Some("a device perturbs the targets of incremental classes and the free ones"),
            "perturbation" => Some("a device perturbs targets uniformly, by perturbation_width"),
            "cross_entropy_on" => Some(
                "cross_entropy counts samples of incremental classes, and base_cross_entropy those of base classes",
            ),
            "keep" => Some("a device keeps the first exemplars of a class"),
            "earlier_exemplars" => Some("a device keeps the exemplars of earlier sessions"),
            _ => None,
        }
    }

    /// What is wrong with the values, as a sentence about the first field at fault; to be asked after decoding or
    /// parsing.
    pub fn problem(&self) -> Option<&'static str> {
        let rate = |value: f64| (0.0..=100.0).contains(&value);
        let share = |value: f32| (0.0..=1.0).contains(&value);
        let weight = |value: f32| (0.0..=1e6).contains(&value);
        let demands = [
            (self.epochs <= 10_000, "epochs must be at most 10000"),
            ((1..=1024).contains(&self.batch), "batch must be from 1 to 1024"),
            (rate(self.learning_rate), "learning_rate must be from 0 to 100"),
            (rate(self.warmup_rate), "warmup_rate must be from 0 to 100"),
            (self.warmup_epochs <= 10_000, "warmup_epochs must be at most 10000"),
            (share(self.momentum), "momentum must be from 0 to 1"),
            (share(self.dampening), "dampening must be from 0 to 1"),
            (share(self.weight_decay), "weight_decay must be from 0 to 1"),
            (weight(self.contrast), "contrast must be from 0 to 1000000"),
            ((1e-4..=1e4).contains(&self.temperature), "temperature must be from 0.0001 to 10000"),
            (weight(self.perturbation_width), "perturbation_width must be from 0 to 1000000"),
            (weight(self.cross_entropy), "cross_entropy must be from 0 to 1000000"),
            (weight(self.base_cross_entropy), "base_cross_entropy must be from 0 to 1000000"),
            (weight(self.orthogonality), "orthogonality must be from 0 to 1000000"),
            ((1..=MAX_VIEWS).contains(&self.views), "views must be from 1 to 64"),
            (share(self.augmented), "augmented must be from 0 to 1"),
            (self.layer_rates.iter().all(|factor| (0.0..=1e3).contains(factor)), "layer_rates must be from 0 to 1000"),
            ((0.0..=1e3).contains(&self.class_means), "class_means must be from 0 to 1000"),
            (
                self.answer.is_none_or(|answer| {
                    let weights = answer.values();
                    weights.iter().all(|weight| (0.0..=1e3).contains(weight)) && weights.iter().sum::<f32>() > 0.0
                }),
                "answer.targets, aligned, means and discriminant must be from 0 to 1000, and not all 0",
            ),
            (self.answer.is_none_or(|answer| share(answer.class_offset)), "answer.class_offset must be from 0 to 1"),
            (
                self.answer.is_none_or(|answer| (1.0..=1e6).contains(&answer.scatter_prior)),
                "answer.scatter_prior must be from 1 to 1000000",
            ),
            (
                self.epochs > 0 || self.answer.is_some(),
                "epochs must be at least 1 where there is no answer table: new classes need an aligned head",
            ),
        ];
        demands.iter().find(|(met, _)| !met).map(|(_, sentence)| *sentence)
    }

    /// Whether the values make sense.
    pub fn is_sound(&self) -> bool {
        self.problem().is_none()
    }
}

impl Default for MethodConfig {
    fn default() -> Self {
        Self::published()
    }
}
