//! Checks that the new state recognises shots as well as the old one did.

use std::ops::Add;

use orco_state::binomial;
use orco_state::label;
use orco_state::session::ChangeReport;
use orco_state::state::{FirstRecognition, State};

use super::plan::{ClassRole, PlannedClass, UpgradePlan};

/// How a class was recognised and is now.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassComparison {
    /// Its label.
    pub label: String,
    /// Shots that the old state had of it.
    pub shots: usize,
    /// Pictures that it was learned from.
    pub pictures: usize,
    /// Whether the new bundle brings the class itself, so that the shots are further ones of it.
    pub merged: bool,
    /// Share of its first shots, 0..1, that was recognised right after the session that learned it, each left out in
    /// turn where answers use the bundle's statistics; `None` where that is not known.
    pub before: Option<f32>,
    /// Share of its shots, 0..1, that the new state recognises, judged in the same way; of a class of the bundle, of
    /// the bundle's samples too. `None` where no sample says.
    pub after: Option<f32>,
    counts: RecognitionCounts,
}

/// How many samples are recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RecognitionCount {
    right: u32,
    samples: u32,
}

impl RecognitionCount {
    /// The share that is recognised, 0..1; `None` if there are no samples.
    fn share(self) -> Option<f32> {
        (self.samples > 0).then(|| self.right as f32 / self.samples as f32)
    }
}

impl Add for RecognitionCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { right: self.right + other.right, samples: self.samples + other.samples }
    }
}

/// What the shares were made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RecognitionCounts {
    before: RecognitionCount,
    after: RecognitionCount,
}

impl RecognitionCounts {
    /// Whether so few are recognised that it would be by chance in one case of a hundred, were the rate what it was.
    fn are_clearly_worse(&self) -> bool {
        const CHANCE: f64 = 0.01;
        let Self { before, after } = *self;
        before.samples > 0
            && after.samples > 0
            && binomial::at_most(after.right, after.samples, rate(before.right, before.samples)) < CHANCE
    }
}

/// A rate from few samples (Laplace's rule).
fn rate(right: u32, samples: u32) -> f64 {
    f64::from(right + 1) / f64::from(samples + 2)
}

/// Compares what is known of the old state with what the report says of the new one.
pub fn compare(plan: &UpgradePlan, old: &State, report: &ChangeReport) -> Vec<ClassComparison> {
    let with_pictures = plan.classes.iter().filter(|class| !class.files.is_empty());
    with_pictures.map(|class| compare_class(class, old, report)).collect()
}

fn compare_class(planned: &PlannedClass, old: &State, report: &ChangeReport) -> ClassComparison {
    let PlannedClass { label, learned, role, shots, files } = planned;
    let origin = learned.map_or(FirstRecognition::UNKNOWN, |index| old.first_recognitions.of(index));
    let before = RecognitionCount { right: origin.recognised, samples: origin.shots };
    // Of a base class that is replaced and the learned one that replaces it, the latter: it comes later.
    let after = report.classes.iter().rfind(|class| label::same(&class.label, label));
    let samples = after.map_or(0, |after| after.samples);
    let share = after.filter(|after| after.samples > 0).map(|after| after.after);
    let right = share.map_or(0, |share| (share * samples as f32).round() as u32);
    ClassComparison {
        label: label.clone(),
        shots: *shots,
        pictures: files.len(),
        merged: *role == ClassRole::Base,
        before: before.share(),
        after: share,
        counts: RecognitionCounts { before, after: RecognitionCount { right, samples } },
    }
}

/// Classes that are recognised clearly worse than before, and, with an empty label, all together if they are. Classes
/// of the bundle are judged by other samples than before, and are left out.
pub fn clearly_worse(classes: &[ClassComparison]) -> Vec<ClassComparison> {
    let comparable = |class: &&ClassComparison| !class.merged && class.before.is_some() && class.after.is_some();
    let compared: Vec<&ClassComparison> = classes.iter().filter(comparable).collect();
    let sum = |of: fn(&RecognitionCounts) -> RecognitionCount| {
        compared.iter().map(|class| of(&class.counts)).fold(<_>::default(), Add::add)
    };
    let counts = RecognitionCounts { before: sum(|counts| counts.before), after: sum(|counts| counts.after) };
    let all = ClassComparison {
        label: String::new(),
        shots: compared.iter().map(|class| class.shots).sum(),
        pictures: compared.iter().map(|class| class.pictures).sum(),
        merged: false,
        before: counts.before.share(),
        after: counts.after.share(),
        counts,
    };
    let worse = compared.into_iter().cloned().chain([all]);
    worse.filter(|class| class.counts.are_clearly_worse()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(before: [u32; 2], after: [u32; 2]) -> ClassComparison {
        let [before, after] = [before, after].map(|[right, samples]| RecognitionCount { right, samples });
        let (label, shots) = ("mug".to_string(), after.samples as usize);
        let counts = RecognitionCounts { before, after };
        ClassComparison {
            label,
            shots,
            pictures: shots,
            merged: false,
            before: before.share(),
            after: after.share(),
            counts,
        }
    }

    #[test]
    fn one_class_lost_or_all_a_little_worse_is_noticed_and_chance_is_not() {
        assert!(clearly_worse(&[class([5, 5], [4, 5]), class([5, 5], [3, 5])]).is_empty());
        let lost = clearly_worse(&[class([5, 5], [5, 5]), class([5, 5], [0, 5])]);
        assert_eq!(lost[0].label, "mug");
        let all: Vec<ClassComparison> = (0..12).map(|_| class([5, 5], [4, 5])).collect();
        let worse = clearly_worse(&all);
        assert_eq!(worse.iter().map(|class| class.label.as_str()).collect::<Vec<_>>(), [""]);
        assert!(clearly_worse(&[class([0, 0], [0, 5]), class([5, 5], [0, 0])]).is_empty(), "nothing says so");
    }

    #[test]
    fn a_bundle_as_good_as_the_old_one_is_not_called_worse_however_many_samples_say_so() {
        assert!(clearly_worse(&[class([150, 150], [150, 150])]).is_empty());
        assert!(clearly_worse(&[class([900, 1000], [900, 1000])]).is_empty());
        assert!(clearly_worse(&[class([900, 1000], [890, 1000])]).is_empty());
        assert_eq!(clearly_worse(&[class([900, 1000], [850, 1000])])[0].label, "mug");
    }
}
