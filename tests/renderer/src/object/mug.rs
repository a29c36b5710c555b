//! A coffee mug with a handle.

use super::{Bounds, Object, View};
use crate::colour::hex;
use crate::distance::{cylinder, ring, rounded_rectangle, smooth_difference, smooth_union};
use crate::random::Random;
use crate::surface::Surface;
use crate::vector::{Vec3, length2, vec3};

/// Outer colours: brick red, navy, white, mustard, teal, charcoal, leaf green, rose, sky, cream.
const COLOURS: [u32; 10] =
    [0xb3261e, 0x1f3f8f, 0xe8e6e0, 0xe0a526, 0x1d8a86, 0x33363b, 0x4b8a3a, 0xd9768f, 0x6fb1d6, 0xe3d3b0];

/// A mug; its handle points to +x.
#[derive(Debug)]
pub struct Mug {
    radius: f32,
    height: f32,
    /// How much wider the top is than the bottom, per unit of height.
    taper: f32,
    /// How far the wall bulges in the middle.
    belly: f32,
    wall: f32,
    handle: Handle,
    outside: Surface,
    inside: Surface,
    decoration: Decoration,
    band: Surface,
    /// The height of the drink, if there is one.
    drink: Option<f32>,
}

#[derive(Debug)]
struct Handle {
    radius: f32,
    thickness: f32,
    /// Height over width of the loop.
    stretch: f32,
}

#[derive(Clone, Copy, Debug)]
enum Decoration {
    Plain,
    Bands,
    Dipped,
}

impl Mug {
    /// A random mug.
    pub fn random(random: &mut Random) -> Self {
        let code = random.deal("colour", &COLOURS);
        let light_inside = code == 0xe8e6e0 || random.chance(0.55);
        let outside = Surface::glossy(hex(code) * random.between(0.85, 1.1));
        let white = Surface::glossy(hex(0xe6e2d8));
        let height = random.between(0.82, 1.08);
        Self {
            radius: random.between(0.38, 0.47),
            height,
            taper: random.between(-0.02, 0.16),
            belly: random.between(0.0, 0.07),
            wall: random.between(0.035, 0.055),
            handle: Handle {
                radius: random.between(0.2, 0.25),
                thickness: random.between(0.05, 0.07),
                stretch: random.between(1.1, 1.45),
            },
            outside,
            inside: if light_inside { white } else { outside },
            decoration: random
                .deal("decoration", &[Decoration::Plain, Decoration::Bands, Decoration::Dipped, Decoration::Plain]),
            band: if code == 0xe8e6e0 || code == 0xe3d3b0 { Surface::glossy(hex(0x2b4f86)) } else { white },
            drink: random.chance(0.5).then(|| height * random.between(0.7, 0.85)),
        }
    }

    /// How far the wall is from a straight cylinder at height `y`.
    fn bulge(&self, y: f32) -> f32 {
        let along = (y / self.height).clamp(0.0, 1.0) * 2.0 - 1.0;
        self.taper * along * self.height / 2.0 + self.belly * (1.0 - along * along)
    }

    fn cavity(&self, p: Vec3) -> f32 {
        let (floor, top) = (0.07, self.height + 0.2);
        let r = length2(p.x, p.z) - self.bulge(p.y);
        let half = (top - floor) / 2.0;
        rounded_rectangle(r, p.y - floor - half, (self.radius - self.wall, half), 0.08)
    }

    fn drink_distance(&self, p: Vec3) -> f32 {
        match self.drink {
            Some(level) => cylinder(p, self.radius - self.wall + self.bulge(level) + 0.01, level - 0.05, level, 0.0),
            None => f32::INFINITY,
        }
    }
}

impl Object for Mug {
    fn distance(&self, p: Vec3) -> f32 {
        let r = length2(p.x, p.z) - self.bulge(p.y);
        let half = self.height / 2.0;
        let body = rounded_rectangle(r, p.y - half, (self.radius, half), 0.035);
        let handle = &self.handle;
        let q = vec3(p.x - self.radius - self.bulge(p.y) - 0.03, (p.y - half) / handle.stretch, p.z * 0.8);
        let shell = smooth_union(body, ring(q, handle.radius, handle.thickness), 0.06);
        smooth_difference(shell, self.cavity(p), 0.025).min(self.drink_distance(p)) * 0.9
    }

    fn surface(&self, p: Vec3) -> Surface {
        if self.drink_distance(p) < 0.004 {
            return Surface { roughness: 0.1, ..Surface::glossy(hex(0x3a2012)) };
        }
        if self.cavity(p) < 0.012 && length2(p.x, p.z) < self.radius + self.bulge(p.y) - self.wall * 0.4 {
            return self.inside;
        }
        let (share, on_body) = (p.y / self.height, length2(p.x, p.z) < self.radius + self.bulge(p.y) + 0.02);
        match self.decoration {
            Decoration::Bands if on_body && ((0.22..0.3).contains(&share) || (0.7..0.78).contains(&share)) => self.band,
            Decoration::Dipped if on_body && share < 0.34 => self.band,
            _ => self.outside,
        }
    }

    fn bounds(&self) -> Bounds {
        let side = self.radius + self.belly + self.taper.abs() * self.height / 2.0 + 0.02;
        let reach = side + 0.03 + self.handle.radius + self.handle.thickness;
        Bounds { low: vec3(-side, 0.0, -side), high: vec3(reach.max(side) + 0.02, self.height + 0.02, side) }
    }

    fn view(&self) -> View {
        View { azimuth: 82.0, spread: 44.0, mirrored: true, elevation: (14.0, 44.0) }
    }
}
