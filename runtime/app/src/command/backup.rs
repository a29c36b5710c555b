//! `orco backup`.

use std::io;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use orco_runtime::backup::{self, BackupError, Contents};
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{self, Output, say};

/// Arguments of `orco backup`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The file to write, such as door-3.orcobackup.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replaces a file that is there already.
    #[arg(long)]
    force: bool,
}

/// Writes all that the device knows into one file.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let (bundle, store, settings) = device::parts(options, 1)?;
    let shown = arguments.file.display();
    let cannot = || format!("cannot write {shown}");
    let written = backup::write_to(&bundle, &store, settings.wait, &arguments.file, arguments.force);
    let contents = written.map_err(|error| match error {
        BackupError::File(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            anyhow!("{error}; name another one, or replace it with --force").context(cannot())
        }
        BackupError::File(error) => anyhow::Error::from(error).context(cannot()),
        error => error.into(),
    })?;
    output.changed();
    contents.warnings.iter().for_each(|warning| output.warn(warning));
    say!(output, "wrote into {shown}: {}", described(&contents))?;
    Ok(to_json(&contents))
}

/// What a backup holds, in words.
pub fn described(contents: &Contents) -> String {
    let Contents { bundle, classes, exemplars, pictures, bytes, .. } = contents;
    format!(
        "{classes} learned classes, {}, {}, {bytes} bytes, of bundle {}",
        output::counted(*exemplars, "exemplar"),
        output::counted(*pictures, "kept picture"),
        bundle.name
    )
}

/// The same as JSON.
pub fn to_json(contents: &Contents) -> Value {
    let Contents { bundle, classes, exemplars, pictures, bytes, .. } = contents;
    json!({
        "bundle": bundle.name, "release": bundle.release, "digest": bundle.digest, "learned_classes": classes,
        "exemplars": exemplars, "pictures": pictures, "bytes": bytes,
    })
}
