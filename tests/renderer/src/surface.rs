//! What a surface is made of.

use crate::vector::Vec3;

/// How a point of a surface answers light.
#[derive(Clone, Copy, Debug)]
pub struct Surface {
    /// Linear RGB share of light that is scattered (or, for a metal, mirrored).
    pub colour: Vec3,
    /// From 0 (mirror) to 1 (chalk).
    pub roughness: f32,
    /// True for bare metal, which mirrors in its own colour and scatters nothing.
    pub metal: bool,
}

impl Surface {
    /// Glazed ceramic, hard shiny plastic, varnish.
    pub const fn glossy(colour: Vec3) -> Self {
        Self { colour, roughness: 0.18, metal: false }
    }

    /// Soft plastic, painted wood, leaves.
    pub const fn satin(colour: Vec3) -> Self {
        Self { colour, roughness: 0.45, metal: false }
    }

    /// Cloth, soil, unglazed clay, plaster.
    pub const fn matt(colour: Vec3) -> Self {
        Self { colour, roughness: 0.95, metal: false }
    }

    /// Bare metal.
    pub const fn metal(colour: Vec3, roughness: f32) -> Self {
        Self { colour, roughness, metal: true }
    }

    /// This material with its colour multiplied by `factor`.
    pub fn shaded(self, factor: f32) -> Self {
        Self { colour: self.colour * factor, ..self }
    }
}

/// The surface of the part that is nearest, given pairs of distance and surface.
pub fn nearest<const N: usize>(parts: [(f32, Surface); N]) -> Surface {
    let mut best = parts[0];
    for part in parts {
        if part.0 < best.0 {
            best = part;
        }
    }
    best.1
}
