//! What a run learns from: data sets, their split into base classes and sessions, random views, digests, downloads.

pub mod augment;
pub mod dataset;
pub mod digest;
pub mod download;
