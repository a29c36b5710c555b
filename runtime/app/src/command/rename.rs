//! `orco rename`.

use anyhow::{Context, Result};
use clap::Args;
use orco_state::history::{Change, Verb};
use orco_state::label;
use orco_state::session;
use serde_json::{Value, json};

use crate::device::Device;
use crate::lesson;
use crate::options::Options;
use crate::output::{Output, say};

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
    let device = Device::open_to_change(options, output)?;
    let [from, to] = [&arguments.from, &arguments.to].map(|label| label::normal(label));
    let (from, to) = (from.as_str(), to.as_str());
    let renamed = session::rename(&device.bundle.foundation, &device.state, from, to);
    let change = Change::new(Verb::Rename, 0).labels([from, to]);
    lesson::commit(&device, output, renamed.context("nothing was changed")?, &change)?;
    say!(output, "{from} is now {to}")?;
    Ok(json!({ "from": from, "to": to }))
}
