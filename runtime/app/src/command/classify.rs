//! `orco classify`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use orco_runtime::classify::Classifier;
use orco_runtime::encoder::choice::Work;
use serde_json::json;

use crate::device::Device;
use crate::options::Options;
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

/// Prints the nearest classes of every picture. Pictures that cannot be used are named at the end.
pub fn run(options: &Options, arguments: &Arguments) -> Result<()> {
    let device = Device::open(options)?;
    let mut encoder = device.encoder(options, Work::Pictures(arguments.images.len()))?;
    let foundation = &device.bundle.foundation;
    let classifier = Classifier::new(foundation, &device.state);
    let labels: Vec<&str> = device.state.known(foundation).map(|class| class.label.as_str()).collect();
    let mut results = Vec::new();
    let mut failed = 0;
    for path in &arguments.images {
        let picture = match shots::open(path) {
            Ok(picture) => picture,
            Err(error) => {
                eprintln!("error: {error:#}");
                failed += 1;
                continue;
            }
        };
        let features = device.views(encoder.as_mut(), &picture, 1)?;
        let matches = classifier.matches(&features, arguments.top.max(1));
        if !options.quiet() {
            let named: Vec<String> =
                matches.iter().map(|found| format!("{} ({:.2})", labels[found.class], found.score)).collect();
            println!("{}: {}", path.display(), named.join(", "));
        }
        let named: Vec<_> =
            matches.iter().map(|found| json!({ "label": labels[found.class], "score": found.score })).collect();
        results.push(json!({ "image": path.to_string_lossy(), "matches": named }));
    }
    options.write_json(&json!({ "images": results }))?;
    if failed > 0 {
        bail!("{failed} of {} pictures could not be classified", arguments.images.len());
    }
    Ok(())
}
