//! `orco backup`.

use std::io;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use orco_runtime::backup::{self, BackupContents, BackupError, BackupOptions};
use orco_runtime::signature::SecretKey;
use orco_runtime::state::sentence::counted;
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};

/// Arguments of `orco backup`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The file to write, such as door-3.orcobackup.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replaces a file that is there already.
    #[arg(long)]
    force: bool,
    /// Signs with a secret key of minisign. One with a password is opened with ORCO_KEY_PASSWORD, or by asking.
    #[arg(long, value_name = "KEY", env = "ORCO_SECRET_KEY")]
    sign: Option<PathBuf>,
}

/// Writes all that the device knows into one file.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    options.check_destination(&arguments.file)?;
    let (bundle, store, settings) = device::parts(options, 1)?;
    let key = arguments.sign.as_deref().map(SecretKey::read).transpose()?;
    let shown = arguments.file.display();
    let cannot = || format!("cannot write {shown}");
    let backup = BackupOptions::default().replace(arguments.force).sign(key.as_ref());
    let contents = match backup::write_to(&bundle, &store, &settings, &arguments.file, &backup) {
        Err(BackupError::Unsynced { error, .. }) => {
            output.mark_changed_with_error(format!("{shown}: {error}"));
            return Ok(json!({ "signed": key.is_some() }));
        }
        Err(BackupError::File(error)) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(anyhow!("{error}; name another one, or replace it with --force").context(cannot()));
        }
        Err(BackupError::File(error)) => return Err(anyhow::Error::from(error).context(cannot())),
        written => written?,
    };
    output.mark_changed();
    contents.warnings.iter().for_each(|warning| output.warn(warning));
    let signed = if key.is_some() { "signed" } else { "not signed" };
    say!(output, "wrote into {shown}: {}, {signed}", describe(&contents))?;
    let mut result = to_json(&contents);
    result["signed"] = key.is_some().into();
    Ok(result)
}

/// What a backup holds, in words.
pub fn describe(contents: &BackupContents) -> String {
    let BackupContents { bundle, classes, exemplars, pictures, bytes, .. } = contents;
    format!(
        "{}, {}, {}, {bytes} bytes, of bundle {}",
        counted(*classes, "learned class"),
        counted(*exemplars, "exemplar"),
        counted(*pictures, "kept picture"),
        bundle.name
    )
}

/// What a backup holds, as JSON.
pub fn to_json(contents: &BackupContents) -> Value {
    let BackupContents { bundle, classes, exemplars, pictures, bytes, .. } = contents;
    json!({
        "bundle": bundle.name, "release": bundle.release, "digest": bundle.digest, "learned_classes": classes,
        "exemplars": exemplars, "pictures": pictures, "bytes": bytes,
    })
}
