//! `run.json`: what made a run, and how to continue it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{device, system};

/// Everything about a run that its recipe does not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Program and version.
    pub program: String,
    /// Version of libtorch, if known.
    pub libtorch: Option<String>,
    /// Seed of the recipe.
    pub seed: u64,
    /// Where the tensors lived.
    pub device: String,
    /// Threads that libtorch used.
    pub threads: i32,
    /// The machine.
    pub hardware: Hardware,
    /// State of the folder that the program was started in, if git keeps it.
    pub git: Option<Git>,
    /// When the program was started last, in seconds since 1970.
    pub started: u64,
    /// What the program was asked to do, with absolute paths.
    pub request: serde_json::Value,
}

/// The machine of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Name of the processor, if known.
    pub processor: Option<String>,
    /// Cores that the program could use.
    pub cores: usize,
    /// Bytes of memory, if known.
    pub memory: Option<u64>,
}

/// State of a git working folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Git {
    /// Hash of the commit that is checked out.
    pub commit: String,
    /// Files that differ from it.
    pub changed_files: usize,
}

impl Record {
    /// Describes a run that starts now on `device`.
    pub fn new(seed: u64, device: tch::Device, request: serde_json::Value) -> Self {
        let device = match device {
            tch::Device::Cuda(number) => format!("cuda:{number}"),
            _ => "cpu".into(),
        };
        Self {
            program: concat!("orco-train ", env!("CARGO_PKG_VERSION")).into(),
            libtorch: device::libtorch_version(),
            seed,
            device,
            threads: tch::get_num_threads(),
            hardware: Hardware {
                processor: system::processor(),
                cores: system::cores(),
                memory: system::memory_total(),
            },
            git: Git::here(),
            started: super::events::now() as u64,
            request,
        }
    }

    /// Reads the record of the run in a folder.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("run.json");
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!("{} holds no run that could be resumed: cannot read run.json", folder.display())
        })?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged; start the run again with its first command", path.display()))
    }
}

impl Git {
    /// State of the current folder; none outside of git, or without git.
    fn here() -> Option<Self> {
        let ask = |arguments: &[&str]| -> Option<String> {
            let output = Command::new("git").args(arguments).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let commit = ask(&["rev-parse", "HEAD"])?.trim().to_owned();
        let changed_files = ask(&["status", "--porcelain"])?.lines().count();
        Some(Self { commit, changed_files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::new(7, tch::Device::Cpu, serde_json::json!({"align": {"data": "/d"}}));
        std::fs::write(folder.path().join("run.json"), serde_json::to_string_pretty(&record).unwrap()).unwrap();
        assert_eq!(Record::read(folder.path()).unwrap(), record);
        assert!(record.threads >= 1 && record.hardware.cores >= 1 && record.started > 1_700_000_000);
    }

    #[test]
    fn a_folder_without_a_run_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = format!("{:#}", Record::read(folder.path()).unwrap_err());
        assert!(error.contains("holds no run that could be resumed"), "{error}");
        std::fs::write(folder.path().join("run.json"), "{").unwrap();
        let error = Record::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("run.json is damaged"), "{error}");
    }
}
