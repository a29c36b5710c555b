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
    /// More than there are cores, where these are few: a test waits for much of its time. Each test has one OpenMP
    /// thread, since several would wait at every barrier for cores that other tests use.
    Shared,
}

/// How many tests share a core, up to [`MAX_SHARED`] in all.
const TESTS_PER_CORE: usize = 3;
/// Most tests at a time where they are more than the cores: each test that trains holds libtorch, and memory does not
/// grow with cores.
const MAX_SHARED: usize = 8;

impl TestThreads {
    /// The variables that tell the runners and OpenMP.
    pub fn variables(self) -> Vec<(&'static str, String)> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        match self {
            Self::Cores => Vec::new(),
            Self::Shared => {
                let tests = tests_at_a_time(cores).to_string();
                vec![
                    ("OMP_NUM_THREADS", "1".to_owned()),
                    ("NEXTEST_TEST_THREADS", tests.clone()),
                    ("RUST_TEST_THREADS", tests),
                ]
            }
        }
    }
}

/// How many tests share so many cores.
fn tests_at_a_time(cores: usize) -> usize {
    (cores * TESTS_PER_CORE).min(MAX_SHARED.max(cores))
}

/// Runs Cargo with arguments that run tests, then lists what these skipped.
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
    skipped_lines(notes.path())?.iter().for_each(|line| println!("{line}"));
    Ok(status)
}

/// The lines in which tests said what they skipped, each once, in order.
fn skipped_lines(notes: &Path) -> Result<BTreeSet<String>, Box<dyn Error>> {
    Ok(fs::read_to_string(notes)?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_cores_are_shared_by_more_tests() {
        assert_eq!([1, 2, 4, 8, 16].map(tests_at_a_time), [3, 6, 8, 8, 16]);
    }

    #[test]
    fn what_several_tests_skip_is_listed_once() {
        let notes = tempfile::NamedTempFile::new().unwrap();
        fs::write(notes.path(), "skipped: MQTT\nskipped: a GPU\nskipped: MQTT\n").unwrap();
        let lines: Vec<String> = skipped_lines(notes.path()).unwrap().into_iter().collect();
        assert_eq!(lines, ["skipped: MQTT", "skipped: a GPU"]);
    }
}
