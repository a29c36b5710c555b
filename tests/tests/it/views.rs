//! Whole views: in range, the same for the same seed, and no random number drawn for what a recipe leaves out.

use orco_trainer::config::{AugmentConfig, AugmentPolicy};
use orco_trainer::data::augment::random_view;
use orco_trials::torch_generator;
use tch::{Device, Kind, Tensor};

fn config() -> AugmentConfig {
    AugmentConfig {
        crop_scale: [0.2, 1.0],
        policy: AugmentPolicy::None,
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
    let _turn = torch_generator();
    let images = images(32);
    for policy in
        [AugmentPolicy::None, AugmentPolicy::AutoAugment, AugmentPolicy::RandAugment { operations: 2, magnitude: 30 }]
    {
        let config = AugmentConfig {
            policy,
            jitter_probability: 0.8,
            jitter: 0.4,
            hue: 0.1,
            grey_probability: 0.2,
            erase_probability: 0.25,
            cutout: 8,
            ..config()
        };
        let draw = |seed: i64| {
            tch::manual_seed(seed);
            random_view(&images, &config)
        };
        let (one, again, other) = (draw(7), draw(7), draw(8));
        assert!(one.equal(&again) && !one.equal(&other), "{policy:?}");
        assert_eq!(one.size(), images.size());
        assert!(one.min().double_value(&[]) >= 0.0 && one.max().double_value(&[]) <= 1.0, "{policy:?}");
    }
}

/// Recorded runs resume only if a recipe that is silent about newer settings draws the numbers it always drew: area,
/// shape, two places and the flip of the crop; then, with jitter, its three factors and its chance.
#[test]
fn settings_that_are_off_draw_no_random_numbers() {
    let _turn = torch_generator();
    let images = images(4);
    for (jitter_probability, draws) in [(0.0, 5), (0.5, 9)] {
        tch::manual_seed(9);
        let _ = random_view(&images, &AugmentConfig { jitter_probability, jitter: 0.4, ..config() });
        let after = Tensor::rand([4], (Kind::Float, Device::Cpu));
        tch::manual_seed(9);
        (0..draws).for_each(|_| drop(Tensor::rand([4, 1, 1, 1], (Kind::Float, Device::Cpu))));
        assert!(Tensor::rand([4], (Kind::Float, Device::Cpu)).equal(&after), "jitter {jitter_probability}");
    }
}
