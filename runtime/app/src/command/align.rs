//! `orco align`.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::progress::ProgressBars;
use crate::session_report;

/// Aligns the head to what was learned, where that is still to be done, and saves the state.
pub fn run(options: &Options, output: &Output) -> Result<Value> {
    let started = Instant::now();
    let mut learner = device::open(options, output)?;
    if !learner.awaits_alignment() {
        let why = match (learner.state().head.is_some(), learner.base_model().config.epochs) {
            (true, _) => "the head is aligned to all that was learned",
            (false, 0) => "the bundle's settings align no head",
            (false, _) => "nothing was learned yet",
        };
        say!(output, "nothing to do: {why}")?;
        return Ok(json!({ "aligned": false }));
    }
    let aligned = learner.align(&mut ProgressBars::default())?;
    let seconds = started.elapsed().as_secs_f64();
    let Some(report) = session_report::note_outcome(output, aligned) else {
        say!(output, "nothing to do: another program has aligned the head meanwhile")?;
        return Ok(json!({ "aligned": false }));
    };
    session_report::print(output, &report, "aligned the head", seconds, learner.answered_classes())?;
    let mut result = session_report::to_json(output, &report, seconds);
    result["aligned"] = true.into();
    Ok(result)
}
