//! Renders household objects before floors and backdrops, reproducibly.
//!
//! A picture's way: `random` chooses, `object` shapes the thing as a signed-distance field out of `distance`, `floor`,
//! `backdrop` and `light` set the stage, `camera` frames it, `scene` marches rays, and `photograph` exposes, adds grain
//! and encodes a JPEG. Transcendental functions come from `libm`, so that every machine renders the same bytes.
//!
//! - [`Photograph`]: an object in its setting, as the sample pictures of `examples/shots` are;
//! - [`thing`] and [`place`]: an object with its mask, and a setting without an object, to be put together.

mod backdrop;
mod camera;
mod colour;
mod distance;
mod floor;
mod light;
mod noise;
mod object;
mod photograph;
mod random;
mod scene;
mod surface;
mod vector;

pub use object::Class;
pub use photograph::{Photograph, place, thing};
pub use random::Random;
