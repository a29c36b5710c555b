//! The measuring of few-shot class-incremental learning: data, sessions, metrics, baselines.

pub mod cifar100;
