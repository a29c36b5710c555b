//! `orco forget`.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use orco_runtime::state::label;
use serde_json::{Value, json};

use crate::change_options::AlignmentOptions;
use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::progress::ProgressBars;
use crate::session_report;

/// Arguments of `orco forget`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The learned class; with --purge also one that was forgotten before.
    label: String,
    /// Removes the class from the history as well: its exemplars and its label disappear from every file of the state,
    /// damaged slots that were set aside are deleted, and it cannot be brought back.
    #[arg(long)]
    purge: bool,
    /// Seed of shuffling and perturbation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    alignment: AlignmentOptions,
}

/// Forgets a learned class, aligns the head to the rest, and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let mut learner = device::open(options, output)?;
    learner.settings_mut().seed = arguments.seed;
    arguments.alignment.apply(&mut learner);
    let label = label::normal(&arguments.label);
    let (report, what) = if arguments.purge {
        (session_report::unwrap_outcome(output, learner.purge(&label, &mut ProgressBars::default())?), "purged")
    } else {
        (Some(session_report::unwrap_outcome(output, learner.forget(&label, &mut ProgressBars::default())?)), "forgot")
    };
    let seconds = started.elapsed().as_secs_f64();
    let Some(report) = report else {
        say!(output, "purged {label} from the history; what is known is unchanged")?;
        return Ok(json!({ "seconds": seconds }));
    };
    session_report::print(output, &report, &format!("{what} {label}"), seconds)?;
    Ok(session_report::to_json(output, &report, seconds))
}
