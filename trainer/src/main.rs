//! `orco-train`: from images to a bundle.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use orco_runtime::protocol::cifar100::Part;
use orco_trainer::align::{Assignment, align};
use orco_trainer::backbone::Foreign;
use orco_trainer::config::Recipe;
use orco_trainer::dataset::{Images, Split, cifar100};
use orco_trainer::device::{self, Wanted};
use orco_trainer::export::{check_output, write_bundle};
use orco_trainer::failure::guarded;
use orco_trainer::interrupt::{self, Interrupted};
use orco_trainer::model::Model;
use orco_trainer::pretrain::pretrain;
use orco_trainer::run::{Record, Run};
use orco_trainer::tune::tune;
use orco_trainer::{doctor, failure};
use serde::{Deserialize, Serialize};

#[derive(Parser)]
#[command(version, about = "Trains OrCo on a workstation: pretrain, align, export")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Command {
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
    /// Measures settings of phase 3 on a bundle made with `measure_on = "holdout"`, to choose one for a recipe.
    Tune {
        /// The bundle.
        #[arg(long)]
        bundle: PathBuf,
        /// Settings to try, as fields of a recipe's learn table: `--try "epochs = 50, learning_rate = 0.2"`;
        /// repeat for each trial.
        #[arg(long = "try", required = true, value_name = "SETTINGS")]
        trials: Vec<String>,
        /// Draws of the shots.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
        draws: u32,
        /// Seed of the draws.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

#[derive(Args, Serialize, Deserialize)]
struct Common {
    /// The recipe, a TOML file; see trainer/recipes.
    recipe: PathBuf,
    /// Folder with CIFAR-100's binary layout: train.bin, test.bin, fine_label_names.txt.
    #[arg(long)]
    data: PathBuf,
    /// Folder for checkpoints and metrics.
    #[arg(long)]
    run: PathBuf,
    /// Folder with the field's session lists (session_2.txt ...); without it every draw of shots is a seeded one.
    #[arg(long)]
    lists: Option<PathBuf>,
    /// Threads; all cores by default.
    #[arg(long)]
    threads: Option<i32>,
    /// ONNX file of a feature extractor to take instead of training one: phases 2 and 3 only. The recipe's
    /// `backbone.onnx` says the same.
    #[arg(long, value_name = "MODEL")]
    backbone: Option<PathBuf>,
    /// Where to train: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    #[serde(default)]
    device: Wanted,
}

fn main() {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info,ort=warn"))
        .format_target(false)
        .init();
    failure::quiet();
    let result = interrupt::watch().and_then(|()| run(Cli::parse().command));
    if let Err(error) = result {
        if let Some(stopped) = error.downcast_ref::<Interrupted>() {
            eprintln!("{stopped}");
            std::process::exit(interrupt::EXIT);
        }
        eprintln!("error: {error:#}");
        std::process::exit(1);
    }
}

fn run(command: Command) -> Result<()> {
    let request = request(&command)?;
    match command {
        Command::Pretrain { common, until } => Job::open(&common, request)?.pretrain(until),
        Command::Align(common) => {
            let mut job = Job::open(&common, request)?;
            job.pretrain(None)?;
            job.align().map(|_| ())
        }
        Command::Run { common, output } => {
            check_output(&output)?;
            let mut job = Job::open(&common, request)?;
            let labels = cifar100::class_names(&common.data)?;
            job.pretrain(None)?;
            let assignment = job.align()?;
            job.come_home()?;
            let images = (&job.train, &job.test);
            let exported =
                write_bundle(&job.model, &assignment, &job.recipe, images, &job.split, &labels, &job.run, &output)?;
            log::info!("wrote the bundle {}", exported.folder.display());
            Ok(())
        }
        Command::Resume { run: folder } => run(stored(&folder)?),
        Command::Doctor { folder } => {
            print!("{}", doctor::report(&folder));
            Ok(())
        }
        Command::Tune { bundle, trials, draws, seed } => {
            // A table for reading, unlike training, which outlives whoever reads its log.
            sigpipe::reset();
            tune(&bundle, &trials, draws as usize, seed)
        }
    }
}

/// Fields of a command that are paths.
const PATHS: [&str; 6] = ["recipe", "data", "run", "lists", "output", "backbone"];

/// A command as `run.json` keeps it: with absolute paths, so that it can be resumed from any folder.
fn request(command: &Command) -> Result<serde_json::Value> {
    fn absolute(value: &mut serde_json::Value) -> Result<()> {
        for (name, field) in value.as_object_mut().into_iter().flatten() {
            match field.as_str() {
                Some(path) if PATHS.contains(&name.as_str()) => {
                    *field = serde_json::to_value(std::path::absolute(path)?)?
                }
                _ => absolute(field)?,
            }
        }
        Ok(())
    }
    let mut value = serde_json::to_value(command).context("the paths of the command must be valid Unicode")?;
    absolute(&mut value)?;
    Ok(value)
}

/// The command that continues the run in a folder, which may have been moved.
fn stored(folder: &Path) -> Result<Command> {
    let record = Record::read(folder)?;
    let mut command: Command = serde_json::from_value(record.request).with_context(|| {
        format!(
            "{} does not say how to resume; start the run again with its first command",
            folder.join("run.json").display()
        )
    })?;
    match &mut command {
        Command::Pretrain { common, .. } | Command::Align(common) | Command::Run { common, .. } => {
            common.recipe = folder.join("recipe.toml");
            common.run = folder.into();
        }
        _ => anyhow::bail!("{} holds no run that could be resumed", folder.display()),
    }
    if let Command::Pretrain { until, .. } = &mut command {
        *until = None;
    }
    Ok(command)
}

/// A recipe with its data, model and run folder.
struct Job {
    recipe: Recipe,
    train: Images,
    test: Images,
    split: Split,
    model: Model,
    run: Run,
}

impl Job {
    fn open(common: &Common, request: serde_json::Value) -> Result<Self> {
        let device = device::open(common.device)?;
        if let Some(threads) = common.threads {
            tch::set_num_threads(threads);
        }
        let mut recipe = Recipe::read(&common.recipe)?;
        if let Some(model) = &common.backbone {
            recipe = recipe.with_backbone(model)?;
        }
        let train = cifar100::read(&common.data, Part::Train)?;
        let test = cifar100::read(&common.data, Part::Test)?;
        let candidates = recipe.export.candidates_per_class;
        let split = Split::new(&recipe.split, candidates, &train, &test, common.lists.as_deref(), recipe.seed)?;
        let run = Run::open(&common.run, &recipe)?;
        run.record(&Record::new(recipe.seed, device, request))?;
        let mut model = match &recipe.backbone.onnx {
            Some(path) => Model::on(Foreign::open(path, &recipe.backbone)?, &recipe, device),
            None => Model::new(&recipe, [3, 32, 32], device),
        };
        if let Some(weights) = &recipe.backbone.weights {
            model.load_backbone(weights)?;
        }
        Ok(Self { recipe, train, test, split, model, run })
    }

    fn pretrain(&mut self, until: Option<usize>) -> Result<()> {
        if self.model.foreign.is_some() || self.recipe.pretrain.epochs == 0 {
            log::info!("phase 1 is left out: the backbone is given");
            return Ok(());
        }
        let Self { recipe, train, split, model, run, .. } = self;
        guarded("pretrain.batch or pretrain.views", || pretrain(model, recipe, train, split, run, until))
            .context("phase 1")
    }

    fn align(&mut self) -> Result<Assignment> {
        let Self { recipe, train, split, model, run, .. } = self;
        guarded("align.batch", || align(model, recipe, train, split, run)).context("phase 2")
    }

    /// Brings the model to the processor, where bundles are written.
    fn come_home(&mut self) -> Result<()> {
        if self.model.device() != tch::Device::Cpu {
            let tensors = self.model.tensors().into_iter().collect();
            self.model = Model::new(&self.recipe, [3, 32, 32], tch::Device::Cpu);
            self.model.restore(&tensors)?;
        }
        Ok(())
    }
}
