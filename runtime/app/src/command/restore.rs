//! `orco restore`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
#[cfg(feature = "hub")]
use orco_hub::client::LockedDeviceFolder;
use orco_runtime::backup::{self, RestoreOptions};
use orco_runtime::files;
use orco_runtime::store::Store;
use serde_json::Value;

use super::backup::{describe, to_json};
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
    let contents = without_rounds(options, output, &store, || {
        let outcome = backup::restore(&bundle, &store, &settings, &mut file, &restore).with_context(cannot)?;
        Ok(session_report::note_outcome(output, outcome))
    })?;
    say!(output, "restored from {shown}: {}", describe(&contents))?;
    Ok(to_json(&contents))
}

/// Restores while no round with a fleet's hub runs. Then the files of the device's part in the fleet let go of classes
/// that the backup does not have: what the channel holds of them is learned again.
#[cfg(feature = "hub")]
fn without_rounds<T>(
    options: &Options,
    output: &Output,
    store: &Store,
    restore: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let fleet = options.fleet_folder(store.folder()).lock_out_rounds(options.wait)?;
    let restored = restore()?;
    if let Some(fleet) = fleet
        && let Err(error) = forget_others(options, &fleet, store)
    {
        output.warn(format_args!(
            "the next rounds may not bring back the channel's classes that the backup lacks: {error:#}"
        ));
    }
    Ok(restored)
}

#[cfg(not(feature = "hub"))]
fn without_rounds<T>(_: &Options, _: &Output, _: &Store, restore: impl FnOnce() -> Result<T>) -> Result<T> {
    restore()
}

/// Lets go of the classes that the backup does not have. What is known of the others stays, on whatever bundle: what
/// was taught here would otherwise count as the channel's.
#[cfg(feature = "hub")]
fn forget_others(options: &Options, fleet: &LockedDeviceFolder, store: &Store) -> Result<()> {
    let Some(saved) = store.lock(options.wait)?.load_any()? else { return Ok(()) };
    let labels = saved.state.classes.into_iter().map(|class| class.label).collect();
    Ok(fleet.retain_labels(&labels)?)
}
