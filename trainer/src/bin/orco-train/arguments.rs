//! The command line of `orco-train`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use orco_trainer::job::{ImageArguments, TrainingArguments, request};
use serde::{Deserialize, Serialize};

/// The command line.
#[derive(Parser)]
#[command(name = "orco-train", version, about = "Trains OrCo on a workstation: pretrain, align, export")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What the program is asked to do; `run.json` keeps it, so that a run can be resumed.
#[derive(Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// Phase 1: backbone and head learn the base classes. Continues a run that was stopped.
    Pretrain {
        #[command(flatten)]
        common: TrainingArguments,
        /// Stops once this many epochs are done; the schedule stays that of the recipe.
        #[arg(long)]
        until: Option<usize>,
    },
    /// Phase 2: base classes get their pseudo-targets, the head is aligned to them.
    Align(TrainingArguments),
    /// Everything: both phases as far as they are not done yet, then the bundle.
    Run {
        #[command(flatten)]
        common: TrainingArguments,
        /// Folder of the bundle to write.
        #[arg(long)]
        #[serde(serialize_with = "request::absolute_path")]
        output: PathBuf,
        /// Signs the bundle with a secret key of minisign. One with a password is opened with ORCO_KEY_PASSWORD, or by
        /// asking, before the training starts.
        #[arg(long, value_name = "KEY")]
        #[serde(default, serialize_with = "request::optional_absolute_path")]
        sign: Option<PathBuf>,
        /// Number of the bundle's release. Devices refuse a lower one than they have used.
        #[arg(long, value_name = "NUMBER")]
        #[serde(default)]
        release: Option<u32>,
    },
    /// Signs a bundle that is there: manifest.toml.minisig over manifest.toml, which holds the digests of its files.
    Sign {
        /// The bundle's folder.
        bundle: PathBuf,
        /// Secret key of minisign (`minisign -G`, or `orco-train keygen`).
        #[arg(long, value_name = "KEY")]
        key: PathBuf,
        /// Gives the bundle this release number first.
        #[arg(long, value_name = "NUMBER")]
        release: Option<u32>,
    },
    /// Makes a key to sign with, without a password: KEY and KEY.pub, as `minisign -G -W` does.
    Keygen {
        /// File of the secret key; it must not exist yet.
        key: PathBuf,
    },
    /// Continues a run from its own folder, with the recipe, data and command that it was started with.
    Resume {
        /// The run's folder.
        #[serde(serialize_with = "request::absolute_path")]
        run: PathBuf,
    },
    /// Says what this machine has for training: libtorch, CUDA, threads, precisions, ONNX Runtime, memory, disk.
    Doctor {
        /// Folder whose disk is checked.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Writes the split as the field's session lists: session_1.txt (base images), then the shots of each session.
    Lists {
        #[command(flatten)]
        images: ImageArguments,
        /// Folder for the lists.
        #[arg(long)]
        #[serde(serialize_with = "request::absolute_path")]
        output: PathBuf,
    },
    /// Fetches a data set, checks it and unpacks it.
    Data {
        #[command(subcommand)]
        data: DataCommand,
    },
    /// Gives a bundle the statistics of its base classes, by which devices answer without training: computes the
    /// features of the images that it was made from. What devices learned on it stays.
    Statistics {
        #[command(flatten)]
        images: ImageArguments,
        /// The bundle, made from this recipe and these images.
        #[arg(long)]
        bundle: PathBuf,
    },
    /// Gives a bundle the settings of a preset: published, paper-text, edge, combined or closed-form. What was learned
    /// on the bundle goes on to hold; its signature is removed.
    Preset {
        /// The bundle.
        bundle: PathBuf,
        /// The preset.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Data sets that can be fetched.
#[derive(Subcommand, Serialize, Deserialize)]
pub enum DataCommand {
    /// CIFAR-100, binary version, 161 MB; continues a download that was interrupted.
    Cifar100 {
        /// Folder for train.bin, test.bin and the class names.
        #[arg(long)]
        #[serde(serialize_with = "request::absolute_path")]
        output: PathBuf,
        /// Another address of the archive; its checksum must be the published one.
        #[arg(long, value_name = "URL")]
        from: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use orco_core::config::MethodConfig;

    use super::*;

    #[test]
    fn the_version_is_that_of_the_program() {
        assert_eq!(Cli::command().render_version(), concat!("orco-train ", env!("CARGO_PKG_VERSION"), "\n"));
    }

    #[test]
    fn the_help_of_preset_names_the_presets_that_there_are() {
        let mut cli = Cli::command();
        let help = cli.find_subcommand_mut("preset").unwrap().render_long_help().to_string();
        let words: Vec<&str> = help.split([' ', '\n', ':', ',', '.']).collect();
        let unnamed: Vec<&str> = MethodConfig::PRESETS.into_iter().filter(|preset| !words.contains(preset)).collect();
        assert!(unnamed.is_empty(), "{unnamed:?} in {help}");
        assert!(!words.contains(&"paper"), "{help}");
    }
}
