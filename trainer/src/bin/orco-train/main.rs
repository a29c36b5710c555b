//! `orco-train`: from images to a bundle.

mod ablate;
mod arguments;
mod job;
mod resume;
mod rival;

use anyhow::{Context, Result};
use clap::Parser;
use orco_lab::shown::print;
use orco_runtime::encoder::{onnx, telemetry};
use orco_runtime::signature::SecretKey;
use orco_runtime::threads;
use orco_state::label;
use orco_trainer::compare::{self, table};
use orco_trainer::data::dataset::write_lists;
use orco_trainer::data::download;
use orco_trainer::export::{Output, add_statistics, seal, set_preset, write_bundle, write_key};
use orco_trainer::platform::distributed::{self, Group};
use orco_trainer::platform::failure::guarded;
use orco_trainer::platform::interrupt::{self, Interrupted};
use orco_trainer::platform::{doctor, failure, kernels, system};
use orco_trainer::tune::tune;

use crate::arguments::{Cli, Command, Common, DataCommand};
use crate::job::Job;

fn main() {
    // Before any other thread. Where it fails, ONNX Runtime is not loaded, and that is said when it is wanted.
    let _ = telemetry::off();
    system::keep_memory();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info,ort=warn"))
        .format_target(false)
        .init();
    failure::quiet();
    let command = Cli::parse().command;
    if let Some(threads) = resume::threads(&command) {
        // What computes without libtorch; before libtorch starts threads of its own.
        if let Err(error) = threads::limit(threads as usize) {
            log::warn!("--threads counts for training alone: {error}");
        }
        tch::set_num_threads(threads);
    }
    kernels::settle();
    // Within it, phases name the settings that they take memory for.
    let all = "backbone.width, head.hidden, data.image_size or the number of images";
    let result = interrupt::watch().and_then(|()| guarded(all, || run(command)));
    if let Err(error) = result {
        if let Some(stopped) = error.chain().find_map(|cause| cause.downcast_ref::<Interrupted>()) {
            eprintln!("{stopped}");
            std::process::exit(interrupt::EXIT);
        }
        eprintln!("error: {}", label::lines(&format!("{error:#}")));
        std::process::exit(1);
    }
}

/// Meets the other ranks, if a launcher started several of this program; all but the first only warn from then on.
fn join(common: &Common) -> Result<Group> {
    let group = Group::from_environment(common.device)?;
    if group.is_first() {
        if group.size() > 1 {
            log::info!("{} ranks train together", group.size());
        }
    } else {
        distributed::hush();
    }
    Ok(group)
}

/// What a rank other than the first does of a command: it takes part in both phases.
fn follow(common: &Common, request: serde_json::Value, group: &Group) -> Result<()> {
    let mut job = Job::open(common, request, group)?;
    job.pretrain(None)?;
    job.align().map(|_| ())
}

fn run(command: Command) -> Result<()> {
    let request = resume::request(&command)?;
    match command {
        Command::Pretrain { common, until } => Job::open(&common, request, &join(&common)?)?.pretrain(until),
        Command::Align(common) => {
            let mut job = Job::open(&common, request, &join(&common)?)?;
            job.pretrain(None)?;
            job.align().map(|_| ())
        }
        Command::Run { common, output, sign, release } => {
            let group = join(&common)?;
            if !group.is_first() {
                return follow(&common, request, &group);
            }
            // What could fail after hours of training is tried before them.
            let key = sign.as_deref().map(SecretKey::read).transpose()?;
            onnx::start().context("the bundle is checked with ONNX Runtime; see `orco-train doctor`")?;
            let made = Output::prepare(&output, &common.run)?;
            let mut job = Job::open(&common, request, &group)?;
            job.pretrain(None)?;
            let targets = job.align()?;
            job.come_home()?;
            interrupt::check()?;
            let exported = write_bundle(&job.model, &targets, &job.recipe, &job.data, &job.run, &made)?;
            seal(made.staged(), release, key.as_ref())?;
            made.finish()?;
            log::info!("wrote the bundle {}", exported.folder.display());
            Ok(())
        }
        Command::Compare { common, draws, backbone_rates } => {
            let group = join(&common)?;
            if !group.is_first() {
                return follow(&common, request, &group);
            }
            sigpipe::reset();
            onnx::start().context("the runtime's learner needs ONNX Runtime; see `orco-train doctor`")?;
            let mut job = Job::open(&common, request, &group)?;
            compare::check(&job.model, &job.recipe.learn, &backbone_rates)?;
            job.pretrain(None)?;
            let targets = job.align()?;
            let draws = draws as usize;
            let summaries = job.compare(&targets, draws, &backbone_rates)?;
            Ok(print(table(&summaries, draws))?)
        }
        Command::Ablate { question, common, by, draws } => {
            sigpipe::reset();
            onnx::start().context("the runtime's learner needs ONNX Runtime; see `orco-train doctor`")?;
            ablate::all((question, by), &common, &request, draws as usize)
        }
        Command::Rival { rivals, common, seeds, draws } => {
            sigpipe::reset();
            rival::all(&rivals, &common, &request, (seeds, draws as usize))
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
            let (_, data) = job::open(&images, &Group::alone())?;
            write_lists(&data.split, &data.names, &output)?;
            log::info!("wrote {} lists into {}", data.split.sessions.len() + 1, output.display());
            Ok(())
        }
        Command::Data { data: DataCommand::Cifar100 { output, from } } => {
            Ok(download::CIFAR100.fetch(&output, from.as_deref())?)
        }
        Command::Resume { run: folder } => run(resume::stored(&folder)?),
        Command::Doctor { folder } => Ok(print(doctor::report(&folder).trim_end())?),
        Command::Statistics { images, bundle } => {
            onnx::start().context("features are computed with ONNX Runtime; see `orco-train doctor`")?;
            let (recipe, data) = job::open(&images, &Group::alone())?;
            add_statistics(&bundle, &recipe, &data)?;
            log::info!("gave {} the statistics of its base classes", bundle.display());
            Ok(())
        }
        Command::Preset { bundle, name } => {
            set_preset(&bundle, &name)?;
            log::info!("{} has the settings of preset {name}", bundle.display());
            Ok(())
        }
        Command::Tune { bundle, trials, draws, seed } => {
            // A table for reading, unlike training, which outlives whoever reads its log.
            sigpipe::reset();
            tune(&bundle, &trials, draws as usize, seed)
        }
    }
}
