//! `orco forget`.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use orco_runtime::session;

use crate::device::Device;
use crate::lesson::{self, LessonOptions};
use crate::options::Options;

/// Arguments of `orco forget`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The learned class.
    label: String,
    #[command(flatten)]
    lesson: LessonOptions,
}

/// Forgets a learned class, aligns the head to the rest, and saves the new state.
pub fn run(options: &Options, arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    let (device, _lock) = Device::open_to_change(options)?;
    let foundation = &device.bundle.foundation;
    let (label, seed) = (&arguments.label, arguments.lesson.seed);
    let report = lesson::change(&device, &arguments.lesson, (0, 0), |workspace, on_progress| {
        session::forget(foundation, &device.state, label, &foundation.config, seed, workspace, on_progress)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    if !options.quiet() {
        lesson::print(&report, &format!("forgot {label}"), seconds);
    }
    options.write_json(&lesson::to_json(&report, seconds))
}
