//! A camera that frames its object.

use crate::light::from_angles;
use crate::object::{Bounds, View};
use crate::random::Random;
use crate::vector::{Vec3, vec3};

/// A pinhole camera with a square window in its image plane.
#[derive(Clone, Copy, Debug)]
pub struct Camera {
    /// Where it stands.
    pub position: Vec3,
    /// The direction it looks in.
    pub forward: Vec3,
    right: Vec3,
    up: Vec3,
    /// Middle and half side of the window, in the image plane at distance one.
    window: (f32, f32, f32),
}

/// The smallest and the largest coordinates of a silhouette in the window, each in -1..=1.
type Silhouette = ((f32, f32), (f32, f32));

impl Camera {
    /// A camera somewhere around the object, its window as large as the object's box; also returns its azimuth.
    pub fn random(view: View, bounds: &Bounds, random: &mut Random) -> (Self, f32) {
        let side = if view.mirrored { random.sign() } else { 1.0 };
        let azimuth = (view.azimuth + random.between(-view.spread, view.spread)) * side;
        let elevation = random.between(view.elevation.0, view.elevation.1);
        let distance = bounds.radius() * random.between(3.2, 6.5);
        let from = from_angles(azimuth.to_radians(), elevation.to_radians());
        let forward = -from;
        let flat = forward.cross(vec3(0.0, 1.0, 0.0)).normalize();
        let upright = flat.cross(forward);
        let (sin, cos) = libm::sincosf(random.between(-5.0, 5.0).to_radians());
        let camera = Self {
            position: bounds.centre() + from * distance,
            forward,
            right: flat * cos + upright * sin,
            up: upright * cos - flat * sin,
            window: (0.0, 0.0, bounds.radius() / (distance - bounds.radius())),
        };
        (camera, azimuth)
    }

    /// The direction through the window at (x, y), each from -1 to 1, y upwards.
    pub fn direction(&self, x: f32, y: f32) -> Vec3 {
        let (middle_x, middle_y, half) = self.window;
        let (u, v) = (middle_x + x * half, middle_y + y * half);
        (self.forward + self.right * u + self.up * v).normalize()
    }

    /// The camera with its window moved and scaled so that the silhouette fills most of it, never cut off.
    pub fn framed(self, ((left, right), (low, high)): Silhouette, random: &mut Random) -> Self {
        let (middle_x, middle_y, half) = self.window;
        let tight = (right - left).max(high - low) / 2.0;
        let roomy = tight * random.between(1.08, 1.3);
        let mut index = |from: f32, to: f32| {
            let slack = roomy - (to - from) / 2.0;
            (from + to) / 2.0 + slack.min(0.35 * roomy) * random.between(-0.7, 0.7)
        };
        let (x, y) = (index(left, right), index(low, high));
        Self { window: (middle_x + x * half, middle_y + y * half, roomy * half), ..self }
    }
}
