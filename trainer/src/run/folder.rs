//! Whose a run's folder is: a new run writes beside nothing that bears the name of one of its files.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use super::{ALIGN_CHECKPOINT, METRICS, PRETRAIN_CHECKPOINT, RECIPE, RECORD, RunRecord, TrainedOn, trained_on};
use crate::run::checksum::Checksum;

/// Files that a run writes.
const FILES: [&str; 6] = [RECIPE, RECORD, trained_on::FILE, METRICS, PRETRAIN_CHECKPOINT, ALIGN_CHECKPOINT];

/// Refuses a folder with files of a run's names that no run wrote, or with links in their places.
///
/// # Errors
/// If there is one; nothing was changed.
pub(super) fn claim(folder: &Path) -> Result<()> {
    let facts = FILES.map(|name| (name, fs::symlink_metadata(folder.join(name)).ok()));
    let there = facts.iter().filter_map(|(name, facts)| Some((*name, facts.as_ref()?)));
    for (name, facts) in there.clone().filter(|(name, _)| !name.ends_with(".safetensors")) {
        if !facts.is_file() {
            let path = folder.join(name);
            bail!("{} is no regular file; move it away, or choose another folder with --run", path.display());
        }
    }
    match there.map(|(name, _)| name).next() {
        Some(name) if !is_of_a_run(folder) => bail!(
            "{} holds {name}, which is no file of a run and would be overwritten; choose another folder with --run",
            folder.display()
        ),
        _ => Ok(()),
    }
}

/// Whether a run wrote one of the files that every run has; older ones have no checksum.
fn is_of_a_run(folder: &Path) -> bool {
    let read = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
    Checksum::of(&read(RECIPE)) != Checksum::Absent
        || serde_json::from_slice::<TrainedOn>(&read(trained_on::FILE)).is_ok()
        || serde_json::from_slice::<RunRecord>(&read(RECORD)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_run_wrote_is_left_alone() {
        for name in FILES {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(name), "precious = true\n").unwrap();
            let refused = claim(folder.path()).unwrap_err().to_string();
            assert!(refused.contains(&format!("holds {name}, which is no file of a run")), "{refused}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join(METRICS)).unwrap();
        let refused = claim(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("metrics.jsonl is no regular file"), "{refused}");
    }
}
