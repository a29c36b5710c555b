//! Whether a frame shows the place where it was, or shifted, turned or nearer: a camera that was moved a little.
//!
//! In a frame of a moved camera most pixels still have the colours of the place, so that little of it counts as lost.
//! Its structure tells more: blocks of the place that can be recognised are looked for around where they were. If one
//! movement of the whole picture explains where they are found, and hardly any is where it was, the camera was moved. A
//! thing hides blocks, and a change of light leaves them where they are. The thresholds were set on photographs of
//! rooms and shelves (journal of the book, 2026-11-30, a moved camera).

use super::structure::{BlockSearch, COARSE};

/// Fewest recognisable blocks from which a pose is told.
const MIN_BLOCKS: usize = 6;
/// How far blocks are looked for, in pixels of the coarse frame: 15 % of a picture that is compared at 320 pixels.
const REACH: isize = 12;
/// How far blocks are looked for around where the coarse frame has them, in pixels of the small frame.
const FINE_REACH: isize = 2;
/// How far they are looked for around where a movement takes them, in the same pixels.
const MOVEMENT_REACH: isize = 1;
/// Correlation from which a block is found, and from which there is no need to look elsewhere.
const MIN_CORRELATION: f32 = 0.6;
const CERTAIN: f32 = 0.95;
/// How much higher a block's correlation must be where it is than where it is not.
const MARGIN: f32 = 0.05;
/// Share of the blocks that must be where they were, or where a movement takes them.
const MIN_SHARE: f32 = 0.25;
/// How many blocks must have moved for each one that has not.
const MAJORITY: usize = 3;
/// Pixels of the small frame by which they must have moved on average.
const MIN_MOVEMENT: f32 = 1.25;
/// Least distance of two blocks that tell a turn or a zoom, in pixels of the small frame.
const FAR_APART: f32 = 60.0;
/// Largest sine of a turn, and largest change of size: beyond, blocks are not found.
const MAX_TURN: f32 = 0.25;
/// How far, in pixels of the small frame, a block may be from where a movement takes it.
const TOLERANCE: f32 = 2.0;

/// How a camera stands, compared with how it stood when it was shown the empty place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CameraPose {
    /// It stands as it stood.
    Kept,
    /// It was pushed or turned, or has come nearer.
    Changed,
    /// The place is hardly found anywhere: things hide it, the light is quite another, or the camera was moved far.
    Hidden,
    /// The place has too little structure to tell.
    Plain,
}

impl CameraPose {
    /// The pose that a frame shows in which the place's blocks were looked for.
    pub(super) fn of(search: &BlockSearch) -> Self {
        let blocks = search.blocks.len();
        if blocks < MIN_BLOCKS {
            return Self::Plain;
        }
        if 2 * search.in_place_from(CERTAIN).count() >= blocks {
            return Self::Kept;
        }
        let movement = Movement::of(&search.displaced_blocks());
        if movement.is_some_and(|movement| search.is_explained_by(&movement)) {
            Self::Changed
        } else if search.in_place_from(MIN_CORRELATION).count() as f32 >= MIN_SHARE * blocks as f32 {
            Self::Kept
        } else {
            Self::Hidden
        }
    }
}

/// A block that is found elsewhere than where it was.
struct DisplacedBlock {
    /// Its middle, where it was.
    middle: [f32; 2],
    displacement: [f32; 2],
}

impl BlockSearch {
    /// Finds the blocks that are elsewhere in the frame: roughly in the coarse frame, then in the small one.
    fn displaced_blocks(&self) -> Vec<DisplacedBlock> {
        let (coarse_place, coarse_frame) = (self.place.coarse(), self.frame.coarse());
        let uncertain = self.blocks.iter().filter(|(_, in_place)| *in_place < CERTAIN);
        let displaced = uncertain.filter_map(|(block, in_place)| {
            let rough = coarse_place.best_match(block.coarse(), &coarse_frame, [0; 2], REACH);
            let around = rough.displacement.map(|pixels| pixels * COARSE as isize);
            let found = self.place.best_match(*block, &self.frame, around, FINE_REACH);
            let displacement = found.displacement.map(|pixels| pixels as f32);
            is_there_rather(found.correlation, *in_place)
                .then(|| DisplacedBlock { middle: block.middle(), displacement })
        });
        displaced.collect()
    }

    /// Whether enough blocks are where a movement takes them, and hardly any is where it was. Those that look alike in
    /// both places, such as a straight edge along the movement, do not count.
    fn is_explained_by(&self, movement: &Movement) -> bool {
        let (mut moved, mut kept, mut inside, mut distance) = (0, 0, 0, 0.0);
        for (block, in_place) in &self.blocks {
            let [x, y] = movement.displacement(block.middle());
            let nearest = [x, y].map(|pixels| libm::roundf(pixels) as isize);
            let found = self.place.best_match(*block, &self.frame, nearest, MOVEMENT_REACH).correlation;
            inside += usize::from(found > -1.0);
            kept += usize::from(is_there_rather(*in_place, found));
            if is_there_rather(found, *in_place) {
                moved += 1;
                distance += libm::hypotf(x, y);
            }
        }
        let enough = MIN_BLOCKS.max((MIN_SHARE * inside as f32) as usize);
        moved >= enough && moved >= MAJORITY * kept && distance >= MIN_MOVEMENT * moved as f32
    }
}

/// Whether a block is found where it has one correlation, and not where it has the other.
fn is_there_rather(here: f32, there: f32) -> bool {
    here >= MIN_CORRELATION && here >= there + MARGIN
}

/// A movement of the whole picture: a shift, a turn and a zoom.
#[derive(Clone, Copy, Debug)]
struct Movement {
    /// Where it takes the first pixel.
    shift: [f32; 2],
    zoom_less_one: f32,
    sine: f32,
}

impl Movement {
    /// The one that displaced blocks agree with best, of all that one or two of them tell. None if there is no block.
    fn of(displaced: &[DisplacedBlock]) -> Option<Self> {
        let candidates = displaced.iter().enumerate().flat_map(|(index, one)| {
            let of_two = move |other| Self::of_two(one, other);
            displaced[..index].iter().filter_map(of_two).chain([Self::shift(one.displacement)])
        });
        let rated =
            candidates.map(|movement| (displaced.iter().map(|block| movement.agreement(block)).sum::<f32>(), movement));
        rated.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, movement)| movement)
    }

    fn shift(shift: [f32; 2]) -> Self {
        Self { shift, zoom_less_one: 0.0, sine: 0.0 }
    }

    /// The one that displaces two blocks as they are. None if they are too near, or it turns or zooms too far.
    fn of_two(one: &DisplacedBlock, other: &DisplacedBlock) -> Option<Self> {
        let [x, y] = minus(one.middle, other.middle);
        let [across, down] = minus(one.displacement, other.displacement);
        let square = x * x + y * y;
        if square < FAR_APART * FAR_APART {
            return None;
        }
        let (zoom_less_one, sine) = ((x * across + y * down) / square, (x * down - y * across) / square);
        let turned = Self { shift: [0.0; 2], zoom_less_one, sine };
        let is_within_bounds = zoom_less_one.abs().max(sine.abs()) <= MAX_TURN;
        is_within_bounds.then(|| Self { shift: minus(one.displacement, turned.displacement(one.middle)), ..turned })
    }

    /// How far it displaces a pixel.
    fn displacement(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        let Self { shift, zoom_less_one, sine } = self;
        [shift[0] + zoom_less_one * x - sine * y, shift[1] + sine * x + zoom_less_one * y]
    }

    /// How near it takes a block to where that is found: 1 there, 0 from [`TOLERANCE`] on.
    fn agreement(&self, block: &DisplacedBlock) -> f32 {
        let [x, y] = minus(self.displacement(block.middle), block.displacement);
        (1.0 - (x * x + y * y) / (TOLERANCE * TOLERANCE)).max(0.0)
    }
}

fn minus(one: [f32; 2], other: [f32; 2]) -> [f32; 2] {
    [one[0] - other[0], one[1] - other[1]]
}
