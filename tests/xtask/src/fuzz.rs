//! `cargo xtask fuzz`: each fuzz target runs for a while, from the corpus on, and what makes it fail is kept.
//!
//! The targets are programs of libFuzzer, built as cargo-fuzz builds them but for the address sanitizer, which only
//! nightly Rust has: they watch for panics, time and memory.

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::environment::{cargo, workspace};
use crate::metadata::target_folder;
use crate::package::program::host;
use crate::process::{must_run, output};

/// Counts edges for libFuzzer, and has arithmetic that overflows panic.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions --cfg fuzzing";
/// Megabytes that a target may take. A picture alone may take 512.
const MEGABYTES: u32 = 2048;

/// Most bytes of a finding that are printed.
const PRINTED: u64 = 64 << 10;

/// What runs, and how long.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Targets; all of them if none is named
    targets: Vec<String>,
}

/// Builds the targets and runs each.
///
/// # Errors
/// If they cannot be built, there is no such target, or one fails: with the files that it fails on.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let folder = workspace().join("tests/fuzzing");
    let known = names(&folder.join("targets"))?;
    if let Some(unknown) = arguments.targets.iter().find(|name| !known.contains(name)) {
        return Err(format!("there is no target {unknown}; there are {}", known.join(", ")).into());
    }
    let (target, triple) = (target_folder()?.join("fuzzing"), host()?);
    let mut build = cargo();
    // With a target named, build scripts are built without these flags.
    build
        .args(["build", "--release", "--locked", "--target", &triple, "--manifest-path"])
        .arg(folder.join("Cargo.toml"));
    must_run(build.arg("--target-dir").arg(&target).env("RUSTFLAGS", FLAGS).env_remove("RUSTC_WORKSPACE_WRAPPER"))?;
    let programs = target.join(triple).join("release");
    let mut findings = Vec::new();
    for name in known.iter().filter(|name| arguments.targets.is_empty() || arguments.targets.contains(name)) {
        let fuzzed = FuzzTarget { name, program: programs.join(name), kept: target.join("found").join(name) };
        fuzzed.run(arguments.seconds, &[target.join("grown").join(name), folder.join("corpus").join(name)])?;
        findings.extend(fuzzed.findings()?);
    }
    if findings.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let list: Vec<String> = findings.iter().map(|path| shown(path)).collect();
    Err(format!("mend what these show, then put each into tests/fuzzing/corpus:\n{}", list.join("\n")).into())
}

/// A finding with its content as `base64 --decode` takes it: the machine may be gone when somebody reads the log.
fn shown(finding: &Path) -> String {
    let path = finding.display();
    let Ok(bytes) = fs::metadata(finding).map(|facts| facts.len()) else { return path.to_string() };
    let content =
        (bytes <= PRINTED).then(|| output(Command::new("base64").arg("--wrap=0").arg(finding)).ok()).flatten();
    match content {
        Some(content) => format!("{path}, {bytes} bytes:\n{content}"),
        None => format!("{path}, {bytes} bytes"),
    }
}

/// Names of the targets: those of their files.
fn names(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    let stems = files.iter().filter_map(|path| path.file_stem());
    let mut names: Vec<String> = stems.map(|stem| stem.to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// A target, and the folder of inputs on which it fails.
struct FuzzTarget<'a> {
    name: &'a str,
    program: PathBuf,
    kept: PathBuf,
}

impl FuzzTarget<'_> {
    /// Runs it from the corpora on. New inputs go to the first, which stays for the next time.
    fn run(&self, seconds: u32, corpora: &[PathBuf]) -> Result<(), Box<dyn Error>> {
        eprintln!("=== {} for {seconds} s", self.name);
        corpora.iter().chain([&self.kept]).try_for_each(fs::create_dir_all)?;
        let mut prefix = OsString::from("-artifact_prefix=");
        prefix.push(self.kept.join(""));
        let mut command = Command::new(&self.program);
        command.arg(format!("-max_total_time={seconds}")).arg(format!("-rss_limit_mb={MEGABYTES}"));
        let status = command.arg(prefix).args(["-print_final_stats=1", "-verbosity=0"]).args(corpora).status()?;
        // A failure of the target leaves a file, and the others go on.
        if status.success() || !self.findings()?.is_empty() {
            return Ok(());
        }
        Err(format!("the target {} ended with {status} and left no file", self.name).into())
    }

    /// What it failed on, this time or before.
    fn findings(&self) -> Result<Vec<PathBuf>, std::io::Error> {
        fs::read_dir(&self.kept)?.map(|entry| Ok(entry?.path())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_corpus() {
        let folder = workspace().join("tests/fuzzing");
        let names = names(&folder.join("targets")).unwrap();
        assert!(names.len() >= 6, "{names:?}");
        for name in names {
            assert!(folder.join("corpus").join(&name).is_dir(), "{name} has no corpus");
        }
    }

    #[test]
    fn a_finding_is_shown_with_its_content_unless_it_is_large() {
        let folder = tempfile::tempdir().unwrap();
        let [small, large] = ["small", "large"].map(|name| folder.path().join(name));
        fs::write(&small, [0, 255, b'x']).unwrap();
        fs::write(&large, vec![0; 1 + PRINTED as usize]).unwrap();
        assert_eq!(shown(&small), format!("{}, 3 bytes:\nAP94", small.display()));
        assert_eq!(shown(&large), format!("{}, 65537 bytes", large.display()));
    }

    #[test]
    fn what_a_target_fails_on_is_kept_and_an_end_without_a_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let target =
            |program: &str| FuzzTarget { name: "x", program: program.into(), kept: folder.path().join("found") };
        let corpora = [folder.path().join("grown")];
        target("true").run(1, &corpora).unwrap();
        assert!(target("true").findings().unwrap().is_empty());
        assert!(target("false").run(1, &corpora).unwrap_err().to_string().contains("left no file"));
        fs::write(folder.path().join("found/crash-1"), "x").unwrap();
        target("false").run(1, &corpora).unwrap();
        assert_eq!(target("false").findings().unwrap(), [folder.path().join("found/crash-1")]);
    }
}
