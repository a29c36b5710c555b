//! `orco doctor`.

use anyhow::Result;
use clap::Args;
use orco_runtime::state::sentence::counted;
use serde_json::{Value, json};

use crate::config::SettingsFile;
use crate::doctor::{self, Finding, Findings, Level};
use crate::options::Options;
use crate::output::{Output, say};

/// Arguments of `orco doctor`: those of the service and of the rounds with a hub that are checked.
#[derive(Args, Debug)]
pub struct Arguments {
    #[cfg(feature = "serve")]
    #[command(flatten)]
    serve: crate::serve_options::ServeOptions,
    #[cfg(feature = "hub")]
    #[command(flatten)]
    fleet: crate::fleet_options::FleetOptions,
}

/// Prints every finding; fails where something must be mended.
pub fn run(options: &Options, output: &Output, arguments: &Arguments, file: Option<&SettingsFile>) -> Result<Value> {
    let mut findings = Findings::default();
    doctor::examine_settings(file, &mut findings);
    let state = doctor::examine(options, &mut findings);
    #[cfg(feature = "serve")]
    doctor::examine_service(&arguments.serve, state.as_deref(), &mut findings);
    // A wrong address in the file is among the findings on settings.
    #[cfg(feature = "hub")]
    if file.is_none_or(|file| !file.faults.contains_key("hub")) {
        doctor::examine_fleet(options, &arguments.fleet, state.as_deref(), &mut findings);
    }
    #[cfg(not(feature = "serve"))]
    let _ = (arguments, state);
    for Finding { subject, level, text } in &findings.0 {
        say!(output, "{:<6} {subject:<13} {text}", level.to_string())?;
    }
    let wrongs = findings.wrongs();
    if wrongs > 0 {
        let what = counted(wrongs, "thing");
        output.note_error(format!("{what} must be mended: see above, where it says {}", Level::Wrong));
    }
    let as_json =
        |Finding { subject, level, text }: &Finding| json!({ "subject": subject, "level": level.name(), "text": text });
    Ok(json!({ "findings": findings.0.iter().map(as_json).collect::<Vec<_>>(), "to_mend": wrongs }))
}
