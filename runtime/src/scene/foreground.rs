//! What is in a frame and not in the background, thing by thing.

use ::image::imageops::crop_imm;
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
        let searched = region.in_small_frame(frame_size, [width, height]);
        let mut mask = with_hysteresis(&difference.changes, width, height);
        keep_only(&mut mask, searched);
        open_mut(&mut mask, Norm::L1, NOISE_RADIUS);
        let pixel = |index: usize| [(index % columns) as u32, (index / columns) as u32];
        let fit = difference.fit(|index| searched.contains(pixel(index)));
        let mut marks = GrayImage::new(width, height);
        let in_part = |part| things_in(part, &mask, difference, &mut marks, searched, frame_size);
        let things = part_with_things(&mask).map_or_else(Vec::new, in_part);
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
fn with_hysteresis(changes: &[Change], width: u32, height: u32) -> GrayImage {
    let (columns, rows) = (width as usize, height as usize);
    let mut found: Vec<usize> = (0..changes.len()).filter(|index| changes[*index] == Change::Strong).collect();
    let mut mask = vec![UNSET[0]; changes.len()];
    found.iter().for_each(|&index| mask[index] = SET[0]);
    while let Some(index) = found.pop() {
        let (x, y) = (index % columns, index / columns);
        for y in y.saturating_sub(1)..(y + 2).min(rows) {
            for index in y * columns + x.saturating_sub(1)..y * columns + (x + 2).min(columns) {
                if changes[index].may_be_thing() && mask[index] == UNSET[0] {
                    mask[index] = SET[0];
                    found.push(index);
                }
            }
        }
    }
    GrayImage::from_raw(width, height, mask).expect("a pixel for each change")
}

/// The rectangle around all that a mask has set, wider on each side by the radius of the largest closing and one pixel,
/// or up to the mask's edge: joining and filling give the same in it as in the whole mask. None if nothing is set.
fn part_with_things(mask: &GrayImage) -> Option<PixelRect> {
    let mut around = SmallThing::new(0);
    mask.enumerate_pixels().filter(|(_, _, pixel)| *pixel == &SET).for_each(|(x, y, _)| around.add(x, y));
    if around.pixels == 0 {
        return None;
    }
    let reach = u32::from(BRIDGE_RADIUS) + 1;
    let [x, y] = around.low.map(|edge| edge.saturating_sub(reach));
    let [right, bottom] = [(around.high[0], mask.width()), (around.high[1], mask.height())]
        .map(|(edge, length)| (edge + reach).min(length));
    Some(PixelRect { x, y, width: right - x, height: bottom - y })
}

/// Joins and fills what is set in a part of a mask. Returns its things, the largest first, and marks their pixels in
/// `marks`, which is as large as the mask. `searched` is what of it they are looked for in.
fn things_in(
    part: PixelRect,
    mask: &GrayImage,
    difference: &Difference,
    marks: &mut GrayImage,
    searched: PixelRect,
    frame_size: [u32; 2],
) -> Vec<Thing> {
    let hints = hints(difference, mask.width() as usize, part);
    let mut mask = crop_imm(mask, part.x, part.y, part.width, part.height).to_image();
    close_mut(&mut mask, Norm::L1, JOIN_RADIUS);
    fill_outline(&mut mask, &hints);
    close_mut(&mut mask, Norm::L1, JOIN_RADIUS);
    fill_holes(&mut mask, &hints);
    open_mut(&mut mask, Norm::L1, MIN_PART_RADIUS);
    mark_things(&mask, part, marks, searched, frame_size)
}

/// What a pixel that is not found to show a thing tells of the place.
#[derive(Clone, Copy)]
struct Hint {
    /// It looks like the place in another light.
    is_light: bool,
    /// It shows structure of the place.
    is_structure: bool,
}

/// What the pixels of a part of the small frame tell, row by row.
fn hints(difference: &Difference, columns: usize, part: PixelRect) -> Vec<Hint> {
    let [left, right] = [part.x, part.right()].map(|edge| edge as usize);
    let indices = (part.y as usize..part.bottom() as usize).flat_map(|y| y * columns + left..y * columns + right);
    let hint = |index: usize| {
        let change = difference.changes[index];
        Hint { is_light: change == Change::Light, is_structure: difference.edges[index] && !change.may_be_thing() }
    };
    indices.map(hint).collect()
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
fn fill_outline(mask: &mut GrayImage, hints: &[Hint]) {
    let mut outline = close(mask, Norm::L1, BRIDGE_RADIUS);
    fill_holes(&mut outline, hints);
    for ((pixel, inside), hint) in mask.pixels_mut().zip(outline.pixels()).zip(hints) {
        if inside == &SET && hint.is_light {
            *pixel = SET;
        }
    }
}

/// Fills what is enclosed by a thing, unless the place is seen through it.
fn fill_holes(mask: &mut GrayImage, hints: &[Hint]) {
    let (width, height) = mask.dimensions();
    let rest = GrayImage::from_fn(width, height, |x, y| if mask.get_pixel(x, y) == &SET { UNSET } else { SET });
    let labels = connected_components(&rest, Connectivity::Four, UNSET);
    let mut holes = vec![Hole::default(); count(&labels)];
    for ((x, y, label), hint) in labels.enumerate_pixels().zip(hints) {
        let hole = &mut holes[label[0] as usize];
        hole.pixels += 1;
        hole.structure += usize::from(hint.is_structure);
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
    /// Whether it reaches the mask's edge, and is no hole.
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

    fn merge(&mut self, other: &Self) {
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

/// As [`things_in`], of the mask of a part once it is joined and filled.
fn mark_things(
    mask: &GrayImage,
    part: PixelRect,
    marks: &mut GrayImage,
    searched: PixelRect,
    frame_size: [u32; 2],
) -> Vec<Thing> {
    let (width, height) = marks.dimensions();
    let labels = connected_components(mask, Connectivity::Eight, UNSET);
    let count = count(&labels);
    let mut components: Vec<SmallThing> = (0..count).map(SmallThing::new).collect();
    let of_things = labels.enumerate_pixels().filter(|(_, _, label)| label[0] != 0);
    of_things.for_each(|(x, y, label)| components[label[0] as usize].add(part.x + x, part.y + y));
    let least = (MIN_AREA * (searched.width * searched.height) as f32).max(MIN_PIXELS);
    components.retain(|component| component.pixels as f32 >= least);
    components.sort_by_key(|component| core::cmp::Reverse(component.pixels));

    let gap = (MERGE_DISTANCE * width.min(height) as f32) as u32;
    let mut merged: Vec<SmallThing> = Vec::new();
    let mut mark_of = vec![0u8; count];
    for component in components {
        let merges_into = |large: &SmallThing| {
            (component.pixels as f32) < MERGE_AREA_RATIO * large.pixels as f32 && component.gap(large) <= gap
        };
        let index = match merged.iter().position(merges_into) {
            Some(index) => {
                merged[index].merge(&component);
                index
            }
            None if merged.len() == MAX_THINGS => continue,
            None => {
                merged.push(component);
                merged.len() - 1
            }
        };
        mark_of[component.component] = index as u8 + 1;
    }
    for (x, y, label) in labels.enumerate_pixels() {
        marks.put_pixel(part.x + x, part.y + y, Luma([mark_of[label[0] as usize]]));
    }
    let thing = |(index, small): (usize, &SmallThing)| Thing {
        bounds: small.bounds([width, height], frame_size),
        share: small.pixels as f32 / (width * height) as f32,
        mark: index as u8 + 1,
    };
    let mut things: Vec<Thing> = merged.iter().enumerate().map(thing).collect();
    things.sort_by(|one, other| other.share.total_cmp(&one.share));
    things
}

#[cfg(test)]
mod tests {
    use ::image::RgbImage;
    use orco_core::random::Random;

    use super::*;
    use crate::scene::Background;

    #[test]
    fn the_part_around_things_is_treated_as_the_whole_is() {
        let size = [96, 72];
        let mut random = Random::new(7, "things");
        let mut most = 0;
        for _ in 0..60 {
            let mut frame =
                RgbImage::from_fn(size[0], size[1], |x, y| ::image::Rgb([40, 90, (x * y % 40) as u8 + 100]));
            let background = Background::learn(&vec![frame.clone(); 3]).unwrap();
            for _ in 0..random.below(4) {
                let [x, y, width, height] = [96, 72, 40, 40].map(|bound| random.below(bound) as u32);
                for (x, y) in (y..y + height).flat_map(|y| (x..x + width).map(move |x| (x, y))) {
                    // Darker in places, as a shadow is, and with holes.
                    let part = (x / 5 + y / 3) % 4;
                    if let Some(pixel) = frame.get_pixel_mut_checked(x, y).filter(|_| part > 0) {
                        *pixel =
                            if part == 1 { pixel.0.map(|value| value / 10 * 7).into() } else { [230, 220, 20].into() };
                    }
                }
            }
            let small = background.small(&frame).unwrap();
            let difference = background.difference(&small);
            let mask = with_hysteresis(&difference.changes, size[0], size[1]);
            let whole = PixelRect::whole(size);
            let found = |part: PixelRect| {
                let mut marks = GrayImage::new(size[0], size[1]);
                let things = things_in(part, &mask, &difference, &mut marks, whole, size);
                (marks, things)
            };
            let of_whole = found(whole);
            most = most.max(of_whole.1.len());
            match part_with_things(&mask) {
                Some(part) => assert_eq!(found(part), of_whole, "{part:?}"),
                None => assert!(of_whole.1.is_empty()),
            }
        }
        assert!(most > 1, "there were several things at once");
    }
}
