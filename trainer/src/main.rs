//! `orco-train`: from images to a bundle.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use orco_runtime::protocol::cifar100::Part;
use orco_trainer::config::Recipe;
use orco_trainer::dataset::{Split, cifar100};
use orco_trainer::model::Model;
use orco_trainer::run::Run;

#[derive(Parser)]
#[command(version, about = "Trains OrCo on a workstation: pretrain, align, export")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Phase 1: backbone and head learn the base classes. Continues a run that was stopped.
    Pretrain(Common),
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
}

fn main() {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info")).format_target(false).init();
    if let Err(error) = run(Cli::parse()) {
        eprintln!("error: {error:#}");
        std::process::exit(1);
    }
}

fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Pretrain(common) => {
            if let Some(threads) = common.threads { tch::set_num_threads(threads); }
            let recipe = Recipe::read(&common.recipe)?;
            let run = Run::open(&common.run, &recipe)?;
            let train = cifar100::read(&common.data, Part::Train)?;
            let test = cifar100::read(&common.data, Part::Test)?;
            let split = Split::new(&recipe.split, recipe.export.candidates_per_class, &train, &test, common.lists.as_deref(), recipe.seed)?;
            let mut model = Model::new(&recipe, [3, 32, 32], tch::Device::Cpu);
            orco_trainer::pretrain::pretrain(&mut model, &recipe, &train, &split, &run).context("phase 1")?;
        }
    }
    Ok(())
}
