//! `orco-train`: from images to a bundle.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use orco_lab::Summary;
use orco_runtime::encoder::{onnx, telemetry};
use orco_runtime::signature::SecretKey;
use orco_state::label;
use orco_trainer::align::{Assignment, align};
use orco_trainer::backbone::Foreign;
use orco_trainer::compare::{compare, table};
use orco_trainer::config::Recipe;
use orco_trainer::dataset::{self, DataSet, Origin, write_lists};
use orco_trainer::device::{self, Wanted};
use orco_trainer::download;
use orco_trainer::export::{Place, seal, write_bundle, write_key};
use orco_trainer::failure::guarded;
use orco_trainer::interrupt::{self, Interrupted, Work};
use orco_trainer::model::Model;
use orco_trainer::pretrain::pretrain;
use orco_trainer::run::{Record, Run, TrainedOn};
use orco_trainer::tune::tune;
use orco_trainer::{doctor, failure, system, waiting};
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

#[derive(Subcommand, Serialize, Deserialize)]
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
#[derive(Args, Serialize, Deserialize)]
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

#[derive(Args, Serialize, Deserialize)]
struct Common {
    #[command(flatten)]
    images: ImageArgs,
    /// Folder for checkpoints and metrics.
    #[arg(long)]
    run: PathBuf,
    /// Threads; all cores by default.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=1024))]
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
    // Before any other thread. Where it fails, ONNX Runtime is not loaded, and that is said when it is wanted.
    let _ = telemetry::off();
    system::keep_memory();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info,ort=warn"))
        .format_target(false)
        .init();
    failure::quiet();
    let command = Cli::parse().command;
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

fn run(command: Command) -> Result<()> {
    let request = request(&command)?;
    match command {
        Command::Pretrain { common, until } => Job::open(&common, request)?.pretrain(until),
        Command::Align(common) => {
            let mut job = Job::open(&common, request)?;
            job.pretrain(None)?;
            job.align().map(|_| ())
        }
        Command::Run { common, output, sign, release } => {
            // What could fail after hours of training is tried before them.
            let key = sign.as_deref().map(SecretKey::read).transpose()?;
            onnx::start().context("the bundle is checked with ONNX Runtime; see `orco-train doctor`")?;
            let place = Place::prepare(&output, &common.run)?;
            let mut job = Job::open(&common, request)?;
            job.pretrain(None)?;
            let assignment = job.align()?;
            job.come_home()?;
            interrupt::check()?;
            let exported = write_bundle(&job.model, &assignment, &job.recipe, &job.data, &job.run, &place)?;
            seal(place.staged(), release, key.as_ref())?;
            place.finish()?;
            log::info!("wrote the bundle {}", exported.folder.display());
            Ok(())
        }
        Command::Compare { common, draws, backbone_rates } => {
            sigpipe::reset();
            onnx::start().context("the runtime's learner needs ONNX Runtime; see `orco-train doctor`")?;
            let mut job = Job::open(&common, request)?;
            job.pretrain(None)?;
            let assignment = job.align()?;
            let draws = draws as usize;
            let summaries = job.compare(&assignment, draws, &backbone_rates)?;
            println!("{}", table(&summaries, draws));
            Ok(())
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
            let (_, data) = images.open()?;
            write_lists(&data.split, &data.names, &output)?;
            log::info!("wrote {} lists into {}", data.split.sessions.len() + 1, output.display());
            Ok(())
        }
        Command::Data { data: DataCommand::Cifar100 { output, from } } => {
            Ok(download::CIFAR100.fetch(&output, from.as_deref())?)
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
const PATHS: [&str; 7] = ["recipe", "data", "run", "lists", "output", "backbone", "sign"];

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
        Command::Pretrain { common, .. }
        | Command::Align(common)
        | Command::Run { common, .. }
        | Command::Compare { common, .. } => {
            common.images.recipe = folder.join("recipe.toml");
            common.run = folder.into();
        }
        _ => anyhow::bail!("{} holds no run that could be resumed", folder.display()),
    }
    if let Command::Pretrain { until, .. } = &mut command {
        *until = None;
    }
    Ok(command)
}

/// Channels, height and width of the images that a recipe's own backbone takes.
fn input_of(recipe: &Recipe) -> [i64; 3] {
    let side = i64::from(recipe.data.side());
    [3, side, side]
}

/// A recipe with its data, model and run folder.
struct Job {
    recipe: Recipe,
    data: DataSet,
    model: Model,
    run: Run,
}

impl Job {
    fn open(common: &Common, request: serde_json::Value) -> Result<Self> {
        let device = device::open(common.device)?;
        if let Some(threads) = common.threads {
            tch::set_num_threads(threads);
        }
        let (mut recipe, data) = common.images.open()?;
        if let Some(model) = &common.backbone {
            recipe = recipe.with_backbone(model)?;
        }
        let mut model = match &recipe.backbone.onnx {
            Some(path) => Model::on(Foreign::open(path, &recipe.backbone, data.channels)?, &recipe, device),
            None => Model::new(&recipe, input_of(&recipe), device),
        };
        model.channels = data.channels;
        if let Some(weights) = &recipe.backbone.weights {
            model.load_backbone(weights)?;
        }
        // Everything is read; only now is the folder claimed.
        let run = Run::open_on(&common.run, &recipe, &TrainedOn::new(&recipe, &data)?)?;
        let record = Record::new(recipe.seed, device, request);
        if let Some(caution) = Record::read(&common.run).ok().and_then(|before| before.caution(&record)) {
            log::warn!("{caution}");
        }
        run.record(&record)?;
        if !data.skipped.is_empty() {
            run.log(&serde_json::json!({ "phase": "data", "left_out": data.skipped }))?;
        }
        waiting::watch();
        Ok(Self { recipe, data, model, run })
    }

    fn pretrain(&mut self, until: Option<usize>) -> Result<()> {
        if self.model.foreign.is_some() || self.recipe.pretrain.epochs == 0 {
            log::info!("phase 1 is left out: the backbone is given");
            return Ok(());
        }
        let Self { recipe, data, model, run } = self;
        interrupt::enter(Work::Run);
        data.train.settle(model.device());
        let what = "pretrain.batch or pretrain.views";
        guarded(what, || pretrain(model, recipe, &data.train, &data.split, run, until)).context("phase 1")
    }

    fn align(&mut self) -> Result<Assignment> {
        let Self { recipe, data, model, run } = self;
        interrupt::enter(Work::Run);
        if model.foreign.is_none() {
            data.train.settle(model.device());
        }
        let what = "align.batch or align.cached_views";
        guarded(what, || align(model, recipe, &data.train, &data.split, run)).context("phase 2")
    }

    fn compare(&mut self, assignment: &Assignment, draws: usize, shares: &[f64]) -> Result<Vec<Summary>> {
        let Self { recipe, data, model, run } = self;
        let (images, split, names) = ((&data.train, &data.test), &data.split, &data.class_names);
        let trained = || compare(model, assignment, recipe, images, split, names, run, (draws, shares));
        guarded("learn.batch", trained).context("comparison")
    }

    /// Brings model and images to the processor, where bundles are written.
    fn come_home(&mut self) -> Result<()> {
        if self.model.device() != tch::Device::Cpu {
            self.model = self.model.moved(&self.recipe, tch::Device::Cpu)?;
            self.data.train.settle(tch::Device::Cpu);
        }
        Ok(())
    }
}
