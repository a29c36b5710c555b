//! Things before places, from files: with an empty view, a region, both, and views that are none.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::imageops::{self, FilterType};
use image::{ImageFormat, Rgb, RgbImage, RgbaImage};
use orco_core::random::Random as Noise;
use orco_render::{Class, Random, place, thing};
use serde_json::Value;

use crate::support::{Device, argument, assert_refused, text};

const SIZE: [u32; 2] = [480, 270];
/// Pixels along each side of a thing.
const THING: u32 = 150;

/// A place and the camera before it.
pub(crate) struct Camera {
    place: RgbImage,
    noise: Noise,
}

impl Camera {
    fn new(number: usize) -> Self {
        let place = place(SIZE[0] as usize / 2, SIZE[1] as usize / 2, &mut Random::new("scene/place", number));
        let place = imageops::resize(&place, SIZE[0], SIZE[1], FilterType::CatmullRom);
        Self { place, noise: Noise::new(number as u64, "camera") }
    }

    /// Over a chequered tablecloth.
    pub(crate) fn over_tablecloth() -> Self {
        let colour =
            |x: u32, y: u32| if (x / 24 + y / 24).is_multiple_of(2) { [176, 148, 120] } else { [110, 128, 150] };
        Self { place: RgbImage::from_fn(SIZE[0], SIZE[1], |x, y| Rgb(colour(x, y))), noise: Noise::new(0, "camera") }
    }

    /// A picture of things whose left edges are given.
    pub(crate) fn take(&mut self, things: &[(&RgbaImage, i64)]) -> RgbImage {
        let gain = self.noise.uniform(0.95, 1.05);
        self.take_in_light(things, gain)
    }

    /// A picture of things whose left edges are given, in this light, 1 being the usual one.
    pub(crate) fn take_in_light(&mut self, things: &[(&RgbaImage, i64)], gain: f32) -> RgbImage {
        let mut frame = image::DynamicImage::from(self.place.clone()).into_rgba8();
        for (thing, left) in things {
            imageops::overlay(&mut frame, *thing, *left, 80);
        }
        let mut frame = image::DynamicImage::from(frame).into_rgb8();
        frame.iter_mut().for_each(|value| {
            *value = (f32::from(*value) * gain + 2.0 * self.noise.normal()).round().clamp(0.0, 255.0) as u8;
        });
        frame
    }

    /// Pushed to the side by so many pixels.
    pub(crate) fn pushed(&self, by: u32) -> Self {
        let place = RgbImage::from_fn(SIZE[0], SIZE[1], |x, y| *self.place.get_pixel((x + by) % SIZE[0], y));
        Self { place, noise: self.noise.clone() }
    }

    /// Three pictures of the empty place, in a folder.
    fn empty(&mut self, folder: &Path) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        (1..=3).for_each(|number| self.take(&[]).save(folder.join(format!("{number}.png"))).unwrap());
        folder.into()
    }
}

pub(crate) fn things(class: Class, count: usize) -> Vec<RgbaImage> {
    let folder = format!("scene/{}", class.name());
    let render = |index| {
        let small = thing(class, 64, &mut Random::new(&folder, index));
        imageops::resize(&small, THING, THING, FilterType::Triangle)
    };
    (0..count).map(render).collect()
}

/// Saves a picture and returns its path as an argument.
fn saved(folder: &Path, name: &str, picture: &RgbImage) -> String {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join(name);
    picture.save(&path).unwrap();
    path.to_str().unwrap().into()
}

/// The nearest of the things that were taught: base classes of so small a backbone may be nearer.
fn first_label(thing: &Value) -> &str {
    let labels = thing["matches"].as_array().unwrap().iter().map(|found| found["label"].as_str().unwrap());
    labels.into_iter().find(|label| label.starts_with("my ")).unwrap()
}

#[test]
fn a_thing_is_known_in_another_place_and_an_empty_place_is_empty() {
    let device = Device::new();
    let root = device.folder.path();
    let mut table = Camera::new(1);
    let empty = table.empty(&root.join("table"));
    let empty = empty.to_str().unwrap();
    let (mugs, ducks) = (things(Class::Mug, 7), things(Class::RubberDuck, 7));
    for (number, (mug, duck)) in mugs[..5].iter().zip(&ducks).enumerate() {
        // At the side of the frame as well, where the largest centred square does not reach.
        saved(&root.join("mug"), &format!("{number}.png"), &table.take(&[(mug, [5, 160, 320][number % 3])]));
        saved(&root.join("duck"), &format!("{number}.png"), &table.take(&[(duck, [320, 160, 5][number % 3])]));
    }
    let classes = [argument("my mug", &root.join("mug")), argument("my duck", &root.join("duck"))];
    device.json(&["learn", &classes[0], &classes[1], "--empty", empty]);

    let mut desk = Camera::new(2);
    let desk_empty = desk.empty(&root.join("desk"));
    let both = saved(root, "both.png", &desk.take(&[(&mugs[5], 10), (&ducks[5], 320)]));
    let one = saved(root, "one.png", &desk.take(&[(&ducks[6], 325)]));
    let none = saved(root, "none.png", &desk.take(&[]));
    let small = saved(root, "small.png", &RgbImage::new(100, 100));
    let asked = ["classify", &both, &one, &none, "--top", "200", "--empty", desk_empty.to_str().unwrap()];
    let found = device.json(&asked);
    let things = |image: usize| found["images"][image]["regions"][0]["things"].as_array().unwrap();
    assert_eq!([0, 1, 2].map(|image| things(image).len()), [2, 1, 0], "{found}");
    let mut labels: Vec<(u64, &str)> =
        things(0).iter().map(|thing| (thing["box"]["x"].as_u64().unwrap(), first_label(thing))).collect();
    labels.sort_unstable();
    assert_eq!([labels[0].1, labels[1].1], ["my mug", "my duck"], "{found}");
    assert_eq!(first_label(&things(1)[0]), "my duck");
    assert!(things(1)[0]["box"]["x"].as_u64().unwrap() > 300, "{found}");
    let is_empty = |image: usize| found["images"][image]["regions"][0]["empty"].as_bool().unwrap();
    assert_eq!([0, 1, 2].map(is_empty), [false, false, true]);
    let said = text(&device.command(&asked).output().unwrap().stdout);
    assert!(said.contains("none.png: empty\n") && said.contains("one.png, at 3"), "{said}");

    // The same, with the place that is kept.
    device.json(&["scene", "learn", desk_empty.to_str().unwrap()]);
    assert_eq!(device.json(&["classify", &both, &one, &none, "--top", "200", "--scene"]), found);
    let refused = device.command(&["classify", &small, "--scene"]).output().unwrap();
    assert!(text(&refused.stderr).contains("was shown with 480 x 270 pixels, this picture has 100 x 100"));
    // Half of the frame alone, under its name.
    let half = device.json(&[
        "classify",
        &both,
        "--top",
        "200",
        "--scene",
        "--region",
        "left=0,0,0.5,1",
        "--region",
        "right=0.5,0,0.5,1",
    ]);
    let regions = half["images"][0]["regions"].as_array().unwrap();
    let told: Vec<_> =
        regions.iter().map(|one| (one["region"].as_str().unwrap(), first_label(&one["things"][0]))).collect();
    assert_eq!(told, [("left", "my mug"), ("right", "my duck")]);
}

#[test]
fn a_camera_that_was_moved_is_told() {
    let device = Device::new();
    let root = device.folder.path();
    let mut table = Camera::over_tablecloth();
    let empty = table.empty(&root.join("empty"));
    let empty = empty.to_str().unwrap();
    let mug = &things(Class::Mug, 1)[0];
    let mut moved = table.pushed(24);
    let mut nudged = table.pushed(6);
    let shots = root.join("mug");
    let good = saved(root, "good.png", &table.take(&[(mug, 160)]));
    saved(&shots, "1.png", &table.take(&[(mug, 5)]));
    let shot = saved(&shots, "2.png", &moved.take(&[(mug, 160)]));
    let nudged = saved(root, "nudged.png", &nudged.take(&[]));
    let told = "the camera seems to have been moved";
    for (picture, is_told) in [(&good, false), (&shot, true), (&nudged, true)] {
        let output = device.command(&["classify", picture, "--empty", empty]).output().unwrap();
        assert!(output.status.success() && text(&output.stderr).contains(told) == is_told, "{}", text(&output.stderr));
    }
    let mug = argument("mug", &shots);
    device.refused(&["learn", &mug, "--empty", empty], told);
    let learned = device.command(&["learn", &mug, "--empty", empty, "--take-anyway"]).output().unwrap();
    assert!(learned.status.success() && text(&learned.stderr).contains(told), "{}", text(&learned.stderr));
    device.refused(&["add", &mug, "--empty", empty], told);
}

#[test]
fn the_empty_place_is_advised_to_those_alone_who_have_not_shown_it() {
    let device = Device::new();
    let root = device.folder.path();
    let mut table = Camera::over_tablecloth();
    let empty = table.empty(&root.join("empty"));
    let mug = &things(Class::Mug, 1)[0];
    let shots = root.join("mug");
    for number in 0..3 {
        saved(&shots, &format!("{number}.png"), &table.take(&[(mug, 150 + 10 * number)]));
    }
    let mug = argument("mug", &shots);
    let is_advised = |more: &[&str]| {
        let output = device.command(&[&["learn", &mug, "--take-anyway"], more].concat()).output().unwrap();
        let said = text(&output.stdout);
        assert!(said.contains("the shots of mug are much alike: add two from other sides"), "{said}");
        said.contains("--empty")
    };
    assert!(is_advised(&[]));
    device.json(&["undo"]);
    assert!(!is_advised(&["--empty", empty.to_str().unwrap()]));
}

#[test]
fn a_region_is_classified_alone() {
    let device = Device::new();
    let root = device.folder.path();
    let mut shelf = Camera::new(3);
    let (mugs, ducks) = (things(Class::Mug, 6), things(Class::RubberDuck, 6));
    for (number, (mug, duck)) in mugs[..5].iter().zip(&ducks).enumerate() {
        saved(&root.join("mug"), &format!("{number}.png"), &shelf.take(&[(mug, 325)]));
        saved(&root.join("duck"), &format!("{number}.png"), &shelf.take(&[(duck, 325)]));
    }
    let classes = [argument("my mug", &root.join("mug")), argument("my duck", &root.join("duck"))];
    let region = "320,75,160,160";
    fs::write(root.join("mug/IMG_1.HEIC"), b"\0\0\0\x24ftypheic\0\0\0\0mif1heic").unwrap();
    let learned = device.command(&["learn", &classes[0], &classes[1], "--region", region]).output().unwrap();
    assert!(learned.status.success() && text(&learned.stderr).contains("IMG_1.HEIC"), "{}", text(&learned.stderr));
    let both = saved(root, "both.png", &shelf.take(&[(&ducks[5], 5), (&mugs[5], 325)]));
    let found = device.json(&["classify", &both, "--top", "200", "--region", region, "--region", "left=0,75,160,160"]);
    let regions = found["images"][0]["regions"].as_array().unwrap();
    let told: Vec<&str> = regions.iter().map(|one| first_label(&one["things"][0])).collect();
    assert_eq!(told, ["my mug", "my duck"], "{found}");
    let said = text(&device.command(&["classify", &both, "--region", "0.9,0,0.5,1"]).output().unwrap().stderr);
    assert!(said.contains("0.9,0,0.5,1 is no region") && said.contains("and inside it"), "{said}");
    for name in ["", "left="] {
        let halves = ["0,0,0.5,1", "0.5,0,0.5,1"].map(|half| format!("{name}{half}"));
        let refused =
            device.command(&["classify", &both, "--region", &halves[0], "--region", &halves[1]]).output().unwrap();
        assert!(text(&refused.stderr).contains("two regions have one name, or none"), "{}", text(&refused.stderr));
        assert_eq!(refused.status.code(), Some(1));
    }
    let outside = device.command(&["classify", &both, "--region", "400,0,200,200"]).output().unwrap();
    assert!(text(&outside.stderr).contains("reaches beyond the frame of 480 x 270 pixels"));
}

#[test]
fn regions_and_boxes_are_in_pixels_of_the_file() {
    let device = Device::new();
    let root = device.folder.path();
    // Turned by a quarter, as phones write them: 12 megapixels, which are decoded at half their size. The lower half
    // shows something else than the upper one.
    let upright = RgbImage::from_fn(3024, 4032, |x, y| {
        if y < 2016 { Rgb([30, 60, 200]) } else { Rgb([200, (x / 12) as u8, (y / 16) as u8]) }
    });
    let mut jpeg = Cursor::new(Vec::new());
    imageops::rotate270(&upright).write_to(&mut jpeg, ImageFormat::Jpeg).unwrap();
    let jpeg = jpeg.into_inner();
    let exif = b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let large = root.join("large.jpg");
    fs::write(&large, [&jpeg[..2], exif, &jpeg[2..]].concat()).unwrap();
    let large = large.to_str().unwrap();
    let lower = imageops::crop_imm(&upright, 0, 2016, 3024, 2016).to_image();
    let lower = saved(root, "lower.png", &imageops::thumbnail(&lower, 1512, 1008));

    let region = ["--region", "0,2016,3024,2016"];
    let found = device.json(&[&["classify", large, "--top", "1000"][..], &region].concat());
    let expected = serde_json::json!({ "x": 0, "y": 2016, "width": 3024, "height": 2016 });
    let seen = &found["images"][0]["regions"][0];
    assert_eq!([&seen["box"], &seen["things"][0]["box"]], [&expected; 2], "{found}");
    // It looks there: the answer is that to the lower half by itself.
    let score = |found: &Value| found["matches"][0]["score"].as_f64().unwrap();
    let alone = device.json(&["classify", &lower, "--top", "1000", "--region", "0,0,1512,1008"]);
    let alone = &alone["images"][0]["regions"][0]["things"][0];
    assert_eq!(seen["things"][0]["matches"][0]["label"], alone["matches"][0]["label"], "{found}");
    assert!((score(&seen["things"][0]) - score(alone)).abs() < 0.05, "{seen} {alone}");
    let outside = device.command(&["classify", large, "--region", "0,2016,3025,2016"]).output().unwrap();
    let said = text(&outside.stderr);
    assert!(said.contains("the region 0,2016,3025,2016 reaches beyond the frame of 3024 x 4032 pixels"), "{said}");
}

#[test]
fn what_is_no_empty_place_is_refused_and_nothing_is_lost() {
    let device = Device::new();
    let root = device.folder.path();
    let mut table = Camera::new(4);
    let mug = &things(Class::Mug, 1)[0];
    let empty = table.empty(&root.join("empty"));
    let good = empty.to_str().unwrap();
    assert_eq!(device.json(&["scene", "show"])["frame"], Value::Null);
    device.refused(&["classify", good, "--scene"], "no empty place is kept");
    device.json(&["scene", "learn", good]);
    let [one, two] = ["1.png", "2.png"].map(|name| empty.join(name).to_str().unwrap().to_owned());
    let with_thing = saved(root, "thing.png", &table.take(&[(mug, 150)]));
    let black = saved(root, "black.png", &RgbImage::new(SIZE[0], SIZE[1]));
    let plain = saved(root, "plain.png", &RgbImage::from_pixel(SIZE[0], SIZE[1], Rgb([90, 100, 110])));
    let other = saved(root, "other.png", &RgbImage::new(640, 480));
    for (pictures, expected) in [
        ([&one, &two, &with_thing], "view 3 of the empty place does not look like the others"),
        ([&one, &two, &black], "view 3 of the empty place is black"),
        ([&plain, &one, &two], "view 1 of the empty place is of one colour"),
        ([&one, &other, &two], "view 2 of the empty place has 640 x 480 pixels, the first has 480 x 270"),
    ] {
        device.refused(&["scene", "learn", pictures[0], pictures[1], pictures[2]], expected);
        let empty = pictures.map(|picture| ["--empty", picture]).concat();
        device.refused(&[&["classify"][..], &empty, &[&*one]].concat(), expected);
    }
    // Beside a region they may differ.
    let views = ["scene", "learn", &one, &two, &with_thing, "--region"];
    let expected = "view 3 of the empty place does not look like the others";
    device.refused(&[&views[..], &["0.2,0,0.5,1"]].concat(), expected);
    device.json(&[&views[..], &["0.7,0,0.3,1"]].concat());
    let empty_views = ["--empty", &one, "--empty", &two, "--empty", &with_thing];
    let seen = device.json(&[&["classify", &with_thing, "--region", "0.7,0,0.3,1"][..], &empty_views].concat());
    assert_eq!(seen["images"][0]["regions"][0]["empty"], true, "{seen}");
    device.json(&["scene", "learn", good]);
    let shown = root.join("shown.png");
    assert_eq!(device.json(&["scene", "show", "-o", shown.to_str().unwrap()])["frame"][0], SIZE[0]);
    assert_eq!(image::open(&shown).unwrap().width(), 320);
    device.refused(&["scene", "show", "-o", &one], "cannot be written");
    // A shot of nothing.
    let shots = argument("mug", &empty);
    device.refused(&["learn", &shots, "--scene"], "is no shot: it shows the empty place");
    device.refused(&["learn", &shots, "--region", "0,0,99,99", "--region", "9,9,99,99"], "give --region once");
    // All pictures that are none are named.
    let pictures = device.command(&["learn", &shots, "--scene"]).output().unwrap();
    let said = text(&pictures.stderr);
    assert!(said.matches("is no shot").count() == 3 && said.contains("nothing was changed"), "{said}");
    // How many there are is asked before any is opened.
    let many = root.join("many");
    fs::create_dir_all(&many).unwrap();
    (0..1001).for_each(|number| fs::write(many.join(format!("{number}.png")), b"no picture").unwrap());
    let many = argument("mug", &many);
    let region = ["learn", &many, "--region", "0,0,1,0.5"];
    device.refused(&region, "would have 1001 shots, but a class may have at most 1000");
    // A damaged file is told and costs nothing else.
    fs::write(device.state().join("background"), b"ORCOBGND, cut off").unwrap();
    assert_refused(&device.command(&["classify", &one, "--scene"]).output().unwrap(), "show it again");
    device.json(&["classify", &one]);
    assert_eq!(device.json(&["scene", "forget"])["forgotten"], true);
    assert_eq!(device.json(&["scene", "forget"])["forgotten"], false);
}
