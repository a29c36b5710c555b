//! The model of a camera's empty place: what frames are compared with, and how it follows the light.

mod empty_views;

use std::sync::{Arc, OnceLock};

use ::image::RgbImage;

pub use self::empty_views::{BackgroundError, MAX_VIEWS};
use super::camera_pose::CameraPose;
use super::difference::{Change, Difference};
use super::filter::{box_mean, slopes};
use super::foreground::{Foreground, MIN_SEARCHED_SIDE};
use super::light_field::LightField;
use super::region::{PixelRect, RegionError};
use super::small_frame::SmallFrame;
use super::structure::BlockSearch;
use crate::image::luma;

/// Mean difference, in steps of brightness (0..255), from which a place looks different from before.
const NOTICEABLE: f32 = 1.0;
/// Least and most noise: of the quietest camera, and of the least quiet place.
pub(super) const NOISE: [f32; 2] = [1.2, 40.0];
/// Radius of the square around a hidden pixel from which its brightness is estimated, in pixels of the small frame.
/// Where a thing fills it, as a large one does at the frame's edge, the whole frame is taken.
const AROUND: usize = 80;
/// Mean brightness, hidden pixels counted as black, from which the square or the frame tells anything.
const DIM: f32 = 0.1;
/// Scales at which frames are decoded, as divisors.
const SCALES: [u32; 4] = [1, 2, 4, 8];

/// A frame has another size than the views that the background was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the empty place was shown with {} x {} pixels, this picture has {} x {}: show the empty place again with the same \
     camera and resolution", expected[0], expected[1], actual[0], actual[1]
)]
pub struct FrameSizeError {
    /// Width and height of the views.
    pub expected: [u32; 2],
    /// Width and height of the frame.
    pub actual: [u32; 2],
}

/// What an empty place looks like to a camera that stands still: colour and noise of each pixel, at a small size
/// ([`SIDE`](super::SIDE)). It takes at most 2.1 MB of memory, whatever the camera, and twice that once it follows the
/// light. A copy in grey doubles either once a frame without colours was compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Background {
    /// Width and height of the frames.
    pub(super) frame_size: [u32; 2],
    /// Columns of the small frame.
    pub(super) width: usize,
    /// Red, green and blue of each pixel, 0..255.
    pub(super) colours: Vec<[f32; 3]>,
    /// Variance of each pixel's channels, in steps squared.
    pub(super) variances: Vec<f32>,
    /// Deviation that nearly all pixels have at least.
    pub(super) noise: f32,
    /// Mean brightness of the place when it was shown, 0..255, however far this has followed the light since.
    pub(super) brightness: f32,
    /// How far a shake by one pixel may change each pixel; follows from the colours.
    pub(super) slopes: Vec<f32>,
    /// The place as it was shown, or read from its file, once this has followed the light: a shadow that became part of
    /// the place may go.
    pub(super) shown: Option<Arc<Self>>,
    /// The place in grey, for frames without colours.
    pub(super) grey: KeptGrey,
}

/// A background in grey, made when a frame without colours is first compared. It follows from the background's colours,
/// so backgrounds are compared without it.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptGrey(OnceLock<Arc<Background>>);

impl PartialEq for KeptGrey {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Background {
    /// The background with what follows from its colours.
    pub(super) fn with_slopes(self) -> Self {
        Self { slopes: slopes(&self.colours, self.width), ..self }
    }

    /// Width and height of the frames that it can be compared with, in pixels.
    pub fn frame_size(&self) -> [u32; 2] {
        self.frame_size
    }

    /// Width and height of the small frame.
    pub(super) fn small_size(&self) -> [usize; 2] {
        [self.width, self.colours.len() / self.width]
    }

    /// Finds what is in a frame and not in the background, all of it or what lies in a region. Frame and
    /// views may have been decoded at other scales ([`decode_reduced`](crate::image::decode_reduced)).
    ///
    /// # Errors
    /// [`FrameSizeError`] if the frame has another size than the empty views.
    pub fn compare(&self, frame: &RgbImage, region: Option<PixelRect>) -> Result<Foreground, FrameSizeError> {
        Ok(self.compare_frame(frame)?.foreground(region))
    }

    /// Checks that things can be found in a region of a frame of that size: one that is too small would always be
    /// called empty.
    ///
    /// # Errors
    /// [`RegionError::SmallForThings`] if it is too small.
    pub fn check_region(&self, frame: [u32; 2], region: PixelRect) -> Result<(), RegionError> {
        let small = self.small_size().map(|side| side as u32);
        let searched = region.in_small_frame(frame, small);
        if searched.width.min(searched.height) < MIN_SEARCHED_SIDE {
            let percent = (100 * MIN_SEARCHED_SIDE).div_ceil(small[0].max(small[1]));
            return Err(RegionError::SmallForThings { region, percent });
        }
        Ok(())
    }

    /// Compares a frame once, for any number of its regions.
    ///
    /// # Errors
    /// As for [`Background::compare`].
    pub(super) fn compare_frame(&self, frame: &RgbImage) -> Result<ComparedFrame, FrameSizeError> {
        let difference = self.difference(&self.small(frame)?);
        Ok(ComparedFrame { columns: self.width, size: [frame.width(), frame.height()], difference })
    }

    /// Where a frame differs from the place as it is by now, as it was shown, and in uneven light, and how the camera
    /// stands. Each of these is computed only if those before it leave strong differences, and light only where it may
    /// explain any: an empty frame is compared once, and so is a thing that has the place's colours nowhere.
    pub(super) fn difference(&self, small: &SmallFrame) -> Difference {
        let mut difference = Difference::of(self, small);
        let is_explained = |difference: &Difference| !difference.changes.contains(&Change::Strong);
        if is_explained(&difference) {
            return difference;
        }
        if let Some(shown) = self.shown.as_ref().filter(|_| difference.may_hide_light()) {
            difference.accept_as_light(&Difference::of(shown, small), |_| true);
            if is_explained(&difference) {
                return difference;
            }
        }
        let place = if difference.is_grey { self.in_grey() } else { self };
        let Some(search) = BlockSearch::new(place, &small.pixels) else {
            difference.pose = CameraPose::Plain;
            return difference;
        };
        let light = if difference.may_hide_light() { LightField::of(place, small, &difference, &search) } else { None };
        if let Some(light) = light {
            let relit = Difference::compare(&place.relit(&light.factors), small);
            difference.accept_as_light(&relit, |index| light.is_known[index]);
            if is_explained(&difference) {
                return difference;
            }
        }
        difference.pose = CameraPose::of(&search);
        difference
    }

    /// The place in grey, for frames without colours. Kept until the background next follows the light.
    pub(super) fn in_grey(&self) -> &Self {
        self.grey.0.get_or_init(|| Arc::new(self.without_colours()))
    }

    fn without_colours(&self) -> Self {
        // As cameras weigh colours.
        self.with_colours(self.colours.iter().map(|colour| [luma(*colour); 3]).collect())
    }

    /// The place with each pixel as much brighter as these factors say.
    fn relit(&self, factors: &[f32]) -> Self {
        let lit = |(colour, factor): (&[f32; 3], &f32)| colour.map(|channel| channel * factor);
        self.with_colours(self.colours.iter().zip(factors).map(lit).collect())
    }

    /// The place in other colours, as noisy as it is. It does not know how it was shown.
    fn with_colours(&self, colours: Vec<[f32; 3]>) -> Self {
        let (variances, slopes, grey) = (self.variances.clone(), Vec::new(), KeptGrey::default());
        Self { colours, variances, slopes, shown: None, grey, ..*self }.with_slopes()
    }

    /// A frame at the size of the background.
    pub(super) fn small(&self, frame: &RgbImage) -> Result<SmallFrame, FrameSizeError> {
        let (expected, actual) = (self.frame_size, [frame.width(), frame.height()]);
        let reduced = |size: [u32; 2], scale: u32| size.map(|side| side.div_ceil(scale));
        let fits = |scale: &u32| actual == reduced(expected, *scale) || expected == reduced(actual, *scale);
        let small = self.small_size();
        // Fine structure that the frame does not have would differ.
        let is_large = [0, 1].iter().all(|&axis| actual[axis] as usize >= small[axis]);
        if is_large && SCALES.iter().any(fits) {
            Ok(SmallFrame::with_size(frame, small))
        } else {
            Err(FrameSizeError { expected, actual })
        }
    }

    /// The background, at the small size: for people to look at.
    pub fn picture(&self) -> RgbImage {
        let [width, height] = self.small_size().map(|side| side as u32);
        RgbImage::from_fn(width, height, |x, y| {
            ::image::Rgb(self.colours[y as usize * self.width + x as usize].map(|value| value.round() as u8))
        })
    }

    /// Whether the place looks as another background says, up to what neither people nor a comparison would notice:
    /// frames of one size whose colours and deviations differ by less than a step of brightness on average, and by more
    /// than a few steps nowhere but in single pixels.
    pub fn looks_like(&self, other: &Self) -> bool {
        /// Difference of a channel, in steps of brightness (0..255), above which a pixel has changed.
        const CHANGED: f32 = 6.0;
        /// Most pixels of 1,000 that may have changed: half of what the smallest thing covers.
        const MAX_CHANGED_OF_1000: usize = 1;
        if self.frame_size != other.frame_size {
            return false;
        }
        let has_changed = |(one, other): &(&[f32; 3], &[f32; 3])| {
            one.iter().zip(*other).any(|(one, other)| (one - other).abs() > CHANGED)
        };
        let changed = self.colours.iter().zip(&other.colours).filter(has_changed).count();
        if changed * 1000 > MAX_CHANGED_OF_1000 * self.colours.len() {
            return false;
        }
        let colours = self.colours.as_flattened().iter().zip(other.colours.as_flattened());
        let deviations = self.variances.iter().zip(&other.variances);
        mean_of(colours.map(|(one, other)| (one - other).abs())) < NOTICEABLE
            && mean_of(deviations.map(|(one, other)| (libm::sqrtf(*one) - libm::sqrtf(*other)).abs())) < NOTICEABLE
    }

    /// Follows the light of a frame: `share` of it counts, 0..1. `shows_place` tells of a pixel of the small frame, by
    /// its index, whether the place is seen there. Colours of such pixels follow the frame as it is, so that a slow
    /// change of light becomes part of the place; noise is what is left when its exposure is brought to that of the
    /// background. What a shadow leaves is none: a place that took it for noise would overlook things.
    ///
    /// What is hidden becomes as much brighter or darker as what is seen around it: it is to be found again once
    /// nothing hides it.
    pub(super) fn follow(
        &mut self,
        small: &SmallFrame,
        difference: &Difference,
        shows_place: impl Fn(usize) -> bool,
        share: f32,
    ) {
        if self.shown.is_none() {
            self.shown = Some(Arc::new(self.clone()));
        }
        let before = self.colours.clone();
        let (seen, hidden): (Vec<usize>, Vec<usize>) = (0..before.len()).partition(|index| shows_place(*index));
        for &index in &seen {
            let (pixel, colour) = (small.pixels[index], &mut self.colours[index]);
            let mut squares = 0.0;
            for channel in 0..3 {
                let off = pixel[channel] / difference.gains[channel] - colour[channel];
                squares += off * off / 3.0;
                colour[channel] += share * (pixel[channel] - colour[channel]);
            }
            if difference.changes[index] == Change::Light {
                continue;
            }
            let variance = &mut self.variances[index];
            *variance += share * (squares - *variance);
            *variance = variance.clamp(NOISE[0] * NOISE[0], NOISE[1] * NOISE[1]);
        }
        if !hidden.is_empty() {
            self.brighten(&hidden, &before, &seen);
        }
        self.slopes = slopes(&self.colours, self.width);
        self.grey = KeptGrey::default();
    }

    /// Makes hidden pixels as much brighter or darker as those that are seen around them have become since `before`.
    fn brighten(&mut self, hidden: &[usize], before: &[[f32; 3]], seen: &[usize]) {
        let ratio = |now: f32, then: f32| (then > DIM).then(|| now / then);
        for channel in 0..3 {
            let means = |colours: &[[f32; 3]]| {
                let mut plane = vec![0.0f32; colours.len()];
                seen.iter().for_each(|&index| plane[index] = colours[index][channel]);
                let sum: f64 = plane.iter().copied().map(f64::from).sum();
                ((sum / plane.len() as f64) as f32, box_mean(&plane, self.width, AROUND))
            };
            let ((mean_then, then), (mean_now, now)) = (means(before), means(&self.colours));
            let elsewhere = ratio(mean_now, mean_then).unwrap_or(1.0);
            for &index in hidden {
                self.colours[index][channel] *= ratio(now[index], then[index]).unwrap_or(elsewhere);
            }
        }
    }
}

/// A frame that was compared with a background: what all regions of it share.
pub(super) struct ComparedFrame {
    /// Columns of the small frame.
    columns: usize,
    /// Width and height of the frame.
    size: [u32; 2],
    difference: Difference,
}

impl ComparedFrame {
    /// What is in the frame, or in a region of it, and not in the empty place.
    pub fn foreground(&self, region: Option<PixelRect>) -> Foreground {
        Foreground::of(self.columns, &self.difference, self.size, region.unwrap_or(PixelRect::whole(self.size)))
    }
}

/// Mean brightness of pixels, 0..255.
pub(super) fn mean_brightness(pixels: &[[f32; 3]]) -> f32 {
    pixels.iter().flatten().sum::<f32>() / (3 * pixels.len()).max(1) as f32
}

fn mean_of(values: impl ExactSizeIterator<Item = f32>) -> f32 {
    let count = values.len().max(1) as f32;
    values.sum::<f32>() / count
}
