//! Another preset for a bundle that is there already.

use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use orco_core::config::LearnConfig;
use orco_runtime::bundle::Bundle;
use orco_runtime::manifest::{MANIFEST, Manifest, SIGNATURE, STATISTICS};

use super::card;
use super::output::CARD;
use crate::run::files::write_atomically;

/// Gives a bundle the settings of a preset. How exemplars are stored stays: those that the bundle brings are stored so,
/// and those of states on it. What was learned on the bundle goes on to hold, since the learner file stays; its
/// signature does not, since the manifest changes.
///
/// # Errors
/// If there is no such preset, the bundle does not open or lacks what the preset answers by, or a file cannot be
/// written; the bundle is then as it was.
pub fn set_preset(folder: &Path, name: &str) -> Result<()> {
    let preset = LearnConfig::preset(name)
        .with_context(|| format!("there is no preset \"{name}\"; known are {}", LearnConfig::PRESETS.join(", ")))?;
    let bundle = Bundle::open(folder)?;
    ensure!(
        preset.answer.is_none() || bundle.base_model.statistics.is_some(),
        "preset {name} answers by {STATISTICS}, which {} lacks: `orco-train statistics` computes it",
        folder.display()
    );
    let learn = storing_as(&bundle.manifest.learn, preset);
    replace_manifest(folder, &Manifest { learn, ..bundle.manifest })
}

/// A preset that stores exemplars as other settings do.
pub(super) fn storing_as(stored: &LearnConfig, preset: LearnConfig) -> LearnConfig {
    let LearnConfig { views, precision, exemplar_bytes, .. } = *stored;
    LearnConfig { views, precision, exemplar_bytes, ..preset }
}

/// Writes a bundle's manifest with other settings, removes the signature of the old one, and has the card say what
/// devices do now.
pub(super) fn replace_manifest(folder: &Path, manifest: &Manifest) -> Result<()> {
    // A manifest without its signature is refused where one is demanded; one beside a wrong signature says less. The
    // signature comes back where the manifest cannot be written.
    let (signature, aside) = (folder.join(SIGNATURE), folder.join(format!("{SIGNATURE}.former")));
    let signed = match fs::rename(&signature, &aside) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error).context("cannot remove the old signature"),
    };
    let written = write_atomically(&folder.join(MANIFEST), toml::to_string(manifest)?.as_bytes());
    if let (Err(error), true) = (&written, signed) {
        fs::rename(&aside, &signature).with_context(|| format!("cannot put the signature back after: {error:#}"))?;
    }
    written?;
    if signed {
        fs::remove_file(&aside).context("cannot remove the old signature")?;
        log::warn!("the bundle's signature was removed; sign it again with `orco-train sign`");
    }
    let bundle = Bundle::open(folder).context("the bundle just written does not open")?;
    let card = folder.join(CARD);
    match fs::read_to_string(&card) {
        Ok(text) => write_atomically(&card, card::with_settings(&text, &bundle.base_model)?.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", card.display())),
    }
}
