//! `orco undo`.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use orco_state::history::{Change, Verb};
use orco_state::session;
use serde_json::Value;

use super::history;
use crate::device::Device;
use crate::lesson;
use crate::options::Options;
use crate::output::{Output, say};

/// Arguments of `orco undo`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// How many changes to take back.
    #[arg(value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    changes: u32,
    /// Goes to the class set after this entry of `orco history` instead.
    #[arg(long, value_name = "ENTRY", conflicts_with = "changes")]
    to: Option<u32>,
}

/// Restores an earlier class set and saves it as the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let device = Device::open_to_change(options, output)?;
    let saved = device.saved();
    let remembered = saved.history.entries().len() - 1;
    let number = match arguments.to {
        Some(number) => number,
        None => saved.back(arguments.changes as usize).with_context(|| {
            let changes = arguments.changes;
            format!("cannot take back {changes} changes: {remembered} are remembered (see `orco history`)")
        })?,
    };
    if saved.back(0) == Some(number) {
        bail!("entry {number} is the present state; there is nothing to take back");
    }
    let earlier = saved.earlier(number);
    let earlier =
        earlier.with_context(|| format!("there is no entry {number}; `orco history` shows those there are"))?;
    let foundation = &device.bundle.foundation;
    let more = |then: usize, now: usize| then.saturating_sub(now);
    let size = (
        more(earlier.state.classes.len(), device.state.classes.len()),
        more(earlier.state.exemplars.len(), device.state.exemplars.len()),
    );
    let (state, report) = lesson::train(&device, size, |workspace, on_progress| {
        let (config, seed) = (&foundation.config, earlier.seed);
        session::restore(foundation, &device.state, &earlier.state, config, seed, workspace, on_progress)
    })?;
    let exact = earlier.is_exact(state.head.as_ref());
    lesson::commit(&device, output, state, &Change::new(Verb::Undo, earlier.seed).to(number))?;
    let seconds = started.elapsed().as_secs_f64();
    let entry = saved.history.entry(number).map(history::describe).unwrap_or_default();
    lesson::print(output, &report, &format!("went back to entry {number} ({entry})"), seconds)?;
    match exact {
        Some(true) => say!(output, "the state is that of then, to the bit")?,
        Some(false) => say!(
            output,
            "classes and exemplars are those of then; the head was aligned anew and differs in its last bits, as \
             another processor or other settings make it"
        )?,
        None => {
            say!(output, "classes and exemplars are those of then, without what was purged; the head was aligned anew")?
        }
    }
    let mut result = lesson::to_json(&report, seconds);
    (result["entry"], result["exact"]) = (number.into(), exact.into());
    Ok(result)
}
