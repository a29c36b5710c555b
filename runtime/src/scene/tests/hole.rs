//! Things that were there when the empty place was shown, and what must not be taken for that.

use std::time::Duration;

use ::image::imageops::{self, FilterType};
use ::image::{DynamicImage, RgbaImage};
use orco_render::Class;

use super::*;
use crate::scene::hole::HoleSearch;

/// Whether each piece of foreground is a hole.
fn holes(background: &Background, frame: &RgbImage) -> Vec<bool> {
    let small = background.small(frame).unwrap();
    let difference = background.difference(&small);
    let size = [frame.width(), frame.height()];
    let foreground = Foreground::of(background.width, &difference, size, PixelRect::whole(size));
    let searched = PixelRect::whole(background.small_size().map(|side| side as u32));
    let search = HoleSearch::new(background, &small, &difference);
    foreground.things().iter().map(|thing| search.is_hole(&foreground.marks, thing.mark, searched)).collect()
}

/// A rendered place, and a rendered thing before it.
struct Rendered {
    place: RgbImage,
    with_thing: RgbImage,
}

impl Rendered {
    const SIZE: [u32; 2] = [320, 240];
    const THING: u32 = 110;

    /// All pairs of some places and things, each thing at another corner.
    fn all() -> Vec<Self> {
        let random = orco_render::Random::new;
        let [width, height] = Self::SIZE;
        let place = |number| {
            let small = orco_render::place(width as usize / 2, height as usize / 2, &mut random("hole/place", number));
            imageops::resize(&small, width, height, FilterType::CatmullRom)
        };
        let thing = |class: Class| {
            let small = orco_render::thing(class, 56, &mut random("hole/thing", class as usize));
            imageops::resize(&small, Self::THING, Self::THING, FilterType::Triangle)
        };
        let things: Vec<RgbaImage> = Class::ALL.into_iter().map(thing).collect();
        let beside = |place: RgbImage| {
            let things = things.iter().enumerate();
            let pairs = things.map(move |(number, thing)| {
                let mut with_thing = DynamicImage::from(place.clone()).into_rgba8();
                let at = [20 + 45 * (number as i64 % 5), 15 + 50 * (number as i64 % 3)];
                imageops::overlay(&mut with_thing, thing, at[0], at[1]);
                Self { place: place.clone(), with_thing: DynamicImage::from(with_thing).into_rgb8() }
            });
            pairs.collect::<Vec<_>>()
        };
        (1..=4).map(place).flat_map(beside).collect()
    }
}

/// As a camera sees it, with its noise.
fn taken(picture: &RgbImage, gain: f32, seed: u64) -> RgbImage {
    let mut random = Random::new(seed, "camera");
    let mut frame = picture.clone();
    frame
        .iter_mut()
        .for_each(|value| *value = (f32::from(*value) * gain + 2.0 * random.normal()).clamp(0.0, 255.0) as u8);
    frame
}

#[test]
fn rendered_things_that_are_gone_are_told_from_things_that_came() {
    let (mut gone, mut found, mut wrong) = (0, 0, 0);
    for (number, Rendered { place, with_thing }) in Rendered::all().into_iter().enumerate() {
        let gain = [1.0, 0.85, 1.1][number % 3];
        let shown = |picture: &RgbImage| Background::learn(&[1, 2, 3].map(|seed| taken(picture, 1.0, seed))).unwrap();
        wrong += holes(&shown(&place), &taken(&with_thing, gain, 4)).into_iter().filter(|is_hole| *is_hole).count();
        gone += 1;
        found += usize::from(holes(&shown(&with_thing), &taken(&place, gain, 5)).contains(&true));
    }
    assert_eq!(wrong, 0, "of {gone} things");
    assert!(3 * found >= 2 * gone, "{found} of {gone}");
}

#[test]
fn neither_things_nor_shadows_nor_lamps_are_holes_on_plain_and_patterned_parts() {
    let place = || Painting::place(WIDE);
    let background = background(WIDE);
    let boxed = |colour: [f32; 3]| {
        place()
            .map(move |x, y, pixel| if (x - 430.0).abs() < 60.0 && (y - 190.0).abs() < 60.0 { colour } else { pixel })
    };
    let is_lit = |x: f32, y: f32| x + 0.4 * y > 430.0;
    let frames = [
        ("a ball before the wall", place().with_ball([110.0, 200.0], 55.0)),
        ("one before labels", place().with_ball([430.0, 200.0], 55.0)),
        ("one before a board", place().with_ball([520.0, 150.0], 60.0)),
        ("a small one", place().with_ball([70.0, 60.0], 30.0)),
        ("a box of the labels' mean colour", boxed([120.0; 3])),
        ("a box of the board's colour", boxed([120.0, 85.0, 50.0])),
        ("a ball in another light", place().with_ball([430.0, 200.0], 55.0).lit([0.6, 0.6, 0.55])),
        ("a shadow", place().with_shadow([430.0, 200.0], 60.0, 0.5)),
        ("a sharp one", place().map(|x, y, pixel| if is_lit(x, y) { pixel.map(|value| 0.5 * value) } else { pixel })),
        ("a lamp", place().map(|x, _, pixel| pixel.map(|value| value * (0.6 + 0.55 * (x / 640.0) * (x / 640.0))))),
    ];
    for (seed, (what, painting)) in (800..).zip(frames) {
        assert!(!holes(&background, &painting.taken(seed)).contains(&true), "{what}");
    }
}

#[test]
fn a_shadow_that_was_there_when_the_place_was_shown_is_no_hole() {
    for (seed, middle) in [[100.0, 200.0], [430.0, 200.0]].into_iter().enumerate() {
        let shadow = Painting::place(WIDE).with_shadow(middle, 60.0, 0.45);
        let background = Background::learn(&[1, 2, 3].map(|seed| shadow.taken(seed))).unwrap();
        assert!(!holes(&background, &Painting::place(WIDE).taken(830 + seed as u64)).contains(&true), "{middle:?}");
    }
}

/// A ball was on the table when it was shown as an empty place.
#[test]
fn a_hole_is_told_after_some_seconds_until_the_thing_is_back_and_nothing_else_is_disturbed() {
    let (middle, radius) = ([320.0, 180.0], 60.0);
    let shown = Painting::place(WIDE).with_ball(middle, radius);
    let place = Painting::place(WIDE);
    let hand = place.clone().with_ball([330.0, 190.0], 150.0);
    let still = Background::learn(&[1, 2, 3].map(|seed| shown.taken(seed))).unwrap();
    let shelf = Region::Shares([0.25, 0.0, 0.7, 1.0]).in_frame(WIDE[0], WIDE[1]).unwrap();
    for regions in [vec![], vec![shelf]] {
        let mut watch = SceneWatch::new(still.clone());
        let mut see = |painting: &Painting, second: u64| {
            let seen = watch.see(&painting.taken(second), &regions, Duration::from_secs(second)).unwrap();
            assert!(!matches!(seen, FrameContent::Moved), "{second}");
            (matches!(seen, FrameContent::Things(_)), watch.hole())
        };
        assert_eq!(see(&shown, 0), (false, None));
        (1..9).for_each(|second| assert_eq!(see(&place, second), (true, None), "{second}"));
        // Something else hides it for a moment.
        assert_eq!(see(&hand, 9), (true, None));
        (10..23).for_each(|second| assert_eq!(see(&place, second), (true, None), "{second}"));
        for second in 23..29 {
            see(&place, second);
        }
        let (is_thing, hole) = see(&place, 29);
        let [x, y, width, height] = hole.expect("the ball is gone");
        assert!(is_thing && (x - 260.0 / 640.0).abs() < 0.02 && (y - 120.0 / 360.0).abs() < 0.03, "{hole:?}");
        assert!((width - 120.0 / 640.0).abs() < 0.03 && (height - 120.0 / 360.0).abs() < 0.05, "{hole:?}");
        // What stands there now does not change that; the ball, put back, does.
        (30..34).for_each(|second| assert_eq!(see(&hand, second), (true, hole), "{second}"));
        (34..38).for_each(|second| assert_eq!(see(&shown, second), (false, hole), "{second}"));
        assert_eq!(see(&shown, 38), (false, None));
    }
}

#[test]
fn a_thing_that_stays_for_an_hour_is_no_hole() {
    let mut watch = SceneWatch::new(background(WIDE));
    for step in 0..60 {
        let frame = Painting::place(WIDE).with_ball([430.0, 200.0], 55.0).taken(900 + step);
        let seen = watch.see(&frame, &[], Duration::from_secs(60 * step)).unwrap();
        assert!(matches!(seen, FrameContent::Things(_)), "{step}");
        assert_eq!(watch.hole(), None, "{step}");
    }
}
