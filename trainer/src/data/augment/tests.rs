//! The families of operations that live in the parent; whole views are tested in `tests/tests/it/views.rs`.

use tch::Device;

use super::*;

/// So many that shares and means hold whatever is drawn: other tests draw from torch's one generator at the same time.
fn images(count: i64) -> Tensor {
    Tensor::rand([count, 3, 16, 16], (Kind::Float, Device::Cpu))
}

#[test]
fn cutout_covers_one_square() {
    let images = images(4000);
    let changed = cutout(&images, 8).ne_tensor(&images).all_dim(1, false).to_kind(Kind::Float);
    let covered = Vec::<f32>::try_from(changed.sum_dim_intlist([1, 2].as_slice(), false, Kind::Float)).unwrap();
    assert!(covered.iter().all(|&pixels| (16.0..=64.0).contains(&pixels)), "{covered:?}");
    assert!(covered.contains(&64.0));
    // Mean of the side's part inside: (4 + 5 + 6 + 7 + 9 * 8 + 7 + 6 + 5) / 16 = 7, squared.
    let mean = covered.iter().sum::<f32>() / covered.len() as f32;
    assert!((mean - 49.0).abs() < 2.5, "{mean}");
    assert!(cutout(&images, 0).equal(&images));
    let whole = cutout(&images, 32);
    assert!(whole.amax([2, 3].as_slice(), false).allclose(&whole.amin([2, 3].as_slice(), false), 0.0, 1e-6, false));
}

#[test]
fn grey_and_erasing_happen_as_often_as_they_should() {
    let images = images(8000);
    let share = |result: Tensor| {
        let changed = result.ne_tensor(&images).view([8000, -1]).any_dim(1, false);
        changed.to_kind(Kind::Float).mean(Kind::Float).double_value(&[])
    };
    for probability in [0.0, 0.2, 0.7, 1.0] {
        for drawn in [
            share(grey(&images, probability)),
            share(erase(&images, probability)),
            share(jitter(&images, probability, 0.4, 0.1)),
            share(jitter(&images, probability, 0.0, 0.1)),
        ] {
            assert!((drawn - probability).abs() < 0.04, "{drawn}, not {probability}");
        }
    }
}
