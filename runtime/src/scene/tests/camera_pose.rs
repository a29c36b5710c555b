//! Cameras that were moved a little, and what must not be taken for that.

use super::*;
use crate::scene::structure::BlockSearch;

impl Painting {
    /// As a camera sees it that was `pushed` by pixels, turned by `degrees` around the frame's middle, and
    /// has come nearer by a factor.
    pub(super) fn moved_by(self, pushed: [f32; 2], degrees: f32, nearer: f32) -> Self {
        let (sine, cosine) = (libm::sinf(degrees.to_radians()) / nearer, libm::cosf(degrees.to_radians()) / nearer);
        let [width, height] = self.size.map(|side| side as f32);
        let place = self.clone();
        self.map(|x, y, _| {
            let (across, down) = (x - width / 2.0, y - height / 2.0);
            let seen_x = width / 2.0 + cosine * across - sine * down + pushed[0];
            let seen_y = height / 2.0 + sine * across + cosine * down + pushed[1];
            place.between(seen_x.clamp(0.0, width - 1.001), seen_y.clamp(0.0, height - 1.001))
        })
    }

    /// The colour between pixels.
    fn between(&self, x: f32, y: f32) -> [f32; 3] {
        let (left, above) = (x as usize, y as usize);
        let (right, below) = (x - left as f32, y - above as f32);
        let first = above * self.size[0] as usize + left;
        let corners = [first, first + 1, first + self.size[0] as usize, first + self.size[0] as usize + 1];
        let shares = [(1.0 - right) * (1.0 - below), right * (1.0 - below), (1.0 - right) * below, right * below];
        core::array::from_fn(|channel| {
            corners.iter().zip(shares).map(|(corner, share)| share * self.pixels[*corner][channel]).sum()
        })
    }

    /// With a thing of two colours that alternate.
    fn with_chequered_box(self, from: [f32; 2], to: [f32; 2]) -> Self {
        self.map(|x, y, pixel| {
            let is_inside = (from[0]..to[0]).contains(&x) && (from[1]..to[1]).contains(&y);
            let is_light = (x / 14.0) as u32 % 2 == (y / 14.0) as u32 % 2;
            if !is_inside {
                pixel
            } else if is_light {
                [220.0, 210.0, 60.0]
            } else {
                [40.0, 50.0, 120.0]
            }
        })
    }
}

/// Push, turn and zoom of a camera.
const MOVES: [([f32; 2], f32, f32); 7] = [
    ([5.0, 0.0], 0.0, 1.0),
    ([3.0, -3.0], 0.0, 1.0),
    ([0.0, 10.0], 0.0, 1.0),
    ([50.0, -9.0], 0.0, 1.0),
    ([0.0, 0.0], 1.5, 1.0),
    ([-4.0, 2.0], -5.0, 1.0),
    ([0.0, 0.0], 0.0, 1.06),
];

fn pose(background: &Background, painting: &Painting, seed: u64) -> CameraPose {
    background.compare(&painting.taken(seed), None).unwrap().fit().pose
}

#[test]
fn a_camera_that_was_pushed_turned_or_zoomed_is_noticed_also_behind_things() {
    let background = background(WIDE);
    for (number, (pushed, degrees, nearer)) in MOVES.into_iter().enumerate() {
        let place = Painting::place(WIDE).moved_by(pushed, degrees, nearer);
        let thing = place.clone().with_ball([470.0, 200.0], 70.0);
        let dark = place.clone().lit([0.55, 0.5, 0.5]);
        for (seed, painting) in (600 + 10 * number as u64..).zip([place, thing, dark]) {
            let fit = background.compare(&painting.taken(seed), None).unwrap().fit();
            assert_eq!(fit.pose, CameraPose::Changed, "{pushed:?}, {degrees} degrees, {nearer}, {seed}");
            assert!(fit.is_moved());
        }
    }
}

#[test]
fn neither_things_nor_light_nor_a_small_shake_are_a_moved_camera() {
    let background = background(WIDE);
    let place = || Painting::place(WIDE);
    let is_lit = |x: f32, y: f32| x + 0.4 * y > 330.0;
    let still = [
        ("a huge ball", place().with_ball([330.0, 190.0], 165.0)),
        (
            "balls",
            place().with_ball([150.0, 100.0], 60.0).with_ball([350.0, 250.0], 70.0).with_ball([520.0, 120.0], 80.0),
        ),
        ("a chequered box", place().with_chequered_box([200.0, 30.0], [560.0, 330.0])),
        (
            "a sharp shadow",
            place().map(|x, y, pixel| if is_lit(x, y) { pixel } else { pixel.map(|value| 0.5 * value) }),
        ),
        ("sun", place().map(|x, _, pixel| pixel.map(|value| value * (1.0 + 0.5 * x / 640.0)))),
        ("a dim lamp", place().lit([0.5, 0.45, 0.4])),
        ("a push by a pixel", place().moved_by([1.0, 0.0], 0.0, 1.0)),
        ("that, behind a ball", place().moved_by([1.0, 0.0], 0.0, 1.0).with_ball([400.0, 200.0], 100.0)),
    ];
    for (seed, (what, painting)) in (700..).zip(still) {
        // Also where a frame without a strong difference would not be asked.
        let frame = background.small(&painting.taken(seed)).unwrap();
        let search = BlockSearch::new(&background, &frame.pixels).unwrap();
        assert_ne!(CameraPose::of(&search), CameraPose::Changed, "{what}");
    }
    let wall = place().map(|_, _, _| [150.0, 160.0, 170.0]).with_ball([330.0, 190.0], 165.0);
    assert_ne!(pose(&background, &wall, 710), CameraPose::Changed, "another place");
}

#[test]
fn a_plain_place_and_one_that_moves_by_itself_tell_nothing_about_the_camera() {
    let table = Painting::place(WIDE).map(|x, y, _| [0.0, 1.0, 2.0].map(|off| 170.0 + off + 0.04 * x + 0.03 * y));
    let plain = Background::learn(&[1, 2, 3].map(|seed| table.taken(seed))).unwrap();
    assert_eq!(pose(&plain, &table.with_ball([300.0, 190.0], 60.0), 720), CameraPose::Plain);

    // A tree in the wind, in all of the frame.
    let tree = |sway: f32, seed: u64| {
        let leaf = move |x: f32, y: f32| 40.0 * libm::sinf(0.5 * (x + sway)) * libm::sinf(0.4 * (y - 0.5 * sway));
        Painting::place(WIDE).map(|x, y, _| [70.0, 110.0, 50.0].map(|value| value + leaf(x, y))).taken(seed)
    };
    let views = [(0.0, 1), (3.0, 2), (-3.0, 3), (1.5, 4), (-1.5, 5)].map(|(sway, seed)| tree(sway, seed));
    let background = Background::learn(&views).unwrap();
    let frame = background.small(&tree(5.0, 6)).unwrap();
    assert_eq!(CameraPose::of(&BlockSearch::new(&background, &frame.pixels).unwrap()), CameraPose::Plain);
}
