//! The verbs, one file each.

pub mod add;
pub mod align;
pub mod backup;
pub mod balance;
pub mod bench;
pub mod classify;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod export;
pub mod forget;
pub mod generate;
pub mod history;
pub mod import;
pub mod info;
pub mod learn;
pub mod list;
pub mod redo;
pub mod rename;
pub mod restore;
pub mod scene;
#[cfg(feature = "serve")]
pub mod serve;
pub mod undo;
pub mod upgrade;
