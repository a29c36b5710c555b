//! Points, directions and linear RGB colours are vectors of `glam`; here is what it computes by other functions than
//! `libm`'s, or not at all.

pub use glam::{Vec3, vec3};

/// Rotated by `angle` radians in the plane of the first two axes.
pub fn turned_xy(p: Vec3, angle: f32) -> Vec3 {
    let (sin, cos) = libm::sincosf(angle);
    vec3(cos * p.x - sin * p.y, sin * p.x + cos * p.y, p.z)
}

/// Rotated by `angle` radians about the vertical axis.
pub fn turned_xz(p: Vec3, angle: f32) -> Vec3 {
    let (sin, cos) = libm::sincosf(angle);
    vec3(cos * p.x - sin * p.z, p.y, sin * p.x + cos * p.z)
}

/// The length of (x, y).
pub fn length2(x: f32, y: f32) -> f32 {
    (x * x + y * y).sqrt()
}

/// Zero below `low`, one above `high`, smooth between.
pub fn smoothstep(low: f32, high: f32, x: f32) -> f32 {
    let t = ((x - low) / (high - low)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}
