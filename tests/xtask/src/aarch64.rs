//! `cargo xtask test aarch64`: the libraries' tests, built for aarch64 and run in QEMU's user mode; the program beside
//! this machine's own, on states that either wrote; the package in a Debian for arm64.

mod comparison;

use std::error::Error;
use std::process::ExitCode;

use clap::ValueEnum;

use crate::cross::{Cross, TRIPLE};
use crate::environment::{cargo, workspace};
use crate::metadata::target_folder;
use crate::package::{folder_of, trial};
use crate::process::must_run;
use comparison::{Machine, Trial};

/// Packages whose tests run. Not those that draw, train or need libtorch; nor the program's own tests, which trace
/// processes, kill them at moments, and take hours here.
const TESTED: [&str; 5] = ["orco-core", "orco-state", "orco-runtime", "orco-camera", "orco-serve"];
/// Processors that QEMU can be, with whose vector instructions the program is tried: those of the Raspberry Pi Zero 2,
/// 4 and 5, and one with all that QEMU knows.
const PROCESSORS: [&str; 4] = ["cortex-a53", "cortex-a72", "cortex-a76", "max"];

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The libraries' tests
    Libraries,
    /// The program beside this machine's
    Program,
    /// The Debian package
    Package,
}

/// Builds, and tries these parts; all of them if there are none.
///
/// # Errors
/// If something cannot be built, or is not as it should be.
pub fn run(profile: &str, parts: &[Part]) -> Result<ExitCode, Box<dyn Error>> {
    let cross = Cross::set_up()?;
    let wanted = |part| parts.is_empty() || parts.contains(&part);
    if wanted(Part::Libraries) {
        libraries(&cross, profile)?;
    }
    if wanted(Part::Program) {
        program(&cross, profile)?;
    }
    if wanted(Part::Package) { trial::for_aarch64(profile, &cross) } else { Ok(ExitCode::SUCCESS) }
}

fn libraries(cross: &Cross, profile: &str) -> Result<(), Box<dyn Error>> {
    let packages = TESTED.iter().flat_map(|name| ["--package", name]);
    let features = ["--features", "orco-runtime/onnx,orco-runtime/sign", "--profile", profile];
    let words: Vec<&str> = packages.chain(features).chain(["--lib", "--bins", "--tests"]).collect();
    must_run(&mut cross.cargo("test", &words))
}

fn program(cross: &Cross, profile: &str) -> Result<(), Box<dyn Error>> {
    must_run(&mut cross.cargo("build", &["--package", "orco", "--package", "orco-lab", "--profile", profile]))?;
    // Here any will do, which is built sooner.
    must_run(
        cargo().args(["build", "--locked", "--package", "orco", "--package", "orco-lab"]).current_dir(workspace()),
    )?;
    let here = target_folder()?.join("debug/orco");
    let there = cross.target().join(TRIPLE).join(folder_of(profile)).join("orco");
    let folder = tempfile::tempdir()?;
    let mut machines = vec![Machine::here(&here)?];
    machines.extend(PROCESSORS.map(|processor| Machine::there(cross, &there, processor, folder.path())));
    Trial::new(&machines, folder.path()).all()
}
