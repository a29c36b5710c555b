//! The steps of `cargo xtask test`, which CI runs too.

use std::error::Error;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::environment::{Environment, cargo, exit_code, quoted, workspace};
use crate::library::LIBTORCH;
use crate::test_runner::{self, TestThreads};

/// One call of Cargo, or another program, that must succeed.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// `cargo`, or a program that the environment's path leads to.
    program: &'static str,
    /// Its arguments, divided by single spaces.
    arguments: &'static str,
    /// Variables that this step alone needs.
    variables: &'static [(&'static str, &'static str)],
    /// How many tests run at a time, where it runs tests.
    test_threads: Option<TestThreads>,
}

impl Step {
    const fn new(arguments: &'static str) -> Self {
        Self { program: "cargo", arguments, variables: &[], test_threads: None }
    }

    /// Runs it in the workspace's folder.
    fn run(&self, environment: &Environment) -> Result<ExitCode, Box<dyn Error>> {
        if let Some(threads) = self.test_threads {
            return Ok(exit_code(test_runner::run(self.arguments, threads, self.variables, environment)?));
        }
        let mut command = if self.program == "cargo" { cargo() } else { Command::new(self.program) };
        command.args(self.arguments.split(' ')).current_dir(workspace()).stdin(Stdio::null());
        environment.apply(&mut command);
        let status = command.envs(self.variables.iter().copied()).status();
        Ok(exit_code(status.map_err(|error| format!("{} could not be started: {error}", self.program))?))
    }

    /// Program and arguments, for people.
    fn line(&self) -> String {
        format!("{} {}", self.program, self.arguments)
    }
}

const FORMAT: Step = Step::new("fmt --all --check");
/// The unit tests, in one process for each crate: loading libtorch takes a third of a second, which each of three
/// hundred processes would pay.
const UNIT_TESTS: Step = Step {
    variables: &LINTED,
    test_threads: Some(TestThreads::Shared),
    ..Step::new("test --release --workspace --lib --no-fail-fast -- --quiet")
};
/// All other tests.
const TESTS: Step = Step {
    variables: &LINTED,
    test_threads: Some(TestThreads::Shared),
    ..Step::new("nextest run --release --workspace -E !kind(lib)")
};
/// The test with Home Assistant's core, by its name. It is built as [`TESTS`] are, so that both share one build.
#[cfg(unix)]
const HOME_ASSISTANT: Step = Step { arguments: "nextest run --release --workspace home_assistant_shows", ..TESTS };
/// The documentation's examples, which nextest does not run.
const EXAMPLES: Step = Step { variables: &LINTED, ..Step::new("test --release --workspace --doc") };
/// The book; a test compares its results with those of the bundles' reports.
const BOOK: Step = Step { program: "mdbook", ..Step::new("build docs") };
/// Has Cargo lint the workspace's crates while it compiles them for tests: clippy stands in the compiler's place, as
/// `cargo clippy` puts it there, and a separate run of that would compile everything a second time.
pub const LINTED: [(&str, &str); 2] = [WRAPPER, DENIED];
const WRAPPER: (&str, &str) = ("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
/// `-D warnings`, as `cargo clippy` hands it on.
const DENIED: (&str, &str) = ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings");
/// Licences, crates that are not wanted, and where crates come from, by `deny.toml`. Advisories are left out: their
/// database lies on GitHub.
const DEPENDENCIES: Step = Step::new("deny --workspace check licenses bans sources");
/// Weaknesses of dependencies that are known, by a database that lies on GitHub.
const ADVISORIES: Step = Step::new("deny --workspace check advisories");
/// The workflows: permissions, pinned actions, what a stranger's pull request could do. Questions to GitHub are left
/// out.
const WORKFLOWS: Step = Step {
    program: "zizmor",
    ..Step::new("--offline --no-progress --persona=pedantic --strict-collection .github/workflows")
};

/// A minute for each target. cargo-fuzz would build them with nightly Rust, for a sanitizer that code without `unsafe`
/// can do without.
const FUZZING: Step = Step::new("xtask fuzz");
/// Miri, which needs nightly Rust.
const MIRI: Step = Step::new("xtask test miri --or-skip");

/// What other selections of packages and features compile to, and the documentation.
const OTHER_BUILDS: [Step; 5] = [
    Step::new("clippy --release --workspace --benches -- -D warnings"),
    // Every package without features, with each alone, and with all; no crate beside it turns features on. Those left
    // out need libtorch, and are built with all that they have by the tests, or have no standard library.
    Step::new(
        "hack clippy --release --workspace --each-feature --exclude orco-trainer --exclude orco-tests \
         --exclude orco-bare -- -D warnings",
    ),
    // cargo-fuzz builds these with nightly Rust; that they compile needs none.
    Step::new(
        "check --release --locked --no-default-features --manifest-path tests/fuzzing/Cargo.toml --target-dir target",
    ),
    Step::new("run --profile bare --package orco-bare --features program"),
    Step {
        variables: &[("RUSTDOCFLAGS", "-D warnings")],
        ..Step::new("doc --release --workspace --no-deps --document-private-items")
    },
];

/// What is quick enough to run between two changes: no trial, no training.
pub fn quick() -> Vec<Step> {
    vec![FORMAT, UNIT_TESTS]
}

/// All tests, the long trials shortened.
pub fn standard() -> Vec<Step> {
    vec![FORMAT, DEPENDENCIES, WORKFLOWS, BOOK, UNIT_TESTS, TESTS, EXAMPLES]
}

/// All checks, the long trials in full.
pub fn full() -> Vec<Step> {
    // Long trials take what the machine has.
    let [unit_tests, tests] = [UNIT_TESTS, TESTS].map(|tests| Step {
        variables: &[("ORCO_HEAVY", "1"), ("NEXTEST_PROFILE", "full"), WRAPPER, DENIED],
        test_threads: Some(TestThreads::Cores),
        ..tests
    });
    [&[FORMAT, DEPENDENCIES, WORKFLOWS, BOOK][..], &OTHER_BUILDS, &[unit_tests, tests, EXAMPLES, FUZZING, MIRI]]
        .concat()
}

/// Checks whose outcome changes without a commit.
pub fn advisories() -> Vec<Step> {
    vec![ADVISORIES]
}

/// Home Assistant alone.
#[cfg(unix)]
pub fn home_assistant() -> Vec<Step> {
    vec![HOME_ASSISTANT]
}

/// What [`UNIT_TESTS`] and [`TESTS`] build, as far as it needs no libtorch where there is none.
const AHEAD: &str = "build --release --workspace --tests --keep-going";

/// Sets up what a build needs. Where libtorch must be fetched first, which leaves the cores idle, what the tests need
/// besides is built meanwhile; what does not compile is told by the step that builds it again.
///
/// # Errors
/// Those of `set_up`, and Cargo not starting.
pub fn building_meanwhile<T>(set_up: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<T, Box<dyn Error>> {
    if LIBTORCH.is_set_up() {
        return set_up();
    }
    eprintln!("Building meanwhile what needs no libtorch");
    let mut build = cargo();
    build.args(AHEAD.split(' ')).current_dir(workspace()).envs(LINTED);
    while_running(&mut build, set_up)
}

/// Does something while a program runs, silently, and waits for its end, however it ends; after an error the program is
/// ended.
fn while_running<T>(
    program: &mut Command,
    work: impl FnOnce() -> Result<T, Box<dyn Error>>,
) -> Result<T, Box<dyn Error>> {
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let name = program.get_program().to_string_lossy().into_owned();
    let mut running = program.spawn().map_err(|error| format!("{name} could not be started: {error}"))?;
    let done = work();
    if done.is_err() {
        // It may have ended by itself.
        let _ = running.kill();
    }
    running.wait()?;
    done
}

/// Runs the steps in the workspace's folder up to the first that fails, then prints a table of what each took.
///
/// `set_up` gives the environment of all steps; it is timed as the first of them. Returns the exit code of the step
/// that failed, or success.
///
/// # Errors
/// Those of `set_up`, and Cargo not starting.
pub fn run(
    steps: &[Step],
    set_up: impl FnOnce() -> Result<Environment, Box<dyn Error>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let start = Instant::now();
    let environment = set_up()?;
    let mut rows = vec![Row::new("set-up", start)];
    let failed = run_until_failure(steps, &mut rows, |step| step.run(&environment))?;
    let Some((step, code)) = failed else {
        println!("\n{}", table(&rows, "ok"));
        return Ok(ExitCode::SUCCESS);
    };
    println!("\n{}", table(&rows, "FAILED"));
    eprintln!("error: `{}` failed; to repeat it:\n{}", step.line(), repeat(step, &environment));
    Ok(code)
}

/// Announces, starts and times each step; returns the one that failed.
fn run_until_failure<'a>(
    steps: &'a [Step],
    rows: &mut Vec<Row>,
    start: impl Fn(&Step) -> Result<ExitCode, Box<dyn Error>>,
) -> Result<Option<(&'a Step, ExitCode)>, Box<dyn Error>> {
    for step in steps {
        eprintln!("\n=== {}", step.line());
        let begin = Instant::now();
        let code = start(step)?;
        rows.push(Row::new(step.line(), begin));
        if code != ExitCode::SUCCESS {
            return Ok(Some((step, code)));
        }
    }
    Ok(None)
}

/// One line of the closing table.
struct Row {
    name: String,
    took: Duration,
}

impl Row {
    fn new(name: impl Into<String>, start: Instant) -> Self {
        Self { name: name.into(), took: start.elapsed() }
    }
}

/// Seconds, outcome and name of each step; all succeeded but for the last, whose outcome is given.
fn table(rows: &[Row], last: &str) -> String {
    let mut lines = vec![" seconds  outcome  step".to_owned()];
    let mut total = Duration::ZERO;
    for (index, Row { name, took }) in rows.iter().enumerate() {
        let outcome = if index + 1 == rows.len() { last } else { "ok" };
        lines.push(format!("{:8.1}  {outcome:7}  {name}", took.as_secs_f64()));
        total += *took;
    }
    lines.push(format!("{:8.1}  {last:7}  all", total.as_secs_f64()));
    lines.join("\n")
}

/// A line for a shell that repeats a step, with the variables that it ran with.
fn repeat(step: &Step, environment: &Environment) -> String {
    let exports: String = environment.assignments().map(|assignment| format!("export {assignment}; ")).collect();
    let of_tests = step.test_threads.map(TestThreads::variables).unwrap_or_default();
    let own = step.variables.iter().map(|(name, value)| (*name, (*value).to_owned()));
    let variables: String =
        of_tests.into_iter().chain(own).map(|(name, value)| format!("{name}={} ", quoted(&value))).collect();
    format!("(cd {} && {exports}{variables}{})", quoted(&workspace().to_string_lossy()), step.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one of the other builds that needs a variable.
    fn documentation() -> &'static Step {
        OTHER_BUILDS.iter().find(|step| !step.variables.is_empty()).expect("there is one")
    }

    #[test]
    fn stops_at_the_first_failure() {
        let (mut rows, all) = (Vec::new(), full());
        let none = run_until_failure(&all, &mut rows, |_| Ok(ExitCode::SUCCESS));
        assert!(none.unwrap().is_none());
        assert_eq!(rows.len(), all.len());

        rows.clear();
        let failing =
            |step: &Step| Ok(ExitCode::from(if step.arguments == documentation().arguments { 101 } else { 0 }));
        let failed = run_until_failure(&all, &mut rows, failing).unwrap();
        let (step, code) = failed.unwrap();
        assert_eq!(step.arguments, documentation().arguments);
        assert_eq!(code, ExitCode::from(101));
        assert_eq!(all[rows.len() - 1].arguments, documentation().arguments);
    }

    #[cfg(unix)]
    #[test]
    fn steps_of_this_program_are_tasks_of_it() {
        use clap::Parser;
        for step in [FUZZING, MIRI] {
            crate::arguments::Arguments::try_parse_from(step.arguments.split(' ')).unwrap();
        }
        assert!(full().iter().any(|step| step.arguments == MIRI.arguments));
    }

    #[cfg(unix)]
    #[test]
    fn what_runs_meanwhile_is_awaited_and_ends_with_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = Command::new("sh");
        program.args(["-c", "sleep 0.2; touch done"]).current_dir(&folder);
        assert_eq!(while_running(&mut program, || Ok(7)).unwrap(), 7);
        assert!(folder.path().join("done").exists());
        let mut endless = Command::new("sleep");
        let error = while_running(endless.arg("infinity"), || Err::<(), _>("no network".into())).unwrap_err();
        assert_eq!(error.to_string(), "no network");
    }

    #[test]
    fn table_shows_every_step() {
        let row = |name: &str, seconds| Row { name: name.to_owned(), took: Duration::from_secs(seconds) };
        let expected = " seconds  outcome  step\n\
                        \x20    2.0  ok       fmt\n\
                        \x20   75.0  FAILED   test\n\
                        \x20   77.0  FAILED   all";
        assert_eq!(table(&[row("fmt", 2), row("test", 75)], "FAILED"), expected);
    }

    #[test]
    fn failed_step_can_be_repeated() {
        let folder = quoted(workspace().to_str().unwrap());
        let none = Environment::default();
        assert_eq!(repeat(&FORMAT, &none), format!("(cd {folder} && cargo fmt --all --check)"));
        let documentation = repeat(documentation(), &none);
        assert!(documentation.contains("&& RUSTDOCFLAGS='-D warnings' cargo doc --release"), "{documentation}");
        // What `cargo xtask setup` says nothing of.
        let environment = none.with_package("ORCO_MOSQUITTO").with_program("/hack/cargo-hack".as_ref());
        let tests = repeat(&TESTS, &environment);
        let begin =
            format!("(cd {folder} && export ORCO_MOSQUITTO=1; export PATH=/hack${{PATH:+:$PATH}}; OMP_NUM_THREADS=1 ");
        assert!(tests.starts_with(&begin) && tests.contains(" RUSTC_WORKSPACE_WRAPPER=clippy-driver "), "{tests}");
    }
}
