//! `orco import`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use orco_runtime::files;
use orco_runtime::signature::{PublicKey, SignatureError};
use orco_state::history::{Change, Verb};
use orco_state::label;
use orco_state::pack::{self, Pack, Sealed};
use orco_state::session::{self, StoredClass};
use serde_json::Value;

use crate::device::Device;
use crate::lesson::{self, LessonOptions};
use crate::options::Options;
use crate::output::Output;
use crate::thumbnail;

/// Arguments of `orco import`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Packs that `orco export` wrote on devices with the same bundle.
    #[arg(required = true, value_name = "FILE")]
    packs: Vec<PathBuf>,
    /// Learns the class under another label; for a single pack.
    #[arg(long = "as", value_name = "LABEL")]
    label: Option<String>,
    /// Writes the packs' thumbnails into a folder, one folder per class in it.
    #[arg(long, value_name = "DIR")]
    thumbnails_to: Option<PathBuf>,
    #[command(flatten)]
    lesson: LessonOptions,
}

/// Learns the packs' classes in one session, without the backbone, and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    if arguments.label.is_some() && arguments.packs.len() != 1 {
        bail!("--as gives one label, but there are {} packs; import that pack alone", arguments.packs.len());
    }
    let key = options.public_key()?;
    let device = Device::open_to_change(options, output)?;
    let foundation = &device.bundle.foundation;
    let mut packs = Vec::new();
    let mut new = Vec::new();
    for path in &arguments.packs {
        let pack = open(path, key.as_ref());
        let class = pack.and_then(|pack| Ok((pack.to_class(&device.bundle.digest)?, pack)));
        let (class, pack) = class.with_context(|| format!("{} cannot be imported", path.display()))?;
        let label = label::normal(arguments.label.as_deref().unwrap_or(&class.label));
        if let Some(place) = new.iter().position(|class: &StoredClass| class.label == label) {
            bail!(
                "{} cannot be imported: {} has the label \"{label}\", too; import one of the two alone under another one with --as LABEL",
                path.display(),
                arguments.packs[place].display()
            );
        }
        if device.state.known(foundation).any(|known| label::same(&known.label, &label)) {
            bail!(
                "{} cannot be imported: the label \"{label}\" exists already; import this pack alone under another one with --as LABEL",
                path.display()
            );
        }
        new.push(StoredClass { label, ..class });
        packs.push(pack);
    }
    let size = (new.len(), new.iter().map(|class| class.exemplars.len()).sum());
    let seed = arguments.lesson.seed;
    let change = Change::new(Verb::Import, seed).labels(new.iter().map(|class| class.label.as_str()));
    let report = lesson::change(&device, output, &arguments.lesson, size, &change, |workspace, on_progress| {
        let config = &foundation.config;
        session::learn_stored(foundation, &device.state, &new, config, seed, workspace, on_progress)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let named: Vec<String> = new.iter().zip(&packs).map(|(class, pack)| describe(class, pack)).collect();
    lesson::print(output, &report, &format!("imported {}", named.join(", ")), seconds)?;
    if let Some(folder) = &arguments.thumbnails_to {
        for (class, pack) in new.iter().zip(&packs) {
            if let Err(error) = thumbnail::write(pack, &class.label, folder) {
                output.error(format!("{error:#}"));
            }
        }
    }
    Ok(lesson::to_json(&report, seconds))
}

/// Reads a pack; nothing in it is believed before its signature is checked, where a key is configured.
fn open(path: &Path, key: Option<&PublicKey>) -> Result<Pack> {
    let bytes = files::read(path, pack::MAX_FILE).map_err(|error| anyhow!("it cannot be read: {error}"))?;
    let sealed = Sealed::read(&bytes)?;
    if let Some(key) = key {
        key.check(sealed.signed(), sealed.signature().ok_or(SignatureError::Missing)?)?;
    }
    let pack = sealed.content()?;
    thumbnail::check(&pack)?;
    Ok(pack)
}

/// "LABEL (N shots, from DEVICE, TIME)".
fn describe(class: &StoredClass, pack: &Pack) -> String {
    let mut facts = vec![format!("{} shots", class.exemplars.len())];
    facts.extend(pack.provenance.device.as_ref().map(|device| format!("from {device}")));
    facts.extend(pack.provenance.created.clone());
    format!("{} ({})", class.label, facts.join(", "))
}
