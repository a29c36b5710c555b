//! What trials counted, for the reliability page: `ORCO_TRIALS` names the folder that the records go into. Without that
//! variable nothing is written.
//!
//! A test that backs a promise of `docs/reliability.toml` says so in its first line, and counts what it tried:
//!
//! ```no_run
//! # fn save() -> bool { true }
//! let mut trial = orco_trials::trial!(1, "power cuts");
//! for _ in 0..100 {
//!     assert!(save());
//!     trial.count(1);
//! }
//! ```

use std::path::Path;
use std::{fs, thread};

use serde::{Deserialize, Serialize};

use crate::system::{commit, processor, today, workspace};

/// One run of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialRecord {
    /// The promise's number.
    pub promise: u32,
    /// The test, as `FILE::NAME`, the file's path starting at the workspace.
    pub test: String,
    /// How often it tried.
    pub count: u64,
    /// What it counted.
    pub unit: String,
    /// How many of these failed. A test ends with its first failure.
    pub failures: u64,
    /// What else happened meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<FurtherCount>,
    /// Day of the run, UTC, as 2026-11-25.
    pub date: String,
    /// What git calls the checkout; it ends in `-dirty` if files were changed.
    pub commit: String,
    /// The machine's processor.
    pub processor: String,
    /// Whether it was made in full: see [`heavy`](crate::heavy).
    pub form: TrialLength,
}

/// How often something happened in a trial, beside what it tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FurtherCount {
    /// How often.
    pub count: u64,
    /// What.
    pub unit: String,
}

/// How much of a trial was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrialLength {
    /// What `cargo xtask test` runs.
    Short,
    /// What `cargo xtask test full` runs.
    Long,
}

/// A trial under way, which [`trial!`](crate::trial!) starts. It is recorded when it is dropped: as failed if its
/// thread panics, and not at all if it counted nothing and so was skipped.
#[derive(Debug)]
pub struct Trial {
    promise: u32,
    test: String,
    unit: &'static str,
    count: u64,
    failures: u64,
    further: Vec<FurtherCount>,
}

/// Starts a trial that backs a promise, by the promise's number and what is counted, in the test's own body.
#[macro_export]
macro_rules! trial {
    ($promise:literal, $unit:literal) => {{
        fn here() {}
        $crate::trial::Trial::of($promise, $unit, file!(), std::any::type_name_of_val(&here))
    }};
}

impl Trial {
    /// What [`trial!`](crate::trial!) calls: `place` is the path of a function inside the test.
    #[must_use]
    pub fn of(promise: u32, unit: &'static str, file: &str, place: &str) -> Self {
        let names: Vec<&str> = place.split("::").filter(|part| !part.starts_with('{')).collect();
        let name = names.len().checked_sub(2).map_or(place, |before| names[before]);
        let test = format!("{}::{name}", file.replace('\\', "/"));
        Self { promise, test, unit, count: 0, failures: 0, further: Vec::new() }
    }

    /// Counts so many tries more.
    pub fn count(&mut self, tries: usize) {
        self.count += tries as u64;
    }

    /// Says how often something else happened meanwhile.
    pub fn count_further(&mut self, count: usize, unit: &str) {
        self.further.push(FurtherCount { count: count as u64, unit: unit.into() });
    }

    /// Says that so many of them failed, where that is no panic.
    pub fn fail(&mut self, tries: usize) {
        self.failures += tries as u64;
    }

    fn record(&self, failed: bool) -> Option<TrialRecord> {
        (self.count > 0 || failed).then(|| TrialRecord {
            promise: self.promise,
            test: self.test.clone(),
            count: self.count,
            unit: self.unit.into(),
            failures: self.failures + u64::from(failed),
            further: self.further.clone(),
            date: today(),
            commit: commit(),
            processor: processor(),
            form: if crate::heavy() { TrialLength::Long } else { TrialLength::Short },
        })
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let Some(folder) = std::env::var_os("ORCO_TRIALS").filter(|folder| !folder.is_empty()) else { return };
        let failed = thread::panicking();
        let Some(record) = self.record(failed) else { return };
        let written = record.write(&workspace().join(folder));
        assert!(failed || written.is_ok(), "ORCO_TRIALS: the record cannot be written: {written:?}");
    }
}

impl TrialRecord {
    /// Writes it into a folder, over that of an earlier run.
    ///
    /// # Errors
    /// If that fails.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        fs::create_dir_all(folder)?;
        let name = self.test.replace(['/', '\\'], "-").replace("::", "-");
        fs::write(folder.join(format!("{:02}-{name}.json", self.promise)), serde_json::to_vec_pretty(self)?)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;

    use super::*;

    // These back no promise, so they must leave no record where ORCO_TRIALS is set.

    #[test]
    fn a_trial_knows_its_test_and_what_it_counted() {
        let mut trial = ManuallyDrop::new(crate::trial!(3, "flipped bits"));
        assert_eq!(trial.test, "tests/trials/src/trial.rs::a_trial_knows_its_test_and_what_it_counted");
        assert_eq!(trial.record(false), None, "it was skipped");
        assert_eq!(trial.record(true).unwrap().failures, 1);
        (0..2).for_each(|_| trial.count(20));
        trial.count_further(3, "kills");
        let record = trial.record(false).unwrap();
        assert_eq!((record.promise, record.count, record.failures), (3, 40, 0));
        assert_eq!(record.unit, "flipped bits");
        assert_eq!(record.further, [FurtherCount { count: 3, unit: "kills".into() }]);
        assert_eq!(record.date.len(), 10);
        assert!(!record.commit.is_empty() && !record.processor.is_empty());
        let inner = || ManuallyDrop::new(crate::trial!(3, "flipped bits"));
        let inside = inner();
        assert_eq!(inside.test, trial.test, "a closure is no test");
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_replaces_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let mut trial = ManuallyDrop::new(crate::trial!(3, "flipped bits"));
        for count in 1..3 {
            trial.count(1);
            trial.count_further(1, "kills");
            trial.record(false).unwrap().write(folder.path()).unwrap();
            let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert_eq!(files.len(), 1, "{files:?}");
            let read: TrialRecord = serde_json::from_slice(&fs::read(&files[0]).unwrap()).unwrap();
            assert_eq!(Some(&read), trial.record(false).as_ref());
            assert_eq!(read.count, count);
        }
    }
}
