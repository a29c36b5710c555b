//! Another preset for a bundle that is there already.

use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use orco_core::config::MethodConfig;
use orco_lab::format::shell_word;
use orco_runtime::bundle::Bundle;
use orco_runtime::manifest::{MANIFEST, Manifest, STATISTICS};

use super::card;
use super::output::CARD;
use super::sign::replace_signed;
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
    let stale = (learn != bundle.manifest.learn).then(|| stale_report(folder)).flatten();
    replace_manifest(folder, &Manifest { learn, ..bundle.manifest }, None)?;
    if let Some(warning) = stale {
        log::warn!("{warning}");
    }
    Ok(())
}

/// What to say of the report in the folder of a bundle that gets other settings, if there is one.
fn stale_report(folder: &Path) -> Option<String> {
    let report = folder.join("report");
    report.join("report.json").exists().then(|| {
        format!(
            "{} holds numbers of the settings before; make it again with `orco-lab report {}`",
            report.display(),
            shell_word(&folder.to_string_lossy())
        )
    })
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
    let former = fs::read(folder.join(STATISTICS)).ok();
    let bytes = statistics.as_ref().map(|statistics| statistics.bytes);
    let restore_statistics = || match (bytes, former) {
        (Some(_), Some(former)) => {
            write_atomically(&folder.join(STATISTICS), &former).context("cannot put the old statistics back")
        }
        _ => Ok(()),
    };
    if replace_signed(folder, &text, || write_both(folder, &text, bytes), restore_statistics)? {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_earlier_settings_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(stale_report(folder.path()), None);
        fs::create_dir(folder.path().join("report")).unwrap();
        assert_eq!(stale_report(folder.path()), None, "nothing was measured");
        fs::write(folder.path().join("report/report.json"), "{}").unwrap();
        let said = stale_report(folder.path()).unwrap();
        assert!(said.contains("report holds numbers of the settings before; make it again with `orco-lab"), "{said}");
    }
}
