//! The verbs, one file each.

pub mod classify;
pub mod demo;
pub mod eval;
pub mod info;
pub mod learn;
pub mod list;
