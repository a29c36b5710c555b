//! One synthetic image: background, clutter, the object, noise.

use orco_core::math;
use orco_core::random::Random;

/// Whether a point of the object's own square, -1..1, belongs to the shape.
type Inside = fn(f32, f32) -> bool;
/// Whether a point has the second colour, given the frequency of the pattern.
type Pattern = fn(f32, f32, f32) -> bool;

/// Shapes by name.
pub(super) const SHAPES: [(&str, Inside); 10] = [
    ("disc", |x, y| x * x + y * y < 0.72),
    ("ring", |x, y| (0.3..0.9).contains(&(x * x + y * y))),
    ("square", |x, y| x.abs().max(y.abs()) < 0.75),
    ("triangle", |x, y| y < 0.7 && y > 2.0 * x.abs() - 0.9),
    ("cross", |x, y| x.abs().min(y.abs()) < 0.28 && x.abs().max(y.abs()) < 0.95),
    ("star", |x, y| x.abs() * x.abs().max(y.abs()) * y.abs() < 0.05 && x * x + y * y < 0.9),
    ("hexagon", |x, y| x.abs().max(0.5 * x.abs() + 0.866 * y.abs()) < 0.85),
    ("crescent", |x, y| x * x + y * y < 0.9 && (x - 0.45) * (x - 0.45) + y * y > 0.45),
    ("corner", |x, y| x.abs().max(y.abs()) < 0.85 && (x < -0.25 || y > 0.25)),
    ("pair", |x, y| x.abs() < 0.85 && (0.25..0.85).contains(&y.abs())),
];

/// Textures by name.
pub(super) const TEXTURES: [(&str, Pattern); 5] = [
    ("plain", |_, _, _| false),
    ("striped", |_, y, f| wave(y * f) < 0.5),
    ("checked", |x, y, f| (wave(x * f) < 0.5) != (wave(y * f) < 0.5)),
    ("dotted", |x, y, f| {
        let (x, y) = (wave(x * f) - 0.5, wave(y * f) - 0.5);
        x * x + y * y < 0.09
    }),
    ("banded", |x, y, f| wave(1.2 * f * math::sqrt(x * x + y * y)) < 0.5),
];

/// Position within a period, 0..1.
fn wave(x: f32) -> f32 {
    x - x.floor()
}

/// What the images of a class have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectLook {
    pub shape: (&'static str, Inside),
    pub texture: (&'static str, Pattern),
    /// Of the two colours, 0..1.
    pub hues: [f32; 2],
    /// Periods of the texture in half the object.
    pub frequency: f32,
}

/// Where and how an object lies: image coordinates in -1..1 to its own.
struct Pose {
    centre: [f32; 2],
    /// Row-major 2x2.
    turn: [f32; 4],
}

impl Pose {
    fn draw(random: &mut Random, reach: f32, size: [f32; 2], turn: f32) -> Self {
        let centre = [random.uniform(-reach, reach), random.uniform(-reach, reach)];
        let (scale, proportion) = (random.uniform(size[0], size[1]), random.uniform(0.85, 1.18));
        let angle = random.uniform(-turn, turn);
        // A parabola is near enough to the sine and the same on every machine.
        let sine = angle * (1.0 - angle * angle / 6.0);
        let cosine = math::sqrt((1.0 - sine * sine).max(0.0));
        let (across, along) = (1.0 / (scale * proportion), proportion / scale);
        Self { centre, turn: [cosine * across, sine * across, -sine * along, cosine * along] }
    }

    fn own(&self, x: f32, y: f32) -> (f32, f32) {
        let (x, y) = (x - self.centre[0], y - self.centre[1]);
        (self.turn[0] * x + self.turn[1] * y, self.turn[2] * x + self.turn[3] * y)
    }
}

/// Red, green and blue in 0..1 of a hue, a saturation and a value in 0..1.
fn colour(hue: f32, saturation: f32, value: f32) -> [f32; 3] {
    [0.0, 2.0 / 3.0, 1.0 / 3.0].map(|shift| {
        let distance = (wave(hue + shift) * 6.0 - 3.0).abs() - 1.0;
        value * (1.0 - saturation * (1.0 - distance.clamp(0.0, 1.0)))
    })
}

/// Renders one image into planes of red, green and blue bytes, `[3, side, side]`.
pub(super) fn render(look: &ObjectLook, side: usize, random: &mut Random, planes: &mut [u8]) {
    let mut any = |value: [f32; 2]| {
        let (hue, saturation) = (random.unit(), random.uniform(0.1, 0.6));
        colour(hue, saturation, random.uniform(value[0], value[1]))
    };
    let (near, far) = (any([0.15, 0.75]), any([0.15, 0.75]));
    let clutter: [[f32; 3]; 3] = [any([0.2, 0.9]), any([0.2, 0.9]), any([0.2, 0.9])];
    let slope = [random.uniform(-0.5, 0.5), random.uniform(-0.5, 0.5)];
    let clutter = clutter.map(|colour| {
        let shape = SHAPES[random.below(SHAPES.len())].1;
        (Pose::draw(random, 0.95, [0.1, 0.22], 0.8), shape, colour)
    });
    let pose = Pose::draw(random, 0.25, [0.5, 0.8], 0.5);
    let light = random.uniform(0.75, 1.0);
    let colours = look.hues.map(|hue| {
        let hue = hue + random.uniform(-0.025, 0.025);
        colour(hue, random.uniform(0.7, 0.95), light)
    });
    let shade = [random.uniform(-0.15, 0.15), random.uniform(-0.15, 0.15)];
    let at = |x: f32, y: f32| -> [f32; 3] {
        let (u, v) = pose.own(x, y);
        if look.shape.1(u, v) {
            let light = 1.0 + shade[0] * u + shade[1] * v;
            return colours[usize::from(look.texture.1(u, v, look.frequency))].map(|value| value * light);
        }
        for (pose, shape, colour) in &clutter {
            let (u, v) = pose.own(x, y);
            if shape(u, v) {
                return *colour;
            }
        }
        let share = (0.5 + slope[0] * x + slope[1] * y).clamp(0.0, 1.0);
        [0, 1, 2].map(|channel| near[channel] * share + far[channel] * (1.0 - share))
    };
    let noise = random.uniform(0.01, 0.05);
    for row in 0..side {
        for column in 0..side {
            let mut sum = [0.0f32; 3];
            for (dx, dy) in [(0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)] {
                let coordinate = |pixel: usize, offset: f32| 2.0 * (pixel as f32 + offset) / side as f32 - 1.0;
                let sample = at(coordinate(column, dx), coordinate(row, dy));
                sum.iter_mut().zip(sample).for_each(|(sum, value)| *sum += value / 4.0);
            }
            for (channel, value) in sum.into_iter().enumerate() {
                let value = value + random.uniform(-noise, noise);
                planes[(channel * side + row) * side + column] = (value.clamp(0.0, 1.0) * 255.0) as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_differ_and_fit_their_square() {
        let grid: Vec<(f32, f32)> =
            (-20..=20).flat_map(|x| (-20..=20).map(move |y| (x as f32 / 20.0, y as f32 / 20.0))).collect();
        for (index, (name, inside)) in SHAPES.iter().enumerate() {
            let area = grid.iter().filter(|(x, y)| inside(*x, *y)).count() as f32 / grid.len() as f32;
            assert!((0.2..0.8).contains(&area), "{name} covers {area}");
            for (other, also_inside) in &SHAPES[..index] {
                let differing = grid.iter().filter(|(x, y)| inside(*x, *y) != also_inside(*x, *y)).count();
                assert!(differing > grid.len() / 20, "{name} looks like {other}: {differing}");
            }
        }
    }

    #[test]
    fn colours_follow_the_wheel() {
        assert_eq!(colour(0.0, 1.0, 1.0), [1.0, 0.0, 0.0]);
        let green = colour(1.0 / 3.0, 1.0, 1.0);
        assert!(green[1] > 0.99 && green[0] < 0.01 && green[2] < 0.01, "{green:?}");
        assert_eq!(colour(0.7, 0.0, 0.5), [0.5; 3]);
    }
}
