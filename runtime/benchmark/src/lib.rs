//! Measures a bundle on its own benchmark by the field's protocol, without any rival: what `orco demo` runs on a
//! device, and what the laboratory (`orco-lab`) and the trainer build on.
//!
//! - [`benchmark`]: features to measure on, as a bundle carries them, and the draws of the shots;
//! - [`cifar100`], [`from_cifar100`]: CIFAR-100's images, and a benchmark computed anew from them;
//! - [`FolderClasses`]: a benchmark whose new classes are folders of pictures;
//! - [`machine`]: what Linux says of the machine that something is measured on;
//! - [`FeatureLearner`], [`SessionWalk`]: how a system goes through the sessions; [`DeviceLearner`] is the device's
//!   own;
//! - [`SessionAccuracy`], [`Summary`]: accuracies of a session, and each [`Metric`] with its deviation over draws;
//!   [`csv`] writes them;
//! - [`AccuracyEstimateErrors`]: how far the accuracies that a device estimates are off;
//! - [`spread`]: mean, deviation and median;
//! - `terminal`, by the feature of that name: what programs that measure show and read on a command line.

mod accuracy_estimate;
pub mod benchmark;
pub mod cifar100;
pub mod csv;
mod device;
mod encode;
mod from_folders;
mod from_images;
pub mod machine;
mod metrics;
pub mod spread;
mod summary;
#[cfg(feature = "terminal")]
pub mod terminal;
mod walk;

pub use accuracy_estimate::{AccuracyEstimateError, AccuracyEstimateErrors};
pub use device::{DeviceLearner, REVISION, answer_rule};
pub use from_folders::{FolderClasses, FolderSessions, FoldersError};
pub use from_images::{ImagesError, from_cifar100};
pub use metrics::{AccuracyCounts, SessionAccuracy, harmonic_mean, percent_or_dash};
pub use summary::{Draw, Metric, Summary, summarise};
pub use walk::{EvaluateError, FeatureLearner, LearningCost, SessionScores, SessionWalk};
