//! `orco config`.

use anyhow::Result;
use clap::{ArgMatches, Args, Command};
use serde_json::{Map, Value, json};

use crate::config::{self, EffectiveSetting, SettingsFile};
use crate::output::{Output, say};

/// Arguments of `orco config`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Prints a commented file of all settings with their defaults instead, to be filled in.
    #[arg(long)]
    defaults: bool,
}

/// Prints the settings that count, as a file of settings, with where each comes from.
pub fn run(
    output: &Output,
    arguments: &Arguments,
    command: &Command,
    file: Option<&SettingsFile>,
    matches: &ArgMatches,
) -> Result<Value> {
    if arguments.defaults {
        let text = config::commented(command);
        text.lines().try_for_each(|line| say!(output, "{line}"))?;
        return Ok(json!({ "defaults": text }));
    }
    let settings = config::effective_settings(command, file, matches).unwrap_or_else(|error| error.exit());
    match file {
        Some(file) => say!(output, "# {}", file.path.display())?,
        None => say!(output, "# no file of settings: none was named, and there is no {}", config::DEFAULT_PATH)?,
    }
    let mut listed = Map::new();
    for EffectiveSetting { key, value, from } in settings {
        match &value {
            Some(value) => say!(output, "{:<40} # {from}", format!("{key} = {value}"))?,
            None => say!(output, "{:<40} # not set", format!("#{key} ="))?,
        }
        listed.insert(key, json!({ "value": value, "from": from }));
    }
    Ok(json!({ "file": file.map(|file| file.path.to_string_lossy()), "settings": listed }))
}
