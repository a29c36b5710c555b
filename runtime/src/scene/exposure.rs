//! How much brighter a frame is than the background, channel by channel.

use std::ops::Range;

use super::small_frame::brightness;

/// Ratios are counted by their logarithm, up to this one on both sides: about 1 to 3.3.
const MAX_LOG_RATIO: f32 = 1.2;
/// Bins for each unit of the logarithm.
const BINS_PER_UNIT: f32 = 100.0;
/// Bins on both sides of one that count with it.
const REACH: usize = 7;
/// A channel's logarithm is at most so far from that of the brightness: as white balance goes.
const MAX_TINT: f32 = 0.15;
/// One pixel of this many is counted.
const STEP: usize = 3;
/// No ratio is estimated where less than one pixel of this many is [usable](log_ratio).
const MIN_USABLE: usize = 20;
/// Brightness, 0..255, at which a frame's pixel is neither dark nor clipped.
const USABLE_IN_FRAME: Range<f32> = 8.0..248.0;
/// The same for the background.
const USABLE_IN_BACKGROUND: Range<f32> = 14.0..242.0;
/// How near, by the logarithm, ratios are to the most frequent one to count in the mean that refines it, mean by mean.
const NEAR: [f32; 3] = [0.1, 0.06, 0.04];

/// The factor by which each channel of a frame is brighter than the background: the most frequent ratio, so that what
/// covers a part of the frame does not matter. 1 where nothing can be estimated.
///
/// # Shapes
/// Both have the same pixels.
pub(super) fn gains(frame: &[[f32; 3]], background: &[[f32; 3]]) -> [f32; 3] {
    let pairs = || frame.iter().zip(background).step_by(STEP);
    let whole: Vec<f32> = pairs().filter_map(|(frame, back)| log_ratio(brightness(frame), brightness(back))).collect();
    if whole.len() * STEP * MIN_USABLE < frame.len() {
        return [1.0; 3];
    }
    let common = most_frequent(&whole, -MAX_LOG_RATIO, MAX_LOG_RATIO);
    core::array::from_fn(|channel| {
        let ratios: Vec<f32> = pairs().filter_map(|(frame, back)| log_ratio(frame[channel], back[channel])).collect();
        let usable = ratios.len() * STEP * MIN_USABLE >= frame.len();
        let log = if usable { most_frequent(&ratios, common - MAX_TINT, common + MAX_TINT) } else { common };
        libm::expf(log)
    })
}

/// Logarithm of the ratio of two brightnesses, unless one is dark or clipped.
fn log_ratio(frame: f32, background: f32) -> Option<f32> {
    let usable = USABLE_IN_FRAME.contains(&frame) && USABLE_IN_BACKGROUND.contains(&background);
    usable.then(|| libm::logf(frame / background))
}

/// The most frequent value between two, then the mean of the values that are near it. Where none lies there, the end
/// that is nearer to most of them.
fn most_frequent(values: &[f32], low: f32, high: f32) -> f32 {
    if !values.iter().any(|value| (low..=high).contains(value)) {
        let below = values.iter().filter(|value| **value < low).count();
        return if 2 * below > values.len() { low } else { high };
    }
    let bin = |value: f32| ((value - low) * BINS_PER_UNIT) as usize;
    let mut counts = vec![0.0f32; bin(high) + 1];
    values.iter().filter(|value| (low..=high).contains(*value)).for_each(|value| counts[bin(*value)] += 1.0);
    // As wide as noise goes: a bright thing's ratios lie closer together than those of a darker place, and must not win
    // by that.
    let smooth = |index: usize| -> f32 {
        let weight = |offset: usize| 1.0 - (offset as f32 / REACH as f32 - 1.0).powi(2);
        let around = (0..=2 * REACH)
            .filter_map(|offset| Some(weight(offset) * counts.get((index + offset).checked_sub(REACH)?)?));
        around.sum()
    };
    let best = (0..counts.len()).map(|index| (index, smooth(index))).max_by(|one, other| one.1.total_cmp(&other.1));
    let mut value = best.map_or(0.0, |(index, _)| low + (index as f32 + 0.5) / BINS_PER_UNIT);
    for reach in NEAR {
        let near = values.iter().filter(|other| (*other - value).abs() < reach);
        let (sum, count) = near.fold((0.0, 0), |(sum, count), near| (sum + near, count + 1));
        if count > 0 {
            value = sum / count as f32;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use orco_core::random::Random;

    use super::gains;

    #[test]
    fn light_beyond_what_an_exposure_changes_brings_a_frame_as_near_as_it_can() {
        let place: Vec<[f32; 3]> = (0..3000).map(|at| [100.0 + (at % 50) as f32; 3]).collect();
        let by = |factors: [f32; 3]| -> [f32; 3] {
            let frame: Vec<_> =
                place.iter().map(|pixel| [0, 1, 2].map(|channel| pixel[channel] * factors[channel])).collect();
            gains(&frame, &place)
        };
        assert!(by([0.25; 3]).iter().all(|gain| *gain < 0.32), "three of four lamps are off: {:?}", by([0.25; 3]));
        let warm = by([1.0, 1.0, 0.75]);
        assert!(warm[2] < 0.95 && (warm[0] - 1.0).abs() < 0.1, "{warm:?}");
    }

    #[test]
    fn a_plain_bright_thing_does_not_take_the_place_of_the_darker_table_behind_it() {
        let mut random = Random::new(1, "noise");
        for (table, thing) in [(75.0, 215.0), (120.0, 220.0)] {
            let mut noisy = |level: f32| [0; 3].map(|_: u8| level + random.normal());
            let place: Vec<[f32; 3]> = (0..20_000).map(|_| noisy(table)).collect();
            let frame: Vec<[f32; 3]> = (0..20_000).map(|at| noisy(if at % 100 < 45 { thing } else { table })).collect();
            let gains = gains(&frame, &place);
            assert!(gains.iter().all(|gain| (gain - 1.0).abs() < 0.05), "{thing} on {table}: {gains:?}");
        }
    }
}
