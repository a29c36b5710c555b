//! `orco export`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use orco_runtime::files;
use orco_runtime::pack::{self, PackOrigin};
use orco_runtime::signature::SecretKey;
use orco_runtime::state::label::MAX_TEXT;
use orco_runtime::state::sentence::counted;
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{self, Output, say};
use crate::pack_thumbnails;

/// Arguments of `orco export`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The learned class.
    label: String,
    /// The pack to write, such as mug.orcopack.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replaces a file that is there already.
    #[arg(long)]
    force: bool,
    /// Puts thumbnails of a folder's pictures into the pack, so that people see what it holds. Without it no picture
    /// leaves the device.
    #[arg(long, value_name = "FOLDER")]
    thumbnails: Option<PathBuf>,
    /// Name of this device, for whoever receives the pack.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// When the pack is made, in any words.
    #[arg(long, value_name = "TIME")]
    created: Option<String>,
    /// Signs with a secret key of minisign. One with a password is opened with ORCO_KEY_PASSWORD, or by asking.
    #[arg(long, value_name = "KEY", env = "ORCO_SECRET_KEY")]
    sign: Option<PathBuf>,
}

/// Writes the class's exemplars, as they are stored, into a pack; the state stays as it is. What leaves the device
/// comes from the newest state or not at all: in an older one may be a class that was forgotten since.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    options.check_destination(&arguments.output)?;
    let mut learner = device::open(options, output)?;
    let key = arguments.sign.as_deref().map(SecretKey::read).transpose()?;
    let origin =
        PackOrigin { device: arguments.device.clone(), created: arguments.created.clone(), ..PackOrigin::default() };
    let mut pack = learner.export(&arguments.label, origin)?;
    if let Some(folder) = &arguments.thumbnails {
        pack.thumbnails = pack_thumbnails::of_folder(folder, output)?;
    }
    if !pack.is_sound() {
        bail!(
            "the label, the device's name and the time may have at most {} bytes and no control characters, marks \
             of direction or characters that cannot be seen; `orco rename` gives another label",
            MAX_TEXT
        );
    }
    let bytes = pack.to_be_signed();
    let signature = match &key {
        Some(key) => key.sign(&bytes, &pack.comment()).map_err(|error| anyhow!("cannot sign the pack: {error}"))?,
        None => String::new(),
    };
    let bytes = pack::seal(&bytes, &signature);
    let shown = arguments.output.display();
    match write(&arguments.output, &bytes, arguments.force) {
        Err(error) if error.downcast_ref().is_some_and(files::is_unsynced) => {
            output.mark_changed_with_error(format!("{shown}: {error}"));
        }
        written => written.with_context(|| format!("cannot write {shown}"))?,
    }
    output.mark_changed();
    let (exemplars, thumbnails) = (pack.exemplars.len(), pack.thumbnails.len());
    say!(
        output,
        "wrote {} into {shown}: {}, {}, {} bytes, {}",
        pack.label,
        counted(exemplars, "exemplar"),
        counted(thumbnails, "thumbnail"),
        bytes.len(),
        if key.is_some() { "signed" } else { "not signed" }
    )?;
    Ok(json!({
        "label": pack.label, "exemplars": exemplars, "thumbnails": thumbnails, "bytes": bytes.len(),
        "signed": key.is_some(),
    }))
}

/// Why a file that is there stays.
const TAKEN: &str = "there is a file of that name; name another one, or replace it with --force";

/// Writes a pack. A file is made, or replaced where that is wanted, readable by its owner alone; what is there already
/// and takes bytes, such as a pipe, stays and gets them; a link stays, and what it leads to is replaced.
fn write(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    match fs::metadata(path) {
        Ok(facts) if facts.is_dir() => bail!("it is a folder"),
        Ok(facts) if !facts.is_file() => {
            let mut sink = output::open_sink(path)?;
            sink.write_all(bytes)?;
            return Ok(sink.flush()?);
        }
        Ok(_) if !force => bail!(TAKEN),
        Ok(_) => return Ok(files::replace(&fs::canonicalize(path)?, bytes)?),
        Err(_) if fs::symlink_metadata(path).is_ok() => bail!("it is a link that leads nowhere"),
        Err(_) => {}
    }
    let folder = files::folder_of(path);
    if let Err(error) = fs::metadata(folder) {
        bail!("nothing can be written into the folder {}: {error}", folder.display());
    }
    let written = if force { files::replace(path, bytes) } else { files::create(path, bytes) };
    match written {
        // Another program made one meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => bail!(TAKEN),
        written => Ok(written?),
    }
}
