//! `orco backup`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use orco_runtime::backup::{self, BackupError, Contents};
use orco_runtime::files;
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
    let path = place(&arguments.file, arguments.force).with_context(cannot)?;
    if !store.folder().is_dir() {
        return Err(BackupError::Nothing { folder: store.folder().into() }.into());
    }
    let written = files::replace_with(&path, |file| backup::write(&bundle, &store, settings.wait, file));
    let contents = written.map_err(|error| match error {
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

/// Where the file goes: a link stays, and what it leads to is replaced.
fn place(path: &Path, force: bool) -> Result<PathBuf> {
    match fs::metadata(path) {
        Ok(facts) if !facts.is_file() => bail!("what is there is no regular file"),
        Ok(_) if !force => bail!("there is a file of that name; name another one, or replace it with --force"),
        Ok(_) => Ok(fs::canonicalize(path)?),
        Err(_) if fs::symlink_metadata(path).is_ok() => bail!("it is a link that leads nowhere"),
        Err(_) => Ok(path.to_owned()),
    }
}
