//! `cargo xtask test machines`: the tests that train and export, as other processors would compute them.
//!
//! libtorch rounds otherwise with other vector units and other numbers of threads. A test that holds under each of them
//! here does not stand on the rounding of one processor.

use std::collections::BTreeSet;
use std::error::Error;
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::Instant;

use clap::ValueEnum;

use crate::checks::LINTED;
use crate::environment::{Environment, cargo, workspace};

/// Runs the tests that train, or compare networks with what was exported; selected out of the whole workspace, so that
/// their programs are the ones that `cargo xtask test` has built.
const TESTS: &str = "nextest run --release --workspace --no-fail-fast";
const FILTER: &str = "binary_id(orco-tests::golden_trainer) or binary_id(orco-tests::it) and \
                      test(/^(backbones|onnx_export|training|views)::/)";

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

/// The outcome of the tests in one setting.
struct Outcome {
    isa: Isa,
    threads: usize,
    seconds: f64,
    /// Tests that failed.
    failed: Vec<String>,
}

/// Runs the tests under every setting, or those named, and prints a table; the exit code says whether all succeeded.
///
/// # Errors
/// If the tests cannot be built or started.
pub fn try_every_setting(
    isas: &[Isa],
    threads: &[usize],
    environment: &Environment,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut trial = orco_trials::trial!(20, "settings of vector units and threads");
    let isas = if isas.is_empty() { Isa::value_variants() } else { isas };
    let threads = if threads.is_empty() { &THREADS } else { threads };
    let mut outcomes: Vec<Outcome> = Vec::new();
    for &isa in isas {
        for &count in threads {
            let (number, all) = (outcomes.len() + 1, isas.len() * threads.len());
            eprintln!("=== {number} of {all}: {} with OMP_NUM_THREADS={count}", isa.name());
            let begin = Instant::now();
            let failed = failures(isa, count, environment)?;
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

/// Runs the tests under a setting; the names of those that failed, after showing what they said.
fn failures(isa: Isa, threads: usize, environment: &Environment) -> Result<Vec<String>, Box<dyn Error>> {
    let mut command = cargo();
    command.args(TESTS.split(' ')).args(["-E", FILTER]).current_dir(workspace()).stdin(Stdio::null());
    environment.apply(&mut command);
    isa.apply(&mut command);
    let Output { status, stderr, .. } = command.envs(LINTED).env("OMP_NUM_THREADS", threads.to_string()).output()?;
    if status.success() {
        return Ok(Vec::new());
    }
    let said = String::from_utf8_lossy(&stderr);
    eprintln!("{said}");
    let failed = failed_tests(&said);
    if failed.is_empty() { Err(format!("the tests cannot be run ({status})").into()) } else { Ok(failed) }
}

/// Names of the failed tests in what nextest said, which names each at once and again at the end.
fn failed_tests(said: &str) -> Vec<String> {
    let failed = said.lines().filter_map(|line| {
        let (outcome, rest) = line.trim_start().split_once(" [")?;
        let ended = ["FAIL", "TIMEOUT"].contains(&outcome) || outcome.starts_with("SIG");
        rest.split_whitespace().last().filter(|_| ended)
    });
    failed.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
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
        let said = "        PASS [   1.003s] (1/3) orco-tests::it training::one\n\
                    \x20       FAIL [   0.004s] (2/3) orco-tests::it training::two\n\
                    \x20    SIGABRT [   0.004s] (3/3) orco-tests::golden_trainer three\n\
                    \x20       FAIL [   0.004s] (2/3) orco-tests::it training::two\n";
        assert_eq!(failed_tests(said), ["three", "training::two"]);
        assert!(failed_tests("error: could not compile `orco-tests`\n").is_empty());
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
