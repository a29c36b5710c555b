//! The page itself.

use std::collections::BTreeSet;
use std::fmt::Write;

use orco_trials::trial::{TrialLength, TrialRecord};

use super::{Promise, Promises};

const HEAD: &str = "\
# What OrCo promises, and how often we tried to break it

<!-- Written by `cargo xtask reliability`. Edit docs/reliability.toml instead. -->

Tests back each promise. The table says what each test tried, how many tries failed, and when it last ran. A *long* run
is the full trial; a *short* one is what runs before every commit.
";

const TAIL: &str = "
`cargo xtask reliability` runs all trials in full and writes this page anew. To record a run of your own, set
`ORCO_TRIALS=FOLDER`, run the tests, then call `cargo xtask reliability --records FOLDER`. Promise 20 has a trial that
takes hours: `ORCO_TRIALS=FOLDER cargo xtask test machines`.
";

/// Makes the page.
pub(super) fn of(promises: &Promises, records: &[TrialRecord]) -> String {
    let mut page = HEAD.to_owned();
    page += "\n| # | promise | test | tried | failed | last run |\n|---|---|---|---|---|---|\n";
    for promise in &promises.promise {
        rows(&mut page, promise, &promises.since, records);
    }
    let missing = promises.tests().len() - records.len();
    if missing > 0 {
        let _ =
            write!(page, "\nTests without a recorded run: {missing}. Runs are recorded since {}.\n", promises.since);
    }
    let processors: BTreeSet<&str> = records.iter().map(|record| &*record.processor).collect();
    if !processors.is_empty() {
        let _ = write!(page, "\nProcessors: {}.\n", processors.into_iter().collect::<Vec<_>>().join("; "));
    }
    page + TAIL
}

/// The rows of a promise: one for each of its tests, the promise's own words in the first.
fn rows(page: &mut String, promise: &Promise, since: &str, records: &[TrialRecord]) {
    let Promise { number, sentence, tests } = promise;
    if tests.is_empty() {
        let _ = writeln!(page, "| {number} | {sentence} | none yet | | | |");
    }
    for (index, test) in tests.iter().enumerate() {
        let first = if index == 0 { format!("{number} | {sentence}") } else { " | ".into() };
        let record = records.iter().find(|record| record.promise == *number && record.test == *test);
        let run = record.map_or_else(|| format!("| | | not run since {since}"), run);
        let _ = writeln!(page, "| {first} | {} {run} |", link(test));
    }
}

/// A test's name in words, with a link to its file.
fn link(test: &str) -> String {
    let (file, name) = test.split_once("::").unwrap_or((test, test));
    format!("[{}](../{file})", name.replace('_', " "))
}

/// What a run tried, what failed, and when it was.
fn run(record: &TrialRecord) -> String {
    let TrialRecord { count, unit, failures, further, date, commit, form, .. } = record;
    let form = match form {
        TrialLength::Short => "short",
        TrialLength::Long => "long",
    };
    let further: String = further.iter().map(|also| format!("; {} {}", grouped(also.count), also.unit)).collect();
    format!("| {} {unit}{further} | {failures} | {date}, {form}, `{commit}`", grouped(*count))
}

/// A number with a comma between each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use orco_trials::trial::FurtherCount;

    use super::super::tests::promise;
    use super::*;

    #[test]
    fn every_test_has_a_row_whether_it_ran_or_not() {
        let promises = Promises {
            since: "2026-11-25".into(),
            promise: vec![promise(1, &["a/b.rs::a_cut", "c.rs::another"]), promise(2, &[])],
        };
        let record = TrialRecord {
            promise: 1,
            test: "a/b.rs::a_cut".into(),
            count: 1_234_567,
            unit: "power cuts".into(),
            failures: 0,
            further: vec![FurtherCount { count: 12, unit: "kills".into() }],
            date: "2026-11-26".into(),
            commit: "abc".into(),
            processor: "A processor".into(),
            form: TrialLength::Long,
        };
        let page = of(&promises, &[record]);
        for row in [
            "| 1 | Promise 1. | [a cut](../a/b.rs) | 1,234,567 power cuts; 12 kills | 0 | 2026-11-26, long, `abc` |\n",
            "|  |  | [another](../c.rs) | | | not run since 2026-11-25 |\n",
            "| 2 | Promise 2. | none yet | | | |\n",
            "Tests without a recorded run: 1. Runs are recorded since 2026-11-25.\n",
            "Processors: A processor.\n",
        ] {
            assert!(page.contains(row), "no {row:?} in: {page}");
        }
        assert_eq!([0, 999, 1000].map(grouped), ["0", "999", "1,000"]);
    }
}
