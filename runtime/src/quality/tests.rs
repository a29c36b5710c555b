//! How often the checks err on the sample pictures, as they are and spoilt by known amounts. With ORCO_HEAVY,
//! `--nocapture` prints it; `ORCO_PHOTOGRAPHS` names a folder of more pictures, in folders, to be measured beside them.

use std::path::{Path, PathBuf};

use ::image::{ImageFormat, Rgb, imageops};

use super::*;
use crate::learner::pictures_in;

/// All pictures of a folder of folders.
fn pictures(folder: &Path) -> Vec<RgbImage> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let paths = folders.iter().flat_map(|folder| pictures_in(folder).unwrap());
    paths.map(|path| image::open(path).unwrap()).collect()
}

fn samples() -> Vec<RgbImage> {
    let shots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shots");
    ["learn", "try"].iter().flat_map(|part| pictures(&shots.join(part))).collect()
}

/// Blurred with a standard deviation of `pixels`, where [`SIDE`] pixels are a side.
fn blurred(picture: &RgbImage, pixels: f32) -> RgbImage {
    let scale = picture.width().min(picture.height()) as f32 / SIDE as f32;
    imageops::blur(picture, pixels * scale)
}

/// As taken with `side` pixels a side, and enlarged eightfold.
fn enlarged(picture: &RgbImage, side: u32) -> RgbImage {
    imageops::resize(&square(picture, side), 8 * side, 8 * side, imageops::FilterType::CatmullRom)
}

fn lit(picture: &RgbImage, factor: f32) -> RgbImage {
    let mut lit = picture.clone();
    lit.pixels_mut().for_each(|pixel| pixel.0 = pixel.0.map(|value| (f32::from(value) * factor).min(255.0) as u8));
    lit
}

fn compressed(picture: &RgbImage) -> RgbImage {
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Jpeg).unwrap();
    image::decode(bytes.get_ref()).unwrap()
}

fn moved(picture: &RgbImage) -> RgbImage {
    let (width, height) = picture.dimensions();
    imageops::crop_imm(picture, width / 64, height / 64, width - width / 32, height - height / 32).to_image()
}

/// Share of pictures with that flaw.
fn share(pictures: &[RgbImage], flaw: Flaw, spoil: impl Fn(&RgbImage) -> RgbImage) -> f32 {
    share_by(&Thresholds::default(), pictures, flaw, spoil)
}

fn share_by(by: &Thresholds, pictures: &[RgbImage], flaw: Flaw, spoil: impl Fn(&RgbImage) -> RgbImage) -> f32 {
    let has = |picture: &&RgbImage| by.flaws(&Quality::of(&spoil(picture))).contains(&flaw);
    pictures.iter().filter(has).count() as f32 / pictures.len() as f32
}

/// Shares, as they are and spoilt: blurred, darkened, brightened; then repeats found, and pairs taken for repeats.
fn rates(pictures: &[RgbImage]) -> ([f32; 4], [f32; 3], [f32; 3], f32) {
    let qualities: Vec<Quality> = pictures.iter().map(Quality::of).collect();
    let has = |flaw| qualities.iter().filter(|own| Thresholds::default().flaws(own).contains(&flaw)).count();
    let fine = [Flaw::Blurred, Flaw::TooDark, Flaw::TooBright, Flaw::Noise]
        .map(|flaw| has(flaw) as f32 / pictures.len() as f32);
    let spoilt = [
        share(pictures, Flaw::Blurred, |picture| blurred(picture, 2.0)),
        share(pictures, Flaw::TooDark, |picture| lit(picture, 0.1)),
        share(pictures, Flaw::TooBright, |picture| lit(picture, 10.0)),
    ];
    let repeats = |one: &Quality, other: &Quality| Thresholds::default().repeats(one, other);
    let found = |repeat: &dyn Fn(&RgbImage) -> RgbImage| {
        let found =
            pictures.iter().zip(&qualities).filter(|(picture, own)| repeats(own, &Quality::of(&repeat(picture))));
        found.count() as f32 / pictures.len() as f32
    };
    let repeated = [found(&compressed), found(&|picture| lit(picture, 0.9)), found(&moved)];
    let pairs = qualities.iter().enumerate().flat_map(|(n, one)| qualities[..n].iter().map(move |other| (one, other)));
    let wrong = pairs.clone().filter(|(one, other)| repeats(one, other)).count() as f32 / pairs.count() as f32;
    (fine, spoilt, repeated, wrong)
}

/// Prints the rates, with those that nothing is asserted of.
fn print(name: &str, pictures: &[RgbImage], rates: ([f32; 4], [f32; 3], [f32; 3], f32)) {
    let percent =
        |shares: &[f32]| shares.iter().map(|share| format!("{:.1} %", 100.0 * share)).collect::<Vec<_>>().join(", ");
    println!("{} {name}; of them called blurred, too dark, too bright, noise: {}", pictures.len(), percent(&rates.0));
    println!("  blurred by 2 of 128 pixels, a tenth as bright, ten times as bright: {}", percent(&rates.1));
    for (name, thresholds) in
        [("", Thresholds::default()), (", at 128 pixels alone", Thresholds { growth: 0.0, ..Thresholds::default() })]
    {
        let share = |side| share_by(&thresholds, pictures, Flaw::Blurred, |picture| enlarged(picture, side));
        println!("  enlarged from 96, 80, 64 pixels, called blurred{name}: {}", percent(&[96, 80, 64].map(share)));
        let share = |by| share_by(&thresholds, pictures, Flaw::Blurred, |picture| blurred(picture, by));
        println!("  blurred by 1.5, 2, 3 of 128 pixels, called so{name}: {}", percent(&[1.5, 2.0, 3.0].map(share)));
    }
    let fingerprint = |picture: &RgbImage| Quality::of(picture).fingerprint;
    let mut cells: Vec<usize> =
        pictures.iter().map(|picture| fingerprint(picture).mismatched_cells(&fingerprint(&moved(picture)))).collect();
    cells.sort_unstable();
    println!("  cells of another colour, framed 3 % closer: {cells:?}");
    println!("  found again: compressed, 10 % darker, framed 3 % closer: {}", percent(&rates.2));
    println!("  different pictures taken for the same: {:.3} %", 100.0 * rates.3);
}

#[test]
fn good_samples_pass_and_spoilt_or_repeated_ones_do_not() {
    let mut trial = orco_trials::trial!(11, "pictures, each spoilt in three ways");
    let pictures = samples();
    trial.count(pictures.len());
    let rates_of_samples = rates(&pictures);
    let (fine, spoilt, repeated, wrong) = rates_of_samples;
    if orco_trials::heavy() {
        print("sample pictures", &pictures, rates_of_samples);
    }
    assert_eq!((fine, wrong), ([0.0; 4], 0.0));
    assert!(spoilt[..2].iter().all(|share| *share > 0.95), "{spoilt:?}");
    assert!(spoilt[2] > 0.5, "{spoilt:?}");
    assert!(repeated.iter().all(|share| *share > 0.95), "{repeated:?}");
    if let Some(folder) = std::env::var_os("ORCO_PHOTOGRAPHS") {
        let photographs = self::pictures(Path::new(&folder));
        print("photographs", &photographs, rates(&photographs));
    }
}

#[test]
fn a_sharp_picture_that_was_enlarged_is_not_blurred_and_a_blurred_one_still_is() {
    let pictures = samples();
    let called = |spoil: &dyn Fn(&RgbImage) -> RgbImage| share(&pictures, Flaw::Blurred, spoil);
    let sharp = [96, 80].map(|side| called(&|picture| enlarged(picture, side)));
    assert!(sharp[0] < 0.05 && sharp[1] < 0.15, "enlarged from 96 and 80 pixels: {sharp:?}");
    let blurred = [2.0, 3.0, 4.0].map(|pixels| called(&|picture| blurred(picture, pixels)));
    assert_eq!(blurred, [1.0; 3], "blurred by 2, 3 and 4 pixels");
    // Enlarging a blurred picture makes it no sharper.
    let both = called(&|picture| enlarged(&self::blurred(picture, 2.0), 96));
    assert_eq!(both, 1.0);
}

#[test]
fn a_small_picture_is_judged_at_its_own_size() {
    let pictures = samples();
    for side in [32, 48, 64, 96] {
        let called = |pixels: f32| {
            share(&pictures, Flaw::Blurred, |picture| {
                let small = square(picture, side);
                if pixels > 0.0 { imageops::blur(&small, pixels) } else { small }
            })
        };
        let (sharp, blurred) = (called(0.0), called(3.0));
        assert!(sharp < 0.05 && blurred > 0.9, "{side} pixels: {sharp} of sharp ones, {blurred} of blurred ones");
    }
}

#[test]
fn a_blank_picture_is_blurred_and_its_size_does_not_matter() {
    let flaws = |picture: &RgbImage| Thresholds::default().flaws(&Quality::of(picture));
    for (light, expected) in [(0, Flaw::TooDark), (128, Flaw::Blurred), (255, Flaw::TooBright)] {
        for size in [(1, 1), (128, 128), (640, 360)] {
            assert_eq!(flaws(&RgbImage::from_pixel(size.0, size.1, Rgb([light; 3]))), [expected], "{light} {size:?}");
        }
    }
}

#[test]
fn a_thing_before_a_light_or_lit_in_the_dark_is_neither_too_bright_nor_too_dark() {
    // A bolt across a square of 640 pixels: 7 % of it.
    let bolt = |x: u32, y: u32| match x {
        100..150 => y.abs_diff(320) < 60,
        150..540 => 2 * y.abs_diff(320) < 50 + x % 20,
        _ => false,
    };
    let speck = |x: u32, y: u32| x.abs_diff(320) < 14 && y.abs_diff(320) < 14;
    let flaws = |of_thing: u8, around: u8, shows: &dyn Fn(u32, u32) -> bool| {
        let picture = RgbImage::from_fn(640, 640, |x, y| Rgb([if shows(x, y) { of_thing } else { around }; 3]));
        Thresholds::default().flaws(&Quality::of(&picture))
    };
    for (of_thing, around) in [(12, 255), (120, 255), (200, 8)] {
        assert_eq!(flaws(of_thing, around, &bolt), [], "{of_thing} before {around}");
    }
    assert_eq!([flaws(12, 255, &speck), flaws(120, 255, &speck)], [[Flaw::TooBright]; 2]);
    assert_eq!(flaws(200, 8, &speck), [Flaw::TooDark]);
    assert_eq!([flaws(230, 255, &bolt), flaws(35, 8, &bolt)], [[Flaw::TooBright], [Flaw::TooDark]]);
}

/// A red brick with knobs and a shadow on the white ground of a light box.
#[test]
fn a_coloured_thing_on_white_ground_is_not_too_bright_and_what_is_left_of_a_clipped_picture_is() {
    let flaws = |thing: [u8; 3], shadow: u8| {
        let picture = RgbImage::from_fn(640, 640, |x, y| match (x.abs_diff(320), y.abs_diff(320)) {
            (..90, ..60) if x / 15 % 2 == 0 => Rgb(thing),
            (..90, ..60) => Rgb(thing.map(|value| value - value / 8)),
            (..120, ..80) => Rgb([shadow; 3]),
            _ => Rgb([255; 3]),
        });
        Thresholds::default().flaws(&Quality::of(&picture))
    };
    assert_eq!(flaws([200, 40, 50], 235), []);
    // Lit four times as much, it is as bright as its shadow was.
    assert_eq!(flaws([255, 160, 200], 255), [Flaw::TooBright]);
}

/// White noise of three independent colours.
fn noise(width: u32, height: u32) -> RgbImage {
    let mut random = orco_core::random::Random::new(1, "noise");
    RgbImage::from_fn(width, height, |_, _| Rgb([0; 3].map(|_: u8| (random.bits() >> 8) as u8)))
}

#[test]
fn noise_is_no_shot_at_any_resolution_that_cameras_have() {
    for (width, height) in [(32, 32), (96, 96), (128, 128), (224, 224), (640, 480), (1920, 1080)] {
        let flaws = Thresholds::default().flaws(&Quality::of(&noise(width, height)));
        assert_eq!(flaws, [Flaw::Noise], "{width} x {height}");
    }
}

/// Dots of two pixels, with as much between them, as on a package that is far away: a sharpness of 8.
#[test]
fn fine_print_on_a_small_picture_is_no_noise() {
    for side in [32, 48, 100, SIDE] {
        let dot = |x: u32, y: u32| x % 4 < 2 && y % 4 < 2;
        let print = RgbImage::from_fn(side, side, |x, y| Rgb([if dot(x, y) { 60 } else { 200 }; 3]));
        assert_eq!(Thresholds::default().flaws(&Quality::of(&print)), [], "{side} pixels");
    }
}

#[test]
fn what_speaks_against_a_shot_is_told_in_one_list() {
    let thresholds = Thresholds::default();
    let (dark, fine) = (Quality::of(&RgbImage::new(64, 64)), Quality::of(&samples()[0]));
    let earlier = [(7, "mug"), (8, "cup")].map(|(shot, label)| EarlierShot { shot, label, quality: &fine });
    let best = |label, probability| Some(BestClass { label, probability });
    let of = |quality, best| {
        let objections = thresholds.objections(ShotCandidate { label: "cup", quality, best }, earlier);
        (objections.iter().any(Objection::refuses), objections)
    };
    assert_eq!(of(&dark, best("cup", 0.9)), (true, vec![Objection::Flaw(Flaw::TooDark)]));
    let repeated = Objection::Repeated { shot: 7, label: "mug".to_owned() };
    let looks = Objection::LooksLike { label: "mug".to_owned(), probability: 0.5 };
    assert_eq!(of(&fine, best("mug", 0.5)), (true, vec![repeated.clone(), looks.clone()]));
    assert_eq!(of(&fine, best("mug", 0.49)).1, vec![repeated.clone()]);
    let alone =
        thresholds.objections::<u64>(ShotCandidate { label: "cup", quality: &fine, best: best("mug", 0.8) }, []);
    assert!(alone.len() == 1 && !alone[0].refuses(), "what it looks like refuses nothing: {alone:?}");
    // Another mug before the same background, say.
    let mut alike = fine;
    alike.fingerprint.colours[..4].iter_mut().for_each(|colour| colour[0] ^= 0x80);
    assert_eq!(fine.fingerprint.mismatched_cells(&alike.fingerprint), 4);
    assert_eq!(of(&alike, None).1, [Objection::Repeated { shot: 8, label: "cup".to_owned() }], "one of its own class");
    let said = [repeated.to_string(), alone[0].to_string()];
    assert_eq!(said, ["is nearly the same picture as 7", "looks like mug (80 %)"]);
}

/// A camera that stands still shows one background behind all things: another thing there is another picture.
#[test]
fn another_thing_before_the_same_background_is_no_repeat() {
    let pictures = samples();
    let before = |background: &RgbImage, thing: &RgbImage, share: f32, seed| {
        let mut picture = square(background, 256);
        let side = (256.0 * share.sqrt()) as u32;
        let place = i64::from(256 - side) / 2;
        imageops::replace(&mut picture, &square(thing, side), place, place);
        let mut random = orco_core::random::Random::new(seed, "camera noise");
        picture.pixels_mut().flat_map(|pixel| &mut pixel.0).for_each(|value| {
            *value = (f32::from(*value) + 4.0 * random.normal()).round().clamp(0.0, 255.0) as u8;
        });
        Quality::of(&picture)
    };
    let repeats = |one: &Quality, other: &Quality| Thresholds::default().repeats(one, other);
    let half = pictures.len() / 2;
    let (mut same, mut again, mut copied) = (0, 0, 0);
    for place in 0..half {
        let background = &pictures[(place + half / 2) % pictures.len()];
        let first = before(background, &pictures[place], 0.2, 1);
        same += usize::from(repeats(&first, &before(background, &pictures[place + half], 0.2, 2)));
        let second = before(background, &pictures[place], 0.2, 3);
        again += usize::from(repeats(&first, &second));
        copied += usize::from(Thresholds::default().repeats_across_classes(&first, &second));
    }
    println!("{same} of {half} pairs taken for the same, {again} found again");
    assert!(same * 20 <= half, "{same} of {half} pairs of things are taken for the same");
    assert!(again * 20 >= 19 * half, "{again} of {half} pictures are found again");
    assert!(copied * 20 >= 19 * half, "{copied} of {half} pictures are found again under another label");
    // Bricks of one shape and brightness, but of another colour.
    let [red, blue] = [[190, 60, 50], [60, 100, 240]].map(|colour| RgbImage::from_pixel(64, 64, Rgb(colour)));
    let [red, blue] = [(red, 4), (blue, 5)].map(|(brick, seed)| before(&pictures[0], &brick, 0.1, seed));
    assert!(!repeats(&red, &blue), "{} cells", red.fingerprint.mismatched_cells(&blue.fingerprint));
}

/// Five things, each before a background of its own or all before one; a hand-held camera moves a little.
#[test]
fn pictures_show_different_places_where_their_edges_differ() {
    let pictures = samples();
    let before = |background: &RgbImage, thing: &RgbImage, shift: u32| {
        let mut picture = square(background, 272);
        let [x, y] = [64 + 2 * shift, 68 - shift].map(i64::from);
        imageops::replace(&mut picture, &square(thing, 136), x, y);
        Quality::of(&imageops::crop_imm(&picture, shift, 8, 256, 256).to_image())
    };
    let half = pictures.len() / 2;
    let taken = |place: &dyn Fn(usize) -> usize| -> Vec<Quality> {
        (0..5).map(|shot| before(&pictures[place(shot)], &pictures[half + shot], shot as u32)).collect()
    };
    let [one, own] = [taken(&|_| 0), taken(&|shot| 5 * shot)];
    let mismatch = |shots: &[Quality]| shots[0].fingerprint.edge_mismatch(&shots[1].fingerprint);
    assert!(!show_different_places(&one), "{}", mismatch(&one));
    assert!(show_different_places(&own), "{}", mismatch(&own));
    assert_eq!(one[0].fingerprint.edge_mismatch(&one[0].fingerprint), 0.0);
    assert!(!show_different_places(&own[..1]) && !show_different_places(&[]), "a single picture shows one place");
    // Of a thing that was cut out, nothing along the edge differs.
    let fill = RgbImage::from_pixel(300, 300, Rgb([124, 116, 104]));
    let cut_out: Vec<Quality> = (0..5).map(|shot| before(&fill, &pictures[shot], 0)).collect();
    assert!(!show_different_places(&cut_out));
}

/// Nor does what surrounds a thing that was cut out, or a region that is no square, hide what is wrong with it.
#[test]
fn flaws_of_cut_outs_and_of_regions_are_seen_as_those_of_whole_pictures() {
    const GREY: Rgb<u8> = Rgb([124, 116, 104]);
    let round = |picture: &RgbImage| {
        let mut cut_out = RgbImage::from_pixel(320, 320, GREY);
        let thing = square(picture, 256);
        let is_inside = |x: u32, y: u32| (x as f32 - 127.5).hypot(y as f32 - 127.5) < 128.0;
        for (x, y, pixel) in thing.enumerate_pixels().filter(|(x, y, _)| is_inside(*x, *y)) {
            cut_out.put_pixel(x + 32, y + 32, *pixel);
        }
        cut_out
    };
    let wide = |picture: &RgbImage| {
        let mut region = RgbImage::from_pixel(320, 320, GREY);
        imageops::replace(&mut region, &imageops::crop_imm(&square(picture, 320), 0, 80, 320, 160).to_image(), 0, 80);
        region
    };
    let pictures = samples();
    for name in ["cut out", "wide"] {
        let look = |picture: &RgbImage| if name == "wide" { wide(picture) } else { round(picture) };
        let flaws = |picture: &RgbImage| Thresholds::default().flaws(&Quality::of(&look(picture)));
        let fine = pictures.iter().filter(|picture| flaws(picture).is_empty()).count();
        let found = |flaw: Flaw, spoil: &dyn Fn(&RgbImage) -> RgbImage| {
            pictures.iter().filter(|picture| flaws(&spoil(picture)).contains(&flaw)).count()
        };
        let dark = found(Flaw::TooDark, &|picture| lit(picture, 0.04));
        let bright = found(Flaw::TooBright, &|picture| lit(picture, 20.0));
        let blurred = found(Flaw::Blurred, &|picture| blurred(picture, 6.0));
        let all = pictures.len();
        println!("{name}: of {all} pictures {fine} are fine; dark {dark}, bright {bright}, blurred {blurred}");
        assert!([fine, dark, blurred].iter().all(|count| count * 20 >= 19 * all), "{name}: {fine} {dark} {blurred}");
        assert!(bright * 2 > all, "{name}: {bright}");
    }
}
