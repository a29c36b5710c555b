//! Whole views, and the families that live in the parent.

use tch::Device;

use super::*;

fn config() -> AugmentConfig {
    AugmentConfig {
        crop_scale: [1.0, 1.0],
        policy: Policy::None,
        jitter_probability: 0.0,
        jitter: 0.0,
        hue: 0.0,
        grey_probability: 0.0,
        erase_probability: 0.0,
        cutout: 0,
    }
}

fn images(count: i64) -> Tensor {
    tch::manual_seed(5);
    Tensor::rand([count, 3, 16, 16], (Kind::Float, Device::Cpu))
}

#[test]
fn views_stay_in_range_and_follow_the_seed() {
    let images = images(32);
    for policy in [Policy::None, Policy::AutoAugment, Policy::RandAugment { operations: 2, magnitude: 30 }] {
        let config = AugmentConfig {
            crop_scale: [0.2, 1.0],
            policy,
            jitter_probability: 0.8,
            jitter: 0.4,
            hue: 0.1,
            grey_probability: 0.2,
            erase_probability: 0.25,
            cutout: 8,
        };
        let draw = |seed: i64| {
            tch::manual_seed(seed);
            view(&images, &config)
        };
        let (one, again, other) = (draw(7), draw(7), draw(8));
        assert!(one.equal(&again) && !one.equal(&other), "{policy:?}");
        assert_eq!(one.size(), images.size());
        assert!(one.min().double_value(&[]) >= 0.0 && one.max().double_value(&[]) <= 1.0, "{policy:?}");
    }
}

/// New settings at rest must not move torch's generator, or recorded runs would not resume.
#[test]
fn settings_at_rest_draw_no_numbers() {
    let images = images(4);
    tch::manual_seed(9);
    let cropped = crop_and_flip(&images, [0.5, 1.0]);
    let after = Tensor::rand([4], (Kind::Float, Device::Cpu));
    tch::manual_seed(9);
    let config = AugmentConfig { crop_scale: [0.5, 1.0], ..config() };
    assert!(view(&images, &config).equal(&cropped));
    assert!(Tensor::rand([4], (Kind::Float, Device::Cpu)).equal(&after));
}

#[test]
fn cutout_covers_one_square() {
    let images = images(400);
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
    let images = images(2000);
    let share = |result: Tensor| {
        let changed = result.ne_tensor(&images).view([2000, -1]).any_dim(1, false);
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
