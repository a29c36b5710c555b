//! Makes a background from views of the empty place, and refuses views that cannot be used.

use ::image::RgbImage;
use orco_state::sentence::counted;

use super::{Background, KeptGrey, NOISE, mean_brightness};
use crate::scene::difference::Difference;
use crate::scene::exposure::{aligned, gains};
use crate::scene::filter::box_mean;
use crate::scene::foreground::Foreground;
use crate::scene::region::{NamedRegion, PixelRect, in_regions};
use crate::scene::small_frame::{CLIPPED, SmallFrame, brightness};

/// Most views that a background is made from.
pub const MAX_VIEWS: usize = 32;
/// Least side of a view, in pixels.
const MIN_SIDE: u32 = 32;
/// Brightness, 0..255, below which a pixel shows nothing.
const DARK: f32 = 16.0;
/// Share of dark or clipped pixels from which a view shows nothing.
const NOTHING: f32 = 0.95;
/// Deviation of the brightness, in steps, below which a view is of one colour.
const FLAT: f32 = 1.0;
/// Noise, as a deviation in steps of 0..255 at the small size, where one view alone cannot tell it.
const USUAL_NOISE: f32 = 2.5;
/// Side of the blocks by whose mean colours places are told apart, in pixels of the small size. A noisy camera hardly
/// changes these, leaves in the wind little.
const BLOCK: usize = 16;
/// Most deviation of a block's mean colour in views of one place, in steps of 0..255. Where most blocks differ by more,
/// the views show different places; taken for noise, that would hide every thing. Leaves in
/// the wind that fill the frame stay below it (journal of the book, 2026-11-30, views of different places).
const MAX_BLOCK_DIFFERENCE: f32 = 18.0;
/// Most of the place that a view may have lost: one that has lost more is of another place, one that has lost less is
/// searched for things. A frame may have lost more, since things may cover much of the place:
/// [`PlaceFit::is_moved`](crate::scene::PlaceFit::is_moved).
const MAX_LOST: f32 = 0.5;

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
    #[error(
        "view {view} of the empty place has only {width} x {height} pixels: at least {MIN_SIDE} x {MIN_SIDE} are needed"
    )]
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
        "view {view} of the empty place does not look like the others: is a thing or a hand in it, does the camera \
         shake, does something move there, such as a screen, or do bands of a flickering lamp pass over it? Clear the \
         place, mount the camera firmly, set it against flicker (50 or 60 Hz), use regions that leave out what moves, \
         and show it again"
    )]
    Thing {
        /// Its number, from 1.
        view: usize,
    },
    /// Most of a view differs from the others.
    #[error(
        "view {view} of the empty place is of another place than the others, the camera was moved between them, or much \
         of it moves by itself, such as a screen: show it again, with regions that leave out what moves"
    )]
    Moved {
        /// Its number, from 1.
        view: usize,
    },
}

impl Background {
    /// Makes a background from views of the empty place: one to [`MAX_VIEWS`], three are a good number. Several tell
    /// how noisy the camera is, and give a thing away that is in one of them.
    ///
    /// # Errors
    /// [`BackgroundError`] if a view shows nothing, or views do not show the same.
    pub fn learn(views: &[RgbImage]) -> Result<Self, BackgroundError> {
        Self::learn_in(views, &[])
    }

    /// As [`Background::learn`], but compares views only inside these regions: a screen outside of them shows something
    /// else all the time. Parts of regions that reach beyond the views do not count. Without regions, and where they
    /// hold no pixel at all, whole views are compared.
    ///
    /// # Errors
    /// As for [`Background::learn`].
    pub fn learn_in(views: &[RgbImage], regions: &[NamedRegion]) -> Result<Self, BackgroundError> {
        check_sizes(views)?;
        let small: Vec<SmallFrame> = views.iter().map(SmallFrame::of).collect();
        small.iter().enumerate().try_for_each(|(index, view)| check_not_blank(index + 1, view))?;
        let frame_size = [views[0].width(), views[0].height()];
        let aligned = in_one_exposure(&small);
        let searched = Searched::new(regions, frame_size, &small[0]);
        let is_searched = |index: usize| searched.is_in_region[index];
        let plain = Self::of(frame_size, small[0].width, median_colours(&aligned), &aligned, is_searched);
        // With two views nobody knows which one is wrong: the first stands for the place.
        let reference = if let [first, _] = &aligned[..] {
            Self { colours: first.clone(), ..plain.clone() }.with_slopes()
        } else {
            plain.clone()
        };
        let block_means = |view: &Vec<[f32; 3]>| block_means(view, small[0].width, is_searched);
        let blocks: Vec<Vec<[f32; 3]>> = aligned.iter().map(block_means).collect();
        if common_noise(&median_colours(&blocks), &blocks, |_| true) > MAX_BLOCK_DIFFERENCE {
            return Err(BackgroundError::Moved { view: most_different(&reference.colours, &aligned, is_searched) });
        }
        small.iter().enumerate().try_for_each(|(index, view)| reference.check_view(index + 1, view, &searched))?;
        Ok(Self { variances: variances(&plain, &aligned), ..plain })
    }

    /// One whose pixels are all as noisy as most of those that count.
    fn of(
        frame_size: [u32; 2],
        width: usize,
        colours: Vec<[f32; 3]>,
        aligned: &[Vec<[f32; 3]>],
        counts: impl Fn(usize) -> bool,
    ) -> Self {
        let noise = common_noise(&colours, aligned, counts);
        let variances = vec![noise * noise; colours.len()];
        // Views in other exposures take what is clipped beyond.
        let brightness = mean_brightness(&colours).min(255.0);
        let (slopes, shown, grey) = (Vec::new(), None, KeptGrey::default());
        Self { frame_size, width, colours, variances, noise, brightness, slopes, shown, grey }.with_slopes()
    }

    fn check_view(&self, view: usize, small: &SmallFrame, searched: &Searched) -> Result<(), BackgroundError> {
        let difference = Difference::compare(self, small);
        if difference.fit(|index| searched.is_in_region[index]).lost > MAX_LOST {
            return Err(BackgroundError::Moved { view });
        }
        let foreground = |region: &PixelRect| Foreground::of(self.width, &difference, self.frame_size, *region);
        let is_empty = searched.regions.iter().all(|region| foreground(region).things().is_empty());
        if is_empty { Ok(()) } else { Err(BackgroundError::Thing { view }) }
    }
}

/// What of the views is used.
struct Searched {
    /// The regions, in pixels of the views.
    regions: Vec<PixelRect>,
    /// Whether each pixel of the small frame lies in a region.
    is_in_region: Vec<bool>,
}

impl Searched {
    fn new(regions: &[NamedRegion], frame: [u32; 2], small: &SmallFrame) -> Self {
        let in_frame = |named: &NamedRegion| named.region.pixels_in(frame[0], frame[1]);
        let regions: Vec<PixelRect> = regions.iter().map(in_frame).collect();
        let is_in_region = in_regions(&regions, frame, small);
        if is_in_region.contains(&true) {
            Self { regions, is_in_region }
        } else {
            Self { regions: vec![PixelRect::whole(frame)], is_in_region: vec![true; is_in_region.len()] }
        }
    }
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
fn check_not_blank(view: usize, small: &SmallFrame) -> Result<(), BackgroundError> {
    let levels: Vec<f32> = small.pixels.iter().map(brightness).collect();
    let count = levels.len() as f32;
    let share = |is: &dyn Fn(f32) -> bool| levels.iter().filter(|level| is(**level)).count() as f32 / count;
    let mean = levels.iter().sum::<f32>() / count;
    let variance = levels.iter().map(|level| (level - mean) * (level - mean)).sum::<f32>() / count;
    if share(&|level| level < DARK) > NOTHING {
        Err(BackgroundError::Dark { view })
    } else if share(&|level| level >= CLIPPED) > NOTHING {
        Err(BackgroundError::Bright { view })
    } else if variance < FLAT * FLAT {
        Err(BackgroundError::Flat { view })
    } else {
        Ok(())
    }
}

/// All views with the exposure of the first.
fn in_one_exposure(views: &[SmallFrame]) -> Vec<Vec<[f32; 3]>> {
    let first = &views[0].pixels;
    let align = |view: &SmallFrame| aligned(&view.pixels, &gains(&view.pixels, first));
    core::iter::once(first.clone()).chain(views[1..].iter().map(align)).collect()
}

/// The median of each pixel's channels.
fn median_colours(views: &[Vec<[f32; 3]>]) -> Vec<[f32; 3]> {
    let median = |index: usize, channel: usize| {
        let mut values: Vec<f32> = views.iter().map(|view| view[index][channel]).collect();
        values.sort_by(f32::total_cmp);
        let half = values.len() / 2;
        if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
    };
    (0..views[0].len()).map(|index| core::array::from_fn(|channel| median(index, channel))).collect()
}

/// The mean colour of each block of [`BLOCK`] x [`BLOCK`] pixels, or of what is left of one at the edges: of its pixels
/// that count, by their index. Blocks without any are left out.
fn block_means(pixels: &[[f32; 3]], width: usize, counts: impl Fn(usize) -> bool) -> Vec<[f32; 3]> {
    let across = width.div_ceil(BLOCK);
    let blocks = across * (pixels.len() / width).div_ceil(BLOCK);
    let mut sums = vec![([0.0f32; 3], 0u32); blocks];
    for (index, pixel) in pixels.iter().enumerate().filter(|(index, _)| counts(*index)) {
        let (sum, count) = &mut sums[index / width / BLOCK * across + index % width / BLOCK];
        (0..3).for_each(|channel| sum[channel] += pixel[channel]);
        *count += 1;
    }
    let counted = sums.into_iter().filter(|(_, count)| *count > 0);
    counted.map(|(sum, count)| sum.map(|channel| channel / count as f32)).collect()
}

/// The number, from 1, of the view that differs most from these colours, in pixels that count.
fn most_different(colours: &[[f32; 3]], views: &[Vec<[f32; 3]>], counts: impl Fn(usize) -> bool) -> usize {
    let off = |view: &Vec<[f32; 3]>| -> f32 {
        let pixels = view.iter().zip(colours).enumerate().filter(|(index, _)| counts(*index));
        pixels.map(|(_, (one, other))| (0..3).map(|channel| (one[channel] - other[channel]).abs()).sum::<f32>()).sum()
    };
    let off = views.iter().map(off).enumerate();
    off.max_by(|(_, one), (_, other)| one.total_cmp(other)).map_or(1, |(index, _)| index + 1)
}

/// Factor by which deviations from a mean of this many views are too small.
fn shrinkage(views: usize) -> f32 {
    let views = views as f32;
    libm::sqrtf(views / (views - 1.0))
}

/// The deviation of most pixels that count, by their index, whatever a few do.
fn common_noise(colours: &[[f32; 3]], views: &[Vec<[f32; 3]>], counts: impl Fn(usize) -> bool) -> f32 {
    if views.len() < 2 {
        return USUAL_NOISE;
    }
    let off = |(one, other): (&[f32; 3], &[f32; 3])| [0, 1, 2].map(|channel| (one[channel] - other[channel]).abs());
    let mut all = Vec::new();
    for view in views {
        let pixels = view.iter().zip(colours).enumerate().filter(|(index, _)| counts(*index));
        all.extend(pixels.flat_map(|(_, pair)| off(pair)));
    }
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
