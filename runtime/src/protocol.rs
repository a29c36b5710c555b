//! The measuring of few-shot class-incremental learning: data, sessions, metrics, baselines (protocol of the field:
//! base classes, then sessions of new classes with five shots each; accuracy on all classes seen so far).

pub mod cifar100;
mod evaluate;
mod images;
mod metrics;

pub use evaluate::{EvaluateError, Measurement, System};
pub use images::{ImagesError, from_cifar100};
pub use metrics::{Draw, Measured, Row, Summary, percent_or_dash, summarise};
