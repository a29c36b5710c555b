//! A bath duck.

use super::{Bounds, Object, View};
use crate::colour::{hex, hsv};
use crate::distance::{ball, ellipsoid, mirrored_z, smooth_union, tapered_capsule};
use crate::random::Random;
use crate::surface::{Surface, nearest};
use crate::vector::{Vec3, turned_xy, vec3};

/// A bath duck; it looks to +x.
#[derive(Debug)]
pub struct RubberDuck {
    /// Half sizes of the body.
    body: Vec3,
    head_centre: Vec3,
    head: f32,
    tail: f32,
    beak_length: f32,
    wing: f32,
    skin: Surface,
    beak: Surface,
    /// True for eyes with a white ring, false for plain black ones.
    ringed_eyes: bool,
}

impl RubberDuck {
    /// A random duck.
    pub fn random(random: &mut Random) -> Self {
        let body = vec3(random.between(0.52, 0.62), random.between(0.34, 0.4), random.between(0.4, 0.46));
        let head = random.between(0.28, 0.34);
        let skin = hsv(random.between(42.0, 57.0), random.between(0.78, 0.95), random.between(0.9, 0.99));
        Self {
            body,
            head_centre: vec3(random.between(0.2, 0.3), 0.28 + body.y + head * random.between(0.62, 0.78), 0.0),
            head,
            tail: random.between(0.16, 0.28),
            beak_length: random.between(0.16, 0.22),
            wing: random.between(0.8, 1.1),
            skin: Surface { roughness: random.between(0.25, 0.5), ..Surface::satin(skin) },
            beak: Surface::satin(hsv(random.between(8.0, 28.0), 0.92, random.between(0.85, 0.97))),
            ringed_eyes: random.chance(0.5),
        }
    }

    fn skin_distance(&self, p: Vec3) -> f32 {
        let body = ellipsoid(p - vec3(0.0, 0.28, 0.0), self.body);
        let root = vec3(-self.body.x * 0.6, 0.4, 0.0);
        let tip = vec3(-self.body.x * 0.98, 0.44 + self.tail, 0.0);
        let tail = tapered_capsule(p, root, tip, 0.2, 0.04);
        let head = ball(p - self.head_centre, self.head);
        let q = turned_xy(mirrored_z(p) - vec3(-0.1, 0.42, self.body.z * 0.9), 0.35);
        let wing = ellipsoid(q, vec3(0.3, 0.17, 0.09) * self.wing);
        let body = smooth_union(smooth_union(body, tail, 0.18), head, 0.14);
        smooth_union(body, wing, 0.04)
    }

    fn beak_distance(&self, p: Vec3) -> f32 {
        let q = p - self.head_centre - vec3(self.head * 0.95, -self.head * 0.16, 0.0);
        let upper = ellipsoid(turned_xy(q, -0.25), vec3(self.beak_length, 0.05, 0.15));
        let lower = ellipsoid(turned_xy(q + vec3(0.02, 0.06, 0.0), 0.15), vec3(self.beak_length * 0.8, 0.04, 0.12));
        smooth_union(upper, lower, 0.02)
    }

    /// Distances to the ring and to the pupil of the nearer eye.
    fn eye_distances(&self, p: Vec3) -> (f32, f32) {
        let gaze = vec3(0.72, 0.36, 0.6).normalize();
        let q = mirrored_z(p) - self.head_centre;
        let size = self.head * 0.25;
        (ball(q - gaze * (self.head * 0.86), size), ball(q - gaze * (self.head * 0.96), size * 0.72))
    }
}

impl Object for RubberDuck {
    fn distance(&self, p: Vec3) -> f32 {
        let (ring, pupil) = self.eye_distances(p);
        let duck = self.skin_distance(p).min(self.beak_distance(p)).min(ring).min(pupil);
        duck.max(-p.y) * 0.9
    }

    fn surface(&self, p: Vec3) -> Surface {
        let (ring, pupil) = self.eye_distances(p);
        let black = Surface::glossy(hex(0x101012));
        let eye = if self.ringed_eyes { Surface::glossy(hex(0xefefec)) } else { black };
        nearest([(self.skin_distance(p), self.skin), (self.beak_distance(p), self.beak), (ring, eye), (pupil, black)])
    }

    fn bounds(&self) -> Bounds {
        let front = (self.head_centre.x + self.head * 0.95 + self.beak_length).max(self.body.x);
        let back = -self.body.x - 0.06;
        let side = self.body.z + 0.06;
        Bounds {
            low: vec3(back - 0.02, 0.0, -side),
            high: vec3(front + 0.02, self.head_centre.y + self.head + 0.03, side),
        }
    }

    fn view(&self) -> View {
        View { azimuth: 62.0, spread: 50.0, mirrored: true, elevation: (8.0, 36.0) }
    }
}
