//! What an OrCo learner knows and keeps. Needs an allocator, but no operating system.
//!
//! A change is a pure function: [`session`] turns (base model, state, shots, settings) into (new state, report), with
//! the same bytes for the same features on every processor with AVX2, AVX-512 or NEON. Answers follow from stored
//! exemplars in closed form, and from the head that was aligned to them ([`answer`]); a session chooses the border
//! between base and learned classes. [`slots`] then saves the result as a whole.
//!
//! Modules stand in layers; each imports from those above it:
//!
//! - texts, bytes, numbers: `parallel` (results of several threads), [`codec`] (the envelope of files), [`label`],
//!   [`escape`] (texts for terminals), [`sentence`] (what sentences for people are made of), `ranked` (quantiles of
//!   stored values), [`binomial`] (tails of the distribution);
//! - what is known: [`bank`] (exemplars), [`head`], [`target`] (pseudo-targets), [`statistics`] (of base features),
//!   [`state`] (base model and state);
//! - answering: [`answer`] (class means, discriminant and head together, with the border), [`prediction_set`] (the
//!   labels of which one is right), [`unknown`] (whether a picture shows anything known), [`classify`];
//! - looking closer: [`likeness`] (of pictures to each other), [`grouping`] (of pictures without labels), [`nearest`]
//!   (why an answer was given), [`effective_sample_size`] (how many independent shots there are), [`sufficiency`]
//!   (whether shots are enough);
//! - keeping and changing: [`history`] (what was done, and undoing it), [`slots`] (two places for a state, of which one
//!   survives a power cut), [`session`] (a change as a whole), [`pack`] (a class for another device).
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod answer;
pub mod bank;
pub mod binomial;
pub mod classify;
pub mod codec;
pub mod effective_sample_size;
pub mod escape;
pub mod grouping;
pub mod head;
pub mod history;
pub mod label;
pub mod likeness;
pub mod nearest;
pub mod pack;
mod parallel;
pub mod prediction_set;
mod ranked;
pub mod sentence;
pub mod session;
pub mod slots;
pub mod state;
pub mod statistics;
pub mod sufficiency;
pub mod target;
pub mod unknown;

#[doc(no_inline)]
pub use state::{Balance, BaseModel, Calibration, Class, FirstRecognition, MAX_SHOTS, Scoring, State};
