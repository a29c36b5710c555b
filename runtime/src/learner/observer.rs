//! Watching a change while it is made.

use std::ops::ControlFlow;

use orco_core::align::AlignProgress;

/// How far a change has come.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChangeStep {
    /// Kept pictures are checked, before any is learned from.
    Pictures {
        /// Pictures done.
        done: usize,
        /// Pictures in all.
        total: usize,
    },
    /// Shots are turned into features.
    Shots {
        /// Shots done.
        done: usize,
        /// Shots in all.
        total: usize,
    },
    /// The head has been trained for another epoch.
    Epoch(AlignProgress),
}

/// Watches a change, and may cancel it.
///
/// `()` watches nothing; a closure `FnMut(ChangeStep) -> ControlFlow<()>` is an observer, too.
pub trait Observer: Send {
    /// Called after every step. [`ControlFlow::Break`] cancels the change: nothing is changed then. Where the change is
    /// kept already and the head is being aligned, that alone is cancelled.
    fn step(&mut self, step: ChangeStep) -> ControlFlow<()>;
}

impl Observer for () {
    fn step(&mut self, _: ChangeStep) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(ChangeStep) -> ControlFlow<()> + Send> Observer for F {
    fn step(&mut self, step: ChangeStep) -> ControlFlow<()> {
        self(step)
    }
}
