//! Whether the shots of a class are enough: how well they recognise each other, and what more of them would bring.
//!
//! Each shot is left out in turn, and asked for among all known classes and one that is known by the other shots alone
//! (the class answers as an imprinted one, [`Classifier::imprint`]). The only shot of a class that is learned already
//! is asked for among the known classes.
//!
//! What further shots would bring is told from the base classes: each of them is made new again, known by 1, 2, 3 ...
//! of its stored exemplars alone, and asked for with the samples that the bundle set aside. That gives an error e(k)
//! for every number of shots k, a curve that is the same for every class taught on this bundle. This class's own error
//! is put in its place on the curve: with `wrong` of n shots not recognised, each by n - 1 others,
//!
//! own = (wrong + 2 e(n - 1)) / (n + 2),
//!
//! which takes the curve for two shots more (a few shots alone cannot tell 0 from a small error). With m shots
//!
//! expected error(m) = own e(m) / e(n - 1),
//!
//! and with a single shot, which no other can recognise, e(m) itself. Base classes are classes that the backbone was
//! trained on: their curve says how errors shrink with shots, not how high they are, so only its ratios count as soon
//! as there are two shots.
//!
//! Where answers name learned classes alone, only these are rivals, and a class is confused less often with few rivals
//! than with many. The curve is then taken with as many rivals, drawn from the base classes ([`LearningCurve::among`]).

use alloc::vec::Vec;
use core::ops::Range;

use crate::answer::AnsweredClasses;
use crate::classify::Classifier;
use crate::state::{BaseModel, State};
use crate::target::argmax;

/// Weight of the curve beside the shots' own errors, in shots: the 2 of the formula above.
const CURVE_WEIGHT: f32 = 2.0;

/// What each shot of a class is taken for without the others' help, and what more shots would bring.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShotSufficiency {
    /// For every shot that was left out in turn: the known class that it was taken for, or `None` where it was
    /// recognised. Empty where there is one shot alone, unless its class is learned already.
    pub taken_for: Vec<Option<usize>>,
    /// Accuracies, 0..1, to be expected on new pictures of the class with as many shots as there are, one more and two
    /// more; `None` where the bundle has no samples to tell them from, or answers name no other class.
    pub expected: Option<[f32; 3]>,
}

impl ShotSufficiency {
    /// Leaves each of a class's shots out in turn. If `known` is given, the shots extend the class of that index; a
    /// shot that is answered with it counts as recognised. Rivals are the classes that are `answered`.
    ///
    /// # Panics
    /// If a shot has no whole feature vector.
    pub fn of(
        base_model: &BaseModel,
        classifier: &Classifier,
        curve: Option<&LearningCurve>,
        known: Option<usize>,
        shots: &[Vec<f32>],
        answered: AnsweredClasses,
    ) -> Self {
        let classes = answered.first(base_model.classes.len())..classifier.classes();
        let rivals = classes.len() - usize::from(known.is_some_and(|class| classes.contains(&class)));
        let taken_for = taken_for(base_model, classifier, classes, known, shots);
        let (count, wrong) = (shots.len(), taken_for.iter().flatten().count());
        let expected =
            |curve: &LearningCurve| [0, 1, 2].map(|more| curve.expected_accuracy(wrong, count, count + more));
        let expected = match curve.filter(|_| count > 0) {
            Some(curve) if answered == AnsweredClasses::All => Some(expected(curve)),
            Some(curve) if rivals > 0 => Some(expected(&curve.among(rivals))),
            _ => None,
        };
        Self { taken_for, expected }
    }

    /// How many shots were recognised when they were left out.
    pub fn recognised(&self) -> usize {
        self.taken_for.iter().filter(|other| other.is_none()).count()
    }
}

/// What each shot is taken for when it is left out, among the classes that are `answered` (see
/// [`ShotSufficiency::taken_for`]).
fn taken_for(
    base_model: &BaseModel,
    classifier: &Classifier,
    answered: Range<usize>,
    known: Option<usize>,
    shots: &[Vec<f32>],
) -> Vec<Option<usize>> {
    let is_learned = known.is_some_and(|class| class >= base_model.classes.len());
    if shots.is_empty() || (shots.len() == 1 && !is_learned) {
        return Vec::new();
    }
    let clean: Vec<f32> = shots.iter().flat_map(|shot| &shot[..base_model.head.inputs]).copied().collect();
    let scores = classifier.scores(&clean);
    let taken_for = |(row, own): (&[f32], f32)| {
        let rivals = &row[answered.clone()];
        if rivals.is_empty() {
            return None;
        }
        let best = argmax(rivals);
        let class = answered.start + best;
        (rivals[best] >= own && Some(class) != known).then_some(class)
    };
    scores.chunks_exact(classifier.classes()).zip(left_out_scores(classifier, shots, &clean)).map(taken_for).collect()
}

/// The score of each shot, of these clean features, for a class that only the other shots make known. Nothing makes it
/// known to an only shot, which scores lowest.
fn left_out_scores(classifier: &Classifier, shots: &[Vec<f32>], clean: &[f32]) -> Vec<f32> {
    if shots.len() == 1 {
        return alloc::vec![f32::NEG_INFINITY];
    }
    let others = |left_out: usize| (0..shots.len()).filter(|shot| *shot != left_out).collect();
    let subsets: Vec<Vec<usize>> = (0..shots.len()).map(others).collect();
    let scores = classifier.scores_of_subsets(shots, &subsets, clean);
    scores.iter().enumerate().map(|(shot, scores)| scores[shot]).collect()
}

/// The mean error over classes that are known by some number of shots.
#[derive(Default)]
struct MeanError {
    sum: f32,
    classes: f32,
    /// Sums over classes of the share of samples on which 0, 1, 2 ... rivals are ahead, without the border.
    ahead: Vec<f32>,
}

impl MeanError {
    /// Adds a class, by the score of each of its samples for it and the scores of its rivals for the same sample.
    /// `shift` is the part of `own` that the border adds.
    fn add_class(&mut self, own: &[f32], rivals: &[Vec<f32>], shift: f32) {
        let count = own.len() as f32;
        let mut wrong = 0;
        for (own, rivals) in own.iter().zip(rivals) {
            wrong += usize::from(rivals.iter().any(|rival| rival >= own));
            let ahead = rivals.iter().filter(|rival| **rival >= own - shift).count();
            self.ahead.resize(self.ahead.len().max(ahead + 1), 0.0);
            self.ahead[ahead] += 1.0 / count;
        }
        self.sum += wrong as f32 / count;
        self.classes += 1.0;
    }
}

/// How the error of a class falls with its shots, by the base classes of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct LearningCurve {
    /// e(1), e(2) ...
    errors: Vec<f32>,
    /// For 1, 2 ... shots, the share of samples on which 0, 1, 2 ... rivals are ahead, without the border.
    ahead: Vec<Vec<f32>>,
    /// How many rivals there are.
    rivals: usize,
}

impl LearningCurve {
    /// Measures it on a bundle before anything was learned; `None` if it has no exemplars or no samples set aside.
    pub fn of(base_model: &BaseModel) -> Option<Self> {
        let aside = &base_model.statistics.as_ref()?.set_aside;
        // A new class has the border in its scores, its rivals here do not. Among learned classes it cancels out.
        let shift = base_model.scoring(&base_model.config).map_or(0.0, |scoring| scoring.statistics.initial_shift);
        let classifier = Classifier::new(base_model, &State::fresh(base_model, [0; 32]));
        let count = classifier.classes();
        let scores = classifier.scores(&aside.clean());
        let mut means: Vec<MeanError> = Vec::new();
        for class in 0..base_model.classes.len() {
            let own: Vec<usize> = aside.members(class as u32).collect();
            if own.is_empty() {
                continue;
            }
            // The class as it is known is no rival of itself.
            let rivals = |sample: &usize| {
                let mut rivals = scores[sample * count..][..count].to_vec();
                rivals.remove(class);
                rivals
            };
            let rivals: Vec<Vec<f32>> = own.iter().map(rivals).collect();
            let exemplars = &base_model.exemplars;
            let views = |shot: usize| exemplars.views_of(&[shot]);
            let shots: Vec<Vec<f32>> = exemplars.members(class as u32).map(views).collect();
            let first: Vec<Vec<usize>> = (1..=shots.len()).map(|shots| (0..shots).collect()).collect();
            let as_new = classifier.scores_of_subsets(&shots, &first, &aside.clean_of(&own));
            means.resize_with(means.len().max(as_new.len()), MeanError::default);
            means.iter_mut().zip(&as_new).for_each(|(mean, as_new)| mean.add_class(as_new, &rivals, shift));
        }
        let errors: Vec<f32> = means.iter().map(|mean| mean.sum / mean.classes).collect();
        let share = |mean: MeanError| -> Vec<f32> { mean.ahead.iter().map(|sum| sum / mean.classes).collect() };
        let ahead = means.into_iter().map(share).collect();
        (!errors.is_empty()).then_some(Self { errors, ahead, rivals: count.saturating_sub(1) })
    }

    /// The curve with this many rivals, drawn evenly from all: a sample is wrong if a rival is drawn that is ahead on
    /// it. The border plays no part.
    #[must_use]
    pub fn among(&self, rivals: usize) -> Self {
        let drawn = rivals.min(self.rivals);
        let error = |shares: &Vec<f32>| -> f32 {
            shares.iter().enumerate().map(|(ahead, share)| share * (1.0 - none_drawn(ahead, drawn, self.rivals))).sum()
        };
        Self { errors: self.ahead.iter().map(error).collect(), ..self.clone() }
    }

    /// e(1), e(2) ... as far as the bundle's exemplars go.
    pub fn errors(&self) -> &[f32] {
        &self.errors
    }

    /// e(`shots`). Beyond the exemplars that a bundle has, the curve goes on as it fell between its half and its end:
    /// by the same factor each time that the shots double.
    pub fn error(&self, shots: usize) -> f32 {
        let most = self.errors.len();
        if let Some(error) = self.errors.get(shots.max(1) - 1) {
            return *error;
        }
        let (last, half) = (self.errors[most - 1], self.errors[most.div_ceil(2) - 1]);
        if half <= 0.0 || most < 2 {
            return last;
        }
        // A power law e(k) = c k^-a through both, a >= 0.
        let ln = orco_core::math::ln;
        let exponent = ln((last / half).clamp(1e-3, 1.0)) / ln(most as f32 / most.div_ceil(2) as f32);
        last * orco_core::math::exp(exponent * ln(shots as f32 / most as f32))
    }

    /// Accuracy, 0..1, to be expected with `shots` shots of a class that has `present` now, `wrong` of which were not
    /// recognised when they were left out.
    pub fn expected_accuracy(&self, wrong: usize, present: usize, shots: usize) -> f32 {
        if present < 2 {
            return 1.0 - self.error(shots);
        }
        let left_out = self.error(present - 1);
        let own = (wrong as f32 + CURVE_WEIGHT * left_out) / (present as f32 + CURVE_WEIGHT);
        let ratio = if left_out > 0.0 { self.error(shots) / left_out } else { 1.0 };
        1.0 - (own * ratio).clamp(0.0, 1.0)
    }
}

/// The probability that `drawn` draws from `all`, without replacement, hit none of the `marked` ones:
/// C(all - marked, drawn) / C(all, drawn).
fn none_drawn(marked: usize, drawn: usize, all: usize) -> f32 {
    let (few, many) = (marked.min(drawn), marked.max(drawn));
    (0..few).map(|draw| all.saturating_sub(many + draw) as f32 / (all - draw) as f32).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(errors: &[f32]) -> LearningCurve {
        LearningCurve { errors: errors.to_vec(), ahead: Vec::new(), rivals: 0 }
    }

    #[test]
    fn few_rivals_are_confused_less_often_than_many() {
        // Of four rivals none is ahead on half of the samples, one on a quarter, all four on the last quarter.
        let ahead = alloc::vec![alloc::vec![0.5, 0.25, 0.0, 0.0, 0.25]];
        let curve = LearningCurve { errors: alloc::vec![0.5], ahead, rivals: 4 };
        let error = |rivals: usize| curve.among(rivals).error(1);
        // One of four is drawn in a quarter of all draws, in half of those of two.
        for (rivals, expected) in [(0, 0.0), (1, 0.25 + 0.0625), (2, 0.25 + 0.125), (4, 0.5), (9, 0.5)] {
            assert!((error(rivals) - expected).abs() < 1e-6, "{rivals}: {}", error(rivals));
        }
        assert!((none_drawn(2, 2, 4) - 1.0 / 6.0).abs() < 1e-6);
        assert_eq!((none_drawn(3, 2, 4), none_drawn(0, 4, 4), none_drawn(4, 0, 4)), (0.0, 1.0, 1.0));
    }

    #[test]
    fn the_curve_goes_on_as_it_fell() {
        let curve = curve(&[0.4, 0.2, 0.15, 0.1]);
        assert_eq!(curve.error(3), 0.15);
        // From two shots to four the error was halved, so it is halved again at eight.
        assert!((curve.error(8) - 0.05).abs() < 1e-5, "{}", curve.error(8));
        let flat = self::curve(&[0.3, 0.1, 0.1, 0.2]);
        assert!((flat.error(9) - 0.2).abs() < 1e-5, "a curve that rises at its end is not believed to go on rising");
    }

    #[test]
    fn what_is_expected_follows_the_shots_and_the_curve() {
        let curve = curve(&[0.4, 0.3, 0.2, 0.2, 0.1]);
        assert_eq!(curve.expected_accuracy(0, 1, 3), 0.8);
        // Four of five wrong, each recognised by four others: (4 + 2 * 0.2) / 7, halved by a fifth shot.
        assert!((curve.expected_accuracy(4, 5, 5) - (1.0 - 4.4 / 7.0 * 0.5)).abs() < 1e-6);
        assert!(curve.expected_accuracy(0, 5, 5) > curve.expected_accuracy(1, 5, 5));
        assert!(curve.expected_accuracy(0, 2, 5) > curve.expected_accuracy(0, 2, 4));
    }
}
