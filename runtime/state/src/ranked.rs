//! The distribution of samples' values, in which all classes have the same weight: shares below a value, and quantiles.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Values of samples, the lowest first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RankedValues(Vec<RankedValue>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct RankedValue {
    value: f32,
    /// The sample's share among all, 1 / (classes x samples of its class).
    share: f32,
}

/// A sample's class and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClassValue {
    pub(crate) class: u32,
    pub(crate) value: f32,
}

impl RankedValues {
    /// Ranks the values of samples.
    pub(crate) fn of(samples: &[ClassValue]) -> Self {
        let mut counts = BTreeMap::<u32, f32>::new();
        samples.iter().for_each(|sample| *counts.entry(sample.class).or_default() += 1.0);
        let classes = counts.len() as f32;
        let ranked =
            |sample: &ClassValue| RankedValue { value: sample.value, share: 1.0 / (counts[&sample.class] * classes) };
        let mut values: Vec<RankedValue> = samples.iter().map(ranked).collect();
        values.sort_by(|a, b| a.value.total_cmp(&b.value));
        Self(values)
    }

    /// The number of samples.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The share of the samples below a value: the empirical distribution function.
    pub(crate) fn share_below(&self, value: f32) -> f32 {
        self.0.iter().take_while(|ranked| ranked.value < value).map(|ranked| ranked.share).sum()
    }

    /// The highest value that at most this share of the samples stays below: their quantile.
    pub(crate) fn threshold(&self, share_below: f32) -> f32 {
        let mut below = 0.0;
        for &RankedValue { value, share } in &self.0 {
            below += share;
            if below > share_below {
                return value;
            }
        }
        f32::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(samples: &[(u32, f32)]) -> RankedValues {
        let samples: Vec<ClassValue> = samples.iter().map(|&(class, value)| ClassValue { class, value }).collect();
        RankedValues::of(&samples)
    }

    #[test]
    fn the_threshold_lets_the_chosen_share_fall_below() {
        let even: Vec<(u32, f32)> = (0..20).map(|sample| (sample, sample as f32)).collect();
        assert_eq!(ranked(&even).threshold(0.0), 0.0);
        assert_eq!(ranked(&even).threshold(0.12), 2.0);
        // One class has a single sample, the other two: classes count alike.
        let uneven = ranked(&[(1, 3.0), (0, 1.0), (1, 2.0)]);
        assert_eq!((uneven.threshold(0.4), uneven.threshold(0.6)), (1.0, 2.0));
        assert_eq!((uneven.share_below(1.0), uneven.share_below(2.5)), (0.0, 0.75));
    }
}
