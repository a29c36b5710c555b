//! `orco add`.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use orco_runtime::learner::Shots;
use serde_json::Value;

use crate::change::{self, Bars, LearnOptions};
use crate::device;
use crate::options::Options;
use crate::output::Output;

/// Arguments of `orco add`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A known class and the folder with further pictures of it.
    #[arg(value_name = "LABEL=FOLDER", value_parser = change::parse)]
    class: (String, PathBuf),
    #[command(flatten)]
    options: LearnOptions,
}

/// Gives a known class more shots and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let mut learner = device::open(options, output)?;
    arguments.options.apply(&mut learner);
    let (label, folder) = &arguments.class;
    let shots = Shots::folder(folder)?;
    let report = change::made(output, learner.add(label, shots.clone(), &mut Bars::default())?);
    change::warn_of_shots(output, &learner);
    let seconds = started.elapsed().as_secs_f64();
    change::print(output, &report, &format!("added to {}", change::describe(&[(label, shots)])), seconds)?;
    Ok(change::to_json(&report, seconds))
}
