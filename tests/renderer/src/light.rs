//! Where the light comes from.

use crate::colour::hex;
use crate::floor::Site;
use crate::random::Random;
use crate::vector::{Vec3, smoothstep, vec3};

/// One main light, the sky or the room around, and windows that shiny things mirror.
#[derive(Debug)]
pub struct Light {
    /// Unit vector to the main light.
    pub direction: Vec3,
    /// Linear colour and strength of the main light.
    pub key: Vec3,
    /// Linear colour and strength of the light from above all around.
    pub ambient: Vec3,
    /// How sharp shadows are: 4 for a large window, 24 for the sun.
    pub sharpness: f32,
    window: Vec3,
    window_strength: f32,
}

/// Main lights: bulb, warm lamp, late sun, daylight, neutral, overcast.
const KEYS: [u32; 6] = [0xffd0a0, 0xffe0c0, 0xffdcb0, 0xfff4e6, 0xffffff, 0xeaf0ff];
const AMBIENTS: [u32; 4] = [0xd8e4ff, 0xffffff, 0xe9efff, 0xfff0e0];

impl Light {
    /// A random light for a camera at `azimuth` (degrees), seldom right behind the object.
    pub fn random(azimuth: f32, site: Site, random: &mut Random) -> Self {
        let towards = (azimuth + random.sign() * random.between(10.0, 115.0)).to_radians();
        let height = random.between(28.0, 68.0).to_radians();
        let aside = towards + random.sign() * random.between(1.0, 2.4);
        let ambient = hex(random.deal("ambient", &AMBIENTS));
        Self {
            direction: from_angles(towards, height),
            key: hex(random.deal("key", &KEYS)) * random.between(1.6, 3.0),
            ambient: ambient * random.between(0.5, 1.0),
            sharpness: match site {
                Site::Outdoors => random.between(6.0, 26.0),
                Site::Indoors => random.between(3.5, 12.0),
            },
            window: from_angles(aside, random.between(15.0, 45.0).to_radians()),
            window_strength: random.between(3.0, 9.0),
        }
    }

    /// What a mirror of the given roughness sees in `direction`, above the floor.
    pub fn surroundings(&self, direction: Vec3, roughness: f32) -> Vec3 {
        let sky = self.ambient * (0.35 + 0.55 * smoothstep(-0.1, 0.9, direction.y));
        let blur = 0.02 + 0.25 * roughness;
        let lamp = smoothstep(0.96 - blur, 0.96 + blur * 0.5, direction.dot(self.direction));
        let sharp = 1.0 - smoothstep(0.2, 0.7, roughness);
        let pane = self.pane(direction, blur) * self.window_strength * sharp;
        sky + self.key * (lamp * (0.6 + 7.0 * sharp)) + self.ambient * pane
    }

    /// The share of a square window visible in `direction`.
    fn pane(&self, direction: Vec3, blur: f32) -> f32 {
        if direction.dot(self.window) <= 0.0 {
            return 0.0;
        }
        let right = self.window.cross(vec3(0.0, 1.0, 0.0)).normalize();
        let up = right.cross(self.window);
        let inside = |offset: f32| 1.0 - smoothstep(0.3 - blur * 0.4, 0.3 + blur * 0.4, offset.abs());
        inside(direction.dot(right)) * inside(direction.dot(up))
    }
}

/// The unit vector at an azimuth (from +x to +z) and an elevation, both in radians.
pub fn from_angles(azimuth: f32, elevation: f32) -> Vec3 {
    let (sin_a, cos_a) = libm::sincosf(azimuth);
    let (sin_e, cos_e) = libm::sincosf(elevation);
    vec3(cos_a * cos_e, sin_e, sin_a * cos_e)
}
