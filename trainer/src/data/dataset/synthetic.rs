//! Synthetic data: rendered objects, for trying the program out and for tests without any download.
//!
//! A class is a shape, a texture and a pair of colours. Its images differ in place, size, turn, proportion, light,
//! background, clutter and noise, so that no single pixel tells the class. Every image has a random stream of its own:
//! the data depend on the seed alone, not on the number of threads, and the first classes and images stay the same when
//! more are asked for.

mod render;

use std::thread;

use orco_core::random::Random;
use orco_runtime::threads::usable_threads;
use tch::Tensor;

use super::Images;
use crate::platform::interrupt;
use render::{ObjectLook, SHAPES, TEXTURES};

/// Training and test images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyntheticPart {
    /// Images to learn from.
    Train,
    /// Images to measure on.
    Test,
}

/// Names of the first `classes` classes: texture, shape and number, such as `striped star 7`.
pub fn class_names(classes: usize, seed: u64) -> Vec<String> {
    let looks = looks(classes, seed);
    looks.iter().enumerate().map(|(class, look)| format!("{} {} {class}", look.texture.0, look.shape.0)).collect()
}

/// Renders `each` images of each class, u8 `[classes * each, 3, side, side]`, in order of class. At Ctrl-C the rest
/// stays black.
///
/// ```
/// use orco_trainer::data::dataset::synthetic::{SyntheticPart, images};
/// let images = images(3, 2, 16, SyntheticPart::Train, 1);
/// assert_eq!(images.labels, [0, 0, 1, 1, 2, 2]);
/// assert_eq!(images.pixels.size(), [6, 3, 16, 16]);
/// ```
pub fn images(classes: usize, each: usize, side: u32, part: SyntheticPart, seed: u64) -> Images {
    let looks = looks(classes, seed);
    let length = 3 * (side * side) as usize;
    let mut planes = vec![0; classes * each * length];
    let threads = usable_threads();
    let share = (classes * each).div_ceil(threads).max(1);
    thread::scope(|scope| {
        for (first, part_planes) in (0..).step_by(share).zip(planes.chunks_mut(share * length)) {
            let looks = &looks;
            scope.spawn(move || {
                for (image, planes) in (first..).zip(part_planes.chunks_mut(length)) {
                    if interrupt::check().is_err() {
                        return;
                    }
                    let (class, index) = (image / each, image % each);
                    let mut random = Random::new(seed, &format!("synthetic {part:?} {class} {index}"));
                    render::render(&looks[class], side as usize, &mut random, planes);
                }
            });
        }
    });
    let labels: Vec<u16> = (0..classes * each).map(|image| (image / each) as u16).collect();
    let side = i64::from(side);
    Images { pixels: Tensor::from_slice(&planes).view([labels.len() as i64, 3, side, side]), labels }
}

/// What the classes look like: combinations of shape and texture in an order of the seed, colours around the wheel.
fn looks(classes: usize, seed: u64) -> Vec<ObjectLook> {
    let mut random = Random::new(seed, "synthetic classes");
    let mut order: Vec<usize> = (0..SHAPES.len() * TEXTURES.len()).collect();
    random.shuffle(&mut order);
    let start = random.unit();
    (0..classes)
        .map(|class| {
            let (round, combination) = (class / order.len(), order[class % order.len()]);
            // Steps of the golden ratio spread any number of hues evenly.
            let hue = (start + (class as f32 * 0.618_034).fract()).fract();
            ObjectLook {
                shape: SHAPES[combination % SHAPES.len()],
                texture: TEXTURES[combination / SHAPES.len()],
                hues: [hue, (hue + 0.3 + 0.13 * (round % 4) as f32).fract()],
                frequency: 1.5 + (round % 3) as f32 * 0.75,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use tch::Kind;

    use super::*;

    #[test]
    fn the_seed_alone_decides() {
        let some = images(4, 3, 16, SyntheticPart::Train, 5);
        assert!(some.pixels.equal(&images(4, 3, 16, SyntheticPart::Train, 5).pixels));
        assert!(!some.pixels.equal(&images(4, 3, 16, SyntheticPart::Train, 6).pixels));
        assert!(!some.pixels.equal(&images(4, 3, 16, SyntheticPart::Test, 5).pixels));
        let more = images(9, 3, 16, SyntheticPart::Train, 5);
        assert!(some.pixels.equal(&more.pixels.narrow(0, 0, 12)), "earlier classes stay");
        assert!(!some.pixels.get(0).equal(&some.pixels.get(1)), "images of a class differ");
        let digest = some.pixels.to_kind(Kind::Int64).sum(Kind::Int64).int64_value(&[]);
        assert_eq!(digest, DIGEST, "the images changed");
    }

    /// Sum of the bytes of 4 classes, 3 images each, 16x16, seed 5: pins the images across versions.
    const DIGEST: i64 = 989_092;

    #[test]
    fn names_differ_for_any_number_of_classes() {
        let mut names = class_names(300, 1);
        assert_eq!(names[..10], class_names(10, 1));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 300);
    }
}
