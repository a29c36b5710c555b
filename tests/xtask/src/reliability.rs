//! `cargo xtask reliability`: the page that says what holds, how often that was tried, and when.
//!
//! `docs/reliability.toml` lists the promises and the tests that back each. Such a test starts with
//! [`trial!`](orco_trials::trial!), and leaves a record of what it tried in the folder that `ORCO_TRIALS` names. The
//! newest record of each lies in `docs/reliability.json`; the page is made of both.

mod page;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use orco_trials::trial::{TrialLength, TrialRecord};
use serde::Deserialize;

use crate::environment::{Environment, cargo, exit_code, workspace};

const PROMISES: &str = "docs/reliability.toml";
const RECORDS: &str = "docs/reliability.json";
const PAGE: &str = "docs/reliability.md";

/// Arguments of `cargo xtask reliability`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Collect the records of this folder instead of running the trials: of a run with ORCO_TRIALS=FOLDER
    #[arg(long, value_name = "FOLDER")]
    records: Option<PathBuf>,
    /// Run the trials as `cargo xtask test` does, not in full
    #[arg(long, conflicts_with = "records")]
    short: bool,
    /// Write the page anew from the records that are there, and run nothing
    #[arg(long, conflicts_with_all = ["records", "short"])]
    page: bool,
}

/// What is promised.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Promises {
    /// The day from which on runs are recorded.
    since: String,
    promise: Vec<Promise>,
}

/// A promise, and what backs it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    number: u32,
    sentence: String,
    /// As `FILE::NAME`.
    tests: Vec<String>,
}

impl Promises {
    fn read() -> Result<Self, Box<dyn Error>> {
        Ok(toml::from_str(&read(PROMISES)?)?)
    }

    /// Each test with the number of the promise that it backs.
    fn tests(&self) -> BTreeSet<(u32, &str)> {
        self.promise.iter().flat_map(|promise| promise.tests.iter().map(|test| (promise.number, &**test))).collect()
    }
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(workspace().join(path)).map_err(|error| format!("cannot read {path}: {error}"))
}

fn kept() -> Result<Vec<TrialRecord>, Box<dyn Error>> {
    Ok(serde_json::from_str(&read(RECORDS)?)?)
}

/// Runs the trials, or takes the records of a run, and writes the page and what it is made of.
///
/// # Errors
/// If a file cannot be read or written, a record is of a test that no promise names or of a tree with uncommitted
/// changes, or Cargo does not start.
pub fn run(
    arguments: &Arguments,
    set_up: impl FnOnce() -> Result<Environment, Box<dyn Error>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let promises = Promises::read()?;
    let folder = tempfile::tempdir()?;
    let code = if arguments.page || arguments.records.is_some() {
        ExitCode::SUCCESS
    } else {
        let length = if arguments.short { TrialLength::Short } else { TrialLength::Long };
        try_all(&promises, length, folder.path(), &set_up()?)?
    };
    let new = collect(arguments.records.as_deref().unwrap_or(folder.path()))?;
    if let Some(stranger) = new.iter().find(|record| !promises.tests().contains(&(record.promise, &record.test))) {
        let TrialRecord { promise, test, .. } = stranger;
        return Err(format!("no promise {promise} names the test {test}: add it to {PROMISES}").into());
    }
    if let Some(sentence) = of_changed_tree(&new) {
        return Err(sentence.into());
    }
    let records = merge(kept()?, new, &promises);
    fs::write(workspace().join(RECORDS), serde_json::to_string_pretty(&records)? + "\n")?;
    fs::write(workspace().join(PAGE), page::of(&promises, &records))?;
    println!("{PAGE} has {} records", records.len());
    Ok(code)
}

/// What to do about records that nobody can repeat: their tree had uncommitted changes.
fn of_changed_tree(records: &[TrialRecord]) -> Option<String> {
    let record = records.iter().find(|record| record.commit.ends_with("-dirty"))?;
    let TrialRecord { test, commit, .. } = record;
    Some(format!(
        "the record of {test} is of {commit}, a tree with uncommitted changes: commit, and run the trials again"
    ))
}

/// Runs every test that backs a promise, but for those of this program: `cargo xtask test machines` takes hours.
fn try_all(
    promises: &Promises,
    length: TrialLength,
    folder: &Path,
    environment: &Environment,
) -> Result<ExitCode, Box<dyn Error>> {
    let tests = promises.tests();
    let tests = tests.iter().filter(|(_, test)| !test.starts_with("tests/xtask/"));
    let names: BTreeSet<&str> = tests.filter_map(|(_, test)| test.rsplit("::").next()).collect();
    let mut command = cargo();
    command.args("test --release --workspace --lib --tests --no-fail-fast --".split(' ')).args(names);
    environment.apply(&mut command);
    command.env("ORCO_TRIALS", folder).current_dir(workspace()).stdin(Stdio::null());
    match length {
        TrialLength::Short => command.env_remove("ORCO_HEAVY"),
        TrialLength::Long => command.env("ORCO_HEAVY", "1"),
    };
    Ok(exit_code(command.status().map_err(|error| format!("cargo could not be started: {error}"))?))
}

/// The records of a folder.
fn collect(folder: &Path) -> Result<Vec<TrialRecord>, Box<dyn Error>> {
    let named = |error: &dyn std::fmt::Display, path: &Path| format!("{}: {error}", path.display());
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| named(&error, folder))? {
        let path = entry?.path();
        let bytes = fs::read(&path).map_err(|error| named(&error, &path))?;
        records.push(serde_json::from_slice(&bytes).map_err(|error| named(&error, &path))?);
    }
    Ok(records)
}

/// One record for each test, in the promises' order. A new one counts, unless it is of a short run without failures and
/// there is one of a long run. Records of tests that no promise names any more are dropped.
fn merge(kept: Vec<TrialRecord>, new: Vec<TrialRecord>, promises: &Promises) -> Vec<TrialRecord> {
    let of = |records: &[TrialRecord], promise: u32, test: &str| {
        records.iter().find(|record| record.promise == promise && record.test == test).cloned()
    };
    let chosen = |(promise, test): (u32, &String)| match (of(&kept, promise, test), of(&new, promise, test)) {
        (Some(old), Some(new))
            if old.form == TrialLength::Long && new.form == TrialLength::Short && new.failures == 0 =>
        {
            Some(old)
        }
        (old, new) => new.or(old),
    };
    let promises = promises.promise.iter();
    let tests = promises.flat_map(|promise| promise.tests.iter().map(|test| (promise.number, test)));
    tests.filter_map(chosen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(promise: u32, test: &str, form: TrialLength, failures: u64) -> TrialRecord {
        let (unit, date, commit, processor) = ("cuts".into(), "2026-11-25".into(), "abc".into(), "one".into());
        let further = Vec::new();
        TrialRecord { promise, test: test.into(), count: 9, unit, failures, further, date, commit, processor, form }
    }

    #[test]
    fn the_page_is_what_its_records_make() {
        let (promises, records) = (Promises::read().unwrap(), kept().unwrap());
        let page = page::of(&promises, &records);
        assert!(page == read(PAGE).unwrap(), "{PAGE} is another one: cargo xtask reliability --page");
        let numbers: Vec<u32> = promises.promise.iter().map(|promise| promise.number).collect();
        assert_eq!(numbers, (1..=numbers.len() as u32).collect::<Vec<_>>());
        for record in records {
            assert!(promises.tests().contains(&(record.promise, &record.test)), "{record:?} is of no promise");
        }
    }

    /// Every call of `trial!` in a file: the promise's number and the test that it lies in.
    fn trials(path: &Path, found: &mut BTreeSet<(u32, String)>) {
        let text = fs::read_to_string(path).unwrap();
        let name = path.strip_prefix(workspace()).unwrap().to_str().unwrap().replace('\\', "/");
        let call = concat!("orco_trials::", "trial!(");
        for (place, _) in text.match_indices(call) {
            let number = text[place + call.len()..].split(',').next().unwrap().parse().unwrap();
            let function = &text[text[..place].rfind("fn ").unwrap() + 3..];
            found.insert((number, format!("{name}::{}", function.split(['(', '<']).next().unwrap())));
        }
    }

    fn search(folder: &Path, found: &mut BTreeSet<(u32, String)>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("target") {
                search(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                trials(&path, found);
            }
        }
    }

    #[test]
    fn every_test_that_is_named_backs_its_promise_and_every_other_does_not() {
        let mut found = BTreeSet::new();
        ["runtime", "trainer", "tests"].iter().for_each(|folder| search(&workspace().join(folder), &mut found));
        // The example in its documentation.
        found.retain(|(_, test)| !test.starts_with("tests/trials/"));
        let promises = Promises::read().unwrap();
        let named: BTreeSet<_> =
            promises.tests().into_iter().map(|(promise, test)| (promise, test.to_owned())).collect();
        let missing: Vec<_> = named.difference(&found).collect();
        assert!(missing.is_empty(), "{PROMISES} names tests that are not there, or do not call trial!: {missing:#?}");
        let unnamed: Vec<_> = found.difference(&named).collect();
        assert!(unnamed.is_empty(), "add these to {PROMISES}: {unnamed:#?}");
    }

    #[test]
    fn a_record_of_uncommitted_changes_is_refused() {
        let clean = record(1, "a", TrialLength::Long, 0);
        let changed = TrialRecord { commit: "abc-dirty".into(), test: "b".into(), ..clean.clone() };
        assert_eq!(of_changed_tree(std::slice::from_ref(&clean)), None);
        assert!(of_changed_tree(&[clean, changed]).unwrap().starts_with("the record of b is of abc-dirty, "));
    }

    /// A promise that these tests back.
    pub(super) fn promise(number: u32, tests: &[&str]) -> Promise {
        let tests = tests.iter().map(|&test| test.to_owned()).collect();
        Promise { number, sentence: format!("Promise {number}."), tests }
    }

    #[test]
    fn a_short_run_replaces_a_long_one_only_where_it_failed() {
        let promises =
            Promises { since: "2026-11-25".into(), promise: vec![promise(1, &["a", "b", "c"]), promise(2, &["a"])] };
        let long = |promise, test| record(promise, test, TrialLength::Long, 0);
        let kept = vec![long(1, "a"), long(1, "b"), long(1, "gone"), record(1, "c", TrialLength::Short, 0)];
        let new = vec![
            record(1, "a", TrialLength::Short, 0),
            record(1, "b", TrialLength::Short, 1),
            long(1, "c"),
            long(2, "a"),
        ];
        let merged = merge(kept, new, &promises);
        let expected = [long(1, "a"), record(1, "b", TrialLength::Short, 1), long(1, "c"), long(2, "a")];
        assert_eq!(merged, expected);
    }
}
