//! `orco learn`.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use orco_runtime::learner::Shots;
use serde_json::Value;

use crate::change::{self, Bars, ChangeOptions, CheckOptions, KeepOptions};
use crate::device;
use crate::options::Options;
use crate::output::Output;

/// Arguments of `orco learn`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A class and the folder with its pictures.
    #[arg(required = true, value_name = "LABEL=FOLDER", value_parser = change::parse)]
    classes: Vec<(String, PathBuf)>,
    #[command(flatten)]
    change: ChangeOptions,
    #[command(flatten)]
    keep: KeepOptions,
    #[command(flatten)]
    check: CheckOptions,
}

/// Learns the classes in one session and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let mut learner = device::open(options, output)?;
    arguments.change.apply(&mut learner);
    arguments.check.apply(&mut learner);
    learner.settings_mut().keep_shots = arguments.keep.keep_shots;
    let class = |(label, folder): &'_ (String, PathBuf)| Ok((label.clone(), Shots::folder(folder)?));
    let classes = arguments.classes.iter().map(class).collect::<Result<Vec<_>>>()?;
    let classes: Vec<_> = classes.iter().map(|(label, shots)| (label.as_str(), shots.clone())).collect();
    let report = change::made(output, learner.learn_many(&classes, &mut Bars::default())?);
    change::warn_of_shots(output, &learner);
    let seconds = started.elapsed().as_secs_f64();
    change::print(output, &report, &format!("learned {}", change::describe(&classes)), seconds)?;
    Ok(change::to_json(&report, seconds))
}
