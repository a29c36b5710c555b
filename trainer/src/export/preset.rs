//! Another preset for a bundle that is there already.

use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use orco_core::config::MethodConfig;
use orco_runtime::bundle::Bundle;
use orco_runtime::files::partial;
use orco_runtime::manifest::{MANIFEST, Manifest, SIGNATURE, STATISTICS};

use super::card;
use super::output::CARD;
use crate::run::files::write_atomically;

/// Gives a bundle the settings of a preset. How exemplars are stored stays: those that the bundle brings are stored so,
/// and those of states on it. What was learned on the bundle goes on to hold, since the learner file stays; its
/// signature does not, since the manifest changes.
///
/// # Errors
/// If there is no such preset, the bundle does not open or lacks what the preset answers by, or its manifest cannot be
/// written: the bundle is then as it was. If its card cannot be written.
pub fn set_preset(folder: &Path, name: &str) -> Result<()> {
    let preset = MethodConfig::preset(name)
        .with_context(|| format!("there is no preset \"{name}\"; known are {}", MethodConfig::PRESETS.join(", ")))?;
    let bundle = Bundle::open(folder)?;
    ensure!(
        preset.answer.is_none() || bundle.base_model.statistics.is_some(),
        "preset {name} answers by {STATISTICS}, which {} lacks: `orco-train statistics` computes it",
        folder.display()
    );
    let learn = storing_as(&bundle.manifest.learn, preset);
    replace_manifest(folder, &Manifest { learn, ..bundle.manifest }, None)
}

/// A preset that stores exemplars as other settings do.
pub(super) fn storing_as(stored: &MethodConfig, preset: MethodConfig) -> MethodConfig {
    let MethodConfig { views, precision, exemplar_bytes, .. } = *stored;
    MethodConfig { views, precision, exemplar_bytes, ..preset }
}

/// Statistics that a bundle gets.
pub(super) struct NewStatistics<'a> {
    /// The file.
    pub(super) bytes: &'a [u8],
    /// Whether the samples set aside are images that were trained on.
    pub(super) were_trained_on: bool,
}

/// Writes a bundle's manifest with other settings, and other statistics where such are given; removes the signature of
/// the old one, and has the card say what devices do now.
///
/// # Errors
/// If manifest or statistics cannot be written: both are then as they were, with their signature. If the card cannot be
/// written, which then describes the old settings.
pub(super) fn replace_manifest(
    folder: &Path,
    manifest: &Manifest,
    statistics: Option<NewStatistics<'_>>,
) -> Result<()> {
    let text = toml::to_string(manifest)?;
    // A manifest without its signature is refused where one is demanded; one beside a wrong signature says less.
    let (signature, aside) = (folder.join(SIGNATURE), partial(&folder.join(SIGNATURE)));
    let signed = match fs::rename(&signature, &aside) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error).context("cannot remove the old signature"),
    };
    let former = fs::read(folder.join(STATISTICS)).ok();
    let bytes = statistics.as_ref().map(|statistics| statistics.bytes);
    if let Err(error) = write_both(folder, &text, bytes) {
        // The manifest may be there all the same, where its name alone could not be made to last.
        if fs::read_to_string(folder.join(MANIFEST)).is_ok_and(|there| there != text) {
            if let (Some(_), Some(former)) = (bytes, former) {
                write_atomically(&folder.join(STATISTICS), &former).context("cannot put the old statistics back")?;
            }
            if signed {
                fs::rename(&aside, &signature).context("cannot put the old signature back")?;
            }
        }
        return Err(error);
    }
    if signed {
        fs::remove_file(&aside).context("cannot remove the old signature")?;
        log::warn!("the bundle's signature was removed; sign it again with `orco-train sign`");
    }
    let bundle = Bundle::open(folder).context("the bundle just written does not open")?;
    let card = folder.join(CARD);
    let were_trained_on = statistics.map(|statistics| statistics.were_trained_on);
    match fs::read_to_string(&card) {
        Ok(text) => {
            write_atomically(&card, card::with_settings(&text, &bundle.base_model, were_trained_on)?.as_bytes())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", card.display())),
    }
}

/// Statistics first: a file that the manifest does not list does no harm, one that it lists must be there.
fn write_both(folder: &Path, manifest: &str, statistics: Option<&[u8]>) -> Result<()> {
    statistics.map_or(Ok(()), |bytes| write_atomically(&folder.join(STATISTICS), bytes))?;
    write_atomically(&folder.join(MANIFEST), manifest.as_bytes())
}
