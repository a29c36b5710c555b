//! Policies of random operations: AutoAugment's for CIFAR-10 and RandAugment.
//!
//! Which image gets which operation is drawn on the host from torch's generator; the images of a step that drew the
//! same operation are gathered, changed together on their device, and put back.

use tch::{Kind, Tensor};

use super::geometry::{Movement, warp};
use super::tone;
use crate::config::AugmentPolicy;
use crate::platform::device::send;

/// An operation of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
    Rotate,
    Brightness,
    Color,
    Contrast,
    Sharpness,
    Posterize,
    Solarize,
    AutoContrast,
    Equalize,
    Invert,
    Identity,
}

use Operation::*;

/// The operations that RandAugment draws from (Cubuk et al., 2020, section 3).
const RANDAUGMENT: [Operation; 14] = [
    Identity,
    AutoContrast,
    Equalize,
    Rotate,
    Solarize,
    Color,
    Posterize,
    Contrast,
    Brightness,
    Sharpness,
    ShearX,
    ShearY,
    TranslateX,
    TranslateY,
];

/// Operation, probability, magnitude 0..=9.
type Choice = (Operation, f64, u8);

/// The policy found on CIFAR-10: 25 sub-policies of two operations (Cubuk et al., "AutoAugment: Learning Augmentation
/// Policies from Data", 2019, appendix, table for CIFAR-10). Checked entry by entry against torchvision's
/// `AutoAugmentPolicy.CIFAR10` and the table in the published program of OrCo (`dataloader/autoaugment.py`). Magnitudes
/// of operations that have none (AutoContrast, Equalize, Invert) are those of the paper and mean nothing.
const AUTOAUGMENT_CIFAR10: [[Choice; 2]; 25] = [
    [(Invert, 0.1, 7), (Contrast, 0.2, 6)],
    [(Rotate, 0.7, 2), (TranslateX, 0.3, 9)],
    [(Sharpness, 0.8, 1), (Sharpness, 0.9, 3)],
    [(ShearY, 0.5, 8), (TranslateY, 0.7, 9)],
    [(AutoContrast, 0.5, 8), (Equalize, 0.9, 2)],
    [(ShearY, 0.2, 7), (Posterize, 0.3, 7)],
    [(Color, 0.4, 3), (Brightness, 0.6, 7)],
    [(Sharpness, 0.3, 9), (Brightness, 0.7, 9)],
    [(Equalize, 0.6, 5), (Equalize, 0.5, 1)],
    [(Contrast, 0.6, 7), (Sharpness, 0.6, 5)],
    [(Color, 0.7, 7), (TranslateX, 0.5, 8)],
    [(Equalize, 0.3, 7), (AutoContrast, 0.4, 8)],
    [(TranslateY, 0.4, 3), (Sharpness, 0.2, 6)],
    [(Brightness, 0.9, 6), (Color, 0.2, 8)],
    [(Solarize, 0.5, 2), (Invert, 0.0, 3)],
    [(Equalize, 0.2, 0), (AutoContrast, 0.6, 0)],
    [(Equalize, 0.2, 8), (Equalize, 0.6, 4)],
    [(Color, 0.9, 9), (Equalize, 0.6, 6)],
    [(AutoContrast, 0.8, 4), (Solarize, 0.2, 8)],
    [(Brightness, 0.1, 3), (Color, 0.7, 0)],
    [(Solarize, 0.4, 5), (AutoContrast, 0.9, 3)],
    [(TranslateY, 0.9, 9), (TranslateY, 0.7, 9)],
    [(AutoContrast, 0.9, 2), (Solarize, 0.8, 3)],
    [(Equalize, 0.8, 8), (Invert, 0.1, 3)],
    [(TranslateY, 0.7, 9), (AutoContrast, 0.9, 1)],
];

/// What one image goes through in one step: an operation and its strength, -1..=1.
type PolicyStep = (Operation, f32);

/// Draws operations for every image by the policy, and applies them.
///
/// # Shapes
/// `images` f32 `[n, 3, h, w]` in 0..1; returns the same shape, in 0..1.
pub fn apply(images: &Tensor, policy: AugmentPolicy) -> Tensor {
    plan(images.size()[0] as usize, policy).iter().fold(images.shallow_clone(), |images, steps| perform(&images, steps))
}

/// For every step of the policy, what each image goes through.
fn plan(images: usize, policy: AugmentPolicy) -> Vec<Vec<PolicyStep>> {
    let draw = || Vec::<f32>::try_from(Tensor::rand([images as i64], (Kind::Float, tch::Device::Cpu))).expect("floats");
    let choose = |count: usize| {
        let drawn = Tensor::randint(count as i64, [images as i64], (Kind::Int64, tch::Device::Cpu));
        Vec::<i64>::try_from(drawn).expect("integers").into_iter().map(|choice| choice as usize)
    };
    let signed = |strength: f32, sign: f32| if sign < 0.5 { -strength } else { strength };
    match policy {
        AugmentPolicy::None => Vec::new(),
        AugmentPolicy::AutoAugment => {
            let chosen: Vec<usize> = choose(AUTOAUGMENT_CIFAR10.len()).collect();
            let step = |position: usize| -> Vec<PolicyStep> {
                let (luck, signs) = (draw(), draw());
                let each = chosen.iter().zip(luck).zip(signs);
                each.map(|((&pair, luck), sign)| {
                    let (operation, probability, magnitude) = AUTOAUGMENT_CIFAR10[pair][position];
                    let happens = f64::from(luck) < probability;
                    let strength = signed(f32::from(magnitude) / 9.0, sign);
                    if happens { (operation, strength) } else { (Identity, 0.0) }
                })
                .collect()
            };
            vec![step(0), step(1)]
        }
        AugmentPolicy::RandAugment { operations, magnitude } => {
            let strength = magnitude as f32 / AugmentPolicy::HIGHEST as f32;
            let steps = (0..operations).map(|_| {
                let chosen = choose(RANDAUGMENT.len());
                chosen.zip(draw()).map(|(choice, sign)| (RANDAUGMENT[choice], signed(strength, sign))).collect()
            });
            steps.collect()
        }
    }
}

/// One step of every image: those that drew the same family of operations go through it together.
fn perform(images: &Tensor, steps: &[PolicyStep]) -> Tensor {
    let mut changed = images.copy();
    let family = |operation: Operation| if operation <= Rotate { Rotate } else { operation };
    let mut order: Vec<i64> = (0..steps.len() as i64).collect();
    order.sort_by_key(|&image| family(steps[image as usize].0));
    for group in order.chunk_by(|&a, &b| family(steps[a as usize].0) == family(steps[b as usize].0)) {
        let operation = steps[group[0] as usize].0;
        if operation == Identity {
            continue;
        }
        let members: Vec<PolicyStep> = group.iter().map(|&image| steps[image as usize]).collect();
        let indices = send(&Tensor::from_slice(group), images.device());
        let result = operate(&images.index_select(0, &indices), operation, &members);
        let _ = changed.index_copy_(0, &indices, &result);
    }
    changed
}

/// Applies operations of one family to a group of images.
///
/// Factors of brightness, colour, contrast and sharpness go 0.9 to either side of 1, posterising leaves 8 bits at
/// strength 0 and 4 at 1, solarising inverts values from 256 (none) on at strength 0 and from 0 (all) on at 1. The
/// program of OrCo does the same; torchvision solarises from 255 on at strength 0.
fn operate(images: &Tensor, operation: Operation, members: &[PolicyStep]) -> Tensor {
    let each = |value: &dyn Fn(f32) -> f32| {
        let values: Vec<f32> = members.iter().map(|&(_, strength)| value(strength)).collect();
        send(&Tensor::from_slice(&values).view([-1, 1, 1, 1]), images.device())
    };
    let factor = || each(&|strength| 1.0 + 0.9 * strength);
    match operation {
        ShearX | ShearY | TranslateX | TranslateY | Rotate => {
            let movements: Vec<Movement> = members.iter().map(|&step| movement(step)).collect();
            warp(images, &movements)
        }
        Brightness => tone::brightness(images, &factor()),
        Color => tone::saturation(images, &factor()),
        Contrast => tone::contrast(images, &factor()),
        Sharpness => tone::sharpness(images, &factor()),
        Posterize => tone::posterize(images, &each(&|strength| 8.0 - (4.0 * strength.abs()).round())),
        // Above every value at strength 0, so that nothing changes there.
        Solarize => tone::solarize(images, &each(&|strength| (1.0 - strength.abs()) * (256.0 / 255.0))),
        AutoContrast => tone::auto_contrast(images),
        Equalize => tone::equalize(images),
        Invert => tone::invert(images),
        Identity => images.shallow_clone(),
    }
}

/// The movement of a geometric operation at a strength of -1..=1: shear up to 0.3, translation up to 150 of the 331
/// pixels of the paper's ImageNet images, rotation up to 30 degrees; all to either side. The program of OrCo rotates
/// one way only and shears bicubically; torchvision as here, but fills with black unless told otherwise.
fn movement((operation, strength): PolicyStep) -> Movement {
    match operation {
        ShearX => Movement::ShearX(0.3 * strength),
        ShearY => Movement::ShearY(0.3 * strength),
        TranslateX => Movement::TranslateX(150.0 / 331.0 * strength),
        TranslateY => Movement::TranslateY(150.0 / 331.0 * strength),
        _ => Movement::Rotate(30.0 * strength),
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    const COUNT: usize = 40_000;
    /// RandAugment's operations, and the one that only AutoAugment has.
    fn every() -> impl Iterator<Item = Operation> {
        RANDAUGMENT.into_iter().chain([Invert])
    }

    fn images(count: i64) -> Tensor {
        let drawn = Tensor::rand([count, 3, 8, 8], (Kind::Float, Device::Cpu));
        (drawn * 255.0).round() / 255.0
    }

    fn share(steps: &[PolicyStep], operation: Operation) -> f64 {
        steps.iter().filter(|step| step.0 == operation).count() as f64 / steps.len() as f64
    }

    #[test]
    fn operations_without_strength_change_nothing() {
        let images = images(4);
        for operation in every() {
            if [AutoContrast, Equalize, Invert].contains(&operation) {
                continue;
            }
            let result = perform(&images, &[(operation, 0.0); 4]);
            assert!(result.allclose(&images, 0.0, 1e-6, false), "{operation:?}");
        }
    }

    #[test]
    fn every_operation_stays_in_range() {
        let images = images(2);
        for operation in every() {
            let result = perform(&images, &[(operation, 1.0), (operation, -1.0)]);
            assert_eq!(result.size(), images.size());
            let (low, high) = (result.min().double_value(&[]), result.max().double_value(&[]));
            assert!(low >= 0.0 && high <= 1.0, "{operation:?}: {low} to {high}");
            if operation != Identity && operation != Equalize && operation != AutoContrast {
                assert!(!result.allclose(&images, 0.0, 1e-3, false), "{operation:?} does nothing");
            }
        }
    }

    #[test]
    fn only_the_images_that_drew_an_operation_change() {
        let images = images(5);
        let steps = [(Identity, 0.0), (Invert, 1.0), (Identity, 0.0), (TranslateX, 1.0), (Invert, 1.0)];
        let result = perform(&images, &steps);
        for (index, step) in steps.iter().enumerate() {
            let (own, old) = (result.get(index as i64), images.get(index as i64));
            match step.0 {
                Identity => assert!(own.equal(&old)),
                Invert => assert!(own.equal(&(1.0 - old))),
                _ => assert!(!own.equal(&old)),
            }
        }
    }

    /// What torchvision's table says, counted apart from ours.
    #[test]
    fn the_table_is_the_published_one() {
        let all = || AUTOAUGMENT_CIFAR10.iter().flatten();
        let count = |operation| all().filter(|choice| choice.0 == operation).count();
        let counts = [
            (ShearX, 0),
            (ShearY, 2),
            (TranslateX, 2),
            (TranslateY, 5),
            (Rotate, 1),
            (Brightness, 4),
            (Color, 5),
            (Contrast, 2),
            (Sharpness, 5),
            (Posterize, 1),
            (Solarize, 4),
            (AutoContrast, 7),
            (Equalize, 9),
            (Invert, 3),
        ];
        for (operation, expected) in counts {
            assert_eq!(count(operation), expected, "{operation:?}");
        }
        assert_eq!(counts.iter().map(|entry| entry.1).sum::<usize>(), 50);
        let tenths = |position: usize| {
            AUTOAUGMENT_CIFAR10.iter().map(|pair| (pair[position].1 * 10.0).round() as usize).sum::<usize>()
        };
        assert_eq!((tenths(0), tenths(1)), (134, 131));
        assert_eq!(AUTOAUGMENT_CIFAR10[3], [(ShearY, 0.5, 8), (TranslateY, 0.7, 9)]);
        assert_eq!(AUTOAUGMENT_CIFAR10[14], [(Solarize, 0.5, 2), (Invert, 0.0, 3)]);
        assert_eq!(AUTOAUGMENT_CIFAR10[21], [(TranslateY, 0.9, 9), (TranslateY, 0.7, 9)]);
        assert!(all().all(|choice| choice.2 <= 9));
    }

    /// The ranges of torchvision's `_augmentation_space`, at 10 magnitudes.
    #[test]
    fn the_magnitudes_are_the_published_ones() {
        let value = |value: f64, operation, magnitude: u8, sign: f32| {
            let images = Tensor::full([1, 3, 8, 8], value / 255.0, (Kind::Float, Device::Cpu));
            let result = perform(&images, &[(operation, sign * f32::from(magnitude) / 9.0)]);
            (result.double_value(&[0, 0, 4, 4]) * 255.0).round()
        };
        assert_eq!(movement((ShearX, -1.0)), Movement::ShearX(-0.3));
        assert_eq!(movement((ShearY, 1.0)), Movement::ShearY(0.3));
        assert_eq!(movement((TranslateX, 1.0)), Movement::TranslateX(150.0 / 331.0));
        assert_eq!(movement((TranslateY, -1.0)), Movement::TranslateY(-150.0 / 331.0));
        assert_eq!(movement((Rotate, 1.0)), Movement::Rotate(30.0));
        // Factors 1.9 and 0.1 at the ends, 1.6 at magnitude 6.
        assert_eq!((value(100.0, Brightness, 9, 1.0), value(100.0, Brightness, 9, -1.0)), (190.0, 10.0));
        assert_eq!(value(100.0, Brightness, 6, 1.0), 160.0);
        // 8 - round(4 m / 9) bits, whatever the sign: 8 8 7 7 6 6 5 5 4 4.
        for (magnitude, bits) in [8, 8, 7, 7, 6, 6, 5, 5, 4, 4].into_iter().enumerate() {
            let kept = 255.0 - (f64::from(1 << (8 - bits)) - 1.0);
            assert_eq!(value(255.0, Posterize, magnitude as u8, -1.0), kept, "magnitude {magnitude}");
        }
        // The threshold is 256 (9 - m) / 9: 28.4 at magnitude 8, 0 at 9, above every value at 0.
        assert_eq!((value(28.0, Solarize, 8, 1.0), value(29.0, Solarize, 8, -1.0)), (28.0, 226.0));
        assert_eq!((value(0.0, Solarize, 9, 1.0), value(255.0, Solarize, 0, 1.0)), (255.0, 255.0));
    }

    #[test]
    fn the_table_is_drawn_in_its_proportions() {
        tch::manual_seed(1);
        let plan = plan(COUNT, AugmentPolicy::AutoAugment);
        assert_eq!(plan.len(), 2);
        for (position, steps) in plan.iter().enumerate() {
            for operation in every().filter(|&operation| operation != Identity) {
                let of_table =
                    AUTOAUGMENT_CIFAR10.iter().map(|pair| pair[position]).filter(|choice| choice.0 == operation);
                let expected = of_table.map(|choice| choice.1).sum::<f64>() / AUTOAUGMENT_CIFAR10.len() as f64;
                let drawn = share(steps, operation);
                assert!((drawn - expected).abs() < 0.012, "{operation:?}: {drawn}, not {expected}");
            }
            let left = steps.iter().filter(|step| step.1 < 0.0).count() as f64;
            let right = steps.iter().filter(|step| step.1 > 0.0).count() as f64;
            assert!((left / (left + right) - 0.5).abs() < 0.02);
        }
    }

    #[test]
    fn rand_augment_draws_every_operation_alike() {
        tch::manual_seed(2);
        let plan = plan(COUNT, AugmentPolicy::RandAugment { operations: 3, magnitude: 15 });
        assert_eq!(plan.len(), 3);
        for steps in &plan {
            assert!(steps.iter().all(|step| step.1.abs() == 0.5));
            for operation in RANDAUGMENT {
                assert!((share(steps, operation) - 1.0 / 14.0).abs() < 0.01, "{operation:?}");
            }
            assert_eq!(share(steps, Invert), 0.0);
        }
    }

    #[test]
    fn no_policy_draws_nothing() {
        assert!(plan(5, AugmentPolicy::None).is_empty());
    }
}
