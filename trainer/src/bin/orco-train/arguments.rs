//! The command line of `orco-train`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use orco_benchmark::benchmark::SEED;
use orco_lab::published::Reading;
use orco_trainer::ablate::Question;
use orco_trainer::platform::device::DeviceChoice;
use orco_trainer::rival::Rival;
use serde::{Deserialize, Serialize};

/// The command line.
#[derive(Parser)]
#[command(version, about = "Trains OrCo on a workstation: pretrain, align, export")]
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
        common: Common,
        /// Stops once this many epochs are done; the schedule stays that of the recipe.
        #[arg(long)]
        until: Option<usize>,
    },
    /// Phase 2: base classes get their pseudo-targets, the head is aligned to them.
    Align(Common),
    /// Everything: both phases as far as they are not done yet, then the bundle.
    Run {
        #[command(flatten)]
        common: Common,
        /// Folder of the bundle to write.
        #[arg(long)]
        output: PathBuf,
        /// Signs the bundle with a secret key of minisign. One with a password is opened with ORCO_KEY_PASSWORD, or by
        /// asking, before the training starts.
        #[arg(long, value_name = "KEY")]
        #[serde(default)]
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
    /// The paper's comparison: g alone, as on the device, beside f and g trained together in the incremental sessions.
    /// Runs both phases as far as they are not done yet.
    Compare {
        #[command(flatten)]
        common: Common,
        /// Draws of the shots.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        draws: u32,
        /// Learning rate of f as a share of g's; repeat to compare several.
        #[arg(long = "backbone-rate", value_name = "SHARE", default_values_t = [1.0])]
        backbone_rates: Vec<f64>,
    },
    /// One of the paper's ablations. Of what comes before phase 3: every trial trains by a change of the recipe, in a
    /// folder of its own below --run, and is measured with the published program's phase 3. Of phase 3: all train by the
    /// recipe as it is, once. Writes QUESTION.json and QUESTION.csv there. Stopped, it goes on where it was. (On a bundle
    /// that is there, `orco-lab ablate` measures those that vary the head alone.)
    Ablate {
        /// What is varied.
        question: Question,
        #[command(flatten)]
        common: Common,
        /// The settings that are varied: the published program's, or those of the paper's text (program, text).
        #[arg(long, value_name = "READING", default_value = "program")]
        #[serde(default)]
        by: Reading,
        /// Draws of the shots.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        draws: u32,
    },
    /// Trains rivals that live in the training of the backbone, and the baseline beside them, all by the recipe's
    /// pretrain table, in folders below --run, and measures them. Writes rivals.json and rivals.csv there; of several
    /// seeds rivals-seeds.json and rivals-seeds.csv, too. Stopped, it goes on where it was.
    Rival {
        /// Which: names with commas between, or "all".
        #[arg(value_name = "NAMES")]
        rivals: Rivals,
        #[command(flatten)]
        common: Common,
        /// Seeds of the training, from the recipe's on, all on the images and shots of the first: every number's mean,
        /// and how far it deviates over draws and seeds.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        seeds: u32,
        /// Draws of the shots.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        draws: u32,
    },
    /// Continues a run from its own folder, with the recipe, data and command that it was started with.
    Resume {
        /// The run's folder.
        run: PathBuf,
    },
    /// Says what this machine has for training: libtorch, CUDA, threads, precisions, ONNX Runtime, memory, disk.
    Doctor {
        /// Folder whose disk is looked at.
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Writes the split as the field's session lists: session_1.txt (base images), then the shots of each session.
    Lists {
        #[command(flatten)]
        images: ImageArgs,
        /// Folder for the lists.
        #[arg(long)]
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
        images: ImageArgs,
        /// The bundle, made from this recipe and these images.
        #[arg(long)]
        bundle: PathBuf,
    },
    /// Gives a bundle the settings of a preset: orco, paper, edge, combined or discriminant. What was learned on the
    /// bundle goes on to hold; its signature is removed.
    Preset {
        /// The bundle.
        bundle: PathBuf,
        /// The preset.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Measures settings of phase 3 on a bundle made with `measure_on = "holdout"`, to choose one for a recipe.
    Tune {
        /// The bundle.
        #[arg(long)]
        bundle: PathBuf,
        /// Settings to try, as fields of a recipe's learn table: `--try "epochs = 50, learning_rate = 0.2"`; beside
        /// them `assignment`, `perturbed`, `perturbation` and `keep`, of which a device always does the same; repeat
        /// for each trial.
        #[arg(long = "try", required = true, value_name = "SETTINGS")]
        trials: Vec<String>,
        /// Draws of the shots.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
        draws: u32,
        /// Seed of the draws.
        #[arg(long, default_value_t = SEED)]
        seed: u64,
    },
}

/// The largest seed: recipes are TOML, whose numbers end there.
pub const MOST_SEED: u64 = i64::MAX as u64;

/// Some of the rivals, in the order in which they were asked for.
#[derive(Clone, Serialize, Deserialize)]
pub struct Rivals(pub Vec<Rival>);

impl FromStr for Rivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(Rival::value_variants().to_vec()));
        }
        let known = || Rival::value_variants().iter().map(|rival| rival.name()).collect::<Vec<_>>().join(", ");
        let named = |name: &str| match name.trim() {
            "" => Err(format!("a name is empty; known are all, {}", known())),
            name => Rival::from_str(name, false)
                .map_err(|_| format!("there is no rival {name}; known are all, {}", known())),
        };
        let rivals = text.split(',').map(named).collect::<Result<Vec<_>, _>>()?;
        let again = rivals.iter().enumerate().find(|(index, rival)| rivals[..*index].contains(rival));
        again.map_or(Ok(()), |(_, rival)| Err(format!("{} is named twice", rival.name())))?;
        Ok(Self(rivals))
    }
}

/// Data sets that can be fetched.
#[derive(Subcommand, Serialize, Deserialize)]
pub enum DataCommand {
    /// CIFAR-100, binary version, 161 MB; continues a download that broke off.
    Cifar100 {
        /// Folder for train.bin, test.bin and the class names.
        #[arg(long)]
        output: PathBuf,
        /// Another address of the archive; its checksum must be the published one.
        #[arg(long, value_name = "URL")]
        from: Option<String>,
    },
}

/// A recipe and the images it works on.
#[derive(Clone, Args, Serialize, Deserialize)]
pub struct ImageArgs {
    /// The recipe, a TOML file; see trainer/recipes.
    pub recipe: PathBuf,
    /// Folder of the data set, laid out as its publishers do; not needed for synthetic data.
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// Folder with the field's session lists (session_2.txt ...); without it every draw of shots is a seeded one.
    #[arg(long)]
    pub lists: Option<PathBuf>,
    /// Leaves images out that cannot be decoded, and lists them, instead of stopping.
    #[arg(long)]
    pub skip_broken: bool,
    /// Seed in place of the recipe's. With bundles of several seeds, `orco-lab seeds` tells chance from gain.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    #[serde(default)]
    pub seed: Option<u64>,
}

/// What all commands that train take.
#[derive(Clone, Args, Serialize, Deserialize)]
pub struct Common {
    #[command(flatten)]
    pub images: ImageArgs,
    /// Folder for checkpoints and metrics.
    #[arg(long)]
    pub run: PathBuf,
    /// Threads, of training and of what is measured after it; all cores by default.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=1024))]
    pub threads: Option<i32>,
    /// ONNX file of a feature extractor to take instead of training one: phases 2 and 3 only. The recipe's
    /// `backbone.onnx` says the same.
    #[arg(long, value_name = "MODEL")]
    pub backbone: Option<PathBuf>,
    /// Where to train: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    #[serde(default)]
    pub device: DeviceChoice,
}
