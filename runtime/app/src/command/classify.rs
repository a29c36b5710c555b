//! `orco classify`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use orco_runtime::encoder::choice::Workload;
use orco_runtime::state::label::EscapedText;
use orco_runtime::state::sentence::counted;
use orco_runtime::state::unknown::FALSE_ALARMS;
use serde_json::{Value, json};

use crate::device;
use crate::options::{Options, share};
use crate::output::{Output, say};
use crate::picture;

/// Arguments of `orco classify`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The pictures, JPEG, PNG or WebP.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// How many classes to name for each picture.
    #[arg(long, default_value_t = 3)]
    top: usize,
    /// Share of known pictures that may be taken for unknown ones: how strict `unknown` is.
    #[arg(long, value_name = "SHARE", env = "ORCO_FALSE_ALARMS", default_value_t = FALSE_ALARMS, value_parser = share)]
    false_alarms: f32,
}

/// Prints the nearest classes of every picture. One that cannot be used is named at once, listed in the result with the
/// reason, and counted at the end; the others are classified all the same.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let mut learner = device::open_for(options, output, arguments.images.len())?;
    learner.settings_mut().false_alarms = arguments.false_alarms;
    // A backbone that cannot be started is no fault of a picture.
    learner.engine(Workload::Pictures(arguments.images.len()))?;
    let mut results = Vec::new();
    let mut failed = 0;
    for path in &arguments.images {
        let image = path.to_string_lossy();
        let answer = picture::open(path)
            .and_then(|picture| learner.classify(&picture).with_context(|| format!("{image} cannot be classified")));
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                output.complain(format!("{error:#}"));
                results.push(json!({ "image": image, "error": format!("{error:#}") }));
                failed += 1;
                continue;
            }
        };
        let matches = &answer.matches[..arguments.top.clamp(1, answer.matches.len().max(1)).min(answer.matches.len())];
        let named: Vec<String> = matches
            .iter()
            .map(|found| format!("{} ({:.2})", EscapedText(learner.label(found.class)), found.score))
            .collect();
        let unknown = if answer.is_unknown() { "unknown; nearest: " } else { "" };
        say!(output, "{image}: {unknown}{}", named.join(", "))?;
        let named: Vec<_> =
            matches.iter().map(|found| json!({ "label": learner.label(found.class), "score": found.score })).collect();
        results.push(json!({ "image": image, "known": !answer.is_unknown(), "matches": named }));
    }
    if failed > 0 {
        let all = counted(arguments.images.len(), "picture");
        output.error(format!("{failed} of {all} could not be classified"));
    }
    Ok(json!({ "images": results }))
}
