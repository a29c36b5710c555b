//! Parts of a frame.

use std::fmt;
use std::str::FromStr;

use orco_state::escape::EscapedText;
use orco_state::label;
use serde::{Deserialize, Serialize};

use super::small_frame::SmallFrame;

/// A rectangle of whole pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PixelRect {
    /// Its left edge.
    pub x: u32,
    /// Its upper edge.
    pub y: u32,
    /// Its width.
    pub width: u32,
    /// Its height.
    pub height: u32,
}

impl PixelRect {
    /// A frame of that width and height as a whole.
    pub(super) fn whole([width, height]: [u32; 2]) -> Self {
        Self { x: 0, y: 0, width, height }
    }

    /// The column behind its last one.
    pub fn right(self) -> u32 {
        self.x.saturating_add(self.width)
    }

    /// The row below its last one.
    pub fn bottom(self) -> u32 {
        self.y.saturating_add(self.height)
    }

    /// Whether a pixel, column and row, lies in it.
    pub fn contains(self, [x, y]: [u32; 2]) -> bool {
        (self.x..self.right()).contains(&x) && (self.y..self.bottom()).contains(&y)
    }

    /// The pixel in its middle, column and row.
    pub fn middle(self) -> [u32; 2] {
        [self.x.saturating_add(self.width / 2), self.y.saturating_add(self.height / 2)]
    }

    /// Intersection over union with another one, 0..1.
    pub fn intersection_over_union(self, other: Self) -> f32 {
        let sides = |of: Self| [of.x, of.y, of.width, of.height].map(f64::from);
        intersection_over_union(sides(self), sides(other))
    }

    /// The pixels of a small frame whose middles lie in it; both frames by width and height. There may be none.
    pub(super) fn in_small_frame(self, frame: [u32; 2], small: [u32; 2]) -> Self {
        // Pixels of the small frame whose middles lie before a place of the frame.
        let edge = |place: u32, axis: usize| {
            let [length, cells] = [frame[axis], small[axis]].map(u64::from);
            let middle = |cell: u32| (2 * u64::from(cell) + 1) * length / (2 * cells);
            (0..small[axis]).filter(|cell| middle(*cell) < u64::from(place)).count() as u32
        };
        let (x, right) = (edge(self.x, 0), edge(self.right(), 0));
        let (y, bottom) = (edge(self.y, 1), edge(self.bottom(), 1));
        Self { x, y, width: right - x, height: bottom - y }
    }

    /// Twice the coordinates of its middle, which may lie between pixels.
    pub(super) fn doubled_middle(self) -> [i64; 2] {
        [2 * i64::from(self.x) + i64::from(self.width), 2 * i64::from(self.y) + i64::from(self.height)]
    }
}

/// Intersection over union of two rectangles, 0..1, each its left and upper edge, width and height: in pixels, or in
/// shares of a frame's sides.
pub fn intersection_over_union(one: [f64; 4], other: [f64; 4]) -> f32 {
    let along = |axis: usize| {
        let end = |of: [f64; 4]| of[axis] + of[axis + 2];
        (end(one).min(end(other)) - one[axis].max(other[axis])).max(0.0)
    };
    let both = along(0) * along(1);
    (both / (one[2] * one[3] + other[2] * other[3] - both).max(f64::MIN_POSITIVE)) as f32
}

/// `x,y,width,height`, as [`Region`] reads it.
impl fmt::Display for PixelRect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{},{}", self.x, self.y, self.width, self.height)
    }
}

/// Whether each pixel of the small frame lies in a region of the frame.
pub(super) fn in_regions(regions: &[PixelRect], frame: [u32; 2], small: &SmallFrame) -> Vec<bool> {
    let mut in_region = vec![false; small.pixels.len()];
    let size = [small.width, small.pixels.len() / small.width].map(|side| side as u32);
    for part in regions.iter().map(|region| region.in_small_frame(frame, size)) {
        let (left, right) = (part.x as usize, part.right() as usize);
        for row in in_region.chunks_exact_mut(small.width).take(part.bottom() as usize).skip(part.y as usize) {
            row[left..right].fill(true);
        }
    }
    in_region
}

/// A part of every frame of a camera.
///
/// ```
/// use orco_runtime::scene::{PixelRect, Region};
///
/// let shelf: Region = "0.5,0,0.5,1".parse()?;
/// assert_eq!(shelf.in_frame(640, 480)?, PixelRect { x: 320, y: 0, width: 320, height: 480 });
/// let middle = Region::default().in_frame(1920, 1080)?;
/// assert_eq!(middle, PixelRect { x: 420, y: 0, width: 1080, height: 1080 });
/// # Ok::<(), orco_runtime::scene::RegionError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Region {
    /// The largest square in the middle.
    #[default]
    CentreSquare,
    /// Left edge, upper edge, width and height as shares of the frame's sides, 0..1.
    Shares([f64; 4]),
    /// A rectangle in pixels.
    Pixels(PixelRect),
}

/// Why a region cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The text is no region.
    #[error(
        "{} is no region: expected X,Y,WIDTH,HEIGHT, as shares of the frame and inside it (0.5,0,0.5,1) or in pixels \
         (640,0,640,720)",
        EscapedText(text)
    )]
    Text {
        /// The text.
        text: String,
    },
    /// The name is no label.
    #[error("\"{}\" is no name for a region", EscapedText(name))]
    Name {
        /// The name.
        name: String,
    },
    /// It reaches beyond the frame.
    #[error("the region {region} reaches beyond the frame of {width} x {height} pixels")]
    Outside {
        /// The region.
        region: PixelRect,
        /// The frame's width in pixels.
        width: u32,
        /// The frame's height in pixels.
        height: u32,
    },
    /// It has hardly any pixels.
    #[error("the region {region} is too small: at least {} x {} pixels are needed", Region::MIN_SIDE, Region::MIN_SIDE)]
    Small {
        /// The region.
        region: PixelRect,
    },
    /// No thing is found in so small a part of a frame that is compared with a background.
    #[error(
        "the region {region} is too small for things in front of an empty place: each side needs {percent} % of the \
         frame's longer side"
    )]
    SmallForThings {
        /// The region.
        region: PixelRect,
        /// A share of the frame's longer side that is enough, in percent.
        percent: u32,
    },
}

impl Region {
    /// Least width and height, in pixels; beside an empty view,
    /// [`check_region`](super::Background::check_region) asks for more.
    pub const MIN_SIDE: u32 = 16;

    /// Its pixels in a frame of that size.
    ///
    /// # Errors
    /// [`RegionError`] if it reaches beyond the frame or is smaller than [`Region::MIN_SIDE`].
    pub fn in_frame(&self, width: u32, height: u32) -> Result<PixelRect, RegionError> {
        let region = self.pixels_in(width, height);
        if region.right() > width || region.bottom() > height {
            return Err(RegionError::Outside { region, width, height });
        }
        if region.width.min(region.height) < Self::MIN_SIDE {
            return Err(RegionError::Small { region });
        }
        Ok(region)
    }

    /// Left edge, upper edge, width and height as shares of the sides of a frame of that size.
    pub fn shares(&self, width: u32, height: u32) -> [f64; 4] {
        if let Self::Shares(shares) = *self {
            return shares;
        }
        let pixels = self.pixels_in(width, height);
        let share = |length: u32, of: u32| f64::from(length) / f64::from(of.max(1));
        [share(pixels.x, width), share(pixels.y, height), share(pixels.width, width), share(pixels.height, height)]
    }

    /// Its pixels in a frame of that size, whether or not they can be used.
    pub(super) fn pixels_in(&self, width: u32, height: u32) -> PixelRect {
        match *self {
            Self::CentreSquare => {
                let side = width.min(height);
                PixelRect { x: (width - side) / 2, y: (height - side) / 2, width: side, height: side }
            }
            Self::Shares(shares) => from_shares(shares, width, height),
            Self::Pixels(region) => region,
        }
    }
}

/// The nearest whole pixels. Both edges are rounded, so that neighbours neither overlap nor leave a gap.
fn from_shares([x, y, across, down]: [f64; 4], width: u32, height: u32) -> PixelRect {
    let edge = |share: f64, length: u32| (share * f64::from(length)).round() as u32;
    let (left, top) = (edge(x, width), edge(y, height));
    let (right, bottom) = (edge(x + across, width), edge(y + down, height));
    PixelRect { x: left, y: top, width: right - left, height: bottom - top }
}

/// The text of [`Region::CentreSquare`].
const CENTRE_SQUARE: &str = "centre square";

/// Reads `x,y,width,height`, or `centre square`. Numbers that are all at most 1 are shares of the frame, others are
/// pixels.
impl FromStr for Region {
    type Err = RegionError;

    fn from_str(text: &str) -> Result<Self, RegionError> {
        if text.trim() == CENTRE_SQUARE {
            return Ok(Self::CentreSquare);
        }
        let refused = || RegionError::Text { text: text.into() };
        let numbers: Vec<&str> = text.split(',').map(str::trim).collect();
        let numbers: [&str; 4] = numbers.try_into().map_err(|_| refused())?;
        let shares = numbers.map(|number| number.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share)));
        if let [Some(x), Some(y), Some(width), Some(height)] = shares {
            // Decimal fractions may add up to a little more than one.
            let fits = x + width <= 1.0 + 1e-9 && y + height <= 1.0 + 1e-9 && width > 0.0 && height > 0.0;
            // By the sum alone, a width of almost nothing could begin at the edge.
            let begins_inside = x < 1.0 && y < 1.0;
            return if fits && begins_inside { Ok(Self::Shares([x, y, width, height])) } else { Err(refused()) };
        }
        let pixels = numbers.map(|number| number.parse::<u32>().ok());
        let [Some(x), Some(y), Some(width), Some(height)] = pixels else { return Err(refused()) };
        Ok(Self::Pixels(PixelRect { x, y, width, height }))
    }
}

/// The text from which it is parsed.
impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CentreSquare => f.write_str(CENTRE_SQUARE),
            Self::Shares([x, y, width, height]) => write!(f, "{x},{y},{width},{height}"),
            Self::Pixels(region) => region.fmt(f),
        }
    }
}

/// A region with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedRegion {
    /// Its name, in the normal form of labels; empty if it has none.
    pub name: String,
    /// The region.
    pub region: Region,
}

/// The text from which it is parsed.
impl fmt::Display for NamedRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() { self.region.fmt(f) } else { write!(f, "{}={}", self.name, self.region) }
    }
}

/// Reads `name=x,y,width,height`, or a region without a name.
impl FromStr for NamedRegion {
    type Err = RegionError;

    fn from_str(text: &str) -> Result<Self, RegionError> {
        let Some((name, region)) = text.rsplit_once('=') else {
            return Ok(Self { name: String::new(), region: text.parse()? });
        };
        let normal = label::normal(name);
        if !label::is_usable(&normal) {
            return Err(RegionError::Name { name: name.into() });
        }
        Ok(Self { name: normal, region: region.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_read_as_they_are_written() {
        let pixels = PixelRect { x: 640, y: 0, width: 640, height: 720 };
        for region in [Region::CentreSquare, Region::Shares([0.1 + 0.2, 0.0, 1.0 / 3.0, 1.0]), Region::Pixels(pixels)] {
            assert_eq!(region.to_string().parse(), Ok(region));
            for name in ["", "upper shelf"] {
                let named = NamedRegion { name: name.into(), region };
                assert_eq!(named.to_string().parse(), Ok(named));
            }
        }
    }

    #[test]
    fn regions_are_read_and_fit_the_frame() {
        let parsed = |text: &str| text.parse::<Region>();
        assert_eq!(
            parsed("10, 20,300,200").unwrap(),
            Region::Pixels(PixelRect { x: 10, y: 20, width: 300, height: 200 })
        );
        assert_eq!(
            parsed("0,0,1,1").unwrap().in_frame(640, 480).unwrap(),
            PixelRect { x: 0, y: 0, width: 640, height: 480 }
        );
        for text in [
            "",
            "1,2,3",
            "0,0,0.5,1.5",
            "a,b,c,d",
            "0.5,0,0.6,1",
            "-1,0,20,20",
            "0,0,0,0",
            "nan,0,1,1",
            "1,2,3,4,5",
            "0,1,1,1e-9",
        ] {
            assert!(matches!(parsed(text), Err(RegionError::Text { .. })), "{text}");
        }
        assert!(matches!(parsed("600,0,100,100").unwrap().in_frame(640, 480), Err(RegionError::Outside { .. })));
        assert!(matches!(parsed("4294967295,0,9,99").unwrap().in_frame(640, 480), Err(RegionError::Outside { .. })));
        assert!(matches!(parsed("0,0,0.01,1").unwrap().in_frame(640, 480), Err(RegionError::Small { .. })));
        let thirds: Vec<_> = ["0,0,0.333,1", "0.333,0,0.333,1", "0.666,0,0.334,1"]
            .iter()
            .map(|text| parsed(text).unwrap().in_frame(641, 480).unwrap())
            .collect();
        assert_eq!((thirds[0].right(), thirds[1].right(), thirds[2].right()), (thirds[1].x, thirds[2].x, 641));
        let named: NamedRegion = " shelf =0,0,0.5,1".parse().unwrap();
        assert_eq!((&*named.name, named.region), ("shelf", Region::Shares([0.0, 0.0, 0.5, 1.0])));
        assert!(matches!("=0,0,1,1".parse::<NamedRegion>(), Err(RegionError::Name { .. })));
    }
}
