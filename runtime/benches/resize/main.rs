//! What scaling a part of a frame takes, beside the `image` crate's triangle filter: milliseconds of one thread,
//! medians of calls that take turns.
//!
//! ```sh
//! cargo bench -p orco-runtime --bench resize
//! ```

use orco_core::random::Random;
use orco_runtime::image::resize_part;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::image_rs::imageops::{self, FilterType};
use orco_trials::benchmark::{Unit, milliseconds, record};
use orco_trials::median;

/// Sizes of the frames, the square that is scaled, and its side afterwards: the inputs of `cifar100-edge` and
/// `everyday`.
const CASES: [([u32; 2], [u32; 4], u32); 4] = [
    ([640, 480], [80, 0, 480, 480], 32),
    ([640, 480], [80, 0, 480, 480], 298),
    ([1920, 1080], [420, 0, 1080, 1080], 298),
    ([4608, 2592], [1008, 0, 2592, 2592], 298),
];
const ROUNDS: usize = 21;

fn main() {
    println!("{:<12} {:>9} {:>8} {:>10} {:>10}", "part", "to", "ms", "image, ms", "times");
    for ([width, height], part, side) in CASES {
        let mut random = Random::new(1, "resize");
        let frame = RgbImage::from_fn(width, height, |x, y| {
            let noise = (random.bits() & 15) as u8;
            [(x / 3) as u8 ^ noise, (y / 2) as u8 ^ noise, ((x + y) / 5) as u8 ^ noise].into()
        });
        let [x, y, columns, rows] = part;
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            own.push(milliseconds(|| resize_part(&frame, part, [side, side])));
            let part = imageops::crop_imm(&frame, x, y, columns, rows);
            other.push(milliseconds(|| imageops::resize(&*part, side, side, FilterType::Triangle)));
        }
        let (own, other) = (median(own), median(other));
        let [part, to] = [columns, side].map(|side| format!("{side} x {side}"));
        println!("{part:<12} {to:>9} {own:>8.2} {other:>10.2} {:>10.1}", other / own);
        record(format!("{part} to {to}"), own, Unit::Milliseconds);
    }
}
