//! The learner for C and everything that speaks to C: `liborco`, shared or static, and its header `orco.h`.
//!
//! Thin over [`orco_runtime::learner::Learner`]. Modules stand as in the header, which `cbindgen` writes from them
//! (`tests/header.rs`):
//!
//! - [`status`], the result of a call, the error's text, and why no panic leaves this library;
//! - [`pointer`], what is asked of every pointer;
//! - [`float_modes`], which floating-point modes a call computes with;
//! - [`learner`], opening, settings, closing;
//! - [`shots`], the pictures of classes to be learned;
//! - [`change`], learning, forgetting, undoing;
//! - [`answer`], classifying;
//! - [`classes`], what is known;
//! - [`balance`], how much base classes count against learned ones;
//! - [`history`], the changes that are remembered;
//! - [`pack`], a learned class for another device;
//! - [`backup`], all of that in one file, for a replacement;
//! - [`upgrade`], moving to another bundle.
#![expect(clippy::missing_safety_doc, reason = "the header's opening says what holds for every pointer")]

pub mod answer;
pub mod backup;
pub mod balance;
pub mod change;
pub mod classes;
mod float_modes;
pub mod history;
pub mod learner;
pub mod pack;
mod pointer;
pub mod shots;
pub mod status;
pub mod upgrade;
