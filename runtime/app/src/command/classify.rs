//! `orco classify`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use orco_runtime::encoder::choice::Work;
use orco_state::classify::Classifier;
use orco_state::label::Shown;
use serde_json::{Value, json};

use crate::device::Device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::shots;

/// Arguments of `orco classify`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The pictures, JPEG or PNG.
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<PathBuf>,
    /// How many classes to name for each picture.
    #[arg(long, default_value_t = 3)]
    top: usize,
}

/// Prints the nearest classes of every picture. One that cannot be used is named at once, listed in the result with the
/// reason, and counted at the end; the others are classified all the same.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let device = Device::open(options, output)?;
    let mut encoder = device.encoder(options, Work::Pictures(arguments.images.len()))?;
    let foundation = &device.bundle.foundation;
    let classifier = Classifier::new(foundation, &device.state);
    let labels: Vec<&str> = device.state.known(foundation).map(|class| class.label.as_str()).collect();
    let mut results = Vec::new();
    let mut failed = 0;
    for path in &arguments.images {
        let image = path.to_string_lossy();
        let features = shots::open(path).and_then(|picture| {
            device.views(encoder.as_mut(), &picture, 1).with_context(|| format!("{image} cannot be classified"))
        });
        let features = match features {
            Ok(features) => features,
            Err(error) => {
                output.complain(format!("{error:#}"));
                results.push(json!({ "image": image, "error": format!("{error:#}") }));
                failed += 1;
                continue;
            }
        };
        let matches = classifier.matches(&features, arguments.top.max(1));
        let named: Vec<String> =
            matches.iter().map(|found| format!("{} ({:.2})", Shown(labels[found.class]), found.score)).collect();
        say!(output, "{image}: {}", named.join(", "))?;
        let named: Vec<_> =
            matches.iter().map(|found| json!({ "label": labels[found.class], "score": found.score })).collect();
        results.push(json!({ "image": image, "matches": named }));
    }
    if failed > 0 {
        output.error(format!("{failed} of {} pictures could not be classified", arguments.images.len()));
    }
    Ok(json!({ "images": results }))
}
