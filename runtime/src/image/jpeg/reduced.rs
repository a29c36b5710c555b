//! A JPEG picture at a half, a quarter or an eighth of its size, from the low frequencies of its blocks.
//!
//! A block of 8 x 8 samples gives n x n of them, n = 4, 2 or 1, which are the means of squares of its samples: the
//! inverse transform and the means are one matrix. Components with fewer samples than the others keep more of theirs,
//! so that all planes have the same size. With n = 8 the picture keeps its size; pictures that `zune-jpeg` cannot read
//! are decoded so.
//!
//! Of a progressive picture the coefficients must be kept until the last scan; where there is no room for all, the
//! highest frequencies are left out.

use super::frame::{BlockId, Colours, Component, JpegFrame};
use super::scan::ZIGZAG;

/// A reduced picture while its scans are read: a plane for each component.
pub(super) struct ReducedPlanes {
    planes: Vec<Plane>,
    progressive: bool,
}

struct Plane {
    /// Samples that a block gives, across and down.
    side: [usize; 2],
    /// Blocks across and down.
    blocks: [usize; 2],
    /// Coefficients of a block that are used, across and down.
    used: [usize; 2],
    /// What a coefficient adds to a sample, across and down, `[side, used]`.
    basis: [Vec<f32>; 2],
    /// For each coefficient, in the order in which they are written, its index among those kept.
    slots: [Option<u8>; 64],
    /// What a progressive picture's scans have sent, `[blocks, used, used]`.
    coefficients: Vec<i16>,
    /// Row-major, of whole blocks.
    samples: Vec<u8>,
}

/// Samples that a block of each component gives where the picture is reduced by `by` = 1, 2, 4 or 8.
fn sides(frame: &JpegFrame, by: usize) -> impl Iterator<Item = [usize; 2]> {
    frame.components.iter().map(move |own| {
        [0, 1].map(|axis| {
            let wanted = 8 / by * frame.sampling[axis] / own.sampling[axis];
            // The greatest power of two within it.
            1 << wanted.clamp(1, 8).ilog2()
        })
    })
}

/// Coefficients that may be used for each sample of the reduced picture, across and down.
pub(super) const DETAIL: [usize; 4] = [8, 4, 2, 1];

fn used_coefficients(side: [usize; 2], detail: usize) -> [usize; 2] {
    side.map(|side| (side * detail).min(8))
}

/// Bytes that the planes take while the scans are read.
pub(super) fn plane_bytes(frame: &JpegFrame, by: usize, detail: usize) -> usize {
    let each = |side: [usize; 2]| {
        let kept: usize = if frame.progressive { used_coefficients(side, detail).iter().product() } else { 0 };
        side[0] * side[1] + kept * size_of::<i16>()
    };
    let planes = frame.components.iter().zip(sides(frame, by));
    planes.map(|(own, side)| own.blocks[0] * own.blocks[1] * each(side)).sum()
}

/// The inverse transform of a line of a block from its first `used` coefficients, and the means of its 8 samples in
/// `side` parts, `[side, used]`.
fn basis(side: usize, used: usize) -> Vec<f32> {
    let mean = 8 / side;
    let value = |index: usize| {
        let (first, frequency) = (index / used * mean, (index % used) as f32);
        let scale = if frequency == 0.0 { 0.125f32 } else { 0.25 }.sqrt();
        let cosine = |sample: usize| ((2 * sample + 1) as f32 * frequency * core::f32::consts::PI / 16.0).cos();
        scale * (first..first + mean).map(cosine).sum::<f32>() / mean as f32
    };
    (0..side * used).map(value).collect()
}

impl Plane {
    /// Writes the samples of one block, whose coefficients are given, `[used, used]`.
    fn write(&mut self, [x, y]: [usize; 2], coefficients: &[f32; 64]) {
        let ([across, down], [wide, high]) = (self.side, self.used);
        let stride = self.blocks[0] * across;
        let first = y * down * stride + x * across;
        let to_byte = |value: f32| (value + 128.5).clamp(0.0, 255.0) as u8;
        if coefficients[1..wide * high].iter().all(|value| *value == 0.0) {
            let level = to_byte(coefficients[0] * 0.125);
            (0..down).for_each(|row| self.samples[first + row * stride..][..across].fill(level));
            return;
        }
        // Rows of frequencies first, then columns.
        let mut rows = [0.0f32; 64];
        for row in 0..high {
            let own = &coefficients[row * wide..][..wide];
            for sample in 0..across {
                let basis = &self.basis[0][sample * wide..][..wide];
                rows[row * across + sample] = own.iter().zip(basis).map(|(value, basis)| value * basis).sum();
            }
        }
        for line in 0..down {
            let basis = &self.basis[1][line * high..][..high];
            for sample in 0..across {
                let value: f32 = basis.iter().enumerate().map(|(row, basis)| basis * rows[row * across + sample]).sum();
                self.samples[first + line * stride + sample] = to_byte(value);
            }
        }
    }
}

impl ReducedPlanes {
    /// Planes for a picture reduced by 1, 2, 4 or 8, from one of [`DETAIL`]'s numbers of coefficients.
    pub(super) fn new(frame: &JpegFrame, by: usize, detail: usize) -> Self {
        let plane = |(own, side): (&Component, [usize; 2])| {
            let (blocks, used) = (own.blocks[0] * own.blocks[1], used_coefficients(side, detail));
            let slot = |natural: u8| {
                let [x, y] = [usize::from(natural) % 8, usize::from(natural) / 8];
                (x < used[0] && y < used[1]).then_some((y * used[0] + x) as u8)
            };
            Plane {
                side,
                blocks: own.blocks,
                used,
                basis: [0, 1].map(|axis| basis(side[axis], used[axis])),
                slots: ZIGZAG.map(slot),
                coefficients: vec![0; if frame.progressive { blocks * used[0] * used[1] } else { 0 }],
                samples: vec![0; blocks * side[0] * side[1]],
            }
        };
        let planes = frame.components.iter().zip(sides(frame, by)).map(plane).collect();
        Self { planes, progressive: frame.progressive }
    }

    /// Writes a whole block; its coefficients and the quantisation table are in the order in which they are written.
    pub(super) fn put(&mut self, component: usize, position: [usize; 2], block: &[i16; 64], table: &[u16; 64]) {
        let plane = &mut self.planes[component];
        let mut kept = [0.0; 64];
        for (index, slot) in plane.slots.iter().enumerate() {
            if let Some(slot) = slot {
                kept[usize::from(*slot)] = f32::from(block[index]) * f32::from(table[index]);
            }
        }
        plane.write(position, &kept);
    }

    /// The `index`-th coefficient of a block, if it is kept.
    fn coefficient(&mut self, block: BlockId, index: usize) -> Option<&mut i16> {
        let plane = &mut self.planes[block.component];
        let slot = usize::from(plane.slots[index]?);
        Some(&mut plane.coefficients[block.number * plane.used[0] * plane.used[1] + slot])
    }

    /// Adds to the `index`-th coefficient of a block.
    pub(super) fn add(&mut self, block: BlockId, index: usize, change: i32) {
        if let Some(value) = self.coefficient(block, index) {
            *value = (i32::from(*value) + change).clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        }
    }

    /// Moves the `index`-th coefficient of a block away from zero.
    pub(super) fn grow(&mut self, block: BlockId, index: usize, change: i32) {
        if let Some(&mut value) = self.coefficient(block, index) {
            self.add(block, index, if value < 0 { -change } else { change });
        }
    }

    /// Computes the samples of a progressive picture once all scans are read.
    pub(super) fn finish(&mut self, tables: &[[u16; 64]]) {
        debug_assert!(self.progressive, "other pictures are written block by block");
        for (plane, table) in self.planes.iter_mut().zip(tables) {
            let coefficients = core::mem::take(&mut plane.coefficients);
            let count = plane.used[0] * plane.used[1];
            let mut steps = [0.0; 64];
            for (slot, step) in plane.slots.iter().zip(table) {
                if let Some(slot) = slot {
                    steps[usize::from(*slot)] = f32::from(*step);
                }
            }
            for (block, own) in coefficients.chunks_exact(count).enumerate() {
                let mut kept = [0.0; 64];
                kept.iter_mut().zip(own).zip(&steps).for_each(|((kept, own), step)| *kept = f32::from(*own) * step);
                plane.write([block % plane.blocks[0], block / plane.blocks[0]], &kept);
            }
        }
    }

    /// The picture in red, green and blue, `[height, width, 3]`.
    pub(super) fn to_rgb(&self, frame: &JpegFrame, by: usize) -> (u32, u32, Vec<u8>) {
        let [width, height] = frame.size.map(|side| side.div_ceil(by));
        // Where a pixel's sample stands in a plane: at the same position, but for components that cannot give as many.
        let position = |axis: usize, pixel: usize, (plane, own): (&Plane, &Component)| {
            pixel * plane.side[axis] * own.sampling[axis] / (8 / by * frame.sampling[axis])
        };
        let parts = || self.planes.iter().zip(&frame.components);
        let columns: Vec<Vec<usize>> = parts().map(|part| (0..width).map(|x| position(0, x, part)).collect()).collect();
        let mut rgb = Vec::with_capacity(3 * width * height);
        for y in 0..height {
            let row = |part: (&'_ Plane, &Component)| {
                let stride = part.0.blocks[0] * part.0.side[0];
                position(1, y, part) * stride..(position(1, y, part) + 1) * stride
            };
            let rows: Vec<&[u8]> = parts().map(|part| &part.0.samples[row(part)]).collect();
            for x in 0..width {
                let sample = |component: usize| rows[component][columns[component][x]];
                rgb.extend_from_slice(&match frame.colours {
                    Colours::Grey => [sample(0); 3],
                    Colours::Rgb => [0, 1, 2].map(sample),
                    Colours::YCbCr => from_ycbcr([0, 1, 2].map(sample)),
                    Colours::Cmyk => [0, 1, 2].map(|own| product(sample(own), sample(3))),
                    Colours::Ycck => from_ycbcr([0, 1, 2].map(sample)).map(|own| product(255 - own, sample(3))),
                });
            }
        }
        (width as u32, height as u32, rgb)
    }
}

/// The product of two fractions of 255.
fn product(a: u8, b: u8) -> u8 {
    ((u32::from(a) * u32::from(b) + 127) / 255) as u8
}

/// Red, green and blue of a colour in YCbCr, as JFIF defines it.
fn from_ycbcr([y, cb, cr]: [u8; 3]) -> [u8; 3] {
    // In units of 1/65536.
    let (y, cb, cr) = (i32::from(y) << 16, i32::from(cb) - 128, i32::from(cr) - 128);
    [y + 91_881 * cr, y - 22_554 * cb - 46_802 * cr, y + 116_130 * cb]
        .map(|value| ((value + 32_768) >> 16).clamp(0, 255) as u8)
}
