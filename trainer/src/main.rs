//! `orco-train`: from images to a bundle.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use orco_trainer::align::{Assignment, align};
use orco_trainer::config::Recipe;
use orco_trainer::dataset::{self, DataSet, Origin, write_lists};
use orco_trainer::download;
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

#[derive(Subcommand)]
enum DataCommand {
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
#[derive(Args)]
struct ImageArgs {
    /// The recipe, a TOML file; see trainer/recipes.
    recipe: PathBuf,
    /// Folder of the data set, laid out as its publishers do; not needed for synthetic data.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Folder with the field's session lists (session_2.txt ...); without it every draw of shots is a seeded one.
    #[arg(long)]
    lists: Option<PathBuf>,
    /// Leaves images out that cannot be decoded, and lists them, instead of stopping.
    #[arg(long)]
    skip_broken: bool,
}

impl ImageArgs {
    /// Reads the recipe and its images.
    fn open(&self) -> Result<(Recipe, DataSet)> {
        let recipe = Recipe::read(&self.recipe)?;
        let origin =
            Origin { folder: self.data.as_deref(), lists: self.lists.as_deref(), skip_broken: self.skip_broken };
        let data = dataset::open(&recipe, &origin)?;
        for skipped in &data.skipped {
            log::warn!("left out: {skipped}");
        }
        if !data.skipped.is_empty() {
            log::warn!("{} broken images were left out", data.skipped.len());
        }
        Ok((recipe, data))
    }
}

#[derive(Args)]
struct Common {
    #[command(flatten)]
    images: ImageArgs,
    /// Folder for checkpoints and metrics.
    #[arg(long)]
    run: PathBuf,
    /// Threads; all cores by default.
    #[arg(long)]
    threads: Option<i32>,
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
            job.pretrain(None)?;
            let assignment = job.align()?;
            let data = &job.data;
            let images = (&data.train, &data.test);
            let exported = write_bundle(
                &job.model,
                &assignment,
                &job.recipe,
                images,
                &data.split,
                &data.class_names,
                &job.run,
                &output,
            )?;
            log::info!("wrote the bundle {}", exported.folder.display());
            Ok(())
        }
        Command::Lists { images, output } => {
            let (_, data) = images.open()?;
            write_lists(&data.split, &data.names, &output)?;
            log::info!("wrote {} lists into {}", data.split.sessions.len() + 1, output.display());
            Ok(())
        }
        Command::Data { data: DataCommand::Cifar100 { output, from } } => {
            Ok(download::CIFAR100.fetch(&output, from.as_deref())?)
        }
        Command::Tune { bundle, trials, draws, seed } => tune(&bundle, &trials, draws as usize, seed),
    }
}

/// A recipe with its data, model and run folder.
struct Job {
    recipe: Recipe,
    data: DataSet,
    model: Model,
    run: Run,
}

impl Job {
    fn open(common: &Common) -> Result<Self> {
        if let Some(threads) = common.threads {
            tch::set_num_threads(threads);
        }
        let (recipe, data) = common.images.open()?;
        let run = Run::open(&common.run, &recipe)?;
        if !data.skipped.is_empty() {
            run.log(&serde_json::json!({ "phase": "data", "left_out": data.skipped }))?;
        }
        let side = i64::from(recipe.data.side());
        let mut model = Model::new(&recipe, [3, side, side], tch::Device::Cpu);
        model.channels = data.channels;
        Ok(Self { recipe, data, model, run })
    }

    fn pretrain(&mut self, until: Option<usize>) -> Result<()> {
        let (train, split) = (&self.data.train, &self.data.split);
        pretrain(&mut self.model, &self.recipe, train, split, &self.run, until).context("phase 1")
    }

    fn align(&mut self) -> Result<Assignment> {
        let (train, split) = (&self.data.train, &self.data.split);
        align(&mut self.model, &self.recipe, train, split, &self.run).context("phase 2")
    }
}
