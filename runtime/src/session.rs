//! Phase 3.
mod config;
pub use config::Config;
