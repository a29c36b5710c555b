//! What a microcontroller does between power on and power off: it takes an order, opens the bundle in its flash and the
//! state on its flash chip, learns or only answers, and hands back what came of it. Or it runs a session that needs no
//! allocator.
//!
//! The firmware and the host run the same functions, so that their results can be compared:
//!
//! - [`exchange`]: an order, and its outcome;
//! - [`chip`]: flash that loses power where it is told to;
//! - [`board`]: what differs between the two, counting instructions and memory;
//! - [`run`]: the run itself.
#![no_std]

extern crate alloc;

pub mod board;
pub mod chip;
pub mod exchange;
pub mod run;
