//! The device side of OrCo: few-shot class-incremental learning by orthogonal pseudo-targets and contrast (CVPR 2024).
//!
//! A frozen backbone turns an image into a feature vector; a small projection head puts that onto the unit sphere;
//! the nearest of the pseudo-targets assigned to classes is the answer. Learning new classes assigns them free
//! pseudo-targets and re-aligns the head from stored exemplars, in seconds.
//!
//! Modules stand along the flow of data; each imports only from those before it.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

// Arithmetic.
pub mod linalg;
pub mod math;
pub mod random;
pub mod schedule;

// Predict.
pub mod head;
pub mod loss;
pub mod target;

// Keep.
pub mod codec;
pub mod exemplar;
pub mod state;

// Learn.
pub mod classify;
pub mod session;

// Pictures, files and measuring: what needs an operating system.
#[cfg(feature = "std")]
pub mod augment;
#[cfg(feature = "std")]
pub mod bundle;
#[cfg(feature = "std")]
pub mod encoder;
#[cfg(feature = "std")]
pub mod image;
#[cfg(feature = "std")]
pub mod manifest;
#[cfg(feature = "std")]
pub mod protocol;
#[cfg(feature = "std")]
pub mod store;
