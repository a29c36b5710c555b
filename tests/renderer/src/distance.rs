//! Signed distances to simple shapes, and ways to combine them.
//!
//! Negative inside, positive outside. The formulas are those of Inigo Quilez
//! (<https://iquilezles.org/articles/distfunctions/>).

use crate::vector::{Vec3, length2, vec3};

/// A ball about the origin.
pub fn ball(p: Vec3, radius: f32) -> f32 {
    p.length() - radius
}

/// An ellipsoid about the origin (a bound, exact at the surface).
pub fn ellipsoid(p: Vec3, radii: Vec3) -> f32 {
    let inverse = radii.map(|r| 1.0 / r);
    let outer = p * inverse;
    let inner = outer * inverse;
    let k = outer.length();
    if k < 1e-6 { -radii.x.min(radii.y).min(radii.z) } else { k * (k - 1.0) / inner.length() }
}

/// A box about the origin with half sizes `half`, its edges rounded by `rounding`.
pub fn rounded_box(p: Vec3, half: Vec3, rounding: f32) -> f32 {
    let q = p.map(f32::abs) - half + Vec3::splat(rounding);
    q.map(|c| c.max(0.0)).length() + q.x.max(q.y).max(q.z).min(0.0) - rounding
}

/// A rectangle in the plane with half sizes `half`, its corners rounded by `rounding`.
pub fn rounded_rectangle(x: f32, y: f32, half: (f32, f32), rounding: f32) -> f32 {
    let (qx, qy) = (x.abs() - half.0 + rounding, y.abs() - half.1 + rounding);
    length2(qx.max(0.0), qy.max(0.0)) + qx.max(qy).min(0.0) - rounding
}

/// A cylinder along y from `bottom` to `top`, its edges rounded by `rounding`.
pub fn cylinder(p: Vec3, radius: f32, bottom: f32, top: f32, rounding: f32) -> f32 {
    let half = (top - bottom) / 2.0;
    rounded_rectangle(length2(p.x, p.z), p.y - bottom - half, (radius, half), rounding)
}

/// A cone along y without its tip: radius `low` at `bottom`, `high` at `top`, rounded by `rounding`.
pub fn frustum(p: Vec3, (bottom, low): (f32, f32), (top, high): (f32, f32), rounding: f32) -> f32 {
    let half = (top - bottom) / 2.0 - rounding;
    let (low, high) = (low - rounding, high - rounding);
    let (r, y) = (length2(p.x, p.z), p.y - (bottom + top) / 2.0);
    let rim = if y < 0.0 { low } else { high };
    let cap = (r - r.min(rim), y.abs() - half);
    let edge = (high - low, 2.0 * half);
    let along = ((high - r) * edge.0 + (half - y) * edge.1) / (edge.0 * edge.0 + edge.1 * edge.1);
    let along = along.clamp(0.0, 1.0);
    let side = (r - high + edge.0 * along, y - half + edge.1 * along);
    let sign = if side.0 < 0.0 && cap.1 < 0.0 { -1.0 } else { 1.0 };
    sign * length2(cap.0, cap.1).min(length2(side.0, side.1)) - rounding
}

/// All points within `radius` of the segment from `a` to `b`.
pub fn capsule(p: Vec3, a: Vec3, b: Vec3, radius: f32) -> f32 {
    tapered_capsule(p, a, b, radius, radius)
}

/// A capsule whose radius goes from `ra` at `a` to `rb` at `b` (a bound).
pub fn tapered_capsule(p: Vec3, a: Vec3, b: Vec3, ra: f32, rb: f32) -> f32 {
    let (pa, ba) = (p - a, b - a);
    let along = (pa.dot(ba) / ba.dot(ba)).clamp(0.0, 1.0);
    (pa - ba * along).length() - (ra + (rb - ra) * along)
}

/// A prism along x with a hexagon of the given apothem, flat side down, its edges rounded by `rounding`.
pub fn hexagonal_prism(p: Vec3, apothem: f32, half_width: f32, rounding: f32) -> f32 {
    const SIDE: (f32, f32) = (0.866_025_4, 0.5);
    let (z, y) = (p.z.abs(), p.y.abs());
    let hexagon = y.max(z * SIDE.0 + y * SIDE.1) - apothem + rounding;
    let width = p.x.abs() - half_width + rounding;
    length2(hexagon.max(0.0), width.max(0.0)) + hexagon.max(width).min(0.0) - rounding
}

/// A ring about the z axis.
pub fn ring(p: Vec3, radius: f32, thickness: f32) -> f32 {
    length2(length2(p.x, p.y) - radius, p.z) - thickness
}

/// The union of two shapes with a fillet of size `k`.
pub fn smooth_union(a: f32, b: f32, k: f32) -> f32 {
    let h = (k - (a - b).abs()).max(0.0) / k;
    a.min(b) - h * h * k / 4.0
}

/// Shape `a` without shape `b`, the edge rounded by `k`.
pub fn smooth_difference(a: f32, b: f32, k: f32) -> f32 {
    -smooth_union(-a, b, k)
}

/// The mirror image of `p` in the half space of positive z.
pub fn mirrored_z(p: Vec3) -> Vec3 {
    vec3(p.x, p.y, p.z.abs())
}
