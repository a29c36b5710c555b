//! `orco-train`: from images to a bundle.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use orco_runtime::protocol::cifar100::Part;
use orco_trainer::align::{Assignment, align};
use orco_trainer::backbone::Foreign;
use orco_trainer::config::Recipe;
use orco_trainer::dataset::{Images, Split, cifar100};
use orco_trainer::export::{check_output, write_bundle};
use orco_trainer::model::Model;
use orco_trainer::pretrain::pretrain;
use orco_trainer::run::Run;
use orco_trainer::tune::tune;

#[derive(Parser)]
#[command(version, about = "Trains OrCo on a workstation: pretrain, align, export")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
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

#[derive(Args)]
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
}

fn main() {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info,ort=warn"))
        .format_target(false)
        .init();
    if let Err(error) = run(Cli::parse()) {
        eprintln!("error: {error:#}");
        std::process::exit(1);
    }
}

fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Pretrain { common, until } => Job::open(&common)?.pretrain(until),
        Command::Align(common) => {
            let mut job = Job::open(&common)?;
            job.pretrain(None)?;
            job.align().map(|_| ())
        }
        Command::Run { common, output } => {
            check_output(&output)?;
            let mut job = Job::open(&common)?;
            let labels = cifar100::class_names(&common.data)?;
            job.pretrain(None)?;
            let assignment = job.align()?;
            let images = (&job.train, &job.test);
            let exported =
                write_bundle(&job.model, &assignment, &job.recipe, images, &job.split, &labels, &job.run, &output)?;
            log::info!("wrote the bundle {}", exported.folder.display());
            Ok(())
        }
        Command::Tune { bundle, trials, draws, seed } => {
            // A table for reading, unlike training, which outlives whoever reads its log.
            sigpipe::reset();
            tune(&bundle, &trials, draws as usize, seed)
        }
    }
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
    fn open(common: &Common) -> Result<Self> {
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
        let mut model = match &recipe.backbone.onnx {
            Some(path) => Model::on(Foreign::open(path, &recipe.backbone)?, &recipe, tch::Device::Cpu),
            None => Model::new(&recipe, [3, 32, 32], tch::Device::Cpu),
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
        pretrain(&mut self.model, &self.recipe, &self.train, &self.split, &self.run, until).context("phase 1")
    }

    fn align(&mut self) -> Result<Assignment> {
        align(&mut self.model, &self.recipe, &self.train, &self.split, &self.run).context("phase 2")
    }
}
