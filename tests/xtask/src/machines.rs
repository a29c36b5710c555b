//! `cargo xtask test machines`: the tests that train and export, as other processors would compute them.
//!
//! libtorch rounds otherwise with other vector units and other numbers of threads. A test that holds under each of them
//! here does not stand on the rounding of one processor.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Output};
use std::time::Instant;

use clap::ValueEnum;

use crate::checks::LINTED;
use crate::environment::Environment;
use crate::programs::{self, Program};

/// Builds the test programs of all packages that are called so; selected out of the whole workspace, so that they are
/// the ones that `cargo xtask test` has built.
const BUILD: &str = "test --release --workspace --test it --test golden_trainer";

/// The folder of the package whose programs are run, and the modules of `it` that train, or compare networks with what
/// was exported.
const PACKAGE: &str = "tests";
const MODULES: [&str; 4] = ["backbones::", "onnx_export::", "training::", "views::"];

/// Numbers of threads that OpenMP is told.
const THREADS: [usize; 3] = [1, 2, 4];

/// The vector units that oneDNN, libtorch's library for convolutions, may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Isa {
    /// AVX2, and no more in ATen and MKL either
    Avx2,
    /// AVX-512 of the first servers
    Avx512Core,
    /// AVX-512 with products in bf16
    Avx512CoreBf16,
    /// All that the processor has
    Default,
}

impl Isa {
    /// The value of `ONEDNN_MAX_CPU_ISA`.
    fn name(self) -> &'static str {
        match self {
            Self::Avx2 => "AVX2",
            Self::Avx512Core => "AVX512_CORE",
            Self::Avx512CoreBf16 => "AVX512_CORE_BF16",
            Self::Default => "DEFAULT",
        }
    }

    /// Confines a program to these units.
    fn apply(self, command: &mut Command) {
        // Tests of a program run beside one another: OpenMP's threads must not spin on each other's cores.
        command.env("OMP_WAIT_POLICY", "passive").env("ONEDNN_MAX_CPU_ISA", self.name());
        if self == Self::Avx2 {
            command.env("ATEN_CPU_CAPABILITY", "avx2").env("MKL_ENABLE_INSTRUCTIONS", "AVX2");
        }
    }
}

/// What came of one setting.
struct Outcome {
    isa: Isa,
    threads: usize,
    seconds: f64,
    /// Tests that failed; a program that died counts as one.
    failed: Vec<String>,
}

/// Builds the tests once, runs them under every setting, or those named, and prints a table; the exit code says whether
/// all succeeded.
///
/// # Errors
/// If the tests cannot be built, or one of them does not start.
pub fn try_every_setting(
    isas: &[Isa],
    threads: &[usize],
    environment: &Environment,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut trial = orco_trials::trial!(20, "settings of vector units and threads");
    let isas = if isas.is_empty() { Isa::value_variants() } else { isas };
    let threads = if threads.is_empty() { &THREADS } else { threads };
    // Copies, so that the settings are compared by the same programs, whatever is built meanwhile.
    let copies = tempfile::tempdir()?;
    let programs = build(environment, copies.path())?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for &isa in isas {
        for &count in threads {
            let (number, all) = (outcomes.len() + 1, isas.len() * threads.len());
            eprintln!("=== {number} of {all}: {} with OMP_NUM_THREADS={count}", isa.name());
            let begin = Instant::now();
            let mut failed = Vec::new();
            for program in &programs {
                failed.extend(failures(program, isa, count, environment)?);
            }
            let outcome = Outcome { isa, threads: count, seconds: begin.elapsed().as_secs_f64(), failed };
            eprintln!("{}", outcome.line());
            outcomes.push(outcome);
        }
    }
    println!("\n{}", table(&outcomes));
    let failed: Vec<String> = outcomes.iter().filter(|outcome| !outcome.failed.is_empty()).map(Outcome::name).collect();
    trial.count(outcomes.len());
    trial.fail(failed.len());
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("error: tests fail with {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Builds the test programs and copies them into a folder.
fn build(environment: &Environment, folder: &Path) -> Result<Vec<Program>, Box<dyn Error>> {
    let mut programs = programs::build(BUILD, &LINTED, environment)?.ok_or("the tests cannot be built")?;
    programs.retain(|program| program.package.ends_with(PACKAGE));
    for program in &mut programs {
        let copy = folder.join(&program.name);
        fs::copy(&program.file, &copy)?;
        program.file = copy;
    }
    Ok(programs)
}

/// Runs a program's tests under a setting; the names of those that failed, after showing what they said.
fn failures(
    program: &Program,
    isa: Isa,
    threads: usize,
    environment: &Environment,
) -> Result<Vec<String>, Box<dyn Error>> {
    let mut command = program.command(environment);
    if program.name == "it" {
        command.args(MODULES);
    }
    isa.apply(&mut command);
    let Output { status, stdout, stderr } = command.env("OMP_NUM_THREADS", threads.to_string()).output()?;
    if status.success() {
        return Ok(Vec::new());
    }
    let said = String::from_utf8_lossy(&stdout);
    eprintln!("{said}\n{}", String::from_utf8_lossy(&stderr));
    let failed = failed_tests(&said);
    // A program that a signal ended has no list of tests.
    Ok(if failed.is_empty() { vec![format!("{} ({status})", program.name)] } else { failed })
}

/// Names of the failed tests in what a program said.
fn failed_tests(said: &str) -> Vec<String> {
    let failed = said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    failed.map(str::to_owned).collect()
}

impl Outcome {
    /// Its line of the table.
    fn line(&self) -> String {
        let Self { isa, threads, seconds, failed } = self;
        let outcome = if failed.is_empty() { "ok".to_owned() } else { format!("FAILED: {}", failed.join(", ")) };
        format!("{:18}  {threads:15}  {seconds:7.0}  {outcome}", isa.name())
    }

    fn name(&self) -> String {
        format!("ONEDNN_MAX_CPU_ISA={} OMP_NUM_THREADS={}", self.isa.name(), self.threads)
    }
}

/// One line for each setting.
fn table(outcomes: &[Outcome]) -> String {
    let mut lines = vec!["ONEDNN_MAX_CPU_ISA  OMP_NUM_THREADS  seconds  outcome".to_owned()];
    lines.extend(outcomes.iter().map(Outcome::line));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_named() {
        let said = "running 2 tests\ntest one ... ok\ntest two ... FAILED\n\nfailures:\n    two\n";
        assert_eq!(failed_tests(said), ["two"]);
        assert!(failed_tests("running 1 test\n").is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_died_counts_as_failed() {
        let program = |name: &str| Program { name: name.into(), file: name.into(), package: "/".into() };
        let run = |name: &str| failures(&program(name), Isa::Default, 1, &Environment::default());
        assert!(run("true").unwrap().is_empty());
        assert_eq!(run("false").unwrap(), ["false (exit status: 1)"]);
        assert!(run("orco-no-such-program").is_err());
    }

    #[test]
    fn table_shows_every_setting() {
        let outcome = |isa, failed: &[&str]| {
            let failed = failed.iter().map(|name| (*name).to_owned()).collect();
            Outcome { isa, threads: 2, seconds: 61.0, failed }
        };
        let expected = "ONEDNN_MAX_CPU_ISA  OMP_NUM_THREADS  seconds  outcome\n\
                        AVX2                              2       61  ok\n\
                        DEFAULT                           2       61  FAILED: one, two";
        assert_eq!(table(&[outcome(Isa::Avx2, &[]), outcome(Isa::Default, &["one", "two"])]), expected);
    }
}
