//! A session without std and without an allocator. The program `orco-bare` runs it on the host, and the firmware in
//! `tests/microcontroller` on a Cortex-M7.
//!
//! - [`tables`]: what such a device keeps, in tables whose capacities are part of their types;
//! - [`session`]: the session, in memory that the caller lends.
#![no_std]

pub mod session;
pub mod tables;
