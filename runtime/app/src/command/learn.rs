//! `orco learn`.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use orco_runtime::learner::Shots;
use serde_json::Value;

use crate::change_options::{ClassFolder, LearnOptions};
use crate::device;
use crate::folder_shots::{FolderShots, folder_shots};
use crate::options::Options;
use crate::output::Output;
use crate::progress::ProgressBars;
use crate::scene_options::SceneOptions;
use crate::session_report;

/// Arguments of `orco learn`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A class and the folder with its pictures; a folder alone names the class: `orco learn shots/*`.
    #[arg(required = true, value_name = "[LABEL=]FOLDER", value_parser = ClassFolder::parse)]
    classes: Vec<ClassFolder>,
    #[command(flatten)]
    options: LearnOptions,
    #[command(flatten)]
    scene: SceneOptions,
}

/// Learns the classes in one session and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let mut learner = device::open(options, output)?;
    arguments.options.apply(&mut learner);
    let viewfinder = arguments.scene.viewfinder(&learner)?;
    let shots = folder_shots(&viewfinder, &arguments.classes, output)?;
    let classes: Vec<(&str, Shots<'_>)> = shots.iter().map(FolderShots::labelled).collect();
    let report = session_report::unwrap_outcome(output, learner.learn_many(&classes, &mut ProgressBars::default())?);
    session_report::warn_of_shots(output, &learner);
    let seconds = started.elapsed().as_secs_f64();
    session_report::print(output, &report, &format!("learned {}", session_report::list_classes(&classes)), seconds)?;
    Ok(session_report::to_json(output, &report, seconds))
}
