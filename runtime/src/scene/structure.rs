//! The structure of a picture, whatever its light, and where blocks of it are found in another picture.

use super::background::Background;
use super::filter::box_mean;
use super::small_frame::brightness;

/// Pixels of the small frame along each side of a block.
pub(super) const BLOCK: usize = 32;
/// Pixels of the small frame for one of the coarse frame, along each side.
pub(super) const COARSE: usize = 4;
/// Radius of the square whose mean brightness is subtracted, so that structure is left.
const RADIUS: usize = 8;
/// Values that are added at once. Sides of blocks are multiples.
const LANES: usize = 8;
/// A block's sum of squares, divided by the sum of its variances, from which it can be recognised. That of a tree in
/// the wind is lower.
const RECOGNISABLE: f32 = 4.0;

/// The recognisable blocks of a place, which are looked for in a frame.
pub(super) struct BlockSearch {
    pub place: Structure,
    pub frame: Structure,
    /// Each with its correlation where it was.
    pub blocks: Vec<(Block, f32)>,
}

impl BlockSearch {
    /// Compares the blocks where they were. None if the place is smaller than a block.
    ///
    /// # Shapes
    /// `frame` `[height, width]`, row-major, as large as the place.
    pub fn new(place: &Background, frame: &[[f32; 3]]) -> Option<Self> {
        let width = place.width;
        if width.min(frame.len() / width) < BLOCK {
            return None;
        }
        let (variances, place) = (&place.variances, Structure::of(&place.colours, width));
        let frame = Structure::of(frame, width);
        let in_place = |block: Block| (block, place.correlation(block, &frame, [0; 2]));
        let blocks = place.recognisable_blocks(variances).into_iter().map(in_place).collect();
        Some(Self { place, frame, blocks })
    }

    /// The blocks that have at least that correlation where they were.
    pub fn in_place_from(&self, least: f32) -> impl Iterator<Item = Block> {
        self.blocks.iter().filter(move |(_, in_place)| *in_place >= least).map(|(block, _)| *block)
    }
}

/// Brightness without its mean around each pixel.
pub(super) struct Structure {
    width: usize,
    values: Vec<f32>,
    /// Pixels along each side of a block.
    side: usize,
}

impl Structure {
    /// Computes the structure of a small frame.
    ///
    /// # Shapes
    /// `pixels` `[height, width]`, row-major; both at least [`BLOCK`].
    fn of(pixels: &[[f32; 3]], width: usize) -> Self {
        let levels: Vec<f32> = pixels.iter().map(brightness).collect();
        let means = box_mean(&levels, width, RADIUS);
        Self { width, values: levels.iter().zip(&means).map(|(level, mean)| level - mean).collect(), side: BLOCK }
    }

    /// The mean of each [`COARSE`] pixels a side.
    pub fn coarse(&self) -> Self {
        let (width, height) = (self.width / COARSE, self.height() / COARSE);
        let mut values = vec![0.0; width * height];
        for (y, row) in self.values.chunks_exact(self.width).take(height * COARSE).enumerate() {
            for (sum, pixels) in values[y / COARSE * width..][..width].iter_mut().zip(row.chunks_exact(COARSE)) {
                *sum += pixels.iter().sum::<f32>() / (COARSE * COARSE) as f32;
            }
        }
        Self { width, values, side: BLOCK / COARSE }
    }

    fn height(&self) -> usize {
        self.values.len() / self.width
    }

    /// Blocks side by side, as many as there is room for, whose sum of squares is at least [`RECOGNISABLE`] times that
    /// of their noise: `variances` are those of each pixel.
    fn recognisable_blocks(&self, variances: &[f32]) -> Vec<Block> {
        let starts = |length: usize| {
            let first = length % self.side / 2;
            (0..length / self.side).map(move |index| first + index * self.side)
        };
        let blocks = starts(self.height()).flat_map(|y| starts(self.width).map(move |x| Block { x, y }));
        let noise = |block: Block| -> f32 { block.rows(variances, self.width, self.side).flatten().sum() };
        let power = |block: Block| -> f32 { self.rows(block).flatten().map(|value| value * value).sum() };
        blocks.filter(|block| power(*block) >= RECOGNISABLE * noise(*block)).collect()
    }

    /// How much a block looks like the displaced one of another picture, -1..1; -1 where that lies beyond the picture.
    fn correlation(&self, block: Block, other: &Self, displacement: [isize; 2]) -> f32 {
        let Some(displaced) = block.displaced(displacement) else { return -1.0 };
        if displaced.x + self.side > other.width || displaced.y + self.side > other.height() {
            return -1.0;
        }
        let (mut common, mut powers) = ([0.0f32; LANES], [[0.0f32; LANES]; 2]);
        for (ours, theirs) in self.rows(block).zip(other.rows(displaced)) {
            for (ours, theirs) in ours.as_chunks::<LANES>().0.iter().zip(theirs.as_chunks::<LANES>().0) {
                for lane in 0..LANES {
                    common[lane] += ours[lane] * theirs[lane];
                    powers[0][lane] += ours[lane] * ours[lane];
                    powers[1][lane] += theirs[lane] * theirs[lane];
                }
            }
        }
        let [ours, theirs] = powers.map(|power| power.iter().sum::<f32>());
        common.iter().sum::<f32>() / libm::sqrtf((ours * theirs).max(f32::MIN_POSITIVE))
    }

    /// Where a block looks most like another picture, at most `reach` pixels from a displacement.
    pub fn best_match(&self, block: Block, other: &Self, around: [isize; 2], reach: isize) -> Match {
        let offsets = (-reach..=reach).flat_map(|y| (-reach..=reach).map(move |x| [x, y]));
        let found = offsets.map(|[x, y]| {
            let displacement = [around[0] + x, around[1] + y];
            Match { displacement, correlation: self.correlation(block, other, displacement) }
        });
        found.max_by(|one, other| one.correlation.total_cmp(&other.correlation)).expect("there is one at least")
    }

    fn rows(&self, block: Block) -> impl Iterator<Item = &[f32]> {
        block.rows(&self.values, self.width, self.side)
    }
}

/// A square of a picture, by its first column and row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    x: usize,
    y: usize,
}

impl Block {
    /// The same in the coarse frame.
    pub fn coarse(self) -> Self {
        Self { x: self.x / COARSE, y: self.y / COARSE }
    }

    /// The middle of one in the small frame.
    pub fn middle(self) -> [f32; 2] {
        [self.x, self.y].map(|edge| (edge + BLOCK / 2) as f32)
    }

    /// The block moved by `[x, y]` pixels; `None` if it would begin before the picture.
    fn displaced(self, [x, y]: [isize; 2]) -> Option<Self> {
        Some(Self { x: self.x.checked_add_signed(x)?, y: self.y.checked_add_signed(y)? })
    }

    /// Its rows in a plane of that width, if it has `side` pixels a side.
    fn rows(self, plane: &[f32], width: usize, side: usize) -> impl Iterator<Item = &[f32]> {
        plane[self.y * width..].chunks_exact(width).take(side).map(move |row| &row[self.x..][..side])
    }
}

/// Where a block was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Match {
    pub displacement: [isize; 2],
    pub correlation: f32,
}
