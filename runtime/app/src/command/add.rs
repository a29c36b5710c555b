//! `orco add`.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use orco_runtime::learner::Shots;
use serde_json::Value;

use crate::change_options::{ClassFolder, LearnOptions};
use crate::device;
use crate::options::Options;
use crate::output::Output;
use crate::progress::ProgressBars;
use crate::scene_options::{SceneOptions, cut_out};
use crate::session_report;

/// Arguments of `orco add`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A known class and the folder with further pictures of it.
    #[arg(value_name = "[LABEL=]FOLDER", value_parser = ClassFolder::parse)]
    class: ClassFolder,
    #[command(flatten)]
    options: LearnOptions,
    #[command(flatten)]
    scene: SceneOptions,
}

/// Gives a known class more shots and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let mut learner = device::open(options, output)?;
    arguments.options.apply(&mut learner);
    let label = arguments.class.label.as_str();
    let viewfinder = arguments.scene.viewfinder(&learner)?;
    let cut_outs =
        if viewfinder.is_plain() { Vec::new() } else { cut_out(&viewfinder, core::slice::from_ref(&arguments.class))? };
    let shots: Shots<'_> = match cut_outs.first() {
        Some(shots) => shots.as_shots(),
        None => arguments.class.shots(output)?,
    };
    let report =
        session_report::unwrap_outcome(output, learner.add(label, shots.clone(), &mut ProgressBars::default())?);
    session_report::warn_of_shots(output, &learner);
    let seconds = started.elapsed().as_secs_f64();
    session_report::print(
        output,
        &report,
        &format!("added to {}", session_report::list_classes(&[(label, shots)])),
        seconds,
    )?;
    Ok(session_report::to_json(output, &report, seconds))
}
