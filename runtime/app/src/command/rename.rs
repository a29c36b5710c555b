//! `orco rename`.

use anyhow::{Result, bail};
use clap::Args;
use orco_runtime::learner::ChangeError;
use orco_runtime::state::label;
use orco_runtime::state::session::LearnError;
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
    let renamed = match learner.rename(&from, &to) {
        // The advice on a label that is taken is for whoever has shots.
        Err(ChangeError::Learn(taken @ (LearnError::LabelExists { .. } | LearnError::BaseLabelExists { .. }))) => {
            bail!("{taken}; nothing was changed")
        }
        renamed => renamed?,
    };
    session_report::note_outcome(output, renamed);
    say!(output, "{from} is now {to}")?;
    Ok(json!({ "from": from, "to": to }))
}
