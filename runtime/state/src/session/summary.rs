//! A report as programs read it: one form for the command line and HTTP.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;

use super::{AccuracyChange, ClassAccuracy, ConfusedPair, CumulativeLoss, ExpectedAccuracy, RepeatedShots};
use super::{ChangeReport, ForgettingGroup, LearnedOnlyAccuracy};

/// What a change did, in the form that the command line and HTTP share. Shares are 0..1.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ChangeSummary<'a> {
    /// Samples that accuracies are measured on.
    #[serde(rename = "exemplars")]
    pub samples: usize,
    /// Free pseudo-targets that are left.
    pub free_targets: usize,
    /// Mean accuracy of the classes known before; `None` without samples.
    pub old_accuracy: Option<AccuracyChange>,
    /// Mean accuracy of the new classes; `None` without samples.
    pub new_accuracy: Option<f32>,
    /// Accuracies to be expected on new pictures if answers name all classes, where they have a border.
    pub expected: Option<ExpectedAccuracy>,
    /// Accuracy to be expected on new pictures of learned classes if answers name these alone; `None` where answers
    /// have no border, there are fewer than two learned classes, or too few shots to tell.
    pub expected_learned_only: Option<LearnedOnlyAccuracy>,
    /// New classes that both estimates leave out, since they have too few different shots.
    pub too_few_shots: &'a [String],
    /// What all sessions since the bundle have cost.
    pub forgetting: ForgettingByGroup,
    /// The new classes.
    pub new: Vec<&'a ClassAccuracy>,
    /// Classes that are recognised less than before, worst first. A short list has its own room for learned
    /// classes: answers may name these alone.
    pub lost: Vec<&'a ClassAccuracy>,
    /// Confused pairs, worst first. A short list has its own room for pairs of learned classes.
    pub confusions: Vec<&'a ConfusedPair>,
    /// Pairs of labels under which the very same shot is stored.
    pub sharing_shots: &'a [[String; 2]],
    /// New classes whose shots seem to come from one scene.
    pub one_scene: &'a [String],
    /// Classes of which a shot is stored more than once.
    pub repeated: &'a [RepeatedShots],
}

/// What all sessions since the bundle have cost each group of classes; `None` without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ForgettingByGroup {
    /// The classes of the bundle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<CumulativeLoss>,
    /// The learned classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned: Option<CumulativeLoss>,
}

impl ChangeReport {
    /// What the change did, with at most `most` entries in each list. In `lost` and `confusions`, entries that concern
    /// base classes and those of learned classes alone have that limit each.
    pub fn summary(&self, most: usize) -> ChangeSummary<'_> {
        let mut forgetting = ForgettingByGroup::default();
        for loss in self.group_losses() {
            match loss.group {
                ForgettingGroup::Base => forgetting.base = Some(loss.since),
                ForgettingGroup::Learned => forgetting.learned = Some(loss.since),
            }
        }
        let base: BTreeSet<&str> = self.classes.iter().take(self.base_classes).map(|class| &class.label[..]).collect();
        let is_base = |label: &str| base.contains(label);
        ChangeSummary {
            samples: self.samples,
            free_targets: self.free_targets,
            old_accuracy: self.old_accuracy(),
            new_accuracy: self.new_accuracy(),
            expected: self.expected,
            expected_learned_only: self.expected_learned_only,
            too_few_shots: first(&self.too_few_shots, most),
            forgetting,
            new: self.classes.iter().filter(|class| class.before.is_none()).take(most).collect(),
            lost: first_of_both(self.lost_in_session(0.0), most, |class| is_base(&class.label)),
            confusions: first_of_both(&self.confusions, most, |pair| is_base(&pair.label) || is_base(&pair.taken_for)),
            sharing_shots: first(&self.sharing_shots, most),
            one_scene: first(&self.one_scene, most),
            repeated: first(&self.repeated, most),
        }
    }
}

fn first<T>(list: &[T], most: usize) -> &[T] {
    &list[..list.len().min(most)]
}

/// The first `most` entries that concern base classes, and the first `most` of the others, in the list's order.
fn first_of_both<'a, T>(
    list: impl IntoIterator<Item = &'a T>,
    most: usize,
    concerns_base: impl Fn(&T) -> bool,
) -> Vec<&'a T> {
    let mut seen = [0; 2];
    let has_room = |entry: &&T| {
        let seen = &mut seen[usize::from(concerns_base(entry))];
        *seen += 1;
        *seen <= most
    };
    list.into_iter().filter(has_room).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_and_the_worst_comes_first() {
        let class =
            |label: &str, before, after| ClassAccuracy { label: label.into(), before, after, since: None, samples: 5 };
        let classes = alloc::vec![
            class("a little lost", Some(1.0), 0.8),
            class("lost", Some(1.0), 0.2),
            class("kept", Some(0.5), 0.5),
            class("new", None, 1.0),
            class("newer", None, 0.5),
        ];
        let report = ChangeReport { classes, ..ChangeReport::empty() };
        let labels = |classes: &[&ClassAccuracy]| classes.iter().map(|class| class.label.clone()).collect::<Vec<_>>();
        let whole = report.summary(usize::MAX);
        assert_eq!(labels(&whole.lost), ["lost", "a little lost"]);
        assert_eq!(labels(&whole.new), ["new", "newer"]);
        assert_eq!(whole.new_accuracy, Some(0.75));
        let cut = report.summary(1);
        assert_eq!((labels(&cut.lost), labels(&cut.new)), (labels(&whole.lost[..1]), labels(&whole.new[..1])));
        assert_eq!(cut.new_accuracy, whole.new_accuracy, "shares are those of all classes");
    }

    #[test]
    fn what_base_classes_lost_leaves_room_for_learned_ones() {
        let class = |label: &str, after| {
            let label = label.into();
            ClassAccuracy { label, before: Some(1.0), after, since: None, samples: 5 }
        };
        let classes = ["cup 0.0", "hat 0.1", "mug 0.2", "jar 0.3"]
            .map(|class_after| class_after.split_once(' ').expect("a label and an accuracy"))
            .map(|(label, after)| class(label, after.parse().expect("a number")));
        let pair = |label: &str, taken_for: &str| {
            let [label, taken_for] = [label, taken_for].map(String::from);
            ConfusedPair { label, taken_for, share: 0.4 }
        };
        let confusions = [pair("mug", "cup"), pair("hat", "jar"), pair("jar", "mug"), pair("mug", "jar")].to_vec();
        let report = ChangeReport { base_classes: 2, classes: classes.to_vec(), confusions, ..ChangeReport::empty() };
        let cut = report.summary(1);
        assert_eq!(cut.lost.iter().map(|class| &class.label[..]).collect::<Vec<_>>(), ["cup", "mug"]);
        assert_eq!(cut.confusions, [&report.confusions[0], &report.confusions[2]]);
    }
}
