//! What is measured of things in other places, as `orco-lab scenes` writes it, and means over draws.

use orco_benchmark::spread::mean_of_any;
use serde::{Deserialize, Serialize};

use crate::estimates::lies_in;

/// Shares of right answers through one input, 0..1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InputShares {
    /// In the place where the thing was learned, among learned classes.
    pub own_place: f64,
    /// In the place of another thing.
    pub other_place: f64,
    /// In the place of another thing, where base classes may be answered, too.
    pub other_place_all_classes: f64,
    /// Shots that a device refuses, since they are blurred or the same again.
    pub refused_shots: f64,
    /// Right answers that are not *unknown*; none in files of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<KnownShares>,
    /// What the device promises; none where it promises nothing, and in files of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<ScenePromise>,
}

/// Shares of right answers that a device gives, 0..1: the label is right, and the picture does not count as unknown.
/// Answers name learned classes alone, as they do by default once three are taught.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KnownShares {
    /// In the place where the thing was learned.
    pub own_place: f64,
    /// In the place of another thing.
    pub other_place: f64,
}

impl KnownShares {
    /// The mean of those of several draws; none of none.
    fn mean(draws: &[Self]) -> Option<Self> {
        let mean = |of: fn(&Self) -> f64| mean_of_any(draws.iter().map(of));
        Some(Self { own_place: mean(|shares| shares.own_place)?, other_place: mean(|shares| shares.other_place)? })
    }
}

/// The accuracy on learned classes that a device promises once all things are taught, if it answers these alone, and
/// whether it comes true. The report of the change says it; like the shares of right answers, it does not subtract
/// pictures that count as unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenePromise {
    /// The promised accuracy, 0..1.
    pub promised: f64,
    /// The range around it, which people are told; none where nothing says how alike shots are.
    #[serde(default)]
    pub range: Option<[f64; 2]>,
    /// The promised accuracy less [`InputShares::own_place`].
    pub own_place_gap: f64,
    /// The promised accuracy less [`InputShares::other_place`].
    pub other_place_gap: f64,
    /// Share of draws in which [`InputShares::own_place`] lies in the range.
    #[serde(default)]
    pub own_place_in_range: Option<f64>,
    /// Share of draws in which [`InputShares::other_place`] lies in the range.
    #[serde(default)]
    pub other_place_in_range: Option<f64>,
}

impl ScenePromise {
    /// Compares a promise with the shares of right answers in the thing's own place and in another one.
    pub(super) fn new(promised: f64, range: Option<[f64; 2]>, [own_place, other_place]: [f64; 2]) -> Self {
        let in_range = |measured: f64| range.map(|range| if lies_in(range, measured) { 1.0 } else { 0.0 });
        Self {
            promised,
            range,
            own_place_gap: promised - own_place,
            other_place_gap: promised - other_place,
            own_place_in_range: in_range(own_place),
            other_place_in_range: in_range(other_place),
        }
    }

    /// The mean of those of several draws; none of none.
    fn mean(draws: &[Self]) -> Option<Self> {
        let mean = |of: fn(&Self) -> Option<f64>| mean_of_any(draws.iter().filter_map(of));
        let [low, high] = [mean(|promise| Some(promise.range?[0])), mean(|promise| Some(promise.range?[1]))];
        Some(Self {
            promised: mean(|promise| Some(promise.promised))?,
            range: low.zip(high).map(|(low, high)| [low, high]),
            own_place_gap: mean(|promise| Some(promise.own_place_gap))?,
            other_place_gap: mean(|promise| Some(promise.other_place_gap))?,
            own_place_in_range: mean(|promise| promise.own_place_in_range),
            other_place_in_range: mean(|promise| promise.other_place_in_range),
        })
    }
}

/// What was measured in a draw, or the mean of several. Shares are 0..1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SceneResults {
    /// Right answers through each of the plan's inputs.
    pub inputs: Vec<InputShares>,
    /// Empty frames that were called empty.
    pub empty: f64,
    /// Frames with a thing near which nothing was found. This and what follows are measured with
    /// [`SceneInput::EmptyView`](super::SceneInput::EmptyView) alone, and 0 without it.
    pub missed: f64,
    /// Frames with one thing in which more was found, too.
    #[serde(rename = "crumbs")]
    pub spurious: f64,
    /// Frames with two things of which both were answered right.
    pub two_things: f64,
}

impl SceneResults {
    /// The mean of several draws of the same inputs.
    pub fn mean(draws: &[Self]) -> Self {
        let mean = |of: &dyn Fn(&Self) -> f64| mean_of_any(draws.iter().map(of)).unwrap_or_default();
        let shares = |input: usize| InputShares {
            own_place: mean(&|draw| draw.inputs[input].own_place),
            other_place: mean(&|draw| draw.inputs[input].other_place),
            other_place_all_classes: mean(&|draw| draw.inputs[input].other_place_all_classes),
            refused_shots: mean(&|draw| draw.inputs[input].refused_shots),
            known: KnownShares::mean(&draws.iter().filter_map(|draw| draw.inputs[input].known).collect::<Vec<_>>()),
            promise: ScenePromise::mean(
                &draws.iter().filter_map(|draw| draw.inputs[input].promise).collect::<Vec<_>>(),
            ),
        };
        Self {
            inputs: (0..draws.first().map_or(0, |draw| draw.inputs.len())).map(shares).collect(),
            empty: mean(&|draw| draw.empty),
            missed: mean(&|draw| draw.missed),
            spurious: mean(&|draw| draw.spurious),
            two_things: mean(&|draw| draw.two_things),
        }
    }
}

/// What was measured, with the command that measures it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SceneReport {
    /// The command.
    pub command: String,
    /// Of each draw.
    pub draws: Vec<SceneResults>,
    /// Over all draws.
    pub mean: SceneResults,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_compared_with_what_is_right_in_both_places() {
        let kept = ScenePromise::new(0.75, Some([0.5, 1.0]), [1.0, 0.25]);
        assert_eq!((kept.own_place_gap, kept.other_place_gap), (-0.25, 0.5));
        assert_eq!((kept.own_place_in_range, kept.other_place_in_range), (Some(1.0), Some(0.0)));
        let shares = |promise| InputShares { promise, ..InputShares::default() };
        let draw = |promise| SceneResults { inputs: vec![shares(promise)], ..SceneResults::default() };
        let without_range = ScenePromise::new(0.25, None, [0.25, 0.25]);
        let mean = |draws: &[Option<ScenePromise>]| {
            SceneResults::mean(&draws.iter().copied().map(draw).collect::<Vec<_>>()).inputs[0].promise
        };
        let expected = ScenePromise {
            promised: 0.5,
            range: Some([0.5, 1.0]),
            own_place_gap: -0.125,
            other_place_gap: 0.25,
            own_place_in_range: Some(1.0),
            other_place_in_range: Some(0.0),
        };
        assert_eq!(mean(&[Some(kept), None, Some(without_range)]), Some(expected));
        assert_eq!(mean(&[None]), None);
    }

    #[test]
    fn results_of_older_programs_are_read() {
        let old = r#"{"own_place":1.0,"other_place":0.5,"other_place_all_classes":0.25,"refused_shots":0.125}"#;
        let shares: InputShares = serde_json::from_str(old).unwrap();
        assert_eq!((shares.own_place, shares.known, shares.promise), (1.0, None, None));
        assert_eq!(serde_json::to_string(&shares).unwrap(), old, "what was not measured is not written");
        let promise = Some(ScenePromise::new(0.75, Some([0.5, 1.0]), [1.0, 0.5]));
        let new = InputShares { promise, known: Some(KnownShares { own_place: 0.75, other_place: 0.5 }), ..shares };
        assert_eq!(serde_json::from_str::<InputShares>(&serde_json::to_string(&new).unwrap()).unwrap(), new);
    }

    #[test]
    fn means_are_over_draws() {
        let draw = |known| SceneResults {
            inputs: vec![InputShares { known, ..InputShares::default() }],
            ..SceneResults::default()
        };
        let known = |own_place, other_place| Some(KnownShares { own_place, other_place });
        let mean = SceneResults::mean(&[draw(known(1.0, 0.5)), draw(known(0.5, 0.0))]);
        assert_eq!(mean.inputs[0].known, known(0.75, 0.25));
    }
}
