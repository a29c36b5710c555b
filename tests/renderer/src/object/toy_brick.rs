//! A plastic brick with studs, or two of them stacked.

use super::{Bounds, Object, View};
use crate::colour::hex;
use crate::distance::{cylinder, rounded_box};
use crate::random::Random;
use crate::surface::Surface;
use crate::vector::{Vec3, vec3};

/// Colours: red, blue, yellow, green, white, orange, azure, violet.
const COLOURS: [u32; 8] = [0xc4171c, 0x1450b4, 0xf2c316, 0x1e8a3c, 0xe6e6e2, 0xea7a1a, 0x4a9fd8, 0x7a4aa8];
/// Distance between two studs.
const PITCH: f32 = 0.3;
const STUD: f32 = 0.095;
const STUD_HEIGHT: f32 = 0.07;
const HEIGHT: f32 = 0.36;

/// One brick, or two on top of each other.
#[derive(Debug)]
pub struct ToyBrick {
    lower: Brick,
    upper: Option<Brick>,
}

#[derive(Debug)]
struct Brick {
    /// Number of studs along x and z.
    studs: (f32, f32),
    /// The middle of the brick's underside.
    foot: Vec3,
    surface: Surface,
}

impl ToyBrick {
    /// A random brick or pair of bricks.
    pub fn random(random: &mut Random) -> Self {
        let long = random.deal("length", &[4.0, 3.0, 4.0, 2.0]);
        let surface = |code| Surface { roughness: 0.25, ..Surface::glossy(hex(code)) };
        let lower =
            Brick { studs: (long, 2.0), foot: Vec3::default(), surface: surface(random.deal("colour", &COLOURS)) };
        let upper = random.deal("stacked", &[true, false, false]).then(|| Brick {
            studs: (2.0, 2.0),
            foot: vec3((long - 2.0) * PITCH / 2.0 * random.sign(), HEIGHT, 0.0),
            surface: surface(random.deal("upper colour", &COLOURS)),
        });
        Self { lower, upper }
    }

    fn nearer(&self, p: Vec3) -> (f32, Surface) {
        let lower = (self.lower.distance(p), self.lower.surface);
        match &self.upper {
            Some(upper) if upper.distance(p) < lower.0 => (upper.distance(p), upper.surface),
            _ => lower,
        }
    }
}

impl Brick {
    fn distance(&self, p: Vec3) -> f32 {
        let q = p - self.foot;
        let half = vec3(self.studs.0 * PITCH / 2.0 - 0.004, HEIGHT / 2.0, self.studs.1 * PITCH / 2.0 - 0.004);
        let block = rounded_box(q - vec3(0.0, HEIGHT / 2.0, 0.0), half, 0.02);
        let stud = vec3(to_stud(q.x, self.studs.0), q.y, to_stud(q.z, self.studs.1));
        block.min(cylinder(stud, STUD, HEIGHT - 0.03, HEIGHT + STUD_HEIGHT, 0.015))
    }
}

/// The coordinate `x` relative to the nearest of `count` studs about zero.
fn to_stud(x: f32, count: f32) -> f32 {
    let first = -(count - 1.0) / 2.0;
    let index = (x / PITCH - first).round().clamp(0.0, count - 1.0);
    x - (first + index) * PITCH
}

impl Object for ToyBrick {
    fn distance(&self, p: Vec3) -> f32 {
        self.nearer(p).0
    }

    fn surface(&self, p: Vec3) -> Surface {
        self.nearer(p).1
    }

    fn bounds(&self) -> Bounds {
        let (x, z) = (self.lower.studs.0 * PITCH / 2.0 + 0.01, self.lower.studs.1 * PITCH / 2.0 + 0.01);
        let floors = if self.upper.is_some() { 2.0 } else { 1.0 };
        Bounds { low: vec3(-x, 0.0, -z), high: vec3(x, floors * HEIGHT + STUD_HEIGHT + 0.01, z) }
    }

    fn view(&self) -> View {
        View { azimuth: 90.0, spread: 70.0, mirrored: true, elevation: (22.0, 50.0) }
    }
}
