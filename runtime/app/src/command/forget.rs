//! `orco forget`.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use orco_state::history::{Change, Verb};
use orco_state::label;
use orco_state::session;
use serde_json::{Value, json};

use crate::device::Device;
use crate::lesson;
use crate::options::Options;
use crate::output::{Output, say};

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
}

/// Forgets a learned class, aligns the head to the rest, and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let device = Device::open_to_change(options, output)?;
    let foundation = &device.bundle.foundation;
    let (label, seed) = (&label::normal(&arguments.label), arguments.seed);
    let learned = |classes: &[orco_state::state::Class]| classes.iter().any(|class| label::same(&class.label, label));
    let known = learned(&device.state.classes) || learned(&foundation.classes);
    if arguments.purge && !known {
        lesson::purge(&device, output, device.state.clone(), label, seed)?;
        say!(output, "purged {label} from the history; what is known is unchanged")?;
        return Ok(json!({ "seconds": started.elapsed().as_secs_f64() }));
    }
    let (next, report) = lesson::train(&device, (0, 0), |workspace, on_progress| {
        session::forget(foundation, &device.state, label, &foundation.config, seed, workspace, on_progress)
    })?;
    if arguments.purge {
        lesson::purge(&device, output, next, label, seed)?;
    } else {
        lesson::commit(&device, output, next, &Change::new(Verb::Forget, seed).labels([label]))?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let what = if arguments.purge { "purged" } else { "forgot" };
    lesson::print(output, &report, &format!("{what} {label}"), seconds)?;
    Ok(lesson::to_json(&report, seconds))
}
