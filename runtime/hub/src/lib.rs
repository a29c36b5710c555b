//! A fleet of devices that share what they learn: the hub that they report to, and what a device does.
//!
//! Use it where an engineer would carry files between devices. A device reports what it is and knows, pulls what its
//! channel holds, and pushes packs of classes that it may share; a person releases those to the others. Nothing is sent
//! unless a hub is configured.
//!
//! Modules stand in layers, each importing only from those above:
//!
//! - [`protocol`]: messages, and how each is authenticated;
//! - [`rollout`]: channels and stages; [`merge`]: packs of one label from several devices;
//! - [`error`]: why the hub cannot start, or refuses what its operator asks for;
//! - [`store`]: what the hub keeps: SQLite, and objects named by their digests;
//! - [`overview`]: the fleet at a glance; [`page`]: the same as HTML; [`export`]: shared pictures as folders for the
//!   trainer;
//! - [`server`]: the hub over HTTP;
//! - [`client`]: what a device does.
//!
//! ```no_run
//! use orco_hub::server::{HubOptions, HubServer};
//! use orco_hub::store::HubStore;
//!
//! let options = HubOptions::new(([127, 0, 0, 1], 8090)).token_file(Some("hub/token".into()));
//! HubServer::bind(HubStore::open("hub")?, &options)?.run()?; // until Ctrl-C
//! # Ok::<(), orco_hub::HubError>(())
//! ```

pub mod client;
pub mod error;
pub mod export;
pub mod merge;
pub mod overview;
pub mod page;
pub mod protocol;
pub mod rollout;
pub mod server;
pub mod store;
#[cfg(test)]
mod tests;

pub use error::HubError;
