//! A painted place before a painted camera: shelves with boards and labels, things on them, light that changes.

use std::sync::Mutex;
use std::time::Duration;

use ::image::{Rgb, RgbImage};
use orco_core::random::Random;
use orco_state::codec::{self, DecodeError, FileKind};

use super::*;
use crate::image::DecodedPicture;
use crate::threads::lock;

/// 16:9, twice the small size.
const WIDE: [u32; 2] = [640, 360];
const GREY: [u8; 3] = [127; 3];

/// A painted frame, in numbers that need not be whole.
#[derive(Clone)]
struct Painting {
    size: [u32; 2],
    pixels: Vec<[f32; 3]>,
}

impl Painting {
    /// Shelves: boards, labels of many colours, and a plain wall on the left. Painted once, as many frames show it.
    fn place(size: [u32; 2]) -> Self {
        static PAINTED: Mutex<Vec<Painting>> = Mutex::new(Vec::new());
        let mut painted = lock(&PAINTED);
        if let Some(known) = painted.iter().find(|known| known.size == size) {
            return known.clone();
        }
        painted.push(Self::painted(size));
        painted[painted.len() - 1].clone()
    }

    fn painted(size: [u32; 2]) -> Self {
        let paint = |x: u32, y: u32| {
            let (x, y) = (x as f32, y as f32);
            let wall = [150.0 + 0.05 * x, 160.0 + 0.03 * y, 170.0];
            let board = [120.0, 85.0 + 10.0 * libm::sinf(0.3 * y), 50.0];
            let label = [
                120.0 + 90.0 * libm::sinf(0.11 * x),
                120.0 + 90.0 * libm::sinf(0.07 * x + 0.09 * y),
                120.0 + 90.0 * libm::cosf(0.13 * y),
            ];
            if x < 0.35 * size[0] as f32 {
                wall
            } else if y % 90.0 < 12.0 {
                board
            } else {
                label
            }
        };
        let pixels = (0..size[1]).flat_map(|y| (0..size[0]).map(move |x| paint(x, y))).collect();
        Self { size, pixels }
    }

    fn map(mut self, change: impl Fn(f32, f32, [f32; 3]) -> [f32; 3]) -> Self {
        let width = self.size[0] as usize;
        for (place, pixel) in self.pixels.iter_mut().enumerate() {
            *pixel = change((place % width) as f32, (place / width) as f32, *pixel);
        }
        self
    }

    /// With a ball of a spotted kind.
    fn with_ball(self, [middle_x, middle_y]: [f32; 2], radius: f32) -> Self {
        self.map(|x, y, pixel| {
            let (across, down) = (x - middle_x, y - middle_y);
            let squared = (across * across + down * down) / (radius * radius);
            if squared >= 1.0 {
                return pixel;
            }
            let spot = libm::sinf(0.4 * across) * libm::sinf(0.4 * down) > 0.3;
            let shade = 1.0 - 0.5 * squared;
            let colour: [f32; 3] = if spot { [240.0, 230.0, 60.0] } else { [190.0, 30.0, 60.0] };
            colour.map(|value| value * shade)
        })
    }

    /// With a soft shadow.
    fn with_shadow(self, [middle_x, middle_y]: [f32; 2], radius: f32, depth: f32) -> Self {
        self.map(|x, y, pixel| {
            let (across, down) = ((x - middle_x) / radius, (y - middle_y) / (0.5 * radius));
            let inside = (1.5 - libm::sqrtf(across * across + down * down)).clamp(0.0, 1.0);
            pixel.map(|value| value * (1.0 - depth * inside * inside * (3.0 - 2.0 * inside)))
        })
    }

    fn lit(self, gains: [f32; 3]) -> Self {
        self.map(|_, _, pixel| [0, 1, 2].map(|channel| pixel[channel] * gains[channel]))
    }

    /// As the camera sees it, with its noise.
    fn taken(&self, seed: u64) -> RgbImage {
        let mut random = Random::new(seed, "camera");
        let mut noisy = |value: f32| {
            let noise: f32 = (0..4).map(|_| random.uniform(-1.0, 1.0)).sum();
            // Rounded without a call: this is done for every value of every frame.
            (value + 3.0 * noise + 0.5).clamp(0.0, 255.0) as u8
        };
        let bytes = self.pixels.iter().flat_map(|pixel| pixel.map(&mut noisy)).collect();
        RgbImage::from_raw(self.size[0], self.size[1], bytes).unwrap()
    }
}

/// The background by three views of the place.
fn background(size: [u32; 2]) -> Background {
    let views = [1, 2, 3].map(|seed| Painting::place(size).taken(seed));
    Background::learn(&views).unwrap()
}

fn things(background: &Background, painting: &Painting, seed: u64) -> Vec<PixelRect> {
    let foreground = background.compare(&painting.taken(seed), None).unwrap();
    foreground.things().iter().map(|thing| thing.bounds).collect()
}

/// Asserts that a rectangle is that of a ball, within some pixels.
fn assert_ball(found: PixelRect, [x, y]: [f32; 2], radius: f32, tolerance: f32) {
    let expected = [x - radius, y - radius, x + radius, y + radius];
    let edges = [found.x, found.y, found.right(), found.bottom()].map(|edge| edge as f32);
    let off = edges.iter().zip(expected).map(|(edge, expected)| (edge - expected).abs()).fold(0.0, f32::max);
    assert!(off <= tolerance, "{found:?} is no ball of {radius} at {x}, {y}");
}

#[test]
fn an_empty_place_is_empty_whatever_exposure_and_lamp_do() {
    let background = background(WIDE);
    let mut random = Random::new(7, "light");
    for seed in 10..40 {
        let gain = random.uniform(0.75, 1.2);
        let gains = [0, 1, 2].map(|_| gain * random.uniform(0.97, 1.03));
        // A lamp flickers while the rows are read.
        let phase = random.uniform(0.0, 6.0);
        let frame = Painting::place(WIDE)
            .lit(gains)
            .map(|_, y, pixel| pixel.map(|value| value * (1.0 + 0.05 * libm::sinf(0.03 * y + phase))));
        assert_eq!(things(&background, &frame, seed), [], "frame {seed}, {gains:?}");
    }
}

#[test]
fn a_thing_is_found_anywhere_in_a_wide_frame_in_any_exposure() {
    let background = background(WIDE);
    // In the middle, at both sides, where the largest centred square does not reach, and cut off.
    for (seed, (middle, gain)) in
        [([320.0, 180.0], 1.0), ([70.0, 200.0], 0.93), ([575.0, 120.0], 1.07), ([70.0, 60.0], 0.8)]
            .into_iter()
            .enumerate()
    {
        let frame = Painting::place(WIDE).with_ball(middle, 55.0).lit([gain, gain * 1.02, gain * 0.98]);
        let found = things(&background, &frame, 50 + seed as u64);
        assert_eq!(found.len(), 1, "{middle:?}: {found:?}");
        assert_ball(found[0], middle, 55.0, 7.0);
    }
    let cut_off = Painting::place(WIDE).with_ball([640.0, 180.0], 60.0);
    let found = things(&background, &cut_off, 60);
    assert_eq!((found.len(), found[0].right()), (1, 640));
}

#[test]
fn frames_that_were_decoded_at_another_scale_are_compared_too() {
    let size = [1284, 722];
    let (place, ball) = (Painting::place(size), Painting::place(size).with_ball([1000.0, 240.0], 110.0));
    let quarter = |painting: &Painting| ::image::imageops::thumbnail(&painting.taken(45), 321, 181);
    let found = |background: &Background, frame: &RgbImage| {
        let foreground = background.compare(frame, None).unwrap();
        let [thing] = foreground.things() else { panic!("{:?}", foreground.things()) };
        foreground.cut_out(frame, thing, GREY);
        thing.bounds
    };
    let whole = Background::learn(&[place.taken(1), place.taken(2)]).unwrap();
    assert_ball(found(&whole, &quarter(&ball)), [250.0, 60.0], 27.5, 4.0);
    // The other way round, as a camera's shots at its full size.
    let reduced = Background::learn(&[quarter(&place)]).unwrap();
    assert_ball(found(&reduced, &ball.taken(3)), [1000.0, 240.0], 110.0, 16.0);
    // Of another shape, and smaller than frames are compared at.
    assert!(whole.compare(&RgbImage::new(321, 180), None).is_err());
    assert!(whole.compare(&RgbImage::new(161, 91), None).is_err());
}

#[test]
fn two_things_are_two_pieces_and_the_middle_one_is_told() {
    let background = background(WIDE);
    let frame = Painting::place(WIDE).with_ball([300.0, 190.0], 40.0).with_ball([520.0, 150.0], 60.0).taken(70);
    let foreground = background.compare(&frame, None).unwrap();
    let [large, small] = foreground.things() else { panic!("{:?}", foreground.things()) };
    assert_ball(large.bounds, [520.0, 150.0], 60.0, 7.0);
    assert_ball(small.bounds, [300.0, 190.0], 40.0, 7.0);
    assert_eq!(foreground.central(), Some(small));
    assert_eq!(foreground.at(600, 10), Some(large));
    // Each cut-out holds its own thing alone.
    let red = |thing| {
        let cut_out = foreground.cut_out(&frame, thing, GREY);
        let corner = *cut_out.get_pixel(0, 0);
        assert_eq!((cut_out.width(), corner), (cut_out.height(), Rgb(GREY)));
        cut_out.pixels().filter(|pixel| **pixel != corner).count() as f32 / cut_out.len() as f32 * 3.0
    };
    // A circle in a square with a tenth of margin.
    [large, small].map(red).iter().for_each(|share| assert!((0.42..0.58).contains(share), "{share}"));
    let only = Region::Shares([0.0, 0.0, 0.6, 1.0]).in_frame(WIDE[0], WIDE[1]).unwrap();
    assert_eq!(background.compare(&frame, Some(only)).unwrap().things().len(), 1);
}

#[test]
fn a_thing_that_fills_a_small_region_of_a_large_frame_is_one() {
    // Three pixels for each: 1920 x 1080.
    let enlarged = |painting: &Painting, seed: u64| {
        let small = painting.taken(seed);
        RgbImage::from_fn(3 * WIDE[0], 3 * WIDE[1], |x, y| *small.get_pixel(x / 3, y / 3))
    };
    let place = Painting::place(WIDE);
    let background = Background::learn(&[1, 2, 3].map(|seed| enlarged(&place, seed))).unwrap();
    let lamp = Region::Shares([0.5, 0.5, 0.04, 0.05]).in_frame(1920, 1080).unwrap();
    for seed in 10..15 {
        let empty = background.compare(&enlarged(&place, seed), Some(lamp)).unwrap();
        assert!(empty.things().is_empty(), "frame {seed}: {:?}", empty.things());
    }
    // 80 % of the region.
    let inside = |x: f32, y: f32| (321.0..344.0).contains(&x) && (181.0..197.0).contains(&y);
    let filled = place.map(|x, y, pixel| if inside(x, y) { [240.0, 230.0, 60.0] } else { pixel });
    let foreground = background.compare(&enlarged(&filled, 20), Some(lamp)).unwrap();
    let [thing] = foreground.things() else { panic!("{:?}", foreground.things()) };
    let common = thing.bounds.intersection_over_union(lamp);
    assert!(common > 0.6, "{:?} in {lamp:?}", thing.bounds);
}

#[test]
fn a_region_in_which_no_thing_could_be_found_is_refused_and_never_empty() {
    let background = background(WIDE);
    let ball = Painting::place(WIDE).with_ball([320.0, 180.0], 60.0).taken(40);
    // Five pixels a side of the small frame are enough.
    let [four, five] = [8, 10].map(|side| PixelRect { x: 320, y: 180, width: side, height: side });
    assert!(background.compare(&ball, Some(four)).unwrap().things().is_empty());
    assert_eq!(background.check_region(WIDE, four), Err(RegionError::SmallForThings { region: four, percent: 2 }));
    assert_eq!(background.compare(&ball, Some(five)).unwrap().things().len(), 1);
    assert_eq!(background.check_region(WIDE, five), Ok(()));
    // In pixels of the file.
    let region = |side: u32| format!("1280,720,{side},{side}").parse::<NamedRegion>().unwrap();
    let viewfinder =
        |side| Viewfinder { background: Some(background.clone().into()), regions: vec![region(side)], fill: GREY };
    let quarter = DecodedPicture { picture: ball, size_in_file: WIDE.map(|side| 4 * side) };
    let refused = Err(ViewError::Region(RegionError::SmallForThings {
        region: PixelRect { x: 1280, y: 720, width: 32, height: 32 },
        percent: 2,
    }));
    assert_eq!(viewfinder(32).shot(&quarter), refused);
    assert_eq!(viewfinder(32).views(&quarter).err(), refused.err());
    assert!(viewfinder(40).shot(&quarter).is_ok() && viewfinder(40).views(&quarter).is_ok());
}

#[test]
fn shadows_are_no_things_and_no_part_of_one() {
    let background = background(WIDE);
    for (seed, depth) in [0.25, 0.45].into_iter().enumerate() {
        for middle in [[100.0, 200.0], [430.0, 200.0]] {
            let shadow = Painting::place(WIDE).with_shadow(middle, 60.0, depth);
            assert_eq!(things(&background, &shadow, 80 + seed as u64), [], "{middle:?}, {depth}");
            let [x, y] = middle;
            let both = shadow.with_ball([x - 40.0, y - 40.0], 45.0);
            let found = things(&background, &both, 90 + seed as u64);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_ball(found[0], [x - 40.0, y - 40.0], 45.0, 12.0);
        }
    }
}

#[test]
fn a_thing_of_the_walls_colour_is_no_shadow() {
    let background = background(WIDE);
    let inside = |x: f32, y: f32| (60.0..150.0).contains(&x) && (100.0..220.0).contains(&y);
    // Evenly grey, and round: lit from one side.
    let shades: [fn(f32) -> f32; 2] = [|_| 0.6, |x| 0.85 - 0.3 * (x - 60.0) / 90.0];
    for (seed, shade) in shades.into_iter().enumerate() {
        let paint = |x, y, pixel: [f32; 3]| if inside(x, y) { pixel.map(|value| shade(x) * value) } else { pixel };
        let found = things(&background, &Painting::place(WIDE).map(paint), 100 + seed as u64);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].width.abs_diff(90) <= 10 && found[0].height.abs_diff(120) <= 10, "{found:?}");
    }
}

#[test]
fn the_place_seen_through_a_ring_is_no_part_of_it() {
    let background = background(WIDE);
    let place = Painting::place(WIDE);
    let (middle, width) = ([430.0, 190.0], WIDE[0] as usize);
    let ring = Painting::place(WIDE).with_ball(middle, 80.0).map(|x, y, pixel| {
        let (across, down) = (x - middle[0], y - middle[1]);
        let is_hole = across * across + down * down < 50.0 * 50.0;
        if is_hole { place.pixels[y as usize * width + x as usize] } else { pixel }
    });
    let frame = ring.taken(110);
    let foreground = background.compare(&frame, None).unwrap();
    let thing = foreground.central().unwrap();
    assert_ball(thing.bounds, middle, 80.0, 7.0);
    let cut_out = foreground.cut_out(&frame, thing, GREY);
    assert_eq!(cut_out.get_pixel(cut_out.width() / 2, cut_out.height() / 2), &Rgb(GREY));
}

/// Evening: one side becomes dark within half an hour, and a coloured lamp lights the other. `share` of it has passed.
fn evening(share: f32) -> Painting {
    Painting::place(WIDE).map(|x, _, pixel| {
        let side = x / WIDE[0] as f32;
        let tint = [1.0 + 0.35 * share * side, 1.0, 1.0 - 0.3 * share * side];
        [0, 1, 2].map(|channel| pixel[channel] * tint[channel] * (1.0 - 0.6 * share * (1.0 - side)))
    })
}

#[test]
fn slow_changes_of_light_are_followed_while_the_place_is_empty() {
    let still = background(WIDE);
    let mut watch = SceneWatch::new(still.clone());
    for step in 0..90 {
        let frame = evening(step as f32 / 90.0).taken(200 + step);
        let seen = watch.see(&frame, &[], Duration::from_secs(20 * step)).unwrap();
        assert!(matches!(seen, FrameContent::Empty), "step {step}");
    }
    let last = evening(1.0);
    assert!(!things(&still, &last, 300).is_empty(), "the light has hardly changed");
    // A thing is still found, and does not become part of the place.
    for step in 0..90 {
        let frame = last.clone().with_ball([300.0, 180.0], 60.0).taken(400 + step);
        let seen = watch.see(&frame, &[], Duration::from_secs(1800 + 20 * step)).unwrap();
        let FrameContent::Things(foregrounds) = seen else { panic!("step {step}: {seen:?}") };
        assert_ball(foregrounds[0].central().unwrap().bounds, [300.0, 180.0], 60.0, 8.0);
    }
}

#[test]
fn the_light_is_followed_beside_a_thing_that_stays_for_hours() {
    let (mut watch, middle) = (SceneWatch::new(background(WIDE)), [300.0, 180.0]);
    for step in 0..60 {
        let frame = evening(step as f32 / 60.0).with_ball(middle, 60.0).taken(200 + step);
        let seen = watch.see(&frame, &[], Duration::from_secs(120 * step)).unwrap();
        let FrameContent::Things(found) = seen else { panic!("step {step}: the ball is missed") };
        let [ball] = found[0].things() else { panic!("step {step}: {:?}", found[0].things()) };
        assert_ball(ball.bounds, middle, 60.0, 8.0);
    }
    let seen = watch.see(&evening(1.0).taken(300), &[], Duration::from_secs(7201)).unwrap();
    assert!(matches!(seen, FrameContent::Empty), "the ball was taken away: {seen:?}");
}

#[test]
fn what_is_hidden_follows_the_light_also_far_from_all_that_is_seen() {
    let before = background(WIDE);
    let darker = Painting::place(WIDE).map(|_, _, pixel| pixel.map(|value| 0.7 * value)).taken(500);
    let small = before.small(&darker).unwrap();
    let mut followed = before.clone();
    // The lower right quarter is hidden.
    let (columns, rows) = (before.width, before.colours.len() / before.width);
    let is_seen = |place: usize| place % columns < columns / 2 || place / columns < rows / 2;
    followed.follow(&small, &before.difference(&small), is_seen, 0.2);
    for place in (0..before.colours.len()).filter(|place| !is_seen(*place)) {
        for channel in 0..3 {
            let ratio = followed.colours[place][channel] / before.colours[place][channel];
            assert!((ratio - 0.94).abs() < 0.02, "{ratio} at {place}");
        }
    }
}

#[test]
fn the_place_in_grey_is_made_once_until_the_light_is_followed() {
    let mut place = background(WIDE);
    let (first, again) = (std::ptr::from_ref(place.in_grey()), std::ptr::from_ref(place.in_grey()));
    assert_eq!(first, again);
    let before = place.in_grey().clone();
    let darker = Painting::place(WIDE).map(|_, _, pixel| pixel.map(|value| 0.7 * value)).taken(500);
    let small = place.small(&darker).unwrap();
    let difference = place.difference(&small);
    place.follow(&small, &difference, |_| true, 0.2);
    assert_ne!(place.in_grey().colours, before.colours);
}

/// Somebody sits beside the table for a while, and leaves.
#[test]
fn neither_a_shadow_that_stays_nor_one_that_goes_hides_a_thing_or_looks_like_one() {
    let still = background(WIDE);
    let boxed = |painting: Painting, [middle_x, middle_y]: [f32; 2]| {
        let is_inside = move |x: f32, y: f32| (x - middle_x).abs() < 30.0 && (y - middle_y).abs() < 30.0;
        painting.map(move |x, y, pixel| if is_inside(x, y) { [110.0, 120.0, 95.0] } else { pixel })
    };
    for (middle, stays) in [([110.0, 200.0], 60), ([110.0, 200.0], 600), ([430.0, 200.0], 600)] {
        let mut watch = SceneWatch::new(still.clone());
        let shadow = Painting::place(WIDE).with_shadow(middle, 110.0, 0.45);
        let mut see = |painting: &Painting, second: u64| -> Vec<PixelRect> {
            match watch.see(&painting.taken(1000 + second), &[], Duration::from_secs(second)).unwrap() {
                FrameContent::Empty => Vec::new(),
                FrameContent::Things(foregrounds) => foregrounds[0].things().iter().map(|thing| thing.bounds).collect(),
                FrameContent::Moved => panic!("{middle:?}: nobody moved the camera"),
            }
        };
        let is_box = |found: &[PixelRect]| matches!(found, [thing] if thing.contains(middle.map(|place| place as u32)));
        for second in (0..stays).step_by(6) {
            assert_eq!(see(&shadow, second), [], "{middle:?}: the shadow after {second} s");
        }
        let found = see(&boxed(shadow.clone(), middle), stays + 1);
        assert!(is_box(&found), "{middle:?}: in the shadow after {stays} s, {found:?}");
        for second in 2..5 {
            assert_eq!(see(&Painting::place(WIDE), stays + second), [], "{middle:?}: the shadow of {stays} s has gone");
        }
        let found = see(&boxed(Painting::place(WIDE), middle), stays + 6);
        assert!(is_box(&found) && found[0].width < 90, "{middle:?}: after the shadow of {stays} s, {found:?}");
    }
}

/// White paper on the part of a white wall that lies in the shadow.
#[test]
fn a_thing_of_the_colours_that_were_there_before_a_shadow_is_found_in_it() {
    let (place, middle) = (Painting::place(WIDE), [110.0, 200.0]);
    let shadow = place.clone().with_shadow(middle, 110.0, 0.45);
    let mut watch = SceneWatch::new(background(WIDE));
    for second in (0..600).step_by(6) {
        let seen = watch.see(&shadow.taken(1000 + second), &[], Duration::from_secs(second)).unwrap();
        assert!(matches!(seen, FrameContent::Empty), "the shadow after {second} s");
    }
    let paper = shadow.map(|x, y, pixel| {
        let is_inside = (x - middle[0]).abs() < 30.0 && (y - middle[1]).abs() < 30.0;
        if is_inside { place.pixels[y as usize * WIDE[0] as usize + x as usize] } else { pixel }
    });
    let seen = watch.see(&paper.taken(2000), &[], Duration::from_secs(601)).unwrap();
    let FrameContent::Things(found) = seen else { panic!("the paper is missed") };
    assert!(matches!(found[0].things(), [thing] if thing.bounds.contains([110, 200])), "{:?}", found[0].things());
}

#[test]
fn a_place_that_was_dark_for_a_night_is_found_again_when_the_light_is_turned_on() {
    let mut watch = SceneWatch::new(background(WIDE));
    let lit = |share: f32| Painting::place(WIDE).map(|_, _, pixel| pixel.map(|value| value * share));
    // Dusk takes an hour.
    for step in 0..240 {
        let share = 0.99f32.mul_add(-(step as f32 / 240.0), 1.0);
        watch.see(&lit(share).taken(500 + step), &[], Duration::from_secs(15 * step)).unwrap();
    }
    let mut see = |painting: &Painting, seconds: u64| {
        watch.see(&painting.taken(900 + seconds), &[], Duration::from_secs(3600 + seconds)).unwrap()
    };
    (0..8).for_each(|second| drop(see(&lit(1.0), second)));
    assert!(matches!(see(&lit(1.0), 9), FrameContent::Empty));
    let ball = lit(1.0).with_ball([300.0, 180.0], 60.0);
    let FrameContent::Things(found) = see(&ball, 10) else { panic!("the ball is missed") };
    assert_ball(found[0].central().unwrap().bounds, [300.0, 180.0], 60.0, 8.0);
}

/// Cameras that light the night with infra-red give no colours then.
#[test]
fn a_night_without_colours_is_compared_by_brightness_and_does_not_become_the_place() {
    let place = Painting::place(WIDE);
    let at_night = |painting: &Painting, seed: u64| {
        let mut frame = painting.taken(seed);
        for pixel in frame.pixels_mut() {
            let [red, green, blue] = pixel.0.map(f32::from);
            *pixel = Rgb([(0.3 * red + 0.59 * green + 0.11 * blue) as u8; 3]);
        }
        frame
    };
    let mut watch = SceneWatch::new(background(WIDE));
    let mut see = |frame: RgbImage, second: u64| watch.see(&frame, &[], Duration::from_secs(second)).unwrap();
    for second in (0..120).step_by(6) {
        assert!(matches!(see(at_night(&place, 700 + second), second), FrameContent::Empty), "after {second} s");
    }
    let ball = place.clone().with_ball([300.0, 180.0], 60.0);
    let FrameContent::Things(found) = see(at_night(&ball, 900), 121) else { panic!("the ball is missed") };
    assert_ball(found[0].central().unwrap().bounds, [300.0, 180.0], 60.0, 8.0);
    assert!(matches!(see(place.taken(901), 122), FrameContent::Empty), "by day");
}

#[test]
fn restarts_take_a_place_no_further_into_the_night() {
    let lit = |share: f32| Painting::place(WIDE).map(|_, _, pixel| pixel.map(|value| value * share));
    let mut kept = background(WIDE).encode();
    // Dusk of an hour, with restarts.
    for (from, to) in [(1.0, 0.4), (0.4, 0.14), (0.14, 0.05)] {
        let mut watch = SceneWatch::new(Background::decode(&kept).unwrap());
        for step in 0..80 {
            let frame = lit(from + (to - from) * step as f32 / 79.0).taken(600 + step);
            watch.see(&frame, &[], Duration::from_secs(15 * step)).unwrap();
        }
        kept = watch.background().encode();
    }
    let mut watch = SceneWatch::new(Background::decode(&kept).unwrap());
    let mut day = |painting: Painting, seed| watch.see(&painting.taken(seed), &[], Duration::from_secs(seed)).unwrap();
    assert!(matches!(day(lit(1.0), 0), FrameContent::Empty));
    let FrameContent::Things(found) = day(lit(1.0).with_ball([300.0, 180.0], 60.0), 1) else {
        panic!("the ball is missed")
    };
    assert_ball(found[0].central().unwrap().bounds, [300.0, 180.0], 60.0, 8.0);
}

#[test]
fn light_beyond_what_an_exposure_changes_brings_a_frame_as_near_as_it_can() {
    let place: Vec<[f32; 3]> = (0..3000).map(|at| [100.0 + (at % 50) as f32; 3]).collect();
    let by = |factors: [f32; 3]| -> [f32; 3] {
        let frame: Vec<_> =
            place.iter().map(|pixel| [0, 1, 2].map(|channel| pixel[channel] * factors[channel])).collect();
        super::exposure::gains(&frame, &place)
    };
    assert!(by([0.25; 3]).iter().all(|gain| *gain < 0.32), "three of four lamps are off: {:?}", by([0.25; 3]));
    let warm = by([1.0, 1.0, 0.75]);
    assert!(warm[2] < 0.95 && (warm[0] - 1.0).abs() < 0.1, "{warm:?}");
}

#[test]
fn a_plain_bright_thing_does_not_take_the_place_of_the_darker_table_behind_it() {
    let mut random = orco_core::random::Random::new(1, "noise");
    for (table, thing) in [(75.0, 215.0), (120.0, 220.0)] {
        let mut noisy = |light: f32| [0; 3].map(|_: u8| light + random.normal());
        let place: Vec<[f32; 3]> = (0..20_000).map(|_| noisy(table)).collect();
        let frame: Vec<[f32; 3]> = (0..20_000).map(|at| noisy(if at % 100 < 45 { thing } else { table })).collect();
        let gains = super::exposure::gains(&frame, &place);
        assert!(gains.iter().all(|gain| (gain - 1.0).abs() < 0.05), "{thing} on {table}: {gains:?}");
    }
}

#[test]
fn an_empty_region_follows_the_light_whatever_goes_on_outside_of_it() {
    let mut watch = SceneWatch::new(background(WIDE));
    let shelf = Region::Shares([0.0, 0.0, 0.5, 1.0]).in_frame(WIDE[0], WIDE[1]).unwrap();
    let television = |painting: Painting, step: u64| {
        if step.is_multiple_of(2) { painting } else { painting.with_ball([560.0, 180.0], 70.0) }
    };
    for step in 0..90 {
        let frame = television(evening(step as f32 / 90.0), step).taken(200 + step);
        let seen = watch.see(&frame, &[shelf], Duration::from_secs(20 * step)).unwrap();
        assert!(matches!(seen, FrameContent::Empty), "step {step}: {seen:?}");
    }
    // What went on there did not become part of the place.
    let last = television(evening(1.0), 1);
    let found = things(watch.background(), &last, 300);
    assert!(found.iter().any(|thing| thing.contains([560, 180])), "{found:?}");
    let ball = last.with_ball([150.0, 180.0], 50.0).taken(301);
    let seen = watch.see(&ball, &[shelf], Duration::from_secs(1800)).unwrap();
    let FrameContent::Things(foregrounds) = seen else { panic!("{seen:?}") };
    let [thing] = foregrounds[0].things() else { panic!("{foregrounds:?}") };
    assert_ball(thing.bounds, [150.0, 180.0], 50.0, 10.0);
}

#[test]
fn neither_a_thing_that_fills_a_region_nor_a_person_outside_of_it_is_a_moved_camera() {
    let mut watch = SceneWatch::new(background(WIDE));
    let shelf = Region::Shares([0.0, 0.0, 0.4, 1.0]).in_frame(WIDE[0], WIDE[1]).unwrap();
    let coat = |from: f32, to: f32| {
        Painting::place(WIDE).map(move |x, _, pixel| if (from..to).contains(&x) { [60.0, 40.0, 110.0] } else { pixel })
    };
    let (thing, person) = (coat(0.0, 240.0), coat(290.0, 640.0));
    let mut see = |painting: &Painting, second: u64| {
        watch.see(&painting.taken(second), &[shelf], Duration::from_secs(second)).unwrap()
    };
    (0..10).for_each(|second| assert!(matches!(see(&person, second), FrameContent::Empty), "{second}"));
    (10..20).for_each(|second| assert!(matches!(see(&thing, second), FrameContent::Things(_)), "{second}"));
}

#[test]
fn a_moved_camera_is_noticed_after_some_seconds_and_so_is_one_that_is_put_back() {
    let place = Painting::place(WIDE);
    let moved = Painting::place([WIDE[0] + 16, WIDE[1] + 10]);
    let pushed = Painting {
        size: WIDE,
        pixels: (0..WIDE[0] * WIDE[1])
            .map(|at| moved.pixels[((at / WIDE[0] + 10) * moved.size[0] + at % WIDE[0] + 16) as usize])
            .collect(),
    };
    let hand = Painting::place(WIDE).with_ball([330.0, 180.0], 300.0);
    let shelves = Region::Shares([0.3, 0.0, 0.7, 1.0]).in_frame(WIDE[0], WIDE[1]).unwrap();
    let still = background(WIDE);
    for regions in [vec![], vec![shelves]] {
        let mut watch = SceneWatch::new(still.clone());
        let mut see = |painting: &Painting, seconds: u64| {
            watch.see(&painting.taken(seconds), &regions, Duration::from_secs(seconds)).unwrap()
        };
        assert!(matches!(see(&place, 0), FrameContent::Empty));
        // A hand before the lens is none of that.
        (1..4).for_each(|second| assert!(matches!(see(&hand, second), FrameContent::Things(_)), "{second}"));
        assert!(matches!(see(&place, 5), FrameContent::Empty));
        (6..10).for_each(|second| assert!(!matches!(see(&pushed, second), FrameContent::Moved), "{second}"));
        (10..20).for_each(|second| assert!(matches!(see(&pushed, second), FrameContent::Moved), "{second}"));
        (20..24).for_each(|second| assert!(matches!(see(&place, second), FrameContent::Moved), "{second}"));
        (24..26).for_each(|second| assert!(matches!(see(&place, second), FrameContent::Empty), "{second}"));
    }
}

#[test]
fn views_that_show_no_empty_place_are_refused() {
    let place = |seed| Painting::place(WIDE).taken(seed);
    let thing = Painting::place(WIDE).with_ball([200.0, 200.0], 40.0).taken(9);
    let refused = |views: &[RgbImage]| Background::learn(views).unwrap_err();
    assert_eq!(refused(&[]), BackgroundError::Count { views: 0 });
    assert_eq!(refused(&vec![place(1); MAX_VIEWS + 1]), BackgroundError::Count { views: MAX_VIEWS + 1 });
    assert_eq!(refused(&[place(1), thing.clone()]), BackgroundError::Thing { view: 2 });
    // Nobody can clear it away.
    assert!(refused(&[place(1), thing.clone()]).to_string().contains("bands of a flickering lamp"));
    for at in 0..3 {
        let mut views = [1, 2, 3].map(place);
        views[at] = thing.clone();
        assert_eq!(refused(&views), BackgroundError::Thing { view: at + 1 });
    }
    let plain = |value| RgbImage::from_pixel(WIDE[0], WIDE[1], Rgb([value; 3]));
    assert_eq!(refused(&[place(1), plain(3)]), BackgroundError::Dark { view: 2 });
    assert_eq!(refused(&[plain(255)]), BackgroundError::Bright { view: 1 });
    assert_eq!(refused(&[plain(90)]), BackgroundError::Flat { view: 1 });
    let elsewhere = Painting::place(WIDE).map(|x, y, _| [100.0 + 50.0 * libm::sinf(0.2 * y), 0.3 * x, 90.0]).taken(4);
    assert_eq!(refused(&[place(1), place(2), elsewhere]), BackgroundError::Moved { view: 3 });
    let small = Painting::place([320, 180]).taken(5);
    let expected = BackgroundError::Size { view: 2, expected: WIDE, actual: [320, 180] };
    assert_eq!(refused(&[place(1), small.clone()]), expected);
    assert!(matches!(refused(&[RgbImage::new(20, 400)]), BackgroundError::Small { view: 1, .. }));
    let error = background(WIDE).compare(&RgbImage::new(640, 480), None).unwrap_err();
    assert_eq!((error.expected, error.actual), (WIDE, [640, 480]));
}

#[test]
fn a_single_view_is_enough() {
    let background = Background::learn(&[Painting::place(WIDE).taken(1)]).unwrap();
    let ball = Painting::place(WIDE).with_ball([320.0, 180.0], 60.0);
    assert_eq!(things(&background, &Painting::place(WIDE), 2), []);
    assert_eq!(things(&background, &ball, 3).len(), 1);
}

#[test]
fn a_background_is_kept_replaced_and_forgotten_and_damage_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let kept = KeptBackground::of(&state);
    assert!(kept.read().unwrap().is_none() && !kept.forget().unwrap());
    let wide = background(WIDE);
    kept.keep(&background([200, 300])).unwrap();
    kept.keep(&wide).unwrap();
    let read = kept.read().unwrap().unwrap();
    assert_eq!((read.frame_size(), read.picture()), (WIDE, wide.picture()));
    let ball = Painting::place(WIDE).with_ball([320.0, 180.0], 60.0);
    assert_eq!(things(&read, &ball, 1), things(&wide, &ball, 1));
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1, "something was left behind");

    let bytes = std::fs::read(kept.path()).unwrap();
    for damaged in [&bytes[..bytes.len() - 1], &[&bytes[..99], b"x", &bytes[100..]].concat(), b"", &[0; 80]] {
        std::fs::write(kept.path(), damaged).unwrap();
        let error = kept.read().unwrap_err();
        assert!(matches!(error, BackgroundFileError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("orco scene learn"), "{error}");
    }
    assert!(kept.forget().unwrap() && kept.read().unwrap().is_none());
    // Nothing that is no picture's, however well it is sealed.
    let decoded = |light: f32, pixels: usize| {
        let content = ([9u32, 9], 2.0f32, light, vec![[0u16; 4]; pixels]);
        Background::decode(&codec::encode(FileKind::Background, &content))
    };
    assert!(decoded(90.0, 81).is_ok());
    for (light, pixels) in [(90.0, 3), (-1.0, 81), (256.0, 81), (f32::NAN, 81)] {
        assert_eq!(decoded(light, pixels), Err(DecodeError::Body), "{light}, {pixels}");
    }
    // As it was before it had the light.
    let older = codec::encode(FileKind::Background, &([9u32, 9], 2.0f32, vec![[30_000u16; 4]; 81]));
    std::fs::write(kept.path(), codec::seal(FileKind::Background, 1, &[&older[codec::HEADER..]])).unwrap();
    let error = kept.read().unwrap_err().to_string();
    assert!(error.contains("format version 1, but this program reads only version 2; show it again"), "{error}");
}

#[test]
fn a_picture_at_reduced_scale_is_searched_in_pixels_of_its_file() {
    let red = |picture: &RgbImage| picture.pixels().map(|pixel| u32::from(pixel[0])).sum::<u32>() as f32;
    let picture = RgbImage::from_fn(160, 120, |x, y| Rgb([if x >= 80 && y < 60 { 255 } else { 0 }, 9, 9]));
    let reduced = DecodedPicture { picture, size_in_file: [639, 480] };
    let region = |text: &str| Viewfinder { regions: vec![text.parse().unwrap()], ..Viewfinder::default() };
    let corner = region("320,0,319,240");
    let view = corner.views(&reduced).unwrap().remove(0);
    assert_eq!(view.bounds, PixelRect { x: 320, y: 0, width: 319, height: 240 });
    assert_eq!(view.things[0].bounds, view.bounds);
    let share = red(&view.things[0].picture) / (255 * view.things[0].picture.len() / 3) as f32;
    assert!(share > 0.7, "{share}");
    assert_eq!(corner.shot(&reduced).unwrap(), view.things[0].picture);
    let all = Viewfinder::default().views(&reduced).unwrap().remove(0);
    assert_eq!((all.bounds.width, all.bounds.height), (639, 480));
    // What is too small, or beyond, is so in pixels of the file.
    assert!(region("320,0,16,16").shot(&reduced).is_ok());
    assert!(matches!(region("320,0,15,16").shot(&reduced), Err(ViewError::Region(RegionError::Small { .. }))));
    let beyond = region("320,0,320,240").shot(&reduced).unwrap_err();
    assert!(beyond.to_string().contains("beyond the frame of 639 x 480 pixels"), "{beyond}");

    // Things are found in pixels of the file, too.
    let background = background(WIDE);
    let frame = Painting::place(WIDE).with_ball([520.0, 150.0], 60.0).taken(70);
    let viewfinder = Viewfinder { background: Some(background.into()), ..Viewfinder::default() };
    let doubled = DecodedPicture { picture: frame, size_in_file: WIDE.map(|side| 2 * side) };
    assert_ball(viewfinder.views(&doubled).unwrap()[0].things[0].bounds, [1040.0, 300.0], 120.0, 14.0);
    assert_eq!(viewfinder.shot_at(&doubled, [0.8, 0.4]), viewfinder.shot(&doubled));
}

#[test]
fn regions_are_read_and_fit_the_frame() {
    let parsed = |text: &str| text.parse::<Region>();
    assert_eq!(parsed("10, 20,300,200").unwrap(), Region::Pixels(PixelRect { x: 10, y: 20, width: 300, height: 200 }));
    assert_eq!(
        parsed("0,0,1,1").unwrap().in_frame(640, 480).unwrap(),
        PixelRect { x: 0, y: 0, width: 640, height: 480 }
    );
    for text in [
        "",
        "1,2,3",
        "0,0,0.5,1.5",
        "a,b,c,d",
        "0.5,0,0.6,1",
        "-1,0,20,20",
        "0,0,0,0",
        "nan,0,1,1",
        "1,2,3,4,5",
        "0,1,1,1e-9",
    ] {
        assert!(matches!(parsed(text), Err(RegionError::Text { .. })), "{text}");
    }
    assert!(matches!(parsed("600,0,100,100").unwrap().in_frame(640, 480), Err(RegionError::Outside { .. })));
    assert!(matches!(parsed("4294967295,0,9,99").unwrap().in_frame(640, 480), Err(RegionError::Outside { .. })));
    assert!(matches!(parsed("0,0,0.01,1").unwrap().in_frame(640, 480), Err(RegionError::Small { .. })));
    let thirds: Vec<_> = ["0,0,0.333,1", "0.333,0,0.333,1", "0.666,0,0.334,1"]
        .iter()
        .map(|text| parsed(text).unwrap().in_frame(641, 480).unwrap())
        .collect();
    assert_eq!((thirds[0].right(), thirds[1].right(), thirds[2].right()), (thirds[1].x, thirds[2].x, 641));
    let named: NamedRegion = " shelf =0,0,0.5,1".parse().unwrap();
    assert_eq!((&*named.name, named.region), ("shelf", Region::Shares([0.0, 0.0, 0.5, 1.0])));
    assert!(matches!("=0,0,1,1".parse::<NamedRegion>(), Err(RegionError::Name { .. })));
}

/// A hundredth of a place that has become brighter, as by the sun, moves its average by less than a step.
#[test]
fn a_place_of_which_a_corner_has_changed_looks_otherwise() {
    let place = background(WIDE);
    let brighter = |step: f32, pixels: usize| {
        let mut other = place.clone();
        other.colours[..pixels].iter_mut().for_each(|colour| *colour = colour.map(|value| value + step));
        other
    };
    let all = place.colours.len();
    assert!(place.looks_like(&brighter(0.5, all)) && place.looks_like(&brighter(60.0, all / 2000)));
    assert!(!place.looks_like(&brighter(60.0, all / 100)) && !place.looks_like(&brighter(2.0, all)));
}
