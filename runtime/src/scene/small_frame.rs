//! Frames at the size at which they are compared.

use ::image::RgbImage;

/// Longest side, in pixels, at which frames are compared.
pub const SIDE: u32 = 320;
/// Most pixels of a row, or of a column, that are read for one pixel of the small frame: so that a frame of any size
/// takes the same time.
const MAX_TAPS: u32 = 4;
/// Channel or brightness, 0..255, from which a pixel is clipped: it may have been any brighter.
pub(super) const CLIPPED: f32 = 250.0;

/// A frame whose longest side is [`SIDE`] at the most.
#[derive(Clone, Debug)]
pub(super) struct SmallFrame {
    pub width: usize,
    /// Red, green and blue, 0..255, row by row.
    pub pixels: Vec<[f32; 3]>,
}

/// Brightness of a pixel: the mean of its channels.
pub(super) fn brightness(pixel: &[f32; 3]) -> f32 {
    pixel.iter().sum::<f32>() / 3.0
}

/// Width and height of the small frame of a frame of that size.
pub(super) fn small_size(width: u32, height: u32) -> [usize; 2] {
    let longest = width.max(height).max(1);
    let most = longest.min(SIDE);
    [width, height].map(|length| {
        let scaled = f64::from(length) * f64::from(most) / f64::from(longest);
        (scaled.round() as usize).max(1)
    })
}

impl SmallFrame {
    /// Makes a frame small.
    pub fn of(frame: &RgbImage) -> Self {
        Self::with_size(frame, small_size(frame.width(), frame.height()))
    }

    /// A frame with that width and height: each pixel is the mean of pixels that lie evenly in its part of the frame.
    pub fn with_size(frame: &RgbImage, [width, height]: [usize; 2]) -> Self {
        let (columns, rows) = (taps(frame.width(), width), taps(frame.height(), height));
        let stride = 3 * frame.width() as usize;
        let bytes = frame.as_raw();
        let share = 1.0 / (columns.count * rows.count) as f32;
        let mut pixels = Vec::with_capacity(width * height);
        for rows in rows.places.chunks_exact(rows.count) {
            for columns in columns.places.chunks_exact(columns.count) {
                let mut sum = [0u32; 3];
                for row in rows {
                    for column in columns {
                        let pixel = &bytes[row * stride + 3 * column..][..3];
                        (0..3).for_each(|channel| sum[channel] += u32::from(pixel[channel]));
                    }
                }
                pixels.push(sum.map(|sum| sum as f32 * share));
            }
        }
        Self { width, pixels }
    }
}

/// The places that are read along one side, `count` for each of the small frame's pixels.
struct Taps {
    count: usize,
    places: Vec<usize>,
}

fn taps(length: u32, cells: usize) -> Taps {
    let count = length.div_ceil(cells as u32).clamp(1, MAX_TAPS) as usize;
    let all = cells * count;
    // The middle of each tap's part, in whole pixels.
    let places = (0..all).map(|tap| (2 * tap + 1) * length as usize / (2 * all)).collect();
    Taps { count, places }
}
