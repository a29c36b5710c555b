//! Whether sessions cost old classes more than a budget.
//!
//! A class has few samples: of five, each weighs 20 percentage points, and which of them are recognised is partly
//! chance. So base classes are judged together, and so are learned ones. The loss of such a group, or of a single
//! class, exceeds the budget if it is certain: if so many losses would be improbable were each sample lost with the
//! budget's probability (exact binomial test; Clopper and Pearson, Biometrika 26, 1934), at a level that all classes
//! share (Bonferroni). In a group with so many samples that the budget is worth [`MIN_WORTH`] of them, the measured
//! loss decides.

use alloc::vec::Vec;

use super::{ChangeReport, ClassAccuracy, CumulativeLoss};
use crate::binomial;

/// Probability of calling a loss certain that is within the budget, over all classes.
const LEVEL: f64 = 0.05;
/// Samples that a budget must be worth for a group's measured loss to decide: a single sample is then a fifth of the
/// budget at most.
const MIN_WORTH: f64 = 5.0;
/// Shares are ratios of small numbers; their difference errs in the last bits.
const ROUNDING: f64 = 1e-5;

/// Classes that are judged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgettingGroup {
    /// Those that came with the bundle.
    Base,
    /// Those that were learned.
    Learned,
}

/// What all sessions have cost a group of old classes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GroupLoss {
    /// The group.
    pub group: ForgettingGroup,
    /// Share of its samples recognised at first and now, and how many there are.
    pub since: CumulativeLoss,
}

/// What sessions have cost beyond a budget.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ForgettingExcess {
    /// Groups.
    pub groups: Vec<GroupLoss>,
    /// Classes, worst first.
    pub classes: Vec<ClassAccuracy>,
}

impl ForgettingExcess {
    /// Whether the budget holds.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.classes.is_empty()
    }
}

impl ChangeReport {
    /// What all sessions since the bundle have cost what came with it, and what was learned, as far as samples say.
    pub fn group_losses(&self) -> Vec<GroupLoss> {
        [ForgettingGroup::Base, ForgettingGroup::Learned]
            .into_iter()
            .filter_map(|group| self.group_loss(group))
            .collect()
    }

    /// The loss of one group; `None` if no sample says.
    fn group_loss(&self, group: ForgettingGroup) -> Option<GroupLoss> {
        let base = self.base_classes.min(self.classes.len());
        let classes = match group {
            ForgettingGroup::Base => &self.classes[..base],
            ForgettingGroup::Learned => &self.classes[base..],
        };
        let (mut first, mut now, mut samples) = (0.0, 0.0, 0);
        for since in classes.iter().filter_map(|class| class.since) {
            first += f64::from(since.first) * f64::from(since.samples);
            now += f64::from(since.now) * f64::from(since.samples);
            samples += since.samples;
        }
        let share = |sum: f64| (sum / f64::from(samples)) as f32;
        (samples > 0)
            .then(|| GroupLoss { group, since: CumulativeLoss { first: share(first), now: share(now), samples } })
    }

    /// What all sessions since the bundle, this one among them, have cost beyond a budget, a share of 0..1, as far as
    /// there are samples enough to say so. So a budget holds however many sessions share it.
    pub fn excess(&self, budget: f32) -> ForgettingExcess {
        let judged = self.classes.iter().filter(|class| class.since.is_some()).count();
        let level = LEVEL / judged.max(1) as f64;
        let certain = |since: &CumulativeLoss, level| is_certain(since, budget, level);
        let measured = |since: &CumulativeLoss| {
            let worth = f64::from(budget) * f64::from(since.samples);
            worth >= MIN_WORTH - ROUNDING && since.lost() > worth * (1.0 + ROUNDING)
        };
        let groups = self.group_losses().into_iter();
        let groups = groups.filter(|loss| measured(&loss.since) || certain(&loss.since, LEVEL)).collect();
        let classes = self.lost_since_first(budget).into_iter();
        let certainly = |class: &&ClassAccuracy| class.since.as_ref().is_some_and(|since| certain(since, level));
        ForgettingExcess { groups, classes: classes.filter(certainly).cloned().collect() }
    }
}

impl CumulativeLoss {
    /// Samples that are recognised no more, less those that are recognised only now.
    fn lost(&self) -> f64 {
        (f64::from(self.first) - f64::from(self.now)) * f64::from(self.samples)
    }
}

/// Whether a loss is certainly beyond a budget.
fn is_certain(since: &CumulativeLoss, budget: f32, level: f64) -> bool {
    // Half a sample lost is none: a class's first shots may be fewer now.
    let lost = (since.lost() + ROUNDING * f64::from(since.samples)) as u32;
    lost > 0 && binomial::at_least(lost, since.samples, f64::from(budget)) < level
}

impl core::fmt::Display for ForgettingGroup {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Base => "classes of the bundle",
            Self::Learned => "learned classes",
        })
    }
}

impl ForgettingGroup {
    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Learned => "learned",
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    /// Of each class how many samples there are, how many were recognised at first, and how many are now.
    fn report(base: &[(u32, u32, u32)], learned: &[(u32, u32, u32)]) -> ChangeReport {
        let class = |(index, &(samples, first, now)): (usize, &(u32, u32, u32))| {
            let share = |right: u32| right as f32 / samples as f32;
            let since = CumulativeLoss { first: share(first), now: share(now), samples };
            ClassAccuracy {
                label: format!("{index}"),
                before: Some(share(first)),
                after: share(now),
                since: Some(since),
                samples,
            }
        };
        let classes = base.iter().chain(learned).enumerate().map(class).collect();
        ChangeReport { base_classes: base.len(), classes, ..ChangeReport::empty() }
    }

    fn named(report: &ChangeReport, budget: f32) -> (Vec<ForgettingGroup>, Vec<String>) {
        let ForgettingExcess { groups, classes } = report.excess(budget);
        (groups.iter().map(|loss| loss.group).collect(), classes.into_iter().map(|class| class.label).collect())
    }

    #[test]
    fn one_exemplar_of_five_is_within_a_small_budget_and_three_are_not() {
        let with = |now: u32| {
            let mut base = [(5, 5, 5); 60];
            base[7].2 = now;
            named(&report(&base, &[]), 0.05)
        };
        assert_eq!(with(4), (Vec::new(), Vec::new()));
        assert_eq!(with(3), (Vec::new(), Vec::new()));
        assert_eq!(with(1), (Vec::new(), Vec::from(["7".into()])));
        let nothing = named(&report(&[(5, 5, 4)], &[]), 0.0);
        assert_eq!(
            nothing,
            (Vec::from([ForgettingGroup::Base]), Vec::from(["0".into()])),
            "a budget of nothing allows nothing"
        );
    }

    #[test]
    fn a_group_with_samples_enough_is_judged_to_the_sample() {
        // Of 300 samples, a budget of 2 points is worth 6.
        let lost = |classes: usize| {
            let base: Vec<_> = (0..60).map(|class| (5, 5, if class < classes { 4 } else { 5 })).collect();
            named(&report(&base, &[]), 0.02)
        };
        assert_eq!(lost(6), (Vec::new(), Vec::new()));
        assert_eq!(lost(7), (Vec::from([ForgettingGroup::Base]), Vec::new()));
    }

    #[test]
    fn learned_classes_are_a_group_of_their_own() {
        let base = [(5, 5, 5); 60];
        // Few samples: one of ten says nothing of a budget of 5 points, five do.
        assert_eq!(named(&report(&base, &[(5, 5, 4), (5, 5, 5)]), 0.05).0, []);
        assert_eq!(named(&report(&base, &[(5, 5, 3), (5, 5, 2)]), 0.05).0, [ForgettingGroup::Learned]);
        let losses = report(&base, &[(5, 5, 3), (5, 5, 2)]).group_losses();
        assert_eq!(losses[1].since, CumulativeLoss { first: 1.0, now: 0.5, samples: 10 });
        assert_eq!((losses[0].since.samples, losses[0].group), (300, ForgettingGroup::Base));
        // What others gained makes up for it.
        assert_eq!(named(&report(&base, &[(5, 5, 3), (5, 1, 3)]), 0.0).0, []);
    }
}
