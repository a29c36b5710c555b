//! The task runner behind `cargo xtask`.
//!
//! The workspace needs libraries that Cargo cannot fetch: libtorch (to train and to check the
//! trainer), ONNX Runtime (to run the backbone) and, for the tests, `onnx.checker`. All are parts
//! of Python wheels, so this program takes them from PyPI, once, into a cache folder outside the
//! checkout:
//!
//! - [`library`] says what each library is: its wheels, the files kept of them, its variable;
//! - [`pypi`] downloads one wheel with pip and unpacks the members asked for;
//! - [`cache`] puts a folder in place whole or not at all, also with two set-ups at once;
//! - [`environment`] carries the libraries to Cargo as environment variables;
//! - [`test_packages`] installs the Debian packages that tests need;
//! - [`demo`] runs the program's demo on the workspace's bundle and pictures;
//! - [`bench`](mod@bench) runs the benchmarks beside a reference kernel;
//! - [`book`] generates the book's results and builds it; [`site`] puts it together with rustdoc and reports;
//! - [`checks`] are the steps of `cargo xtask test` and its tiers, the same here and in CI;
//! - [`metadata`] is what Cargo says of the workspace;
//! - [`nextest`] has cargo-nextest run the tests, and lists what they skipped;
//! - [`disk_space`] checks that the disk can hold what is built;
//! - [`tool`] has Cargo build programs that no wheel has;
//! - [`package`] builds the Debian package and what lies beside it, and tries it in a clean Debian;
//! - [`debian_root`] makes Debians in the cache: one has compilers for other machines, and these machines in QEMU;
//! - [`micro`] runs a session on a microcontroller there;
//! - [`emulation`] has programs for aarch64 run here, [`cross`] builds them, [`aarch64`] tries them;
//! - [`release`] packages the crates, and puts together what goes to a release's page;
//! - [`compatibility`] compares the public API with the last release's, and tries the oldest Rust;
//! - [`fuzz`] runs the fuzz targets; [`wheel`] builds and tries the Python wheel;
//! - [`reliability`] writes the page of what was tried how often;
//! - [`miri`] runs what is unsafe in Rust's interpreter;
//! - [`machines`] repeats the tests that train as other processors would compute them;
//! - [`home_assistant`] makes a Debian with Home Assistant's core;
//! - [`error`] is why a set-up failed and what to do next.

#[cfg(unix)]
mod aarch64;
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
mod nextest;
#[cfg(unix)]
mod package;
#[cfg(unix)]
mod process;
mod pypi;
#[cfg(unix)]
mod release;
mod reliability;
#[cfg(unix)]
mod site;
mod test_packages;
#[cfg(unix)]
mod tool;
#[cfg(unix)]
mod wheel;

use std::error::Error;
use std::ffi::OsString;
use std::process::ExitCode;
use std::thread;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::environment::{Environment, cargo, hand_over};
use crate::library::{
    AXE, CARGO_DENY, CARGO_HACK, CARGO_NEXTEST, EFFICIENTNET_LITE, LIBTORCH, MDBOOK, ONNX_CHECKER, ONNX_RUNTIME,
    TRITON_CLIENT, ZIZMOR,
};
use crate::machines::Isa;

/// Sets up the native libraries and runs the trainer, the demo or all checks with them.
///
/// The libraries go to $ORCO_CACHE, $XDG_CACHE_HOME/orco or ~/.cache/orco, the first that is
/// set. A library of your own is used instead when LIBTORCH (its folder) or ORT_DYLIB_PATH (the
/// file of ONNX Runtime) is set.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
}

/// What to do.
#[derive(Subcommand)]
enum Task {
    /// Put ONNX Runtime, libtorch, and what checks and tests use into the cache unless they are there
    ///
    /// Prints the variables that Cargo needs then, for a shell: eval "$(cargo xtask setup)"
    Setup {
        /// Leave out what only training and `cargo xtask test` need
        #[arg(long)]
        onnxruntime_only: bool,
    },
    /// Put a network's published weights into the cache unless they are there, and print their file's path
    ///
    /// A recipe names it: backbone = { architecture = "efficientnet-lite0", weights = "PATH" }
    Weights {
        /// The network
        network: PublishedNetwork,
    },
    /// Run the trainer: `cargo xtask train --help` shows its arguments
    #[command(disable_help_flag = true)]
    Train {
        /// Arguments of orco-train
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the trainer's research - ablations, rivals, comparisons: `cargo xtask train-lab --help` shows its arguments
    #[command(disable_help_flag = true)]
    TrainLab {
        /// Arguments of orco-train-lab
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Run the demo: `cargo xtask demo --help` shows its arguments
    #[command(disable_help_flag = true)]
    Demo {
        /// Arguments of `orco demo`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Generate the book's results from the bundles' reports and build the book into target/book
    Book {
        /// Fail if the results that are committed are not those of the reports, instead of writing them
        #[arg(long)]
        check: bool,
        /// Serve the book at http://localhost:3000 and build it again after every change
        #[arg(long, conflicts_with = "check")]
        serve: bool,
    },
    /// Build the site into target/site: the book, the crates' documentation and the bundles' reports
    #[cfg(unix)]
    Site,
    /// Build the Debian package, and its bill of materials beside it
    ///
    /// Cargo first builds cargo-deb, cargo-about and cargo-cyclonedx into the cache, unless ORCO_CARGO_DEB,
    /// ORCO_CARGO_ABOUT and ORCO_CARGO_CYCLONEDX name them. DEBFULLNAME and DEBEMAIL name the maintainer.
    #[cfg(unix)]
    Package(package::Arguments),
    /// Release the version of Cargo.toml: crates to the registry, and files for the release's page
    ///
    /// The files are put into target/release-files: the Debian package, its bill of materials, SHA256SUMS and, with
    /// --sign, their signature.
    #[cfg(unix)]
    Release(release::Arguments),
    /// Run the fuzz targets, each for a minute from the corpus on, and keep what they fail on
    ///
    /// Under the target folder, `fuzzing/found` holds these files and `fuzzing/grown` further inputs for the next time.
    #[cfg(unix)]
    Fuzz(fuzz::Arguments),
    /// Run the benchmarks beside a reference kernel, and compare with the last run on this machine
    Bench(bench::Arguments),
    /// Run the trials that back our promises, and write docs/reliability.md: what was tried how often, and when
    Reliability(reliability::Arguments),
    /// Check format, lints, licences and tests of the whole workspace
    ///
    /// Without a tier: with fewer repetitions of the long trials (kills, power cuts, damage, measuring); what CI runs.
    #[command(args_conflicts_with_subcommands = true)]
    Test {
        /// Install what tests need of Debian's packages (Chromium, mosquitto, GStreamer) unless it is there, instead of
        /// leaving those tests out; needs root
        #[arg(long)]
        install: bool,
        #[command(subcommand)]
        tier: Option<Tier>,
    },
}

/// Networks whose weights are published (Apache-2.0, trained on ImageNet), by the recipes' names of their
/// architectures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PublishedNetwork {
    #[value(name = "efficientnet-lite0")]
    EfficientnetLite0,
    #[value(name = "efficientnet-lite1")]
    EfficientnetLite1,
    #[value(name = "efficientnet-lite2")]
    EfficientnetLite2,
}

/// How much is checked.
#[derive(Clone, Debug, PartialEq, Subcommand)]
enum Tier {
    /// Format, and the libraries' lints and unit tests
    Quick,
    /// Also every feature alone, benchmarks, fuzz targets and documentation, and the long trials in full (ORCO_HEAVY is
    /// set), with Debian's packages as by --install, and with Home Assistant
    Full,
    /// Home Assistant's core on a real broker finds the device and follows it
    ///
    /// Needs mosquitto, and root with mmdebstrap or debootstrap, which make a Debian with a Python that it takes,
    /// unless ORCO_HOME_ASSISTANT names one.
    #[cfg(unix)]
    HomeAssistant,
    /// Weaknesses of dependencies that are known today
    ///
    /// cargo-deny takes them from GitHub. Not part of the other tiers, which need no network.
    Advisories,
    /// The public API beside that of the last release, by cargo-semver-checks
    ///
    /// Not part of the other tiers.
    #[cfg(unix)]
    Api {
        /// Commit or tag to compare with, instead of the last release's tag
        #[arg(long)]
        baseline: Option<String>,
    },
    /// The published crates with the oldest Rust that Cargo.toml states; another toolchain than this needs rustup
    ///
    /// Not part of the other tiers.
    #[cfg(unix)]
    OldestRust,
    /// The Debian package: built, then installed, taught, started, upgraded and removed in a clean Debian
    ///
    /// Needs root, and mmdebstrap or debootstrap. Not part of the other tiers.
    #[cfg(unix)]
    Package {
        /// Build profile of the program
        #[arg(long, default_value = "release")]
        profile: String,
    },
    /// The Python wheel: built, checked by auditwheel, then installed into a clean environment, taught, and compared
    /// with its type stubs by mypy
    ///
    /// Needs network. Not part of the other tiers.
    #[cfg(unix)]
    Wheel,
    /// The device's session on a microcontroller: a Cortex-M7 in QEMU, beside the host, with power cuts
    ///
    /// Needs root, and mmdebstrap or debootstrap, which make a Debian with compiler and QEMU. Not part of the other
    /// tiers.
    #[cfg(unix)]
    Micro,
    /// Libraries, program and package on aarch64, which QEMU emulates, beside this machine
    ///
    /// Needs root, mmdebstrap and Linux 6.7; Debians with compilers and QEMU are made for it in the cache. Not part of
    /// the other tiers.
    #[cfg(unix)]
    Aarch64 {
        /// Build profile
        #[arg(long, default_value = "release")]
        profile: String,
        /// What is tried; without it, all of it
        #[arg(long = "part", value_enum)]
        parts: Vec<aarch64::Part>,
    },
    /// What is unsafe in the crates without an operating system, in Miri: undefined behaviour, data races
    ///
    /// Needs nightly Rust: rustup toolchain install nightly --component miri,rust-src
    #[cfg(unix)]
    Miri,
    /// The tests that train and export, as processors with other vector units and other numbers of threads run them
    ///
    /// Prints a table; fails where a setting fails. Not part of the other tiers.
    Machines {
        /// Vector units that oneDNN may use; all of the table without it
        #[arg(long = "isa", value_enum)]
        isas: Vec<Isa>,
        /// Number of OpenMP's threads; 1, 2 and 4 without it
        #[arg(long)]
        threads: Vec<usize>,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        None => Arguments::command().print_help().map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Some(Task::Setup { onnxruntime_only }) => set_up(onnxruntime_only),
        Some(Task::Weights { network }) => weights(network),
        Some(Task::Train { args }) => train("orco-trainer", "orco-train", &args),
        Some(Task::TrainLab { args }) => train("orco-trainer-lab", "orco-train-lab", &args),
        Some(Task::Demo { args }) => demo::run(&args),
        Some(Task::Book { check, serve }) => book::build(check, serve),
        #[cfg(unix)]
        Some(Task::Site) => site::build(),
        #[cfg(unix)]
        Some(Task::Package(arguments)) => pack(&arguments),
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
    let mut environment = Environment::default().with_onnx_runtime(ONNX_RUNTIME.locate()?);
    if !onnxruntime_only {
        environment = everything()?;
    }
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
        None if install => checks::run(&checks::standard(), everything_and_packages),
        None => checks::run(&checks::standard(), everything),
        Some(Tier::Quick) => checks::run(&checks::quick(), everything),
        Some(Tier::Full) => checks::run(&checks::full(), all_there_is),
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
        Some(Tier::Package { profile }) => package::trial::all(profile, false),
        #[cfg(unix)]
        Some(Tier::Wheel) => wheel::test(),
        #[cfg(unix)]
        Some(Tier::Micro) => micro::run(),
        #[cfg(unix)]
        Some(Tier::Miri) => miri::run(),
        #[cfg(unix)]
        Some(Tier::Aarch64 { profile, parts }) => aarch64::run(profile, &parts),
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
            .with_onnx_checker(ONNX_CHECKER.locate()?)
            .with_axe(AXE.locate()?)
            .with_triton_client(TRITON_CLIENT.locate()?)
            .with_program(&CARGO_DENY.locate()?)
            .with_program(&CARGO_NEXTEST.locate()?)
            .with_program(&MDBOOK.locate()?)
            .with_program(&ZIZMOR.locate()?);
        let libtorch = libtorch.join().map_err(|_| "fetching libtorch panicked")?;
        Ok(environment.with_libtorch(libtorch?))
    })
}

/// As `everything`, and what some tests need of Debian, where it can be had: both wait for the network.
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
    Ok(environment.with_home_assistant(home_assistant::python()?))
}

/// All of it, and what the whole of the checks needs beside it.
fn all_there_is() -> Result<Environment, Box<dyn Error>> {
    let environment = everything_and_packages()?.with_program(&CARGO_HACK.locate()?);
    #[cfg(unix)]
    match home_assistant::python() {
        Ok(python) => return Ok(environment.with_home_assistant(python)),
        Err(error) => eprintln!("warning: left out: Home Assistant: {error}"),
    }
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trainer_arguments(line: &[&str]) -> Vec<OsString> {
        match Arguments::parse_from(line).task {
            Some(Task::Train { args } | Task::TrainLab { args }) => args,
            _ => panic!("not the train task"),
        }
    }

    #[test]
    fn definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn tiers_are_chosen_by_a_word() {
        let tier = |line: &[&str]| match Arguments::parse_from(line).task {
            Some(Task::Test { tier, install }) => (tier, install),
            _ => panic!("not the test task"),
        };
        assert_eq!(tier(&["xtask", "test"]), (None, false));
        assert_eq!(tier(&["xtask", "test", "--install"]), (None, true));
        assert_eq!(tier(&["xtask", "test", "full"]), (Some(Tier::Full), false));
        let line = ["xtask", "test", "machines", "--isa", "avx2", "--threads", "4"];
        assert_eq!(tier(&line), (Some(Tier::Machines { isas: vec![Isa::Avx2], threads: vec![4] }), false));
    }

    #[test]
    fn weights_go_by_the_names_of_recipes() {
        for network in PublishedNetwork::value_variants() {
            let value = network.to_possible_value().expect("every network has a name");
            let task = Arguments::parse_from(["xtask", "weights", value.get_name()]).task;
            assert!(matches!(task, Some(Task::Weights { network: parsed }) if parsed == *network));
            assert!(EFFICIENTNET_LITE[*network as usize].folder == value.get_name());
        }
    }

    #[test]
    fn trainer_gets_its_arguments_untouched() {
        let line = ["xtask", "train", "base", "--help", "--epochs", "3"];
        assert_eq!(trainer_arguments(&line), line[2..]);
        let line = ["xtask", "train-lab", "rival", "all", "--help"];
        assert_eq!(trainer_arguments(&line), line[2..]);
        let line = ["xtask", "train", "--help"];
        assert_eq!(trainer_arguments(&line), line[2..]);
        assert!(trainer_arguments(&["xtask", "train"]).is_empty());
    }
}
