//! `run.json`: what made a run, and how to continue it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use orco_benchmark::machine;
use orco_runtime::memory;
use orco_runtime::threads::available_threads;
use orco_state::sentence::counted;
use serde::{Deserialize, Serialize};

use super::RECORD;
use crate::platform::{device, gpu};
use crate::run::checksum::{self, Checksum};

/// Everything about a run that its recipe does not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Program and version.
    pub program: String,
    /// Version of libtorch, if known.
    pub libtorch: Option<String>,
    /// The library of ONNX Runtime that measures the export, if there is one.
    #[serde(default)]
    pub onnx_runtime: Option<String>,
    /// Seed of the recipe.
    pub seed: u64,
    /// Where the tensors lived.
    pub device: String,
    /// Threads that libtorch used.
    pub threads: i32,
    /// Processes that trained together.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ranks: usize,
    /// The machine of the first one.
    pub hardware: Hardware,
    /// The sources that the program was built from, if git kept them.
    #[serde(default)]
    pub built_from: Option<Git>,
    /// When the program was started last, in seconds since 1970.
    pub started: u64,
    /// What the program was asked to do, with absolute paths.
    pub request: serde_json::Value,
}

fn one() -> usize {
    1
}

fn is_one(ranks: &usize) -> bool {
    *ranks == 1
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
    /// Name of the GPU, if the run used one and its driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Version of that driver, and of the newest CUDA that it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
}

/// State of sources that git keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Git {
    /// Hash of the commit that is checked out.
    pub commit: String,
    /// Files that differ from it.
    pub changed_files: usize,
}

impl RunRecord {
    /// Describes a run that starts now on `device`.
    pub fn new(seed: u64, device: tch::Device, request: serde_json::Value) -> Self {
        let driver = || gpu::driver().map(|driver| format!("{}, CUDA {}", driver.version, driver.cuda));
        let (device, gpu, driver) = match device {
            tch::Device::Cuda(number) => (format!("cuda:{number}"), gpu::used().map(|gpu| gpu.name.clone()), driver()),
            _ => ("cpu".into(), None, None),
        };
        Self {
            program: concat!("orco-train ", env!("CARGO_PKG_VERSION")).into(),
            libtorch: device::libtorch_version(),
            onnx_runtime: orco_runtime::encoder::library::locate().map(|path| path.display().to_string()),
            seed,
            device,
            threads: tch::get_num_threads(),
            ranks: 1,
            hardware: Hardware {
                processor: machine::processor(),
                cores: available_threads(),
                memory: memory::limit(),
                gpu,
                driver,
            },
            built_from: Git::of_program(),
            started: super::events::now() as u64,
            request,
        }
    }

    /// What computed, in words: `2 CPU threads (AMD EPYC 7763)`, or the GPU's name; of several ranks how many there
    /// were of these.
    pub fn machine(&self) -> String {
        match self.ranks {
            1 => self.of_a_rank(),
            ranks => format!("{ranks} ranks, the first on {}", self.of_a_rank()),
        }
    }

    fn of_a_rank(&self) -> String {
        if self.device != "cpu" {
            return self.hardware.gpu.clone().unwrap_or_else(|| format!("the GPU {}", self.device));
        }
        let threads = counted(self.threads as usize, "CPU thread");
        match &self.hardware.processor {
            Some(name) => format!("{threads} ({name})"),
            None => threads,
        }
    }

    /// What makes numbers differ in their last digits where `next` continues the run of this record.
    pub fn caution(&self, next: &Self) -> Option<String> {
        let (before, now) = (self.threads, next.threads);
        if self.device != next.device {
            return Some(format!(
                "this run was begun on {}; on {} its losses differ in the last digits",
                self.device, next.device
            ));
        }
        if self.ranks != next.ranks {
            let many = |ranks: usize| if ranks == 1 { "one process".into() } else { format!("{ranks} ranks") };
            return Some(format!(
                "this run was begun by {}; by {} it draws other views, and its losses differ by that",
                many(self.ranks),
                many(next.ranks)
            ));
        }
        (self.device == "cpu" && before != now).then(|| {
            format!(
                "this run was begun with {}; with {now} its losses differ in the last digits; --threads {before} \
                 continues it exactly",
                counted(before as usize, "thread")
            )
        })
    }

    /// Reads the record of the run in a folder.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(RECORD);
        let bytes = std::fs::read(&path).with_context(|| {
            format!("{} holds no run that could be resumed: cannot read {RECORD}", folder.display())
        })?;
        let damaged = || format!("{} is damaged; start the run again with its first command", path.display());
        let record = serde_json::from_slice(&bytes).with_context(damaged)?;
        ensure!(checksum::may_be_used(&path, Checksum::of(&bytes)), "{}", damaged());
        Ok(record)
    }
}

impl Git {
    /// The sources of this program, as they were when it was built; none outside of git.
    fn of_program() -> Option<Self> {
        let changed_files = option_env!("ORCO_CHANGED_FILES")?.parse().ok()?;
        Some(Self { commit: option_env!("ORCO_COMMIT")?.into(), changed_files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let record = RunRecord::new(7, tch::Device::Cpu, serde_json::json!({"align": {"data": "/d"}}));
        std::fs::write(folder.path().join("run.json"), serde_json::to_string_pretty(&record).unwrap()).unwrap();
        assert_eq!(RunRecord::read(folder.path()).unwrap(), record);
        assert!(record.threads >= 1 && record.hardware.cores >= 1 && record.started > 1_700_000_000);
    }

    #[test]
    fn another_machine_is_said() {
        let record = RunRecord { threads: 2, ..RunRecord::new(7, tch::Device::Cpu, serde_json::Value::Null) };
        assert_eq!(record.caution(&record), None);
        let one = RunRecord { threads: 1, ..record.clone() };
        let said = record.caution(&one).unwrap();
        assert!(said.contains("begun with 2 threads; with 1") && said.contains("--threads 2"), "{said}");
        assert!(one.machine().starts_with("1 CPU thread") && !one.machine().starts_with("1 CPU threads"));
        let cuda = RunRecord { device: "cuda:0".into(), ..record.clone() };
        assert!(record.caution(&cuda).unwrap().contains("begun on cpu; on cuda:0"));
        assert_eq!(cuda.machine(), "the GPU cuda:0");
        let ranks = RunRecord { ranks: 2, ..record.clone() };
        assert!(record.caution(&ranks).unwrap().contains("begun by one process; by 2 ranks it draws other views"));
        assert!(ranks.machine().starts_with("2 ranks, the first on 2 CPU threads"), "{}", ranks.machine());
    }

    #[test]
    fn records_of_older_programs_are_read() {
        let text = r#"{"program": "orco-train 0.1.0", "libtorch": null, "seed": 1, "device": "cpu", "threads": 2,
            "hardware": {"processor": null, "cores": 2, "memory": null}, "git": {"commit": "ab", "changed_files": 0},
            "started": 1, "request": {}}"#;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("run.json"), text).unwrap();
        let record = RunRecord::read(folder.path()).unwrap();
        assert_eq!((record.built_from.clone(), record.machine().as_str()), (None, "2 CPU threads"));
    }

    #[test]
    fn a_folder_without_a_run_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = format!("{:#}", RunRecord::read(folder.path()).unwrap_err());
        assert!(error.contains("holds no run that could be resumed"), "{error}");
        std::fs::write(folder.path().join("run.json"), "{").unwrap();
        let error = RunRecord::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("run.json is damaged"), "{error}");
    }
}
