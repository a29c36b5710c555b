//! Runs tests: unit tests by Cargo's own runner, all others by cargo-nextest, each in a process of its own;
//! `.config/nextest.toml` says which start first and which run alone.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::thread;

use crate::environment::{Environment, cargo, workspace};

/// How many tests run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestThreads {
    /// As many as there are cores; each takes the threads that it likes. For long trials, which take what the machine
    /// has.
    Cores,
    /// Three times as many where there are few cores, for tests wait for much of their time; OpenMP's threads would
    /// wait for each other's cores at every barrier, so that there is one for each test.
    Shared,
}

/// Most tests at a time on a machine with fewer cores than this.
const FEW: usize = 8;

impl TestThreads {
    /// What the runners and OpenMP are told of it.
    pub fn variables(self) -> Vec<(&'static str, String)> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        match self {
            Self::Cores => Vec::new(),
            Self::Shared => {
                let shared = shared(cores).to_string();
                vec![
                    ("OMP_NUM_THREADS", "1".to_owned()),
                    ("NEXTEST_TEST_THREADS", shared.clone()),
                    ("RUST_TEST_THREADS", shared),
                ]
            }
        }
    }
}

/// Tests that share so many cores. Memory does not grow with cores, and each test that trains holds libtorch.
fn shared(cores: usize) -> usize {
    (cores * 3).min(FEW.max(cores))
}

/// Runs Cargo with tests in it, then lists what they skipped.
///
/// # Errors
/// If Cargo does not start, or the tests' notes cannot be kept.
pub fn run(
    arguments: &str,
    threads: TestThreads,
    variables: &[(&str, &str)],
    environment: &Environment,
) -> Result<ExitStatus, Box<dyn Error>> {
    let notes = tempfile::NamedTempFile::new()?;
    let mut command = cargo();
    command.args(arguments.split(' ')).current_dir(workspace()).stdin(Stdio::null());
    environment.apply(&mut command);
    command.envs(threads.variables());
    command.envs(variables.iter().copied()).env(orco_trials::SKIPPED, notes.path());
    let status = command.status().map_err(|error| format!("cargo could not be started: {error}"))?;
    skipped(notes.path())?.iter().for_each(|line| println!("{line}"));
    Ok(status)
}

/// Each line once, in order.
fn skipped(notes: &Path) -> Result<BTreeSet<String>, Box<dyn Error>> {
    Ok(fs::read_to_string(notes)?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cores_are_shared_by_more_tests() {
        assert_eq!([1, 2, 4, 8, 16].map(shared), [3, 6, 8, 8, 16]);
    }

    #[test]
    fn what_several_tests_skip_is_listed_once() {
        let notes = tempfile::NamedTempFile::new().unwrap();
        fs::write(notes.path(), "skipped: MQTT\nskipped: a GPU\nskipped: MQTT\n").unwrap();
        let lines: Vec<String> = skipped(notes.path()).unwrap().into_iter().collect();
        assert_eq!(lines, ["skipped: MQTT", "skipped: a GPU"]);
    }
}
