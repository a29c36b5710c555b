//! `orco rename`.

use anyhow::{Context, Result};
use clap::Args;
use orco_runtime::history::{Change, Verb};
use orco_runtime::session;
use serde_json::json;

use crate::device::Device;
use crate::lesson;
use crate::options::Options;

/// Arguments of `orco rename`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The learned class.
    from: String,
    /// Its new label.
    to: String,
}

/// Gives a learned class another label and saves the new state; nothing is trained.
pub fn run(options: &Options, arguments: &Arguments) -> Result<()> {
    let (device, _lock) = Device::open_to_change(options)?;
    let (from, to) = (arguments.from.as_str(), arguments.to.trim());
    let renamed = session::rename(&device.bundle.foundation, &device.state, from, to);
    let change = Change::new(Verb::Rename, 0).labels([from, to]);
    lesson::commit(&device, renamed.context("nothing was changed")?, &change)?;
    if !options.quiet() {
        println!("{from} is now {to}");
    }
    options.write_json(&json!({ "from": from, "to": to }))
}
