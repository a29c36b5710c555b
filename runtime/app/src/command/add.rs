//! `orco add`.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use crate::change_options::{ClassFolder, LearnOptions};
use crate::device;
use crate::folder_shots::{folder_shots, warn_of_long_pictures};
use crate::options::Options;
use crate::output::Output;
use crate::progress::ProgressBars;
use crate::scene_options::SceneOptions;
use crate::session_report;

/// Arguments of `orco add`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A known class and the folder with further pictures of it.
    #[arg(value_name = "[LABEL=]FOLDER", value_parser = ClassFolder::parser())]
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
    let viewfinder = arguments.scene.viewfinder(&learner, output)?;
    let classes = [folder_shots(&viewfinder, &arguments.class, output)?];
    warn_of_long_pictures(&classes, output);
    let [(label, shots)] = &classes;
    let outcome = learner.add(label, shots.clone(), &mut ProgressBars::default())?;
    let report = session_report::note_outcome(output, outcome);
    session_report::warn_of_shots(output, &learner);
    let seconds = started.elapsed().as_secs_f64();
    let what = format!("added to {}", session_report::list_classes(&classes));
    let answered = learner.answered_classes();
    session_report::print(output, &report, &what, seconds, answered)?;
    session_report::tell_scope(output, &learner, &[*label], answered)?;
    Ok(session_report::to_json(output, &report, seconds))
}
