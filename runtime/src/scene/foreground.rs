//! What is in a frame and not in the background, thing by thing.

use ::image::{GrayImage, Luma};
use imageproc::distance_transform::Norm;
use imageproc::morphology::{close, close_mut, open_mut};
use imageproc::region_labelling::{Connectivity, connected_components};

use super::difference::{Change, Difference};
use super::place_fit::PlaceFit;
use super::region::PixelRect;

/// Most things that are told apart; the smallest go.
pub const MAX_THINGS: usize = 16;
/// Least share that a thing covers of what is analysed: of the region, or of the frame.
const MIN_AREA: f32 = 0.002;
/// Least pixels of the small frame that it covers: a pixel and those at most [`MIN_PART_RADIUS`] steps from it,
/// 1 + 4 + 8.
const MIN_PIXELS: f32 = 13.0;
// Radii are steps along rows and columns: these distances take a tenth of the time of Euclidean ones.
/// Radius of the opening that removes noise, in pixels of the small frame.
const NOISE_RADIUS: u8 = 1;
/// Radius of the closing that joins parts of a thing, in pixels of the small frame.
const JOIN_RADIUS: u8 = 4;
/// Radius of the opening that removes thin parts of things, in pixels of the small frame.
const MIN_PART_RADIUS: u8 = 2;
/// Least width and height of a region in which a thing can be found, in pixels of the small frame: the opening leaves
/// nothing narrower.
pub(super) const MIN_SEARCHED_SIDE: u32 = 2 * MIN_PART_RADIUS as u32 + 1;
/// A thing is merged into a larger one if its area is below this share of that one's and it lies within
/// [`MERGE_DISTANCE`].
const MERGE_AREA_RATIO: f32 = 0.25;
/// Largest gap between things that are merged, as a share of the frame's shorter side.
const MERGE_DISTANCE: f32 = 0.06;
/// Radius of the closing that bridges gaps in a thing's outline, in pixels of the small frame.
const BRIDGE_RADIUS: u8 = 15;
/// A hole in a thing shows the place if this share of it is structure of the place.
const SEEN_THROUGH: f32 = 0.5;

const SET: Luma<u8> = Luma([255]);
const UNSET: Luma<u8> = Luma([0]);

/// One thing in front of the place, as far as that can be told: those that touch are one.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Thing {
    /// The smallest rectangle around it, in pixels of the frame.
    pub bounds: PixelRect,
    /// The share of the frame that it covers, 0..1.
    pub share: f32,
    /// What its pixels are marked with.
    pub(super) mark: u8,
}

/// What is in a frame and not in the background.
#[derive(Clone, Debug)]
pub struct Foreground {
    /// Width and height of the frame.
    pub(super) frame_size: [u32; 2],
    /// The thing that each pixel of the small frame belongs to, by its mark; 0 for none.
    pub(super) marks: GrayImage,
    things: Vec<Thing>,
    fit: PlaceFit,
}

impl Foreground {
    /// The foreground in a region of a frame of size `frame_size`, whose small frame has `columns` columns.
    pub(super) fn of(columns: usize, difference: &Difference, frame_size: [u32; 2], region: PixelRect) -> Self {
        let width = columns as u32;
        let height = difference.changes.len() as u32 / width;
        let mut mask = with_hysteresis(difference, width, height);
        let searched = region.in_small_frame(frame_size, [width, height]);
        keep_only(&mut mask, searched);
        open_mut(&mut mask, Norm::L1, NOISE_RADIUS);
        close_mut(&mut mask, Norm::L1, JOIN_RADIUS);
        fill_outline(&mut mask, difference);
        close_mut(&mut mask, Norm::L1, JOIN_RADIUS);
        fill_holes(&mut mask, difference);
        open_mut(&mut mask, Norm::L1, MIN_PART_RADIUS);
        let (marks, things) = things(&mask, searched, frame_size);
        let pixel = |index: usize| [(index % columns) as u32, (index / columns) as u32];
        let fit = difference.fit(|index| searched.contains(pixel(index)));
        Self { frame_size, marks, things, fit }
    }

    /// The foreground of a frame of that size in which the place is empty.
    pub fn empty(frame_size: [u32; 2]) -> Self {
        Self { frame_size, marks: GrayImage::new(1, 1), things: Vec::new(), fit: PlaceFit::WHOLE }
    }

    /// How well the background is found, in the frame and in the region that is analysed. Much of it is lost where the
    /// camera was moved far, where the light is quite another, and where things hide the place.
    pub fn fit(&self) -> PlaceFit {
        self.fit
    }

    /// The things, the largest first; none if the place is empty.
    pub fn things(&self) -> &[Thing] {
        &self.things
    }

    /// Whether a thing covers a pixel of the small frame.
    pub(super) fn covers(&self, index: usize) -> bool {
        self.marks.as_raw()[index] != 0
    }

    /// The thing in the middle of the frame, or the one that is nearest to it: the one that shots of whole frames are
    /// taken of. Those of a region are of the thing [at](Self::at) its middle.
    pub fn central(&self) -> Option<&Thing> {
        self.at(self.frame_size[0] / 2, self.frame_size[1] / 2)
    }

    /// The thing at a place of the frame, in pixels, or the one that is nearest to it: the one that a person points at.
    pub fn at(&self, x: u32, y: u32) -> Option<&Thing> {
        let place = [x, y];
        let distance = |thing: &&Thing| {
            let bounds = thing.bounds;
            let outside = [[bounds.x, bounds.right()], [bounds.y, bounds.bottom()]];
            let outside = [0, 1].map(|axis| {
                let [low, high] = outside[axis];
                u64::from(low.saturating_sub(place[axis]).max((place[axis] + 1).saturating_sub(high)))
            });
            let middle = bounds.doubled_middle();
            let from_middle = [0, 1].map(|axis| (middle[axis] - 2 * i64::from(place[axis])).unsigned_abs());
            let squared = |sides: [u64; 2]| sides[0] * sides[0] + sides[1] * sides[1];
            (squared(outside), squared(from_middle))
        };
        self.things.iter().min_by_key(distance)
    }
}

/// What differs much, with what differs less and hangs together with it (Canny, 1986).
fn with_hysteresis(difference: &Difference, width: u32, height: u32) -> GrayImage {
    let changes = &difference.changes;
    let may_be_thing = |x: u32, y: u32| changes[(y * width + x) as usize].may_be_thing();
    let mask = GrayImage::from_fn(width, height, |x, y| if may_be_thing(x, y) { SET } else { UNSET });
    let labels = connected_components(&mask, Connectivity::Eight, UNSET);
    let mut begins = vec![false; count(&labels)];
    for (label, change) in labels.pixels().zip(changes) {
        begins[label[0] as usize] |= *change == Change::Strong;
    }
    begins[0] = false;
    GrayImage::from_fn(width, height, |x, y| if begins[labels.get_pixel(x, y)[0] as usize] { SET } else { UNSET })
}

type Labels = ::image::ImageBuffer<Luma<u32>, Vec<u32>>;

/// The number of components, with what belongs to none.
fn count(labels: &Labels) -> usize {
    labels.pixels().map(|label| label[0] as usize).max().unwrap_or(0) + 1
}

/// Clears what lies outside a part of the mask.
fn keep_only(mask: &mut GrayImage, part: PixelRect) {
    for (x, y, pixel) in mask.enumerate_pixels_mut() {
        if !part.contains([x, y]) {
            *pixel = UNSET;
        }
    }
}

/// Adds what looks like the place in another light, but lies within the outline of a thing: a white cup before a white
/// wall has the wall's colour inside, and an edge.
fn fill_outline(mask: &mut GrayImage, difference: &Difference) {
    let mut outline = close(mask, Norm::L1, BRIDGE_RADIUS);
    fill_holes(&mut outline, difference);
    for ((pixel, inside), change) in mask.pixels_mut().zip(outline.pixels()).zip(&difference.changes) {
        if inside == &SET && *change == Change::Light {
            *pixel = SET;
        }
    }
}

/// Fills what is enclosed by a thing, unless the place is seen through it.
fn fill_holes(mask: &mut GrayImage, difference: &Difference) {
    let (width, height) = mask.dimensions();
    let rest = GrayImage::from_fn(width, height, |x, y| if mask.get_pixel(x, y) == &SET { UNSET } else { SET });
    let labels = connected_components(&rest, Connectivity::Four, UNSET);
    let mut holes = vec![Hole::default(); count(&labels)];
    for (index, (x, y, label)) in labels.enumerate_pixels().enumerate() {
        let hole = &mut holes[label[0] as usize];
        hole.pixels += 1;
        hole.structure += usize::from(difference.edges[index] && !difference.changes[index].may_be_thing());
        hole.is_open |= x == 0 || y == 0 || x + 1 == width || y + 1 == height;
    }
    for (pixel, label) in mask.pixels_mut().zip(labels.pixels()) {
        if label[0] > 0 && holes[label[0] as usize].is_filled() {
            *pixel = SET;
        }
    }
}

/// What is enclosed by a thing.
#[derive(Clone, Copy, Default)]
struct Hole {
    pixels: usize,
    /// Pixels that show structure of the place.
    structure: usize,
    /// Whether it reaches the frame's edge, and is no hole.
    is_open: bool,
}

impl Hole {
    fn is_filled(self) -> bool {
        !self.is_open && (self.structure as f32) < SEEN_THROUGH * self.pixels as f32
    }
}

/// A thing in pixels of the small frame.
#[derive(Clone, Copy)]
struct SmallThing {
    /// The number of its component.
    component: usize,
    pixels: usize,
    /// First column and row, and those behind the last ones.
    low: [u32; 2],
    high: [u32; 2],
}

impl SmallThing {
    fn new(component: usize) -> Self {
        Self { component, pixels: 0, low: [u32::MAX; 2], high: [0; 2] }
    }

    fn add(&mut self, x: u32, y: u32) {
        self.pixels += 1;
        self.low = [self.low[0].min(x), self.low[1].min(y)];
        self.high = [self.high[0].max(x + 1), self.high[1].max(y + 1)];
    }

    fn join(&mut self, other: &Self) {
        self.pixels += other.pixels;
        self.low = [0, 1].map(|axis| self.low[axis].min(other.low[axis]));
        self.high = [0, 1].map(|axis| self.high[axis].max(other.high[axis]));
    }

    /// Pixels between the two along the axis on which they are farther apart.
    fn gap(&self, other: &Self) -> u32 {
        let gaps = [0, 1].map(|axis| {
            let after = other.low[axis].saturating_sub(self.high[axis]);
            after.max(self.low[axis].saturating_sub(other.high[axis]))
        });
        gaps[0].max(gaps[1])
    }

    /// The bounds in pixels of the frame.
    fn bounds(&self, small_size: [u32; 2], frame_size: [u32; 2]) -> PixelRect {
        let scaled = |edge: u32, axis: usize| {
            (u64::from(edge) * u64::from(frame_size[axis]) / u64::from(small_size[axis])) as u32
        };
        let [x, y] = [0, 1].map(|axis| scaled(self.low[axis], axis));
        let [right, bottom] = [0, 1].map(|axis| scaled(self.high[axis], axis));
        PixelRect { x, y, width: right - x, height: bottom - y }
    }
}

/// Things of a mask, the largest first, and the mark of each pixel. `searched` is the part of the mask in which they
/// are looked for.
fn things(mask: &GrayImage, searched: PixelRect, frame_size: [u32; 2]) -> (GrayImage, Vec<Thing>) {
    let (width, height) = mask.dimensions();
    let labels = connected_components(mask, Connectivity::Eight, UNSET);
    let count = count(&labels);
    let mut components: Vec<SmallThing> = (0..count).map(SmallThing::new).collect();
    let of_things = labels.enumerate_pixels().filter(|(_, _, label)| label[0] != 0);
    of_things.for_each(|(x, y, label)| components[label[0] as usize].add(x, y));
    let least = (MIN_AREA * (searched.width * searched.height) as f32).max(MIN_PIXELS);
    components.retain(|component| component.pixels as f32 >= least);
    components.sort_by_key(|component| core::cmp::Reverse(component.pixels));

    let gap = (MERGE_DISTANCE * width.min(height) as f32) as u32;
    let mut joined: Vec<SmallThing> = Vec::new();
    let mut mark_of = vec![0u8; count];
    for component in components {
        let is_part_of = |large: &SmallThing| {
            (component.pixels as f32) < MERGE_AREA_RATIO * large.pixels as f32 && component.gap(large) <= gap
        };
        let index = match joined.iter().position(is_part_of) {
            Some(index) => {
                joined[index].join(&component);
                index
            }
            None if joined.len() == MAX_THINGS => continue,
            None => {
                joined.push(component);
                joined.len() - 1
            }
        };
        mark_of[component.component] = index as u8 + 1;
    }
    let marks = GrayImage::from_fn(width, height, |x, y| Luma([mark_of[labels.get_pixel(x, y)[0] as usize]]));
    let thing = |(index, small): (usize, &SmallThing)| Thing {
        bounds: small.bounds([width, height], frame_size),
        share: small.pixels as f32 / (width * height) as f32,
        mark: index as u8 + 1,
    };
    let mut things: Vec<Thing> = joined.iter().enumerate().map(thing).collect();
    things.sort_by(|one, other| other.share.total_cmp(&one.share));
    (marks, things)
}
