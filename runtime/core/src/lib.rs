//! The OrCo method on borrowed numbers: few-shot class-incremental learning by orthogonal pseudo-targets and contrast
//! (CVPR 2024).
//!
//! Every function works on slices and working memory that its caller lends: the crate needs neither an operating system
//! nor an allocator, and starts no threads. Modules stand along the flow of data, each importing only from those above:
//!
//! - arithmetic: [`math`], [`random`], [`linalg`] (matrix products), [`workers`] (how work is shared), [`schedule`]
//!   (learning rates);
//! - the method: [`exemplar`] (stored features as they are read), [`projection`] (the head g, section 3.2), [`loss`]
//!   (PSCL, cross entropy, orthogonality; sections 3.1 and 3.3), [`assignment`] (classes to pseudo-targets, section
//!   3.4), [`config`] (its settings and presets);
//! - phase 3 as a whole: [`align`];
//! - beyond the paper: [`discriminant`] (second-order statistics of features), [`border`] (between known and new);
//! - what a device without an allocator keeps: [`bounded`].
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
