//! `orco add`.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use orco_runtime::encoder::choice::Work;
use orco_state::history::{Change, Verb};
use orco_state::session;
use serde_json::Value;

use crate::device::Device;
use crate::lesson::{self, LessonOptions};
use crate::options::Options;
use crate::output::Output;

/// Arguments of `orco add`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A known class and the folder with further pictures of it.
    #[arg(value_name = "LABEL=FOLDER", value_parser = lesson::parse)]
    class: (String, PathBuf),
    #[command(flatten)]
    lesson: LessonOptions,
}

/// Gives a known class more shots and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let device = Device::open_to_change(options, output)?;
    let foundation = &device.bundle.foundation;
    session::check_known(foundation, &device.state, &arguments.class.0).context("nothing was changed")?;
    let class =
        lesson::read(&device, device.encoder(options, Work::Shots)?.as_mut(), std::slice::from_ref(&arguments.class))?;
    let change = Change::new(Verb::Add, arguments.lesson.seed).labels([&arguments.class.0]);
    let report =
        lesson::change(&device, output, &arguments.lesson, lesson::size(&class), &change, |workspace, on_progress| {
            let config = &foundation.config;
            session::add_shots(
                foundation,
                &device.state,
                &class[0],
                config,
                arguments.lesson.seed,
                workspace,
                on_progress,
            )
        })?;
    let seconds = started.elapsed().as_secs_f64();
    lesson::print(output, &report, &format!("added to {}", lesson::describe(&class)), seconds)?;
    Ok(lesson::to_json(&report, seconds))
}
