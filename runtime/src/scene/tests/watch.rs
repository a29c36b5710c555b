//! Light that is followed, and cameras that are moved.

use std::time::Duration;

use super::*;

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

#[test]
fn a_white_table_that_is_clipped_for_minutes_does_not_become_the_place() {
    let table = Painting::place(WIDE).map(|x, y, pixel| {
        let grain = 10.0 * libm::sinf(0.4 * x) * libm::sinf(0.3 * y);
        pixel.map(|_| 215.0 + grain)
    });
    let still = Background::learn(&[1, 2, 3].map(|seed| table.taken(seed))).unwrap();
    let mut watch = SceneWatch::new(still.clone());
    let bright = table.clone().lit([1.4; 3]);
    for second in (0..600).step_by(6) {
        let seen = watch.see(&bright.taken(1000 + second), &[], Duration::from_secs(second)).unwrap();
        assert!(matches!(seen, FrameContent::Empty), "after {second} s: {seen:?}");
    }
    assert_eq!(**watch.background(), still);
    let seen = watch.see(&table.taken(2000), &[], Duration::from_secs(601)).unwrap();
    assert!(matches!(seen, FrameContent::Empty), "{seen:?}");
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
fn a_camera_that_was_moved_a_little_is_noticed_and_is_back_only_where_the_place_is_seen() {
    let place = Painting::place(WIDE);
    let still = background(WIDE);
    for (pushed, degrees) in [([6.0, 3.0], 0.0), ([0.0, 0.0], 2.0)] {
        let moved = place.clone().moved_by(pushed, degrees, 1.0);
        let hidden = moved.clone().map(|x, _, pixel| if x > 120.0 { [150.0, 160.0, 170.0] } else { pixel });
        let mut watch = SceneWatch::new(still.clone());
        let mut see = |painting: &Painting, seconds: u64| {
            watch.see(&painting.taken(seconds), &[], Duration::from_secs(seconds)).unwrap()
        };
        // Something pushes it for a moment.
        (0..3).for_each(|second| assert!(!matches!(see(&moved, second), FrameContent::Moved), "{second}"));
        assert!(matches!(see(&place, 3), FrameContent::Empty));
        (4..8).for_each(|second| assert!(!matches!(see(&moved, second), FrameContent::Moved), "{second}"));
        (8..14).for_each(|second| assert!(matches!(see(&moved, second), FrameContent::Moved), "{second}"));
        (14..20).for_each(|second| assert!(matches!(see(&hidden, second), FrameContent::Moved), "{second}"));
        (20..24).for_each(|second| assert!(matches!(see(&place, second), FrameContent::Moved), "{second}"));
        (24..26).for_each(|second| assert!(matches!(see(&place, second), FrameContent::Empty), "{second}"));
        assert!(watch.background().looks_like(&still), "a place that was seen shifted was followed");
    }
}
