//! Observers of a round, which may stop it between any two steps.

use std::ops::ControlFlow;

use super::error::SyncError;

/// What a round is about to do. Each is durable by itself, so that a round may end before any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncStep {
    /// Writes a file of the device.
    Write,
    /// Sends a request, or sends it again.
    Send,
    /// Moves to another bundle.
    Upgrade,
    /// Has the state answer with another bundle.
    SwitchBundle,
    /// Learns a pack of this label.
    Import(String),
    /// Forgets a class of this label that the channel took back or replaced.
    Forget(String),
}

/// Watches a round.
pub trait SyncObserver {
    /// Called before each step; [`ControlFlow::Break`] ends the round there.
    fn step(&mut self, step: SyncStep) -> ControlFlow<()>;
}

impl SyncObserver for () {
    fn step(&mut self, _: SyncStep) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(SyncStep) -> ControlFlow<()>> SyncObserver for F {
    fn step(&mut self, step: SyncStep) -> ControlFlow<()> {
        self(step)
    }
}

/// Goes on, unless the observer stops the round.
pub(super) fn proceed(observer: &mut dyn SyncObserver, step: SyncStep) -> Result<(), SyncError> {
    if observer.step(step).is_break() { Err(SyncError::Stopped) } else { Ok(()) }
}
