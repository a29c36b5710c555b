//! A short dumbbell.

use super::{Bounds, Object, View};
use crate::colour::hex;
use crate::distance::{cylinder, hexagonal_prism};
use crate::random::Random;
use crate::surface::{Surface, nearest};
use crate::vector::{Vec3, vec3};

/// Vinyl colours: pink, purple, blue, teal, orange, lime.
const VINYL: [u32; 6] = [0xd6447f, 0x6b3fa0, 0x2a66c4, 0x18968f, 0xe2641f, 0x8ab52c];

/// A dumbbell that lies on the floor, its bar along x.
#[derive(Debug)]
pub struct Dumbbell {
    heads: Heads,
    /// Height of the bar above the floor, which is the size of the heads.
    size: f32,
    head_half: f32,
    grip_half: f32,
    grip: f32,
    bar: Surface,
    head: Surface,
    cap: Surface,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Heads {
    Hexagonal,
    Vinyl,
    Discs,
}

impl Dumbbell {
    /// A random dumbbell.
    pub fn random(random: &mut Random) -> Self {
        let heads =
            random.deal("heads", &[Heads::Hexagonal, Heads::Vinyl, Heads::Discs, Heads::Vinyl, Heads::Hexagonal]);
        let vinyl = Surface::satin(hex(random.deal("vinyl", &VINYL)));
        let chrome = Surface::metal(hex(0xd6d8dc), random.between(0.15, 0.35));
        let rubber = Surface::satin(hex(0x2b2c30) * random.between(0.8, 1.6));
        let iron = Surface::satin(hex(0x4a4e55) * random.between(0.7, 1.3));
        let (bar, head, cap) = match heads {
            Heads::Hexagonal => (chrome, rubber, rubber.shaded(1.5)),
            Heads::Vinyl => (vinyl, vinyl, vinyl.shaded(0.8)),
            Heads::Discs => (chrome, if random.chance(0.5) { iron } else { chrome }, chrome),
        };
        Self {
            heads,
            size: random.between(0.25, 0.34),
            head_half: random.between(0.14, 0.19),
            grip_half: random.between(0.24, 0.33),
            grip: random.between(0.065, 0.09),
            bar,
            head,
            cap,
        }
    }

    /// The point as seen from the middle of the right head.
    fn at_head(&self, p: Vec3) -> Vec3 {
        vec3(p.x.abs() - self.grip_half - self.head_half, p.y - self.size, p.z)
    }

    fn head_distance(&self, p: Vec3) -> f32 {
        let q = self.at_head(p);
        match self.heads {
            Heads::Hexagonal | Heads::Vinyl => hexagonal_prism(q, self.size, self.head_half, 0.05),
            Heads::Discs => {
                let third = self.head_half * 2.0 / 3.0;
                let disc = |index: f32, radius: f32| {
                    disc_along_x(vec3(q.x - (index - 1.0) * third, q.y, q.z), radius, third / 2.0, 0.02)
                };
                disc(0.0, self.size).min(disc(1.0, self.size * 0.86)).min(disc(2.0, self.size * 0.7))
            }
        }
    }

    fn bar_distance(&self, p: Vec3) -> f32 {
        let q = vec3(p.x, p.y - self.size, p.z);
        let swell = 0.012 * (1.0 - (p.x / self.grip_half).abs().min(1.0));
        disc_along_x(q, self.grip + swell, self.grip_half + 0.05, 0.0)
    }

    fn cap_distance(&self, p: Vec3) -> f32 {
        let q = self.at_head(p);
        disc_along_x(vec3(q.x - self.head_half, q.y, q.z), self.size * 0.42, 0.025, 0.012)
    }
}

fn disc_along_x(p: Vec3, radius: f32, half: f32, rounding: f32) -> f32 {
    cylinder(vec3(p.y, p.x, p.z), radius, -half, half, rounding)
}

impl Object for Dumbbell {
    fn distance(&self, p: Vec3) -> f32 {
        self.head_distance(p).min(self.bar_distance(p)).min(self.cap_distance(p))
    }

    fn surface(&self, p: Vec3) -> Surface {
        // The knurling of a steel grip: a fine grid that darkens it.
        let knurled = self.bar.metal && p.x.abs() < self.grip_half * 0.8;
        let groove = (p.x * 42.0).fract().abs() < 0.3;
        let bar = if knurled && groove { self.bar.shaded(0.6) } else { self.bar };
        nearest([(self.head_distance(p), self.head), (self.bar_distance(p), bar), (self.cap_distance(p), self.cap)])
    }

    fn bounds(&self) -> Bounds {
        let reach = self.grip_half + 2.0 * self.head_half + 0.05;
        let side = self.size * 1.17 + 0.02;
        Bounds { low: vec3(-reach, 0.0, -side), high: vec3(reach, 2.0 * self.size + 0.02, side) }
    }

    fn view(&self) -> View {
        View { azimuth: 90.0, spread: 52.0, mirrored: true, elevation: (14.0, 48.0) }
    }
}
