//! How much brighter a frame is than the background, channel by channel.

use std::ops::Range;

use orco_core::math::ln_of_normal;

use super::small_frame::{CLIPPED, brightness};

/// Ratios are counted by their logarithm, up to this one on both sides: about 1 to 3.3.
const MAX_LOG_RATIO: f32 = 1.2;
/// Bins for each unit of the logarithm.
const BINS_PER_UNIT: f32 = 100.0;
/// Bins on both sides of one that count with it.
const REACH: usize = 7;
/// A channel's logarithm is at most this far from that of the brightness: as far as white balance goes.
const MAX_TINT: f32 = 0.15;
/// One pixel of this many is counted.
const STEP: usize = 3;
/// No ratio is estimated where less than one pixel of this many is [usable](LogRatios::usable).
const MIN_USABLE: usize = 20;
/// Brightness, 0..255, at which a frame's pixel is neither dark nor clipped.
const USABLE_IN_FRAME: Range<f32> = 8.0..248.0;
/// The same for the background.
const USABLE_IN_BACKGROUND: Range<f32> = 14.0..242.0;
/// How near, by the logarithm, ratios are to the most frequent one to count in the mean that refines it, mean by mean.
const NEAR: [f32; 3] = [0.1, 0.06, 0.04];
/// Share of the clipped pixels that an exposure clips: a few may be those of a thing.
const NEARLY_ALL: f32 = 0.95;
/// Largest ratio, by the logarithm, that is told by what is clipped: a frame in which darker places are clipped, too,
/// shows nothing of them.
const MAX_CLIPPING: f32 = 0.4;

/// The factor by which each channel of a frame is brighter than the background: the most frequent ratio, so that what
/// covers a part of the frame does not matter. 1 where nothing can be estimated.
///
/// Of a place that is clipped in most of the frame only the least factor is known: what clips it.
///
/// # Shapes
/// Both have the same pixels.
pub(super) fn gains(frame: &[[f32; 3]], background: &[[f32; 3]]) -> [f32; 3] {
    let pairs = || frame.iter().zip(background).step_by(STEP);
    let whole = LogRatios::of(pairs().map(|(frame, back)| [brightness(frame), brightness(back)]));
    let Some(common) = whole.common(-MAX_LOG_RATIO, MAX_LOG_RATIO) else { return [1.0; 3] };
    core::array::from_fn(|channel| {
        let ratios = LogRatios::of(pairs().map(|(frame, back)| [frame[channel], back[channel]]));
        libm::expf(ratios.common(common - MAX_TINT, common + MAX_TINT).unwrap_or(common))
    })
}

/// Pixels with the exposure of those that they are brighter than by these factors.
pub(super) fn aligned(pixels: &[[f32; 3]], gains: &[f32; 3]) -> Vec<[f32; 3]> {
    pixels.iter().map(|pixel| core::array::from_fn(|channel| pixel[channel] / gains[channel])).collect()
}

/// Logarithms of ratios of a frame's brightnesses to those of the background.
struct LogRatios {
    /// Of pixels that are neither dark nor clipped.
    usable: Vec<f32>,
    /// The least ones, of pixels that are clipped in the frame alone.
    clipped: Vec<f32>,
    /// How many pixels there are.
    pixels: usize,
}

impl LogRatios {
    /// Computes the ratios of pixels, each given by its brightness in the frame and in the background.
    fn of(pixels: impl Iterator<Item = [f32; 2]>) -> Self {
        let pixels: Vec<[f32; 2]> = pixels.collect();
        let logs: Vec<f32> = pixels.iter().map(|[frame, background]| ln_of_normal(frame / background)).collect();
        let mut ratios = Self { usable: Vec::new(), clipped: Vec::new(), pixels: pixels.len() };
        for ([frame, background], log) in pixels.into_iter().zip(logs) {
            if !USABLE_IN_BACKGROUND.contains(&background) {
                continue;
            }
            if USABLE_IN_FRAME.contains(&frame) {
                ratios.usable.push(log);
            } else if frame >= CLIPPED {
                ratios.clipped.push(ln_of_normal(CLIPPED / background));
            }
        }
        ratios
    }

    /// The ratio that most of the place has, between two; none if too little of it is usable.
    fn common(self, low: f32, high: f32) -> Option<f32> {
        let is_enough = |count: usize| count * MIN_USABLE >= self.pixels;
        let frequent = is_enough(self.usable.len()).then(|| most_frequent(&self.usable, low, high));
        if 2 * self.clipped.len() <= self.pixels {
            return frequent;
        }
        // Most of the frame is clipped. If enough other pixels agree on one ratio, they show the place, and a white
        // thing hides the rest; if they do not, the exposure clips the place.
        let agrees = |ratio: f32| self.usable.iter().filter(|other| (*other - ratio).abs() < NEAR[0]).count();
        let is_seen = frequent.is_some_and(|ratio| is_enough(agrees(ratio)));
        if is_seen {
            return frequent;
        }
        let clipping = clipping(self.clipped);
        if clipping <= MAX_CLIPPING { Some(clipping.clamp(low, high)) } else { frequent }
    }
}

/// The least ratio that clips nearly all of the pixels whose least ones these are.
fn clipping(mut ratios: Vec<f32>) -> f32 {
    let last = (NEARLY_ALL * (ratios.len() - 1) as f32) as usize;
    *ratios.select_nth_unstable_by(last, f32::total_cmp).1
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
    fn a_place_that_is_clipped_has_at_least_the_exposure_that_clips_it() {
        let place: Vec<[f32; 3]> = (0..3000).map(|at| [200.0 + (at % 40) as f32; 3]).collect();
        // The thing is lit unevenly, and covers that share of the place, in percent.
        let seen = |gain: f32, thing: f32, covered: usize| -> [f32; 3] {
            let light = |(at, pixel): (usize, &[f32; 3])| {
                if at % 100 < covered { thing * (1.0 + (at / 100) as f32 / 10.0) } else { gain * pixel[0] }
            };
            let frame: Vec<_> = place.iter().enumerate().map(|pixel| [light(pixel).min(255.0); 3]).collect();
            gains(&frame, &place)
        };
        for gain in [1.28, 1.5] {
            // A dark thing must not tell the exposure, though it alone is not clipped.
            for covered in [0, 4, 12] {
                let gains = seen(gain, 40.0, covered);
                assert!(gains.iter().all(|gain| (1.22..1.3).contains(gain)), "{gain}, {covered}: {gains:?}");
            }
        }
        let gains = seen(1.0, 255.0, 80);
        assert!(gains.iter().all(|gain| (gain - 1.0).abs() < 0.02), "a white sheet hides most of the place: {gains:?}");
        let dark = vec![[100.0; 3]; 3000];
        assert_eq!(super::gains(&vec![[255.0; 3]; 3000], &dark), [1.0; 3], "a lamp shines into the lens");
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
