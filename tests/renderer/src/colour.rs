//! Linear RGB colours from the notations people use, and back to a display's bytes.

use crate::vector::{Vec3, vec3};

/// The linear colour of a web notation such as `0xd2691e`.
pub fn hex(code: u32) -> Vec3 {
    let channel = |shift: u32| decoded(((code >> shift) & 0xff) as f32 / 255.0);
    vec3(channel(16), channel(8), channel(0))
}

/// The linear colour of a hue in degrees, a saturation and a value in 0..=1.
pub fn hsv(hue: f32, saturation: f32, value: f32) -> Vec3 {
    let channel = |offset: f32| {
        let k = (offset + hue / 60.0).rem_euclid(6.0);
        let ramp = k.min(4.0 - k).clamp(0.0, 1.0);
        decoded(value - value * saturation * ramp)
    };
    vec3(channel(5.0), channel(3.0), channel(1.0))
}

/// Perceived brightness of a linear colour (Rec. 709 weights).
pub fn luminance(colour: Vec3) -> f32 {
    colour.dot(vec3(0.2126, 0.7152, 0.0722))
}

/// A linear channel as an sRGB value in 0..=1.
pub fn encoded(linear: f32) -> f32 {
    let linear = linear.clamp(0.0, 1.0);
    if linear <= 0.003_130_8 { 12.92 * linear } else { 1.055 * libm::powf(linear, 1.0 / 2.4) - 0.055 }
}

fn decoded(srgb: f32) -> f32 {
    if srgb <= 0.040_45 { srgb / 12.92 } else { libm::powf((srgb + 0.055) / 1.055, 2.4) }
}
