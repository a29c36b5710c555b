//! What stands behind the object.

use crate::colour::{hex, hsv};
use crate::floor::Site;
use crate::noise::{fractal, lattice, value};
use crate::random::Random;
use crate::vector::{Vec3, smoothstep, turned_xz, vec3};

/// An upright plane behind the object, somewhat out of focus.
#[derive(Debug)]
pub struct Backdrop {
    kind: Kind,
    /// Unit vector from the wall to the object's side.
    normal: Vec3,
    /// Distance of the wall from the origin.
    distance: f32,
    first: Vec3,
    second: Vec3,
    pitch: f32,
    salt: u32,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Painted plaster, brighter at one side.
    Plaster,
    /// Wallpaper with stripes.
    Stripes,
    /// Brickwork.
    Bricks,
    /// A room out of focus: soft shapes of several colours.
    Room,
    /// Bushes out of focus under a bright sky.
    Bushes,
}

const PAINT: [u32; 8] = [0xd9d4c8, 0xb7c4c9, 0xc9b79c, 0x8fa6a0, 0xcfb4ae, 0x9a9da3, 0x6f8296, 0xd8c79a];

impl Backdrop {
    /// A random backdrop opposite to a camera that looks along `forward`, `clearance` or more from the origin.
    pub fn random(site: Site, forward: Vec3, clearance: f32, random: &mut Random) -> Self {
        let (kinds, farthest): (&[Kind], f32) = match site {
            Site::Outdoors => (&[Kind::Bushes, Kind::Bricks, Kind::Bushes], 4.5),
            Site::Indoors => (&[Kind::Plaster, Kind::Stripes, Kind::Room, Kind::Plaster], 2.6),
        };
        let kind = random.deal("backdrop", kinds);
        let paint = hex(random.deal("paint", &PAINT));
        let (first, second) = match kind {
            Kind::Plaster => (paint, paint),
            Kind::Stripes => (paint, paint.lerp(hex(0xe8e4da), random.between(0.35, 0.8))),
            Kind::Bricks => (hsv(random.between(8.0, 24.0), random.between(0.3, 0.6), 0.6), hex(0xa8a299)),
            Kind::Room => (paint, hsv(random.between(0.0, 360.0), 0.4, 0.5)),
            Kind::Bushes => (hsv(random.between(80.0, 130.0), 0.5, 0.38), hex(0xc4d6e4)),
        };
        let turn = random.between(-0.4, 0.4);
        Self {
            kind,
            normal: turned_xz(-vec3(forward.x, 0.0, forward.z).normalize(), turn),
            distance: clearance * random.between(1.15, farthest),
            first,
            second,
            pitch: random.between(0.22, 0.5),
            salt: random.salt(),
        }
    }

    /// How far a ray travels until it meets the wall.
    pub fn crossed(&self, origin: Vec3, direction: Vec3) -> Option<f32> {
        let approach = -direction.dot(self.normal);
        let along = (origin.dot(self.normal) + self.distance) / approach;
        (approach > 1e-4 && along > 0.0).then_some(along)
    }

    /// Unit vector from the wall to the object's side.
    pub fn normal(&self) -> Vec3 {
        self.normal
    }

    /// The linear colour at a point of the wall.
    pub fn colour(&self, p: Vec3) -> Vec3 {
        let (u, v) = (p.x * self.normal.z - p.z * self.normal.x, p.y);
        match self.kind {
            Kind::Plaster => {
                let side = 0.85 + 0.3 * smoothstep(-3.0, 3.0, u + v);
                self.first * (side * (0.95 + 0.1 * fractal(u * 2.0, v * 2.0, self.salt)))
            }
            Kind::Stripes => {
                let t = (u / self.pitch).rem_euclid(1.0);
                self.first.lerp(self.second, smoothstep(0.2, 0.3, t) - smoothstep(0.7, 0.8, t))
            }
            Kind::Bricks => self.bricks(u, v),
            Kind::Room => {
                let shape = smoothstep(0.3, 0.7, value(u * 1.3, v * 0.9, self.salt));
                let lamp = smoothstep(0.6, 1.0, value(u * 1.9, v * 1.9, self.salt ^ 1));
                self.first.lerp(self.second, shape) * 0.8 + hex(0xffe2b0) * (lamp * 0.5)
            }
            Kind::Bushes => {
                let leaves = value(u * 2.2, v * 2.2, self.salt) * 0.7 + 0.3 * value(u * 5.0, v * 5.0, self.salt ^ 2);
                let glimmer = smoothstep(0.45, 1.0, value(u * 3.1, v * 3.1, self.salt ^ 1));
                let sky = smoothstep(1.6, 3.2, v + 1.5 * leaves);
                (self.first * (0.4 + 1.1 * leaves)).lerp(self.second, (glimmer * 0.35).max(sky))
            }
        }
    }

    fn bricks(&self, u: f32, v: f32) -> Vec3 {
        let (width, height) = (self.pitch, self.pitch * 0.34);
        let row = (v / height).floor();
        let shifted = u / width + 0.5 * (row * 0.5).fract().abs() * 2.0;
        let (column, across, up) = (shifted.floor(), shifted - shifted.floor(), v / height - row);
        let joint = (across.min(1.0 - across) * width).min(up.min(1.0 - up) * height);
        let tone = 0.7 + 0.5 * lattice(column as i32, row as i32, self.salt);
        self.second.lerp(self.first * tone, smoothstep(0.004, 0.022, joint))
            * (0.8 + 0.4 * fractal(u * 3.0, v * 3.0, self.salt))
    }
}
