//! An orange traffic cone with white bands.

use super::{Bounds, Object, View};
use crate::colour::{hex, hsv};
use crate::distance::{frustum, rounded_box, smooth_union};
use crate::noise::fractal;
use crate::random::Random;
use crate::surface::{Surface, nearest};
use crate::vector::{Vec3, length2, vec3};

/// A traffic cone with a square foot.
#[derive(Debug)]
pub struct TrafficCone {
    height: f32,
    low: f32,
    high: f32,
    foot: f32,
    foot_height: f32,
    body: Surface,
    foot_surface: Surface,
    band: Surface,
    bands: Bands,
    /// How much dirt clings to it, 0 to 1.
    dirt: f32,
    salt: u32,
}

/// The share of the height that each white band covers.
type Bands = &'static [(f32, f32)];

const BANDS: [Bands; 4] =
    [&[(0.42, 0.68)], &[(0.3, 0.48), (0.62, 0.78)], &[(0.48, 0.82)], &[(0.26, 0.4), (0.52, 0.64), (0.76, 0.86)]];

impl TrafficCone {
    /// A random cone.
    pub fn random(random: &mut Random) -> Self {
        let orange = hsv(random.between(9.0, 27.0), random.between(0.86, 0.97), random.between(0.88, 0.98));
        let black_foot = random.chance(0.35);
        Self {
            height: random.between(1.0, 1.3),
            low: random.between(0.27, 0.36),
            high: random.between(0.055, 0.085),
            foot: random.between(0.4, 0.48),
            foot_height: random.between(0.06, 0.1),
            body: Surface::satin(orange),
            foot_surface: Surface::satin(if black_foot { hex(0x2a2a2c) } else { orange * 0.9 }),
            band: Surface::satin(hex(0xe9e9e6)),
            bands: random.deal("bands", &BANDS),
            dirt: random.between(0.0, 0.55),
            salt: random.salt(),
        }
    }

    fn body_distance(&self, p: Vec3) -> f32 {
        frustum(p, (0.02, self.low), (self.height, self.high), 0.02)
    }

    fn foot_distance(&self, p: Vec3) -> f32 {
        let half = self.foot_height / 2.0;
        rounded_box(p - vec3(0.0, half, 0.0), vec3(self.foot, half, self.foot), 0.03)
    }
}

impl Object for TrafficCone {
    fn distance(&self, p: Vec3) -> f32 {
        smooth_union(self.body_distance(p), self.foot_distance(p), 0.06)
    }

    fn surface(&self, p: Vec3) -> Surface {
        let share = p.y / self.height;
        let body = if share > 0.985 && length2(p.x, p.z) < self.high * 0.62 {
            Surface::matt(hex(0x1c1512))
        } else if self.bands.iter().any(|&(from, to)| (from..to).contains(&share)) {
            self.band
        } else {
            self.body
        };
        let surface = nearest([(self.body_distance(p), body), (self.foot_distance(p), self.foot_surface)]);
        let stain = fractal(p.x * 7.0 + p.y * 3.0, p.z * 7.0 + p.y * 5.0, self.salt);
        surface.shaded(1.0 - self.dirt * (1.1 - share) * stain * 0.8)
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            low: vec3(-self.foot - 0.02, 0.0, -self.foot - 0.02),
            high: vec3(self.foot + 0.02, self.height + 0.02, self.foot + 0.02),
        }
    }

    fn view(&self) -> View {
        View { azimuth: 90.0, spread: 180.0, mirrored: false, elevation: (10.0, 38.0) }
    }
}
