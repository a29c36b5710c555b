//! The device side of OrCo: few-shot class-incremental learning by orthogonal pseudo-targets and contrast (CVPR 2024).
//!
//! A frozen backbone turns an image into a feature vector; a small projection head puts that onto the unit sphere;
//! the nearest of the pseudo-targets assigned to classes is the answer. Learning new classes assigns them free
//! pseudo-targets and re-aligns the head from stored exemplars, in seconds.
//!
//! Modules stand along the flow of data; each imports only from those before it.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod math;
pub mod random;
pub mod linalg;
pub mod schedule;
pub mod head;
pub mod loss;
pub mod target;
pub mod session;
#[cfg(feature = "std")]
pub mod protocol;
