//! `orco restore`.

#[cfg(feature = "hub")]
use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
#[cfg(feature = "hub")]
use orco_hub::client::{DeviceFolder, LockedDeviceFolder};
use orco_runtime::backup::{self, RestoreOptions};
use orco_runtime::files;
#[cfg(feature = "hub")]
use orco_runtime::state::sentence::with_causes;
use orco_runtime::store::Store;
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
    let rounds = keep_rounds_out(options, &store)?;
    let made = backup::restore(&bundle, &store, &settings, &mut file, &restore).with_context(cannot)?;
    let contents = session_report::unwrap_outcome(output, made);
    forget_others(options, output, rounds, &store);
    say!(output, "restored from {shown}: {}", described(&contents))?;
    Ok(to_json(&contents))
}

/// No round with a fleet's hub runs while this is held.
#[cfg(feature = "hub")]
type RoundsLock = Option<LockedDeviceFolder>;
#[cfg(not(feature = "hub"))]
type RoundsLock = Option<()>;

#[cfg(feature = "hub")]
fn keep_rounds_out(options: &Options, store: &Store) -> Result<RoundsLock> {
    Ok(DeviceFolder::of_state(store.folder()).lock_out_rounds(options.wait)?)
}

#[cfg(not(feature = "hub"))]
fn keep_rounds_out(_: &Options, _: &Store) -> Result<RoundsLock> {
    Ok(None)
}

/// Has the files of the device's part in a fleet let go of classes that the backup does not have: what the channel
/// holds of them is learned again. They go on knowing what the backup has, on whatever bundle: what was taught here
/// would else count as the channel's.
#[cfg(feature = "hub")]
fn forget_others(options: &Options, output: &Output, rounds: RoundsLock, store: &Store) {
    let Some(fleet) = rounds else { return };
    let why = match store.lock(options.wait).and_then(|locked| locked.load_any()) {
        Err(error) => with_causes(&error),
        Ok(None) => return,
        Ok(Some(saved)) => {
            let labels: BTreeSet<String> = saved.state.classes.into_iter().map(|class| class.label).collect();
            match fleet.retain_labels(&labels) {
                Err(error) => with_causes(&error),
                Ok(()) => return,
            }
        }
    };
    output.warn(format_args!("classes of the fleet's channel that the backup does not have stay away: {why}"));
}

#[cfg(not(feature = "hub"))]
fn forget_others(_: &Options, _: &Output, _: RoundsLock, _: &Store) {}
