//! The task runner behind `cargo xtask`.
//!
//! The workspace needs libraries that Cargo cannot fetch: libtorch (to train and to check the
//! trainer), ONNX Runtime (to run the backbone) and, for the tests, `onnx.checker`. All are parts
//! of Python wheels, so this program takes them from PyPI, once, into a cache folder outside the
//! checkout:
//!
//! - [`arguments`] is the command line;
//! - [`library`] says what each library is, and puts it together; its `catalogue` lists them with wheels and versions;
//! - [`pypi`] downloads one wheel with pip and unpacks the members asked for;
//! - [`cache`] puts a folder in place whole or not at all, also with two set-ups at once;
//! - [`environment`] carries the libraries to Cargo as environment variables;
//! - [`test_packages`] installs the Debian packages that tests need;
//! - [`demo`] runs the program's demo on the workspace's bundle and pictures;
//! - [`bench`](mod@bench) runs the benchmarks beside a reference kernel;
//! - [`book`] generates the book's results and builds it; [`site`] puts it together with rustdoc and reports;
//! - [`checks`] are the steps of `cargo xtask test` and its tiers, the same here and in CI;
//! - [`metadata`] is what Cargo says of the workspace;
//! - [`test_runner`] runs the tests, and lists what they skipped;
//! - [`disk_space`] checks that the disk can hold what is built;
//! - [`tool`] has Cargo build programs that no wheel has;
//! - [`package`] builds the Debian package and what lies beside it, and tries it in a clean Debian;
//! - [`debian_root`] makes Debians in the cache: one has compilers for other machines, and these machines in QEMU;
//! - [`micro`] runs a session on a microcontroller there;
//! - [`emulation`] has programs for aarch64 run here, [`cross`] builds them, [`aarch64`] tries them;
//! - [`release`] packages the crates, and puts together what goes to a release's page;
//! - [`compatibility`] compares the public API with the last release's or a baseline's, and tries the oldest Rust;
//! - [`fuzz`] runs the fuzz targets; [`wheel`](mod@wheel) builds and tries the Python wheel;
//! - [`reproducible`] builds package and wheel twice, and compares them byte for byte;
//! - [`reliability`] writes the page of what was tried how often;
//! - [`miri`] runs what is unsafe in Rust's interpreter;
//! - [`machines`] repeats the tests that train as other processors would compute them;
//! - [`home_assistant`] makes a Debian with Home Assistant's core;
//! - [`error`] is why a set-up failed and what to do next.

#[cfg(unix)]
mod aarch64;
mod arguments;
mod bench;
mod book;
mod cache;
mod checks;
#[cfg(unix)]
mod compatibility;
#[cfg(unix)]
mod cross;
#[cfg(unix)]
mod debian_root;
mod demo;
#[cfg(unix)]
mod disk_space;
#[cfg(unix)]
mod emulation;
mod environment;
mod error;
#[cfg(unix)]
mod fuzz;
#[cfg(unix)]
mod home_assistant;
mod library;
mod machines;
#[cfg(unix)]
mod metadata;
#[cfg(unix)]
mod micro;
#[cfg(unix)]
mod miri;
#[cfg(unix)]
mod package;
#[cfg(unix)]
mod process;
mod pypi;
#[cfg(unix)]
mod release;
mod reliability;
#[cfg(unix)]
mod reproducible;
#[cfg(unix)]
mod site;
mod test_packages;
mod test_runner;
#[cfg(unix)]
mod tool;
#[cfg(unix)]
mod wheel;

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;
use std::thread;

use clap::{CommandFactory, Parser};

use crate::arguments::{Arguments, PublishedNetwork, Task, Tier};
use crate::book::BookTask;
#[cfg(unix)]
use crate::environment::HOME_ASSISTANT;
use crate::environment::{Environment, cargo, hand_over};
use crate::library::{
    AXE, CARGO_DENY, CARGO_HACK, CARGO_NEXTEST, EFFICIENTNET_LITE, LIBTORCH, MDBOOK, ONNX_CHECKER, ONNX_RUNTIME,
    TRITON_CLIENT, ZIZMOR,
};

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        None => Arguments::command().print_help().map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Some(Task::Setup { onnxruntime_only }) => set_up(onnxruntime_only),
        Some(Task::Weights { network }) => weights(network),
        Some(Task::Train { args }) => train("orco-trainer", "orco-train", &args),
        Some(Task::TrainLab { args }) => train("orco-trainer-lab", "orco-train-lab", &args),
        Some(Task::Demo { args }) => demo::run(&args),
        Some(Task::Book { check: true, .. }) => book::build(BookTask::Check),
        Some(Task::Book { serve: true, .. }) => book::build(BookTask::Serve),
        Some(Task::Book { .. }) => book::build(BookTask::Build),
        #[cfg(unix)]
        Some(Task::Site) => site::build(),
        #[cfg(unix)]
        Some(Task::Package(arguments)) => pack(&arguments),
        #[cfg(unix)]
        Some(Task::Wheel) => wheel(),
        #[cfg(unix)]
        Some(Task::Release(arguments)) => release::run_all(&arguments),
        #[cfg(unix)]
        Some(Task::Fuzz(arguments)) => fuzz::run(&arguments),
        Some(Task::Bench(arguments)) => both_libraries().and_then(|environment| bench::run(&arguments, &environment)),
        Some(Task::Reliability(arguments)) => reliability::run(&arguments, everything_and_packages),
        Some(Task::Test { tier, install }) => test(tier, install),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Sets up the libraries and prints the variables that name them, for a shell to take over.
fn set_up(onnxruntime_only: bool) -> Result<ExitCode, Box<dyn Error>> {
    let environment =
        if onnxruntime_only { Environment::default().with_onnx_runtime(ONNX_RUNTIME.locate()?) } else { everything()? };
    for assignment in environment.assignments() {
        println!("export {assignment}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts weights into the cache and prints their path.
fn weights(network: PublishedNetwork) -> Result<ExitCode, Box<dyn Error>> {
    println!("{}", EFFICIENTNET_LITE[network as usize].locate()?.display());
    Ok(ExitCode::SUCCESS)
}

#[cfg(unix)]
fn pack(arguments: &package::Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let package = package::build(arguments)?;
    println!("{}\n{}", package.deb.display(), package.sbom.display());
    Ok(ExitCode::SUCCESS)
}

#[cfg(unix)]
fn wheel() -> Result<ExitCode, Box<dyn Error>> {
    println!("{}", wheel::build()?.display());
    Ok(ExitCode::SUCCESS)
}

/// Builds a program that trains, and becomes it.
fn train(package: &str, program: &str, args: &[OsString]) -> Result<ExitCode, Box<dyn Error>> {
    let mut command = cargo();
    command.args(["run", "--release", "--package", package, "--bin", program, "--"]);
    command.args(args);
    both_libraries()?.apply(&mut command);
    hand_over(command)
}

fn test(tier: Option<Tier>, install: bool) -> Result<ExitCode, Box<dyn Error>> {
    #[cfg(unix)]
    if matches!(tier, None | Some(Tier::Full)) {
        disk_space::check()?;
    }
    match tier {
        None if install => checks::run(&checks::standard(), || checks::building_meanwhile(everything_and_packages)),
        None => checks::run(&checks::standard(), || checks::building_meanwhile(everything)),
        Some(Tier::Quick) => checks::run(&checks::quick(), everything),
        Some(Tier::Full) => checks::run(&checks::full(), || checks::building_meanwhile(all_there_is)),
        #[cfg(unix)]
        Some(Tier::HomeAssistant) => checks::run(&checks::home_assistant(), everything_and_home_assistant),
        Some(Tier::Advisories) => {
            checks::run(&checks::advisories(), || Ok(Environment::default().with_program(&CARGO_DENY.locate()?)))
        }
        #[cfg(unix)]
        Some(Tier::Api { baseline }) => compatibility::api(baseline),
        #[cfg(unix)]
        Some(Tier::OldestRust) => compatibility::oldest_rust(),
        #[cfg(unix)]
        Some(Tier::Package { profile }) => package::trial::for_this_machine(&profile),
        #[cfg(unix)]
        Some(Tier::Wheel) => wheel::test(),
        #[cfg(unix)]
        Some(Tier::Reproducible { parts, same_folder }) => reproducible::run(&parts, same_folder),
        #[cfg(unix)]
        Some(Tier::Micro) => micro::run(),
        #[cfg(unix)]
        Some(Tier::Miri { or_skip }) => miri::run(or_skip),
        #[cfg(unix)]
        Some(Tier::Aarch64 { profile, parts }) => aarch64::run(&profile, &parts),
        Some(Tier::Machines { isas, threads }) => machines::try_every_setting(&isas, &threads, &everything()?),
    }
}

fn both_libraries() -> Result<Environment, Box<dyn Error>> {
    Ok(Environment::default().with_onnx_runtime(ONNX_RUNTIME.locate()?).with_libtorch(LIBTORCH.locate()?))
}

fn everything() -> Result<Environment, Box<dyn Error>> {
    thread::scope(|scope| {
        // The largest, while the others are fetched.
        let libtorch = scope.spawn(|| LIBTORCH.locate());
        let environment = Environment::default()
            .with_onnx_runtime(ONNX_RUNTIME.locate()?)
            .with(ONNX_CHECKER.variable, ONNX_CHECKER.locate()?)
            .with(AXE.variable, AXE.locate()?)
            .with(TRITON_CLIENT.variable, TRITON_CLIENT.locate()?)
            .with_program(&CARGO_DENY.locate()?)
            .with_program(&CARGO_NEXTEST.locate()?)
            .with_program(&MDBOOK.locate()?)
            .with_program(&ZIZMOR.locate()?);
        let libtorch = libtorch.join().map_err(|_| "fetching libtorch panicked")?;
        Ok(environment.with_libtorch(libtorch?))
    })
}

/// As [`everything`], with the Debian packages of some tests where they can be installed. Both wait for the network,
/// so they run side by side.
fn everything_and_packages() -> Result<Environment, Box<dyn Error>> {
    thread::scope(|scope| {
        let packages = scope.spawn(test_packages::install_all);
        let environment = everything()?;
        let installed = packages.join().map_err(|_| "installing packages panicked")?;
        Ok(installed.into_iter().fold(environment, Environment::with_package))
    })
}

/// Home Assistant with a broker, which must both be there: the tests would skip otherwise.
#[cfg(unix)]
fn everything_and_home_assistant() -> Result<Environment, Box<dyn Error>> {
    test_packages::MOSQUITTO.install()?;
    let environment = everything()?.with_package(test_packages::MOSQUITTO.variable);
    Ok(environment.with(HOME_ASSISTANT, home_assistant::python()?))
}

/// As [`everything_and_packages`], with cargo-hack, and with Home Assistant where it can be set up.
fn all_there_is() -> Result<Environment, Box<dyn Error>> {
    let environment = everything_and_packages()?.with_program(&CARGO_HACK.locate()?);
    #[cfg(unix)]
    match home_assistant::python() {
        Ok(python) => return Ok(environment.with(HOME_ASSISTANT, python)),
        Err(error) => eprintln!("warning: left out: Home Assistant: {error}"),
    }
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn weights_go_by_the_names_of_recipes() {
        for network in PublishedNetwork::value_variants() {
            let value = network.to_possible_value().expect("every network has a name");
            let task = Arguments::parse_from(["xtask", "weights", value.get_name()]).task;
            assert!(matches!(task, Some(Task::Weights { network: parsed }) if parsed == *network));
            assert!(EFFICIENTNET_LITE[*network as usize].folder == value.get_name());
        }
    }
}
