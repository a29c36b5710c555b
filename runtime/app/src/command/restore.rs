//! `orco restore`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use orco_runtime::backup::{self, RestoreOptions};
use orco_runtime::files;
use serde_json::Value;

use super::backup::{described, to_json};
use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::session_report;

/// Arguments of `orco restore`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A file that `orco backup` wrote.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replaces what the device knows already: that is gone then. Slots of a state that is lost are set aside.
    #[arg(long)]
    force: bool,
    /// Restores what was learned on another bundle, too; `orco upgrade` is to be done next.
    #[arg(long)]
    other_bundle: bool,
}

/// Puts what a backup holds into the place of what the device knows.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let (bundle, store, settings) = device::parts(options, 1)?;
    let shown = arguments.file.display();
    let cannot = || format!("{shown} cannot be restored");
    let mut file = files::open_regular(&arguments.file).with_context(|| format!("cannot read {shown}"))?;
    let restore = RestoreOptions::default()
        .replace(arguments.force)
        .other_bundle(arguments.other_bundle)
        .public_key(options.public_key()?);
    let made = backup::restore(&bundle, &store, &settings, &mut file, &restore).with_context(cannot)?;
    let contents = session_report::unwrap_outcome(output, made);
    say!(output, "restored from {shown}: {}", described(&contents))?;
    Ok(to_json(&contents))
}
