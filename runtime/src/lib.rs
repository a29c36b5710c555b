//! Teaches a device new classes of images from a few shots each, without forgetting the old ones: few-shot
//! class-incremental learning by OrCo (CVPR 2024).
//!
//! A workstation hands over a *bundle*: a frozen backbone, a small projection head, and the base classes. On the
//! device, the backbone turns a picture into a feature vector, and the head puts that onto the unit sphere, where each
//! class has a target. Learning a class gives it a free target and is kept at once, in closed form; then the head alone
//! is aligned, from stored exemplars of all classes, in seconds, where the bundle's settings ask for it. All shipped
//! bundles answer with probabilities: statistics of the base classes, the exemplars' means and projections under the
//! bundle's head and the aligned one are weighed together, and a picture that is like nothing known is called unknown.
//!
//! # Where to start
//!
//! [`Learner`] does all of it; its page has an example for each thing to do. [`prelude`] has what most programs need.
//! Pictures in memory, from a camera for one, are of the type [`image_rs::RgbImage`], and features are arrays of
//! [`ndarray`]; both crates come from here, in the version that this crate uses.
//! ```
//! use orco_runtime::image_rs::RgbImage;
//! use orco_runtime::prelude::*;
//!
//! # let camera = |shade: u8| vec![[shade, 90, 200]; 48 * 32].concat();
//! // Frames of 48 x 32 pixels, three bytes each.
//! let frames: Vec<RgbImage> = (0..5).filter_map(|n| RgbImage::from_raw(48, 32, camera(10 * n))).collect();
//! let state = tempfile::tempdir()?;
//! let mut learner = Learner::open("../models/cifar100-edge", state.path())?;
//! learner.learn("wall", Shots::Pictures(&frames))?.durable()?;
//! assert_eq!(learner.classify(&frames[0])?.label, "wall");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! Most programs need none of them. They stand along the flow of data, each importing only from those above:
//!
//! - the two crates below this one, which need no operating system: the method as [`method`], what is known and kept as
//!   [`state`];
//! - [`memory`] and [`threads`] (what this process may have), [`clock`], [`files`] (read and replaced without trust),
//!   [`signature`] and [`release`] (whose bundle it is, and not an older one), `setters` of settings;
//! - pictures and features: [`image`], [`quality`] (is a picture fit to be a shot?), [`scene`] (things before a camera
//!   that stands still), [`augment`] (views), [`encoder`] (the backbone's engines);
//! - [`manifest`] and [`bundle`]: what the workstation hands over;
//! - [`store`]: the folder that keeps what was learned; [`thumbnails`]: small pictures of shots beside it; [`pack`]:
//!   one learned class in a file, for another device;
//! - [`learner`]: all of it together;
//! - [`backup`]: all that a device knows in one file, for its replacement;
//! - [`prelude`]: what most programs use.
//!
//! # Engine, encoder, backbone
//!
//! The *backbone* is the network itself, a file in the bundle of which the manifest tells shape and cost
//! ([`BackboneFacts`](manifest::BackboneFacts)). An [`Engine`](encoder::engine_choice::Engine) is a program that
//! computes networks: rten or ONNX Runtime. An [`EngineChoice`](encoder::engine_choice::EngineChoice) is the engine
//! that a user asks for, or leaves open. A [`ChosenEngine`](encoder::engine_choice::ChosenEngine) is the engine that
//! the work ahead got, with the reason. An [`Encoder`](encoder::Encoder) is a backbone opened on an engine, which
//! computes features; an [`OpenedEncoder`](encoder::engine_choice::OpenedEncoder) has it with the reason for its
//! engine, and [`EngineInUse`](learner::EngineInUse) tells name and reason of the one that a learner's answers come
//! from.
//!
//! # Features
//!
//! - `rten` (default): an ONNX engine in Rust, which works everywhere and computes shots.
//! - `onnx` (default): ONNX Runtime, whose shared library is found at run time, for frames where it is faster. It is used
//!   where [`pictures_ahead`](field@learner::LearnerSettings::pictures_ahead) says that 12 pictures or more will be
//!   classified (1 by default), and where its telemetry is off: call `encoder::telemetry::turn_off()` first in `main`, before
//!   there are other threads, or set `ORT_DISABLE_TELEMETRY=1`.
//! - `sign`: signing bundles, packs and backups. Checking signatures needs no feature.

/// The crate `image`, whose [`RgbImage`](image_rs::RgbImage) pictures are, in the version that this crate's functions
/// take. It has another name here because [`crate::image`] is this crate's own module, which reads pictures from
/// files and cameras within bounds of memory.
pub use ::image as image_rs;
/// The crate whose arrays features are, in the version that this crate's functions take.
pub use ndarray;
/// The method itself, on borrowed numbers: settings, losses, alignment, the border.
#[doc(no_inline)]
pub use orco_core as method;
/// What is known and kept: base model, state, history, sessions, labels.
#[doc(no_inline)]
pub use orco_state as state;

pub use crate::learner::Learner;

pub mod augment;
pub mod backup;
pub mod bundle;
pub mod clock;
pub mod encoder;
pub mod files;
pub mod image;
pub mod learner;
pub mod manifest;
pub mod memory;
pub mod pack;
pub mod prelude;
pub mod quality;
pub mod release;
pub mod scene;
mod setters;
pub mod signature;
pub mod store;
pub mod threads;
pub mod thumbnails;
