//! Temperature, border and expected accuracy from samples whose scores are given.

use super::*;

/// Twenty base classes with a sample each, and one learned class with four shots, of which one alone can be won without
/// losing eight of the base classes.
pub(in crate::answer) const BASE: usize = 20;

pub(in crate::answer) fn calibrator(classes: &[u32]) -> Calibrator<'_> {
    let mut calibrator = Calibrator::new(classes, BASE, BASE + 1);
    for (sample, &class) in classes.iter().enumerate() {
        let mut row = vec![0.0; BASE + 1];
        let lead = match sample {
            0..8 => -0.3,
            8..BASE => -2.0,
            BASE => 0.5,
            _ => -0.5,
        };
        row[if class as usize == BASE { 0 } else { class as usize }] = 1.0;
        row[BASE] = 1.0 + lead;
        calibrator.add(&row);
    }
    calibrator
}

#[test]
fn what_a_simpler_answer_would_recognise_makes_the_harmonic_mean_weigh_less() {
    let classes: Vec<u32> = (0..BASE as u32).chain([BASE as u32; 4]).collect();
    let border = |balance, min_accuracy| calibrator(&classes).choose(balance, min_accuracy, 0.0).border;
    let [keep, favour] = [Balance::KeepBase, Balance::FavourNew].map(|balance| border(balance, 1.0));
    let free = border(Balance::Balanced, 0.0);
    assert!(free.learned > keep.learned + 0.1, "{free:?} {keep:?}");
    let share = 20.0 / 21.0;
    let bound = border(Balance::Balanced, 1.0);
    assert!(bound.overall(share) > free.overall(share), "{bound:?} {free:?}");
    assert!(keep.shift <= bound.shift && bound.shift < free.shift && free.shift <= favour.shift);
    assert_eq!(favour, border(Balance::FavourNew, 0.0), "what people set counts alone");
    assert_eq!(keep, border(Balance::KeepBase, 0.0));
}

#[test]
fn excluded_samples_take_no_share() {
    let classes = [0, 0, 1, 2, 3];
    let mut calibrator = Calibrator::new(&classes, 2, 4);
    for (class, excluded) in classes.into_iter().zip([false, false, true, false, true]) {
        let mut row = vec![0.0; 4];
        row[class as usize] = 1.0;
        if excluded { calibrator.add_excluded(&row) } else { calibrator.add(&row) }
    }
    assert_eq!(calibrator.shares(), [0.5, 0.5, 0.0, 1.0, 0.0]);
    assert!((calibrator.accuracy() - 1.0).abs() < 1e-5);
}

/// Two base classes, of which the first has a sample set aside and a shot of the device; far from one learned class.
#[test]
fn samples_that_are_easier_than_pictures_promise_less() {
    let classes = [0, 1, 0, 2];
    let promised = |ratio| {
        let mut calibrator = Calibrator::new(&classes, 2, 3).with_accuracy_ratio(2, ratio);
        for class in classes {
            let mut row = vec![0.0; 3];
            row[class as usize] = 5.0;
            calibrator.add(&row);
        }
        calibrator.choose(Balance::Balanced, 0.0, 0.0).border
    };
    let plain = promised(1.0);
    assert!((plain.base - 1.0).abs() < 1e-5 && (plain.learned - 1.0).abs() < 1e-5, "{plain:?}");
    // The device's own shot counts in full: a quarter of the base classes' accuracy.
    let honest = promised(0.8);
    assert!((honest.base - (0.75 * 0.8 + 0.25)).abs() < 1e-5 && (honest.learned - 1.0).abs() < 1e-5, "{honest:?}");
}

/// A learned class of two shots, each with two views: three of four views are right, and half of these are ahead.
#[test]
fn views_share_the_weight_of_their_shot() {
    let classes = [0, 2, 2];
    let mut calibrator = Calibrator::new(&classes, 1, 3);
    let row = |lead: f32, best: usize| {
        let mut row = [1.0, -9.0, -9.0];
        row[best] = 1.0 + lead;
        row
    };
    calibrator.add(&[5.0, 0.0, 0.0]);
    calibrator.add(&row(1.0, 2));
    calibrator.add_views(&[row(0.2, 2), row(-0.2, 2)].concat());
    calibrator.add(&row(1.0, 2));
    calibrator.add_views(&[row(0.0, 2), row(9.0, 1)].concat());
    let [known, new] = calibrator.sides();
    assert_eq!((known.len(), new.len()), (1, 4));
    assert!(new.iter().all(|view| (view.weight - 0.25).abs() < 1e-6));
    assert_eq!(new.iter().filter(|view| view.right).count(), 3);
    let border = border::expected(&known, &new, 0.0);
    assert!((border.learned - 0.75 * 0.5).abs() < 1e-5, "{border:?}");
    let told = calibrator.left_out_accuracy(&|_| true, 0.0).unwrap();
    assert_eq!(told, LeftOutAccuracy { among_all: border.learned, among_learned: 0.75 });
}

/// Every shot is nearer to the base class than to a learned one; of the second learned class, one of two shots is
/// nearer to the first.
#[test]
fn among_learned_classes_alone_no_base_class_is_in_the_way() {
    let classes = [0, 1, 1, 2, 2];
    let mut calibrator = Calibrator::new(&classes, 1, 3);
    for row in [[9.0, 0.0, 0.0], [5.0, 4.0, 0.0], [5.0, 4.0, 0.0], [5.0, 0.0, 4.0], [5.0, 4.0, 0.0]] {
        calibrator.add(&row);
    }
    let told = |counts: &dyn Fn(usize) -> bool, shift| calibrator.left_out_accuracy(counts, shift);
    let all = told(&|_| true, 0.0).unwrap();
    assert!(all.among_all < 1e-6 && (all.among_learned - 0.75).abs() < 1e-6, "{all:?}");
    let wide = told(&|_| true, 2.0).unwrap();
    assert!((wide.among_all - 0.75).abs() < 1e-6 && wide.among_learned == all.among_learned, "{wide:?}");
    let second = told(&|class| class == 2, 0.0).unwrap();
    assert!((second.among_learned - 0.5).abs() < 1e-6, "classes that do not count take no share: {second:?}");
    assert_eq!(told(&|_| false, 0.0), None);
}

/// A base class that is replaced weighs no more than one that was never there.
#[test]
fn replaced_classes_have_no_part_in_the_accuracy_over_all_classes() {
    const GONE: f32 = -1e6;
    let border = |replaced: usize| {
        let classes: Vec<u32> = [0, 0, 0, 1, 1].map(|side: u32| side * (1 + replaced as u32)).to_vec();
        let mut calibrator = Calibrator::new(&classes, 1 + replaced, 2 + replaced).with_replaced(replaced);
        for margin in [-0.9, -0.5, -0.1, 0.2, -0.4] {
            let row = [&[0.0][..], &vec![GONE; replaced], &[margin]].concat();
            calibrator.add(&row);
        }
        [Balance::KeepBase, Balance::Balanced].map(|balance| calibrator.choose_border(balance, 0.0, 0.0))
    };
    assert_eq!(border(0), border(3));
}
