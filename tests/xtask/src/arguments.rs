//! The command line of `cargo xtask`.

use std::ffi::OsString;

use clap::{Parser, Subcommand, ValueEnum};

use crate::machines::Isa;

/// Sets up the native libraries and runs the trainer, the demo or all checks with them.
///
/// The libraries go to $ORCO_CACHE, $XDG_CACHE_HOME/orco or ~/.cache/orco, the first that is
/// set. A library of your own is used instead when LIBTORCH (its folder) or ORT_DYLIB_PATH (the
/// file of ONNX Runtime) is set.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub struct Arguments {
    #[command(subcommand)]
    pub task: Option<Task>,
}

/// What to do.
#[derive(Subcommand)]
pub enum Task {
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
    Package(crate::package::Arguments),
    /// Build the Python wheel, with the licences of the crates inside and a bill of materials in it
    ///
    /// Needs network. Cargo first builds cargo-about and cargo-cyclonedx into the cache, as for the Debian package.
    #[cfg(unix)]
    Wheel,
    /// Release the version of Cargo.toml: crates to the registry, and files for the release's page
    ///
    /// The files are put into target/release-files: the Debian package, its bill of materials, the Python wheel, the
    /// bundle `everyday` as it is committed, SHA256SUMS and, with --sign, their signature.
    #[cfg(unix)]
    Release(crate::release::Arguments),
    /// Run the fuzz targets, each for a minute from the corpus on, and keep what they fail on
    ///
    /// Under the target folder, `fuzzing/found` holds these files and `fuzzing/grown` further inputs for the next time.
    #[cfg(unix)]
    Fuzz(crate::fuzz::Arguments),
    /// Run the benchmarks beside a reference kernel, and compare with the last run on this machine
    Bench(crate::bench::Arguments),
    /// Run the trials that back our promises, and write docs/reliability.md: what was tried how often, and when
    Reliability(crate::reliability::Arguments),
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
pub enum PublishedNetwork {
    #[value(name = "efficientnet-lite0")]
    EfficientnetLite0,
    #[value(name = "efficientnet-lite1")]
    EfficientnetLite1,
    #[value(name = "efficientnet-lite2")]
    EfficientnetLite2,
}

/// How much is checked.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Tier {
    /// Format, and the libraries' lints and unit tests
    Quick,
    /// Also every feature alone, benchmarks, fuzz targets and documentation, Miri where it is installed, and the long
    /// trials in full (ORCO_HEAVY is set), with Debian's packages as by --install, and with Home Assistant
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
    /// Before the first release, beside that of the commit that tests/xtask/api-baseline names. Not part of the other
    /// tiers.
    #[cfg(unix)]
    Api {
        /// Commit or tag to compare with, instead of those
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
    /// Cargo first builds cargo-about and cargo-cyclonedx into the cache, as for the Debian package. Needs network. Not
    /// part of the other tiers.
    #[cfg(unix)]
    Wheel,
    /// The Debian package, its bill of materials and the Python wheel of this commit, built in two clones in different
    /// folders, are the same bytes
    ///
    /// Builds everything twice in a temporary folder (TMPDIR), which takes a few gigabytes, and keeps what it compared
    /// in target/reproducible. Needs network. Not part of the other tiers.
    #[cfg(unix)]
    Reproducible {
        /// What is built; without it, all of it
        #[arg(long = "part", value_enum)]
        parts: Vec<crate::reproducible::Part>,
        /// Build both in the same folder, to tell what differs by chance from what differs by the folder
        #[arg(long)]
        same_folder: bool,
    },
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
        parts: Vec<crate::aarch64::Part>,
    },
    /// What is unsafe in the crates without an operating system, in Miri: undefined behaviour, data races
    ///
    /// Needs nightly Rust: rustup toolchain install nightly --component miri,rust-src
    #[cfg(unix)]
    Miri {
        /// Where that is missing, say so and succeed
        #[arg(long)]
        or_skip: bool,
    },
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn trainer_arguments(line: &[&str]) -> Vec<OsString> {
        match Arguments::parse_from(line).task {
            Some(Task::Train { args } | Task::TrainLab { args }) => args,
            _ => panic!("not the train task"),
        }
    }

    #[test]
    fn the_command_line_has_no_contradiction() {
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
