//! The arithmetic of OrCo, few-shot class-incremental learning by orthogonal pseudo-targets and contrast (CVPR 2024),
//! on slices that its caller lends.
//!
//! The crate needs neither an operating system nor an allocator, and starts no threads. What a device knows and keeps
//! is `orco-state`'s; a program that has pictures takes `orco-runtime`.
//!
//! A device answers at once in closed form: by the means of stored features, by the [`discriminant`] and by the
//! [`projection`] under the head that a bundle brings, with a [`border`] between base and learned classes. Then it
//! trains that head on stored exemplars, the paper's phase 3 ([`align`]), and the aligned head's projection joins the
//! answer. A bundle's settings say how much each counts, and whether a head is aligned at all ([`config`]).
//!
//! Modules stand in layers; each imports from those above it:
//!
//! - arithmetic: [`math`], [`random`], [`workers`] (how work is shared among threads), [`linalg`] (matrix products),
//!   [`schedule`] (learning rates);
//! - answers: [`exemplar`] (features as they are stored and read), [`projection`] (the head g, section 3.2),
//!   [`assignment`] (classes to pseudo-targets, section 3.4), and beyond the paper [`discriminant`] (second-order
//!   statistics of features) and [`border`];
//! - training: [`loss`] (PSCL, cross entropy, orthogonality; sections 3.1 and 3.3), [`config`] (settings and presets),
//!   [`align`] (phase 3 as a whole).
//!
//! Two new classes and three free pseudo-targets: together they match best if the first class leaves the target that
//! both are nearest to.
//! ```
//! use orco_core::assignment::{AssignmentMemory, hungarian};
//!
//! const MEMORY: AssignmentMemory = AssignmentMemory::of(2, 3);
//! let cosines = [[0.9, 0.8, 0.1], [0.9, 0.2, 0.0]];
//! let (mut numbers, mut indices) = ([0.0; MEMORY.numbers], [0; MEMORY.indices]);
//! let mut targets = [0; 2];
//! hungarian(&mut targets, 3, |class, target| cosines[class][target], &mut numbers, &mut indices);
//! assert_eq!(targets, [1, 0]);
//! ```
#![no_std]

#[cfg(test)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod align;
pub mod assignment;
pub mod border;
pub mod config;
pub mod discriminant;
pub mod exemplar;
pub mod linalg;
pub mod loss;
pub mod math;
pub mod projection;
pub mod random;
pub mod schedule;
pub mod workers;
