//! The model of a camera's empty place.

use std::sync::{Arc, OnceLock};

use ::image::RgbImage;
use orco_state::sentence::counted;

use super::difference::{Change, Difference};
use super::exposure::gains;
use super::filter::{box_mean, slopes};
use super::foreground::{Foreground, MIN_SEARCHED_SIDE};
use super::region::{PixelRect, RegionError};
use super::small_frame::SmallFrame;

/// Most views that a background is made from.
pub const MAX_VIEWS: usize = 32;
/// Mean difference, in steps of brightness (0..255), from which a place looks different from before.
const NOTICEABLE: f32 = 1.0;
/// Least side of a view, in pixels.
const MIN_SIDE: u32 = 32;
/// Brightness, 0..255, below which a pixel shows nothing, and from which it is clipped.
const DARK: f32 = 16.0;
const CLIPPED: f32 = 250.0;
/// Share of dark or clipped pixels from which a view shows nothing.
const NOTHING: f32 = 0.95;
/// Deviation of the brightness, in steps, below which a view is of one colour.
const FLAT: f32 = 1.0;
/// Noise, as a deviation in steps of 0..255 at the small size, where one view alone cannot tell it.
const USUAL_NOISE: f32 = 2.5;
/// Least and most noise: of the quietest camera, and of the least quiet place.
pub(super) const NOISE: [f32; 2] = [1.2, 40.0];
/// Radius of the square around a hidden pixel by which its light is told, in pixels of the small frame. Where a thing
/// fills it, as a large one does at the frame's edge, the whole frame tells.
const AROUND: usize = 80;
/// Mean brightness, hidden pixels counted as black, from which the square or the frame tells anything.
const DIM: f32 = 0.1;
/// Scales at which frames are decoded, as divisors.
const SCALES: [u32; 4] = [1, 2, 4, 8];
/// Share of the frame that may differ between two views of one empty place.
const LOST: f32 = 0.5;

/// Why a background cannot be made from some views. Nothing was changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BackgroundError {
    /// No view, or too many of them.
    #[error("{} of the empty place cannot be used: 1 to {MAX_VIEWS} are needed, three are a good number", counted(*views, "view"))]
    Count {
        /// How many there are.
        views: usize,
    },
    /// A view is hardly larger than a point.
    #[error("view {view} of the empty place has only {width} x {height} pixels")]
    Small {
        /// Its number, from 1.
        view: usize,
        /// Its width in pixels.
        width: u32,
        /// Its height in pixels.
        height: u32,
    },
    /// Views have different sizes.
    #[error(
        "view {view} of the empty place has {} x {} pixels, the first has {} x {}: all must come from the same camera",
        actual[0], actual[1], expected[0], expected[1]
    )]
    Size {
        /// Its number, from 1.
        view: usize,
        /// Width and height of the first view.
        expected: [u32; 2],
        /// Its width and height.
        actual: [u32; 2],
    },
    /// A view is black.
    #[error("view {view} of the empty place is black: is the lens covered, or the light off?")]
    Dark {
        /// Its number, from 1.
        view: usize,
    },
    /// A view is white.
    #[error("view {view} of the empty place is clipped to white: give the camera less light")]
    Bright {
        /// Its number, from 1.
        view: usize,
    },
    /// A view has one colour.
    #[error("view {view} of the empty place is of one colour: is something in front of the lens?")]
    Flat {
        /// Its number, from 1.
        view: usize,
    },
    /// A view shows something that others do not.
    #[error(
        "view {view} of the empty place does not look like the others: is a thing or a hand in it, or do bands of a \
         flickering lamp pass over it? Clear the place, set the camera against flicker (50 or 60 Hz), and show it again"
    )]
    Thing {
        /// Its number, from 1.
        view: usize,
    },
    /// Most of a view differs from the others.
    #[error(
        "view {view} of the empty place is of another place than the others, or the camera was moved between them: \
         show it again"
    )]
    Moved {
        /// Its number, from 1.
        view: usize,
    },
}

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
    pub(super) light: f32,
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
    /// Makes a background from views of the empty place: one to [`MAX_VIEWS`], three are a good number. Several tell
    /// how noisy the camera is, and give a thing away that is in one of them.
    ///
    /// # Errors
    /// [`BackgroundError`] if a view shows nothing, or views do not show the same.
    pub fn learn(views: &[RgbImage]) -> Result<Self, BackgroundError> {
        check_sizes(views)?;
        let small: Vec<SmallFrame> = views.iter().map(SmallFrame::of).collect();
        small.iter().enumerate().try_for_each(|(index, view)| check_light(index + 1, view))?;
        let frame_size = [views[0].width(), views[0].height()];
        let aligned = aligned(&small);
        let plain = Self::of(frame_size, small[0].width, middle(&aligned), &aligned);
        // With two views nobody knows which one is wrong: the first stands for the place.
        let reference = if let [first, _] = &aligned[..] {
            Self { colours: first.clone(), ..plain.clone() }.with_slopes()
        } else {
            plain.clone()
        };
        small.iter().enumerate().try_for_each(|(index, view)| reference.check_view(index + 1, view))?;
        Ok(Self { variances: variances(&plain, &aligned), ..plain })
    }

    /// One whose pixels are all as noisy as most of them.
    fn of(frame_size: [u32; 2], width: usize, colours: Vec<[f32; 3]>, aligned: &[Vec<[f32; 3]>]) -> Self {
        let noise = common_noise(&colours, aligned);
        let variances = vec![noise * noise; colours.len()];
        // Views in other exposures take what is clipped beyond.
        let light = mean_light(&colours).min(255.0);
        let (slopes, shown, grey) = (Vec::new(), None, KeptGrey::default());
        Self { frame_size, width, colours, variances, noise, light, slopes, shown, grey }.with_slopes()
    }

    /// With what follows from its colours.
    pub(super) fn with_slopes(self) -> Self {
        Self { slopes: slopes(&self.colours, self.width), ..self }
    }

    fn check_view(&self, view: usize, small: &SmallFrame) -> Result<(), BackgroundError> {
        let difference = Difference::in_colour(self, small);
        if difference.lost > LOST {
            return Err(BackgroundError::Moved { view });
        }
        let is_empty = Foreground::of(self.width, &difference, self.frame_size, None).things().is_empty();
        if is_empty { Ok(()) } else { Err(BackgroundError::Thing { view }) }
    }

    /// Width and height of the frames that it can be compared with, in pixels.
    pub fn frame_size(&self) -> [u32; 2] {
        self.frame_size
    }

    /// Finds what is in a frame and not in the empty place, all of it or what lies in a region. Frame and
    /// views may have been decoded at other scales ([`decode_reduced`](crate::image::decode_reduced)).
    ///
    /// # Errors
    /// [`FrameSizeError`] if the frame has another size than the views of the empty place.
    pub fn compare(&self, frame: &RgbImage, region: Option<PixelRect>) -> Result<Foreground, FrameSizeError> {
        Ok(self.compare_frame(frame)?.foreground(region))
    }

    /// Checks that things can be found in a region of a frame of that size: one that is too small would always be
    /// called empty.
    ///
    /// # Errors
    /// [`RegionError::SmallForThings`] if it is too small.
    pub fn check_region(&self, frame: [u32; 2], region: PixelRect) -> Result<(), RegionError> {
        let small = [self.width, self.colours.len() / self.width].map(|side| side as u32);
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

    /// Where a frame differs from the place as it is by now and as it was shown. The second is asked only if the first
    /// sees a thing: an empty frame is compared once.
    pub(super) fn difference(&self, small: &SmallFrame) -> Difference {
        let mut difference = Difference::of(self, small);
        if let Some(shown) = &self.shown
            && difference.changes.contains(&Change::Strong)
        {
            difference.accept_as_light(&Difference::of(shown, small));
        }
        difference
    }

    /// The place in grey, for frames without colours. Kept until the background next follows the light.
    pub(super) fn in_grey(&self) -> &Self {
        self.grey.0.get_or_init(|| Arc::new(self.without_colours()))
    }

    fn without_colours(&self) -> Self {
        // As cameras weigh colours (ITU-R BT.601).
        let grey = |[red, green, blue]: &[f32; 3]| [0.299 * red + 0.587 * green + 0.114 * blue; 3];
        let colours = self.colours.iter().map(grey).collect();
        let (variances, slopes, grey) = (self.variances.clone(), Vec::new(), KeptGrey::default());
        Self { colours, variances, slopes, shown: None, grey, ..*self }.with_slopes()
    }

    /// A frame at the size of the background.
    pub(super) fn small(&self, frame: &RgbImage) -> Result<SmallFrame, FrameSizeError> {
        let (expected, actual) = (self.frame_size, [frame.width(), frame.height()]);
        let reduced = |size: [u32; 2], scale: u32| size.map(|side| side.div_ceil(scale));
        let fits = |scale: &u32| actual == reduced(expected, *scale) || expected == reduced(actual, *scale);
        let small = [self.width, self.colours.len() / self.width];
        // Fine structure that the frame does not have would differ.
        let is_large = [0, 1].iter().all(|&axis| actual[axis] as usize >= small[axis]);
        if is_large && SCALES.iter().any(fits) {
            Ok(SmallFrame::with_size(frame, small))
        } else {
            Err(FrameSizeError { expected, actual })
        }
    }

    /// The empty place, at the small size: for people to look at.
    pub fn picture(&self) -> RgbImage {
        let height = self.colours.len() / self.width;
        RgbImage::from_fn(self.width as u32, height as u32, |x, y| {
            ::image::Rgb(self.colours[y as usize * self.width + x as usize].map(|value| value.round() as u8))
        })
    }

    /// Whether the place looks as another background says, up to what neither people nor a comparison would notice:
    /// frames of one size whose colours and deviations differ by less than a step of brightness on average, and by more
    /// than a few steps nowhere but in single pixels.
    pub fn looks_like(&self, other: &Self) -> bool {
        /// Steps of brightness by which a pixel has changed, and the most of 1,000 pixels that may have: half of what the
        /// smallest thing covers.
        const CHANGED: f32 = 6.0;
        const MOST_OF_THOUSAND: usize = 1;
        if self.frame_size != other.frame_size {
            return false;
        }
        let has_changed = |(one, other): &(&[f32; 3], &[f32; 3])| {
            one.iter().zip(*other).any(|(one, other)| (one - other).abs() > CHANGED)
        };
        let changed = self.colours.iter().zip(&other.colours).filter(has_changed).count();
        if changed * 1000 > MOST_OF_THOUSAND * self.colours.len() {
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
            let light = |colours: &[[f32; 3]]| {
                let mut plane = vec![0.0f32; colours.len()];
                seen.iter().for_each(|&index| plane[index] = colours[index][channel]);
                let sum: f64 = plane.iter().copied().map(f64::from).sum();
                ((sum / plane.len() as f64) as f32, box_mean(&plane, self.width, AROUND))
            };
            let ((mean_then, then), (mean_now, now)) = (light(before), light(&self.colours));
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
        Foreground::of(self.columns, &self.difference, self.size, region)
    }
}

/// Mean brightness of pixels, 0..255.
pub(super) fn mean_light(pixels: &[[f32; 3]]) -> f32 {
    pixels.iter().flatten().sum::<f32>() / (3 * pixels.len()).max(1) as f32
}

fn mean_of(values: impl ExactSizeIterator<Item = f32>) -> f32 {
    let count = values.len().max(1) as f32;
    values.sum::<f32>() / count
}

fn check_sizes(views: &[RgbImage]) -> Result<(), BackgroundError> {
    if views.is_empty() || views.len() > MAX_VIEWS {
        return Err(BackgroundError::Count { views: views.len() });
    }
    let expected = [views[0].width(), views[0].height()];
    for (index, view) in views.iter().enumerate() {
        let (view, actual) = (index + 1, [view.width(), view.height()]);
        if actual.iter().any(|side| *side < MIN_SIDE) {
            return Err(BackgroundError::Small { view, width: actual[0], height: actual[1] });
        }
        if actual != expected {
            return Err(BackgroundError::Size { view, expected, actual });
        }
    }
    Ok(())
}

/// Whether a view shows anything.
fn check_light(view: usize, small: &SmallFrame) -> Result<(), BackgroundError> {
    let light: Vec<f32> = small.pixels.iter().map(|pixel| pixel.iter().sum::<f32>() / 3.0).collect();
    let count = light.len() as f32;
    let share = |is: &dyn Fn(f32) -> bool| light.iter().filter(|light| is(**light)).count() as f32 / count;
    let mean = light.iter().sum::<f32>() / count;
    let variance = light.iter().map(|light| (light - mean) * (light - mean)).sum::<f32>() / count;
    if share(&|light| light < DARK) > NOTHING {
        Err(BackgroundError::Dark { view })
    } else if share(&|light| light >= CLIPPED) > NOTHING {
        Err(BackgroundError::Bright { view })
    } else if variance < FLAT * FLAT {
        Err(BackgroundError::Flat { view })
    } else {
        Ok(())
    }
}

/// All views with the exposure of the first.
fn aligned(views: &[SmallFrame]) -> Vec<Vec<[f32; 3]>> {
    let first = &views[0].pixels;
    let align = |view: &SmallFrame| {
        let gains = gains(&view.pixels, first);
        view.pixels.iter().map(|pixel| core::array::from_fn(|channel| pixel[channel] / gains[channel])).collect()
    };
    core::iter::once(first.clone()).chain(views[1..].iter().map(align)).collect()
}

/// The median of each pixel's channels.
fn middle(views: &[Vec<[f32; 3]>]) -> Vec<[f32; 3]> {
    let median = |index: usize, channel: usize| {
        let mut values: Vec<f32> = views.iter().map(|view| view[index][channel]).collect();
        values.sort_by(f32::total_cmp);
        let half = values.len() / 2;
        if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
    };
    (0..views[0].len()).map(|index| core::array::from_fn(|channel| median(index, channel))).collect()
}

/// Factor by which deviations from a mean of so many views are too small.
fn shrinkage(views: usize) -> f32 {
    let views = views as f32;
    libm::sqrtf(views / (views - 1.0))
}

/// The deviation of most pixels, whatever a few do.
fn common_noise(colours: &[[f32; 3]], views: &[Vec<[f32; 3]>]) -> f32 {
    if views.len() < 2 {
        return USUAL_NOISE;
    }
    let off = |(one, other): (&[f32; 3], &[f32; 3])| [0, 1, 2].map(|channel| (one[channel] - other[channel]).abs());
    let mut all: Vec<f32> = views.iter().flat_map(|view| view.iter().zip(colours).flat_map(off)).collect();
    // Of normal values half are within 0.6745 deviations. With an odd number of views one of them is the median.
    let seen = if views.len() % 2 == 1 { all.len() / views.len() } else { 0 };
    let half = seen + (all.len() - seen) / 2;
    let (_, median, _) = all.select_nth_unstable_by(half, f32::total_cmp);
    (1.4826 * *median * shrinkage(views.len())).clamp(NOISE[0], NOISE[1])
}

/// Each pixel's variance, from its views and those of the pixels around it.
fn variances(background: &Background, views: &[Vec<[f32; 3]>]) -> Vec<f32> {
    if views.len() < 2 {
        return background.variances.clone();
    }
    let correction = shrinkage(views.len()) * shrinkage(views.len()) / (3 * views.len()) as f32;
    let of_pixel = |(index, colour): (usize, &[f32; 3])| {
        let squares = |view: &Vec<[f32; 3]>| -> f32 {
            (0..3).map(|channel| view[index][channel] - colour[channel]).map(|off| off * off).sum()
        };
        correction * views.iter().map(squares).sum::<f32>()
    };
    let raw: Vec<f32> = background.colours.iter().enumerate().map(of_pixel).collect();
    let least = background.noise * background.noise;
    box_mean(&raw, background.width, 2).into_iter().map(|variance| variance.clamp(least, NOISE[1] * NOISE[1])).collect()
}
