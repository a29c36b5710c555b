//! `cargo xtask test machines`: the tests that train and export, as other processors would compute them.
//!
//! libtorch rounds otherwise with other vector units and other numbers of threads. A test that holds under each of them
//! here does not stand on the rounding of one processor.

use std::error::Error;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::ValueEnum;

use crate::checks::workspace;
use crate::environment::{Environment, cargo};

/// The test programs that train, or compare networks with what was exported; selected out of the whole workspace, so
/// that they are the ones that `cargo xtask test` has built.
const TESTS: &str = "test --release --workspace --no-fail-fast --test backbones --test golden_trainer \
                     --test onnx_export --test training --test views";

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

/// Runs the tests under every setting, or those named, and prints a table; the exit code says whether all succeeded.
///
/// # Errors
/// If Cargo does not start, or the tests cannot be built.
pub fn run(isas: &[Isa], threads: &[usize], environment: &Environment) -> Result<ExitCode, Box<dyn Error>> {
    let isas = if isas.is_empty() { Isa::value_variants() } else { isas };
    let threads = if threads.is_empty() { &THREADS } else { threads };
    let threads_of_each = threads.len();
    let tests = || {
        let mut command = cargo();
        command.args(TESTS.split_whitespace()).current_dir(workspace()).stdin(Stdio::null());
        environment.apply(&mut command);
        command
    };
    if !tests().arg("--no-run").status()?.success() {
        return Err("the tests cannot be built".into());
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    for &isa in isas {
        for &threads in threads {
            let (number, all) = (outcomes.len() + 1, isas.len() * threads_of_each);
            eprintln!("=== {number} of {all}: {} with OMP_NUM_THREADS={threads}", isa.name());
            let mut command = tests();
            isa.apply(&mut command);
            let begin = Instant::now();
            let output = command.env("OMP_NUM_THREADS", threads.to_string()).output()?;
            let said = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            let failed = if output.status.success() { Vec::new() } else { failures(&said, &errors) };
            if !failed.is_empty() {
                eprintln!("{said}\n{errors}");
            }
            let outcome = Outcome { isa, threads, seconds: begin.elapsed().as_secs_f64(), failed };
            eprintln!("{}", outcome.line());
            outcomes.push(outcome);
        }
    }
    println!("\n{}", table(&outcomes));
    let failed: Vec<String> = outcomes.iter().filter(|outcome| !outcome.failed.is_empty()).map(Outcome::name).collect();
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("error: tests fail with {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Names of the failed tests and programs in what Cargo said; at least one.
fn failures(said: &str, errors: &str) -> Vec<String> {
    let tests = said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    // A program that a signal ended has no list of tests.
    let died = errors.lines().filter_map(|line| line.trim().strip_prefix("process didn't exit successfully: "));
    let died = died.filter(|line| line.contains("signal")).map(|line| line.split(' ').next().unwrap_or(line));
    let mut failed: Vec<String> = tests.chain(died).map(str::to_owned).collect();
    if failed.is_empty() {
        failed.push("Cargo".to_owned());
    }
    failed
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
        assert_eq!(failures(said, ""), ["two"]);
        let died =
            "  process didn't exit successfully: `/t/backbones-1` (signal: 11, SIGSEGV: invalid memory reference)";
        assert_eq!(failures("running 1 test\n", died), ["`/t/backbones-1`"]);
        assert_eq!(failures("", "error: no such command"), ["Cargo"]);
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
