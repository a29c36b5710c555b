//! `orco import`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use orco_runtime::files;
use orco_runtime::learner::{Learner, PackClass};
use orco_runtime::pack::{self, Pack};
use orco_runtime::signature::PublicKey;
use orco_runtime::state::label;
use orco_runtime::state::sentence::{counted, join_first};
use serde_json::Value;

use crate::change_options::ChangeOptions;
use crate::device;
use crate::options::Options;
use crate::output::Output;
use crate::pack_thumbnails;
use crate::progress::ProgressBars;
use crate::session_report;

/// Arguments of `orco import`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Packs that `orco export` wrote on devices with the same bundle.
    #[arg(required = true, value_name = "FILE")]
    packs: Vec<PathBuf>,
    /// Learns the class under another label; for a single pack.
    #[arg(long = "as", value_name = "LABEL")]
    label: Option<String>,
    /// Writes the packs' thumbnails into a folder, one folder per class in it. No file that is there is replaced.
    #[arg(long, value_name = "DIR")]
    thumbnails_to: Option<PathBuf>,
    #[command(flatten)]
    change: ChangeOptions,
}

/// Learns the packs' classes in one session, without the backbone, and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    if arguments.label.is_some() && arguments.packs.len() != 1 {
        bail!("--as gives one label, but there are {} packs; import that pack alone", arguments.packs.len());
    }
    let key = options.public_key()?;
    let mut learner = device::open(options, output)?;
    arguments.change.apply(&mut learner);
    let packs = read_packs(arguments, &learner, key.as_ref())?;
    if let Some(folder) = &arguments.thumbnails_to {
        let check = |pack: &LabelledPack| options.check_destination(&pack_thumbnails::folder_of(&pack.label, folder));
        packs.iter().try_for_each(check)?;
    }
    let answered_before = learner.answered_classes();
    let imported: Vec<_> =
        packs.iter().map(|LabelledPack { pack, label }| PackClass { pack, label: Some(label) }).collect();
    let report = session_report::note_outcome(output, learner.import(&imported, &mut ProgressBars::default())?);
    let seconds = started.elapsed().as_secs_f64();
    let named = packs.iter().map(|LabelledPack { pack, label }| describe(label, pack));
    let named = join_first(named, session_report::MAX_CLASSES, ", ");
    session_report::print(output, &report, &format!("imported {named}"), seconds, learner.answered_classes())?;
    session_report::print_scope(output, &learner, &[], answered_before)?;
    if let Some(folder) = &arguments.thumbnails_to {
        for LabelledPack { pack, label } in &packs {
            if let Err(error) = pack_thumbnails::write(pack, label, folder) {
                output.note_error(format!("{error:#}"));
            }
        }
    }
    Ok(session_report::to_json(output, &report, seconds))
}

/// A pack, and the label that its class gets here.
struct LabelledPack {
    pack: Pack,
    label: String,
}

/// Reads the packs. Refuses those of another bundle, and labels that two of them or the device have already.
fn read_packs(arguments: &Arguments, learner: &Learner, key: Option<&PublicKey>) -> Result<Vec<LabelledPack>> {
    let mut packs: Vec<LabelledPack> = Vec::new();
    for path in &arguments.packs {
        let pack = open(path, key).and_then(|pack| {
            pack.to_class(&learner.bundle().digest)?;
            Ok(pack)
        });
        let pack = pack.with_context(|| format!("{} cannot be imported", path.display()))?;
        let label = label::normal(arguments.label.as_deref().unwrap_or(&pack.label));
        if let Some(index) = packs.iter().position(|other| other.label == label) {
            bail!(
                "{} cannot be imported: {} has the label \"{label}\", too; import one of the two alone under \
                 another one with --as LABEL",
                path.display(),
                arguments.packs[index].display()
            );
        }
        if learner.state().find_class(learner.base_model(), &label).is_some() {
            bail!(
                "{} cannot be imported: the label \"{label}\" exists already; import this pack alone under another \
                 one with --as LABEL",
                path.display()
            );
        }
        packs.push(LabelledPack { pack, label });
    }
    Ok(packs)
}

fn open(path: &Path, key: Option<&PublicKey>) -> Result<Pack> {
    let bytes = files::read(path, pack::MAX_FILE).map_err(|error| anyhow!("it cannot be read: {error}"))?;
    Ok(pack::open(&bytes, key)?)
}

/// "LABEL (N shots, from DEVICE, TIME)".
fn describe(label: &str, pack: &Pack) -> String {
    let mut facts = vec![counted(pack.exemplars.len(), "shot")];
    facts.extend(pack.origin.device.as_ref().map(|device| format!("from {device}")));
    facts.extend(pack.origin.created.clone());
    format!("{label} ({})", facts.join(", "))
}
