//! A painted place before a painted camera: shelves with boards and labels, things on them, light that changes.

mod camera_pose;
mod hole;
mod watch;

use std::sync::Mutex;

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
            // Four numbers in -1..1, of the halves of two.
            let halves = [random.bits(), random.bits()].map(|bits| [bits as u32, (bits >> 32) as u32]);
            let noise: f32 = halves.as_flattened().iter().map(|half| (half >> 8) as f32 / (1 << 23) as f32 - 1.0).sum();
            // Rounded without a call: this is done for every value of every frame.
            (value + 3.0 * noise + 0.5).clamp(0.0, 255.0) as u8
        };
        let bytes = self.pixels.iter().flat_map(|pixel| pixel.map(&mut noisy)).collect();
        RgbImage::from_raw(self.size[0], self.size[1], bytes).unwrap()
    }
}

/// The background by three views of the place. Learned once, as many tests compare with it.
fn background(size: [u32; 2]) -> Background {
    static LEARNED: Mutex<Vec<Background>> = Mutex::new(Vec::new());
    let mut learned = lock(&LEARNED);
    if let Some(known) = learned.iter().find(|known| known.frame_size() == size) {
        return known.clone();
    }
    let views = [1, 2, 3].map(|seed| Painting::place(size).taken(seed));
    learned.push(Background::learn(&views).unwrap());
    learned[learned.len() - 1].clone()
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

/// The camera takes a longer exposure for a dark thing, and the table before it becomes white.
#[test]
fn a_white_table_that_a_longer_exposure_clips_is_empty_and_a_thing_on_it_is_found() {
    let plain = Painting::place(WIDE).map(|x, y, _| [0.0, 1.0, 2.0].map(|off| 210.0 + off + 0.02 * x + 0.03 * y));
    let grained = Painting::place(WIDE).map(|x, y, pixel| {
        let grain = 10.0 * libm::sinf(0.4 * x) * libm::sinf(0.3 * y);
        pixel.map(|_| 215.0 + grain)
    });
    for (kind, table) in [("plain", plain), ("grained", grained)] {
        let background = Background::learn(&[1, 2, 3].map(|seed| table.taken(seed))).unwrap();
        for (seed, gain) in [1.0, 1.25, 1.3, 1.5].into_iter().enumerate() {
            let seed = 80 + 2 * seed as u64;
            assert_eq!(things(&background, &table.clone().lit([gain; 3]), seed), [], "{kind}, {gain}");
            let ball = table.clone().with_ball([300.0, 190.0], 60.0).lit([gain; 3]);
            let found = things(&background, &ball, seed + 1);
            assert_eq!(found.len(), 1, "{kind}, {gain}: {found:?}");
            assert_ball(found[0], [300.0, 190.0], 60.0, 8.0);
        }
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

#[test]
fn views_that_show_no_empty_place_are_refused() {
    let place = |seed| Painting::place(WIDE).taken(seed);
    let thing = Painting::place(WIDE).with_ball([200.0, 200.0], 40.0).taken(9);
    let refused = |views: &[RgbImage]| Background::learn(views).unwrap_err();
    assert_eq!(refused(&[]), BackgroundError::Count { views: 0 });
    assert_eq!(refused(&vec![place(1); MAX_VIEWS + 1]), BackgroundError::Count { views: MAX_VIEWS + 1 });
    assert_eq!(refused(&[place(1), thing.clone()]), BackgroundError::Thing { view: 2 });
    // Nobody can clear it away.
    let sentence = refused(&[place(1), thing.clone()]).to_string();
    assert!(
        ["camera shake", "bands of a flickering lamp", "regions that leave out"]
            .iter()
            .all(|cause| sentence.contains(cause)),
        "{sentence}"
    );
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
    assert_eq!(refused(&[place(1), place(2), elsewhere.clone()]), BackgroundError::Moved { view: 3 });
    // Nearly all pixels differ, which is no noise.
    assert_eq!(refused(&[place(1), elsewhere.clone()]), BackgroundError::Moved { view: 2 });
    let third = Painting::place(WIDE).map(|x, y, pixel| [pixel[2], 0.4 * y, 200.0 - 0.3 * x]).taken(6);
    assert!(matches!(refused(&[third, elsewhere, place(1)]), BackgroundError::Moved { .. }));
    let small = Painting::place([320, 180]).taken(5);
    let expected = BackgroundError::Size { view: 2, expected: WIDE, actual: [320, 180] };
    assert_eq!(refused(&[place(1), small.clone()]), expected);
    let narrow = refused(&[RgbImage::new(20, 400)]);
    assert!(matches!(narrow, BackgroundError::Small { view: 1, .. }));
    assert!(narrow.to_string().ends_with("20 x 400 pixels: at least 32 x 32 are needed"), "{narrow}");
    let error = background(WIDE).compare(&RgbImage::new(640, 480), None).unwrap_err();
    assert_eq!((error.expected, error.actual), (WIDE, [640, 480]));
}

#[test]
fn a_screen_beside_all_regions_does_not_matter() {
    // It shows another picture each time.
    let playing = |seed: u64| {
        Painting::place(WIDE).map(move |x, y, pixel| {
            let wave = libm::sinf((0.01 * x + 0.02 * y) * seed as f32);
            if x < 400.0 { pixel } else { [120.0 + 100.0 * wave, 120.0 - 60.0 * wave, 90.0] }
        })
    };
    let views = [1, 2, 3].map(|seed| playing(seed).taken(seed));
    assert!(Background::learn(&views).is_err());
    let regions: [NamedRegion; 2] = ["wall=0,0,0.3,1", "shelf=0.3,0,0.3,1"].map(|region| region.parse().unwrap());
    let background = Background::learn_in(&views, &regions).unwrap();
    let seen_in = |region: &NamedRegion, painting: &Painting| -> Vec<PixelRect> {
        let bounds = region.region.in_frame(WIDE[0], WIDE[1]).unwrap();
        let foreground = background.compare(&painting.taken(9), Some(bounds)).unwrap();
        foreground.things().iter().map(|thing| thing.bounds).collect()
    };
    assert!(regions.iter().all(|region| seen_in(region, &playing(5)).is_empty()));
    let ball = playing(6).with_ball([90.0, 180.0], 40.0);
    let [found] = seen_in(&regions[0], &ball)[..] else { panic!("the ball is one thing") };
    assert_ball(found, [90.0, 180.0], 40.0, 6.0);
    assert_eq!(seen_in(&regions[1], &ball), []);
    let [first, second, _] = views;
    let error = Background::learn_in(&[first, second, ball.taken(3)], &regions).unwrap_err();
    assert_eq!(error, BackgroundError::Thing { view: 3 }, "a thing in one of them does");
}

#[test]
fn a_lamp_at_one_side_is_light() {
    let background = background(WIDE);
    // Twice as bright at the right as at the left.
    let lamp = |painting: Painting| {
        painting.map(|x, _, pixel| pixel.map(|value| value * (0.6 + 0.55 * (x / 640.0) * (x / 640.0))))
    };
    assert_eq!(things(&background, &lamp(Painting::place(WIDE)), 5), []);
    let ball = lamp(Painting::place(WIDE).with_ball([450.0, 200.0], 50.0));
    let [found] = things(&background, &ball, 6)[..] else { panic!("the ball is one thing") };
    assert_ball(found, [450.0, 200.0], 50.0, 12.0);
    // The wall has no structure, so what is brighter there is no light.
    let sheet = lamp(Painting::place(WIDE).map(|x, y, pixel| {
        let is_sheet = libm::hypotf(x - 110.0, y - 200.0) < 50.0;
        pixel.map(|value| if is_sheet { value * 1.4 } else { value })
    }));
    let [found] = things(&background, &sheet, 7)[..] else { panic!("the sheet is one thing") };
    assert_ball(found, [110.0, 200.0], 50.0, 12.0);
}

/// The wall says nothing of the light, and must not be taken for what most of the place looks like.
#[test]
fn a_lamp_beside_a_large_plain_wall_is_light() {
    let walled = |painting: Painting| {
        painting.map(|x, y, pixel| {
            let seen = if x < 430.0 { [150.0 + 0.05 * x, 160.0 + 0.03 * y, 170.0] } else { pixel };
            // The lamp clips nothing.
            seen.map(|value| 0.6 * value)
        })
    };
    let views = [1, 2, 3].map(|seed| walled(Painting::place(WIDE)).taken(seed));
    let background = Background::learn(&views).unwrap();
    let lamp = |painting: Painting| {
        painting.map(|x, _, pixel| pixel.map(|value| value * (1.0 + 0.7 * ((x - 380.0) / 260.0).max(0.0))))
    };
    assert_eq!(things(&background, &lamp(walled(Painting::place(WIDE))), 5), []);
    let ball = lamp(walled(Painting::place(WIDE)).with_ball([540.0, 200.0], 50.0));
    let [found] = things(&background, &ball, 6)[..] else { panic!("the ball is one thing") };
    assert_ball(found, [540.0, 200.0], 50.0, 12.0);
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
    let kept = BackgroundFile::of(&state);
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
    let decoded = |brightness: f32, pixels: usize| {
        let content = ([9u32, 9], 2.0f32, brightness, vec![[0u16; 4]; pixels]);
        Background::decode(&codec::encode(FileKind::Background, &content))
    };
    assert!(decoded(90.0, 81).is_ok());
    for (brightness, pixels) in [(90.0, 3), (-1.0, 81), (256.0, 81), (f32::NAN, 81)] {
        assert_eq!(decoded(brightness, pixels), Err(DecodeError::Body), "{brightness}, {pixels}");
    }
    // As it was before it held the brightness.
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
