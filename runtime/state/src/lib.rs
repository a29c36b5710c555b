//! What an OrCo learner knows and keeps. Needs an allocator, but no operating system.
//!
//! The heart is pure: [`session`] turns (base_model, state, shots, settings) into (new state, report), with the same
//! bytes for the same input on every machine; keeping the result is one act at the end, by [`store`]. Modules stand
//! along the flow of data, each importing only from those above:
//!
//! - what is known: [`codec`] (bytes of files), [`label`], [`bank`] (exemplars), [`head`], [`target`] (pseudo-targets),
//!   [`statistics`] (of base features), [`state`] (base_model and state);
//! - answering and learning: [`answer`] (with all that is known, and the border), [`classify`], [`session`];
//! - looking back and ahead: [`likeness`] (of pictures to each other), [`grouping`] (of pictures without labels),
//!   [`nearest`] (why an answer was given), [`enough`] (whether shots are enough), [`unknown`] (whether a picture shows
//!   anything known);
//! - keeping: [`history`] (what was done, and undoing it), [`store`] (slots that survive a power cut), [`pack`] (a
//!   class for another device).
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod answer;
pub mod bank;
pub mod classify;
pub mod codec;
pub mod enough;
pub mod grouping;
pub mod head;
pub mod history;
pub mod label;
pub mod likeness;
pub mod listing;
pub mod nearest;
pub mod pack;
pub mod session;
pub mod state;
pub mod statistics;
pub mod store;
pub mod target;
pub mod unknown;
