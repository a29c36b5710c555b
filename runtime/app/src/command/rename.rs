//! `orco rename`.

use anyhow::Result;
use clap::Args;
use orco_runtime::state::label;
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::session_report;

/// Arguments of `orco rename`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The learned class.
    from: String,
    /// Its new label.
    to: String,
}

/// Gives a learned class another label and saves the new state; nothing is trained.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let mut learner = device::open(options, output)?;
    let [from, to] = [&arguments.from, &arguments.to].map(|label| label::normal(label));
    session_report::unwrap_outcome(output, learner.rename(&from, &to)?);
    say!(output, "{from} is now {to}")?;
    Ok(json!({ "from": from, "to": to }))
}
