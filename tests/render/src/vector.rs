//! Three-component vectors: points, directions and linear RGB colours.

use std::ops::{Add, AddAssign, Mul, Neg, Sub};

/// A point, a direction or a linear RGB colour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vec3 {
    /// First component: x or red.
    pub x: f32,
    /// Second component: y (up) or green.
    pub y: f32,
    /// Third component: z or blue.
    pub z: f32,
}

/// Shorthand for the vector (x, y, z).
pub const fn vec3(x: f32, y: f32, z: f32) -> Vec3 {
    Vec3 { x, y, z }
}

impl Vec3 {
    /// The vector with all components equal to `value`.
    pub const fn splat(value: f32) -> Self {
        vec3(value, value, value)
    }

    /// The inner product.
    pub fn dot(self, other: Self) -> f32 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    /// The cross product.
    pub fn cross(self, other: Self) -> Self {
        vec3(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )
    }

    /// The Euclidean length.
    pub fn length(self) -> f32 {
        self.dot(self).sqrt()
    }

    /// The same direction with length one.
    pub fn normalized(self) -> Self {
        self * (1.0 / self.length())
    }

    /// Applies `f` to each component.
    pub fn map(self, f: impl Fn(f32) -> f32) -> Self {
        vec3(f(self.x), f(self.y), f(self.z))
    }

    /// The product component by component.
    pub fn scaled(self, other: Self) -> Self {
        vec3(self.x * other.x, self.y * other.y, self.z * other.z)
    }

    /// The way from `self` (amount 0) to `other` (amount 1).
    pub fn lerp(self, other: Self, amount: f32) -> Self {
        self * (1.0 - amount) + other * amount
    }

    /// The direction `self` mirrored at a surface with unit `normal`.
    pub fn reflected(self, normal: Self) -> Self {
        self - normal * (2.0 * self.dot(normal))
    }

    /// Rotated by `angle` radians in the plane of the first two axes.
    pub fn turned_xy(self, angle: f32) -> Self {
        let (sin, cos) = libm::sincosf(angle);
        vec3(cos * self.x - sin * self.y, sin * self.x + cos * self.y, self.z)
    }

    /// Rotated by `angle` radians about the vertical axis.
    pub fn turned_xz(self, angle: f32) -> Self {
        let (sin, cos) = libm::sincosf(angle);
        vec3(cos * self.x - sin * self.z, self.y, sin * self.x + cos * self.z)
    }
}

impl Add for Vec3 {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        vec3(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}

impl AddAssign for Vec3 {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Vec3 {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        vec3(self.x - other.x, self.y - other.y, self.z - other.z)
    }
}

impl Mul<f32> for Vec3 {
    type Output = Self;
    fn mul(self, factor: f32) -> Self {
        vec3(self.x * factor, self.y * factor, self.z * factor)
    }
}

impl Neg for Vec3 {
    type Output = Self;
    fn neg(self) -> Self {
        self * -1.0
    }
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
