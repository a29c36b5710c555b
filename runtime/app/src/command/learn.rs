//! `orco learn`.

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

/// Arguments of `orco learn`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A class and the folder with its pictures.
    #[arg(required = true, value_name = "LABEL=FOLDER", value_parser = lesson::parse)]
    classes: Vec<(String, PathBuf)>,
    #[command(flatten)]
    lesson: LessonOptions,
}

/// Learns the classes in one session and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let device = Device::open_to_change(options, output)?;
    let foundation = &device.bundle.foundation;
    let labels: Vec<&str> = arguments.classes.iter().map(|(label, _)| label.as_str()).collect();
    session::check_labels(foundation, &device.state, &labels).context("nothing was changed")?;
    let new = lesson::read(&device, device.encoder(options, Work::Shots)?.as_mut(), &arguments.classes)?;
    let change = Change::new(Verb::Learn, arguments.lesson.seed).labels(labels);
    let report =
        lesson::change(&device, output, &arguments.lesson, lesson::size(&new), &change, |workspace, on_progress| {
            session::learn(
                foundation,
                &device.state,
                &new,
                &foundation.config,
                arguments.lesson.seed,
                workspace,
                on_progress,
            )
        })?;
    let seconds = started.elapsed().as_secs_f64();
    lesson::print(output, &report, &format!("learned {}", lesson::describe(&new)), seconds)?;
    Ok(lesson::to_json(&report, seconds))
}
