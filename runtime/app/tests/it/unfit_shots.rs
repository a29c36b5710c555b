//! What the page refuses as a shot, the command line refuses, too.

use std::fs;
use std::path::Path;

use image::{Rgb, RgbImage};
use orco_core::random::Random;

use crate::support::{self, Device, argument, shots};

/// A good picture of a mug, a black, a white and a noisy one, the first again at another size, and a blurred one.
fn unfit_pictures(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let good = image::open(shots("learn", "mug").join("1.jpg")).unwrap();
    good.save(folder.join("1.png")).unwrap();
    RgbImage::new(96, 64).save(folder.join("2.png")).unwrap();
    RgbImage::from_pixel(96, 64, Rgb([255; 3])).save(folder.join("3.png")).unwrap();
    let mut random = Random::new(1, "noise");
    RgbImage::from_fn(640, 480, |_, _| Rgb([0; 3].map(|_: u8| (random.bits() >> 8) as u8)))
        .save(folder.join("4.png"))
        .unwrap();
    good.resize(200, 200, image::imageops::FilterType::Triangle).save(folder.join("5.png")).unwrap();
    let other = image::open(shots("learn", "mug").join("2.jpg")).unwrap();
    let pixels = other.width() as f32 / 32.0;
    other.blur(pixels).save(folder.join("6.png")).unwrap();
}

#[test]
fn pictures_that_the_page_refuses_are_refused_unless_they_are_to_be_taken_anyway() {
    let device = Device::new();
    let folder = device.folder.path().join("shots");
    unfit_pictures(&folder);
    let mug = argument("mug", &folder);
    device.json(&["learn", &argument("duck", &shots("learn", "rubber-duck"))]);
    let duck = argument("duck", &folder);
    let before = device.state_bytes();
    for refused in [["learn", &mug], ["add", &duck]] {
        let output = device.command(&refused).output().unwrap();
        let said = support::text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        for named in [
            "2.png is too dark; ",
            "3.png is too bright",
            "4.png is nothing but noise; ",
            "5.png is nearly the same picture as ",
            "6.png is blurred",
            "1.png; ",
            "; nothing was changed: take other pictures, or these all the same with --take-anyway",
        ] {
            assert!(said.contains(named), "{named} is not in: {said}");
        }
        assert_eq!(device.state_bytes(), before);
    }
    for taken in [["learn", "--take-anyway", &mug], ["add", "--take-anyway", &duck]] {
        let report = device.json(&taken);
        let warnings: Vec<&str> =
            report["warnings"].as_array().unwrap().iter().filter_map(|one| one.as_str()).collect();
        let about = |picture: &str| warnings.iter().filter(|warning| warning.contains(picture)).count();
        assert!(
            ["2.png is too dark", "3.png is too bright", "4.png is nothing but noise", "6.png is blurred"]
                .iter()
                .all(|one| about(one) == 1)
        );
        assert_eq!(about("5.png is nearly the same picture as"), 1, "{warnings:?}");
    }
}

#[test]
fn a_shot_that_looks_like_a_known_class_is_taken_with_a_warning() {
    let device = Device::new();
    device.json(&["learn", &argument("duck", &shots("learn", "rubber-duck"))]);
    let report = device.json(&["learn", &argument("bird", &shots("try", "rubber-duck"))]);
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains(" shots look like duck: "), "{warnings}");
    assert_eq!(device.saved().state.classes.len(), 2);
}

#[test]
fn a_picture_that_was_given_to_two_classes_is_refused_with_the_other_class() {
    let device = Device::new();
    let [mug, cup] = ["mug", "tasse"].map(|label| argument(label, &shots("learn", "mug")));
    let output = device.command(&["learn", &mug, &cup]).output().unwrap();
    let said = support::text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("1.jpg is the same picture as the one for mug"), "{said}");
}

#[test]
fn long_pictures_are_warned_of_where_no_region_says_what_is_seen() {
    let device = Device::new();
    let folder = device.folder.path().join("long");
    fs::create_dir(&folder).unwrap();
    for number in 1..=3 {
        let mug = image::open(shots("learn", "mug").join(format!("{number}.jpg"))).unwrap();
        let long = mug.resize_exact(800, 200, image::imageops::FilterType::Triangle);
        long.save(folder.join(format!("{number}.png"))).unwrap();
    }
    let mug = argument("mug", &folder);
    let warning = "the backbone sees only the square in the middle of a picture, 25 % of ";
    let is_warned = |arguments: &[&str]| device.json(arguments)["warnings"].to_string().contains(warning);
    assert!(is_warned(&["learn", "--take-anyway", &mug]));
    assert!(is_warned(&["add", "--take-anyway", &mug]));
    device.json(&["forget", "mug"]);
    assert!(!is_warned(&["learn", "--take-anyway", "--region", "0,0,1,1", &mug]));
    assert!(!is_warned(&["learn", &argument("duck", &shots("learn", "rubber-duck"))]));
}
