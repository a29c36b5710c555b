//! The device side of OrCo: few-shot class-incremental learning by orthogonal pseudo-targets and contrast (CVPR 2024).
//!
//! A frozen backbone turns an image into a feature vector; a small projection head puts that onto the unit sphere;
//! the class whose assigned pseudo-target is nearest is the answer, or, by the preset `edge`, the one whose target and
//! whose exemplars' mean are nearest together. Learning new classes assigns them free pseudo-targets and re-aligns the
//! head from stored exemplars, in seconds.
//!
//! Modules stand in groups along the flow of data; each group imports only from itself and from those above it, but for
//! the store's folder, which takes an opened bundle. The first three groups neither allocate nor start threads: without an
//! allocator they are all there is.
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

// Arithmetic.
pub mod linalg;
pub mod math;
pub mod random;
pub mod schedule;
pub mod workers;

// The method: head, losses, assignment of pseudo-targets.
pub mod assignment;
pub mod config;
pub mod exemplar;
pub mod loss;
pub mod projection;

// Phase 3 on borrowed numbers.
pub mod align;

// What is known and kept.
#[cfg(feature = "alloc")]
pub mod bank;
#[cfg(feature = "alloc")]
pub mod codec;
#[cfg(feature = "alloc")]
pub mod head;
#[cfg(feature = "alloc")]
pub mod label;
#[cfg(feature = "alloc")]
pub mod state;
#[cfg(feature = "alloc")]
pub mod target;

// Predicting and learning.
#[cfg(feature = "alloc")]
pub mod classify;
#[cfg(feature = "alloc")]
pub mod session;

// Keeping: what was done, bytes that survive, and one class for another device.
#[cfg(feature = "alloc")]
pub mod history;
#[cfg(feature = "alloc")]
pub mod pack;
#[cfg(feature = "alloc")]
pub mod store;

// What needs an operating system: pictures, the backbone, files, threads, measuring.
#[cfg(feature = "std")]
pub mod augment;
#[cfg(feature = "std")]
pub mod benchmark;
#[cfg(feature = "std")]
pub mod bundle;
#[cfg(feature = "std")]
pub mod encoder;
#[cfg(feature = "std")]
pub mod files;
#[cfg(feature = "std")]
pub mod image;
#[cfg(feature = "std")]
pub mod manifest;
#[cfg(feature = "std")]
pub mod protocol;
#[cfg(feature = "std")]
pub mod release;
#[cfg(feature = "std")]
pub mod signature;
#[cfg(feature = "std")]
pub mod threads;
