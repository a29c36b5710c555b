//! Progress bars of changes.

use std::ops::ControlFlow;

use indicatif::ProgressBar;
use orco_benchmark::terminal::progress_bar;
use orco_runtime::learner::{ChangeStep, Observer};

/// Shows a change's progress: a bar for kept pictures that are checked, one for the shots, then one for the epochs.
#[derive(Default)]
pub struct ProgressBars {
    pictures: Option<ProgressBar>,
    shots: Option<ProgressBar>,
    epochs: Option<ProgressBar>,
}

impl Observer for ProgressBars {
    fn step(&mut self, step: ChangeStep) -> ControlFlow<()> {
        match step {
            ChangeStep::Pictures { done, total } => advance(&mut self.pictures, "pictures", done, total),
            ChangeStep::Shots { done, total } => advance(&mut self.shots, "shots", done, total),
            ChangeStep::Epoch(progress) => {
                let bar = self.epochs.get_or_insert_with(|| progress_bar(progress.epochs, "aligning"));
                bar.set_position(progress.epoch as u64);
                bar.set_message(format!("loss {:.3}", progress.losses.total()));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Moves a bar, which is made with the first thing that is done and goes with the last.
fn advance(bar: &mut Option<ProgressBar>, what: &str, done: usize, total: usize) {
    let bar = bar.get_or_insert_with(|| progress_bar(total, what));
    bar.set_position(done as u64);
    if done == total {
        bar.finish_and_clear();
    }
}

impl Drop for ProgressBars {
    fn drop(&mut self) {
        [&self.pictures, &self.shots, &self.epochs].into_iter().flatten().for_each(ProgressBar::finish_and_clear);
    }
}
