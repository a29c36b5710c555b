//! The device side of OrCo: few-shot class-incremental learning by orthogonal pseudo-targets and contrast (CVPR 2024).
//!
//! A frozen backbone turns an image into a feature vector; a small projection head puts that onto the unit sphere;
//! the class whose assigned pseudo-target is nearest is the answer, or, by the preset `edge`, the one whose target and
//! whose exemplars' mean are nearest together. Learning new classes assigns them free pseudo-targets and re-aligns the
//! head from stored exemplars, in seconds.
//!
//! This crate is what needs an operating system. The method lies in [`orco_core`], what is known and kept in
//! [`orco_state`]. Modules stand along the flow of data, each importing only from those above:
//!
//! - [`files`] (read and replaced without trust), [`signature`] and [`release`] (whose bundle it is, and not an older
//!   one), [`threads`];
//! - pictures and features: [`image`], [`quality`] (fit to be learned from?), [`augment`] (views), [`encoder`] (the
//!   backbone's engines);
//! - [`manifest`] and [`bundle`]: what the workstation hands over;
//! - [`store`]: the folder that keeps what was learned; [`thumbnails`]: small pictures of shots beside it;
//! - [`learner`]: all of it together, which is what most users need;
//! - [`backup`]: all that a device knows, for its replacement.
//!
//! A program that has pictures in memory, from a camera say, takes their type from here ([`image_rs`], and [`ndarray`]
//! for features), so that it needs neither crate, nor the same version of it, itself:
//! ```
//! use orco_runtime::image_rs::RgbImage;
//! use orco_runtime::learner::{Learner, Shots};
//!
//! # let camera = |shade: u8| vec![[shade, 90, 200]; 48 * 32].concat();
//! // Frames of 48 x 32 pixels, three bytes each.
//! let frames: Vec<RgbImage> = (0..5).filter_map(|n| RgbImage::from_raw(48, 32, camera(10 * n))).collect();
//! let state = tempfile::tempdir()?;
//! let mut learner = Learner::open("../models/cifar100-edge", state.path())?;
//! learner.learn(&[("wall", Shots::Pictures(&frames))], &mut ())?;
//! assert_eq!(learner.classify(&frames[0])?.label, "wall");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// The crate whose [`RgbImage`](image_rs::RgbImage) pictures are, in the version that this crate's functions take.
pub use ::image as image_rs;
/// The crate whose arrays features are, in the version that this crate's functions take.
pub use ndarray;
// What users of this crate need of the two below it.
pub use orco_core::{align, border, config};
pub use orco_state::{
    bank, classify, codec, enough, grouping, head, history, label, likeness, listing, nearest, pack, session, state,
    statistics, unknown,
};

pub mod augment;
pub mod backup;
pub mod bundle;
pub mod encoder;
pub mod files;
pub mod image;
pub mod learner;
pub mod manifest;
pub mod quality;
pub mod release;
pub mod signature;
pub mod store;
pub mod threads;
pub mod thumbnails;
