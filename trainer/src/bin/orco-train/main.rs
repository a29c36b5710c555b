//! `orco-train`: from images to a bundle.

mod arguments;
mod resume;

use std::path::Path;

use anyhow::{Context, Result};
use clap::Parser;
use orco_lab::format::print;
use orco_runtime::encoder::onnx;
use orco_runtime::signature::SecretKey;
use orco_trainer::data::dataset::write_lists;
use orco_trainer::data::download;
use orco_trainer::export::{BundleOutput, add_statistics, seal, set_preset, write_bundle, write_key};
use orco_trainer::job::{self, TrainingArguments, TrainingJob, program, request};
use orco_trainer::platform::distributed::RankGroup;
use orco_trainer::platform::{doctor, interrupt};
use serde_json::Value;

use crate::arguments::{Cli, Command, DataCommand};

fn main() {
    program::set_up();
    let command = Cli::parse().command;
    program::run(resume::threads(&command), || run(command));
}

fn run(command: Command) -> Result<()> {
    let request = request::encode(&command)?;
    match command {
        Command::Pretrain { common, until } => {
            TrainingJob::open(&common, request, &job::join(&common)?)?.pretrain(until)
        }
        Command::Align(common) => {
            let mut job = TrainingJob::open_for_both_phases(&common, request, &job::join(&common)?)?;
            job.pretrain(None)?;
            job.align().map(|_| ())
        }
        Command::Run { common, output, sign, release } => {
            train_and_export(&common, request, &output, sign.as_deref(), release)
        }
        Command::Sign { bundle, key, release } => {
            seal(&bundle, release, Some(&SecretKey::read(&key)?))?;
            log::info!("signed the bundle {}", bundle.display());
            Ok(())
        }
        Command::Keygen { key } => {
            let public = write_key(&key)?;
            log::info!("wrote {}, which stays secret, and {}, for the devices", key.display(), public.display());
            Ok(())
        }
        Command::Lists { images, output } => {
            let (_, data) = job::open_data(&images, &RankGroup::alone())?;
            write_lists(&data.split, &data.names, &output)?;
            log::info!("wrote {} lists into {}", data.split.sessions.len() + 1, output.display());
            Ok(())
        }
        Command::Data { data: DataCommand::Cifar100 { output, from } } => {
            Ok(download::CIFAR100.fetch(&output, from.as_deref())?)
        }
        Command::Resume { run: folder } => {
            let command = resume::stored(&folder)?;
            resume::find_data(&command, &folder)?;
            run(command)
        }
        Command::Doctor { folder } => Ok(print(doctor::report(&folder).trim_end())?),
        Command::Statistics { images, bundle } => {
            onnx::start().context("features are computed with ONNX Runtime; see `orco-train doctor`")?;
            let (recipe, data) = job::open_data(&images, &RankGroup::alone())?;
            add_statistics(&bundle, &recipe, &data)?;
            log::info!("gave {} the statistics of its base classes", bundle.display());
            Ok(())
        }
        Command::Preset { bundle, name } => {
            set_preset(&bundle, &name)?;
            log::info!("{} has the settings of preset {name}", bundle.display());
            Ok(())
        }
    }
}

/// Both phases as far as they are not done yet, then the bundle, signed if there is a key.
fn train_and_export(
    common: &TrainingArguments,
    request: Value,
    output: &Path,
    key: Option<&Path>,
    release: Option<u32>,
) -> Result<()> {
    let group = job::join(common)?;
    if !group.is_first() {
        return job::follow(common, request, &group);
    }
    // What could fail after hours of training is tried before them.
    let key = key.map(SecretKey::read).transpose()?;
    onnx::start().context("the bundle is checked with ONNX Runtime; see `orco-train doctor`")?;
    let made = BundleOutput::prepare(output, &common.run)?;
    let mut job = TrainingJob::open_for_both_phases(common, request, &group)?;
    job.pretrain(None)?;
    let targets = job.align()?;
    job.move_to_processor()?;
    interrupt::check()?;
    let exported = write_bundle(&job.model, &targets, &job.recipe, &job.data, &job.run, &made)?;
    seal(made.staged(), release, key.as_ref())?;
    made.finish()?;
    let folder = exported.folder.display();
    log::info!("wrote the bundle {folder}; its card is {folder}/README.md");
    Ok(())
}
