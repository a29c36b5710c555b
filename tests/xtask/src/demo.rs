//! The program's demo, on the workspace's bundle and pictures.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use crate::environment::{Environment, cargo, hand_over, workspace};
use crate::library::ONNX_RUNTIME;

/// The demo's bundle, in the workspace.
const BUNDLE: &str = "models/everyday";

/// Runs `orco demo`, and becomes it.
///
/// # Errors
/// If Cargo cannot be started.
pub fn run(args: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    let mut command = cargo();
    command.args("run --release --package orco -- demo".split(' ')).args(args);
    let has_bundle = env::var_os("ORCO_BUNDLE").is_some();
    command.args(named_for_demo(args, &env::current_dir()?, &env::current_exe()?, has_bundle));
    // The page's frames may be faster in ONNX Runtime. Without it the engine in pure Rust does everything.
    match ONNX_RUNTIME.locate() {
        Ok(library) => Environment::default().with_onnx_runtime(library).apply(&mut command),
        Err(error) => eprintln!("note: the demo runs without ONNX Runtime: {error}"),
    }
    hand_over(command)
}

/// What the demo, started in the folder `here` by a program beside its own, would not find by itself: the sample
/// pictures, and the bundle, unless the environment has one, where Cargo builds in another folder than the workspace's
/// or for a named target.
fn named_for_demo(args: &[OsString], here: &Path, program: &Path, has_bundle: bool) -> Vec<OsString> {
    let is_option = |word: &OsString, option: &str| {
        word.to_string_lossy().strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let is_named = |option: &str| args.iter().any(|word| is_option(word, option));
    let mut named: Vec<OsString> = Vec::new();
    if !is_named("--shots") {
        named.extend([OsString::from("--shots"), workspace().join("examples/shots").into()]);
    }
    let of_profile = program.parent().and_then(Path::parent);
    let is_found = here.join(BUNDLE).exists() || of_profile == Some(&workspace().join("target"));
    if !is_named("--bundle") && !has_bundle && !is_found {
        named.extend([OsString::from("--bundle"), workspace().join(BUNDLE).into()]);
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_is_told_what_it_would_not_find() {
        let shots = [OsString::from("--shots"), workspace().join("examples/shots").into()];
        let bundle = [OsString::from("--bundle"), workspace().join(BUNDLE).into()];
        let named = |args: &[&str], here: &str, program: &str| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            named_for_demo(&args, &workspace().join(here), &workspace().join(program), false)
        };
        let built = "target/release/xtask";
        assert_eq!(named(&["--page"], "docs", built), shots);
        let elsewhere = "/elsewhere/release/xtask";
        assert_eq!(named(&[], "", elsewhere), shots);
        let both = [shots, bundle].concat();
        for program in [elsewhere, "target/x86_64-unknown-linux-gnu/release/xtask"] {
            assert_eq!(named(&[], "docs", program), both);
        }
        assert!(named(&["--shots=mine", "--bundle", "own"], "docs", elsewhere).is_empty());
    }
}
