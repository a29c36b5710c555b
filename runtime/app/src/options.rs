//! The options that every command takes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
#[cfg(feature = "hub")]
use orco_hub::client::DeviceFolder;
use orco_runtime::bundle::{Bundle, OpenError};
use orco_runtime::encoder::engine_choice::EngineChoice;
use orco_runtime::files::destination;
use orco_runtime::learner::AnswerScope;
use orco_runtime::signature::PublicKey;
use orco_runtime::state::history::HistoryLimits;

use crate::bundle_search;

/// Global options of `orco`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The file of settings; `/etc/orco/orco.toml` where none is named and that one is there.
    #[arg(long, global = true, value_name = "FILE", env = "ORCO_CONFIG")]
    pub config: Option<PathBuf>,
    /// The bundle's folder, or the name of one that is installed. By default `everyday` is looked for here, beside the
    /// program, and in the user's and the system's folders for data.
    #[arg(long, global = true, value_name = "DIR", env = "ORCO_BUNDLE", default_value = bundle_search::DEFAULT)]
    pub bundle: PathBuf,
    /// Where the bundle was looked for in vain.
    #[arg(skip)]
    pub searched: Vec<PathBuf>,
    /// Which of the bundle's backbones computes features: `float`, or `int8` where the bundle has one.
    #[arg(long, global = true, value_name = "KIND", env = "ORCO_BACKBONE", value_enum, default_value_t)]
    pub backbone: BackboneArgument,
    /// Which engine computes features: `onnxruntime`, `rten`, or `auto`, which takes rten for shots and for a few
    /// pictures, ONNX Runtime for more, and for many, as in a service, the one that a measurement finds to be faster.
    #[arg(long, global = true, value_name = "ENGINE", env = "ORCO_ENGINE", value_enum, default_value_t)]
    pub engine: EngineArgument,
    /// Most threads that compute; by default as many as this process may use at a time.
    #[arg(long, global = true, value_name = "N", env = "ORCO_THREADS", value_parser = at_least_one)]
    pub threads: Option<usize>,
    /// Which classes are answered: learned classes alone (`learned`), all that are known (`all`), or all until three
    /// are learned (`auto`). What is none of them is `unknown`. By default what was chosen on the device's page, at
    /// first `auto`.
    #[arg(long, global = true, value_name = "WHICH", env = "ORCO_ANSWERS", value_enum)]
    pub answers: Option<AnswersArgument>,
    /// Folder of the device's state; by default one per bundle in the user's state folder.
    #[arg(long, global = true, value_name = "DIR", env = "ORCO_STATE")]
    pub state: Option<PathBuf>,
    /// Folder of the device's part in a fleet: its key, and what its channel named; by default `fleet` in the state's
    /// folder.
    #[cfg(feature = "hub")]
    #[arg(long, global = true, value_name = "DIR", env = "ORCO_FLEET")]
    pub fleet: Option<PathBuf>,
    /// Public key of minisign; with it, only bundles, packs and backups that were signed with its secret key are
    /// accepted.
    #[arg(long, global = true, value_name = "FILE", env = "ORCO_PUBLIC_KEY")]
    pub public_key: Option<PathBuf>,
    /// Writes the result as JSON into a file, too; `-` is standard output.
    #[arg(long, global = true, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Says more: losses, exact shares, what only experts need; the JSON lists all classes, not those alone that
    /// changed.
    #[arg(long, global = true)]
    pub verbose: bool,
    /// Seconds to wait for another orco that is changing the same state, instead of being refused at once.
    #[arg(long, global = true, value_name = "SECONDS", env = "ORCO_WAIT", default_value = "0", value_parser = seconds)]
    pub wait: Duration,
    /// Most changes that `orco undo` can undo.
    #[arg(long, global = true, value_name = "N", env = "ORCO_HISTORY", default_value_t = HistoryLimits::default().entries)]
    pub history: usize,
    /// Most bytes of the state that remember earlier class sets; the oldest go first. The last change can be undone
    /// whatever it takes.
    #[arg(long, global = true, value_name = "N", env = "ORCO_HISTORY_BYTES", default_value_t = HistoryLimits::default().bytes)]
    pub history_bytes: usize,
}

/// The backbones of a bundle, as `--backbone` takes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BackboneArgument {
    /// That of every bundle.
    #[default]
    Float,
    /// The one whose arithmetic is int8.
    Int8,
}

/// [`AnswerScope`], as `--answers` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnswersArgument {
    /// All, until three classes are learned; then those alone
    Auto,
    /// Learned classes alone
    Learned,
    /// All that are known
    All,
}

impl AnswersArgument {
    /// As the library takes it.
    pub fn scope(self) -> AnswerScope {
        match self {
            Self::Auto => AnswerScope::Auto,
            Self::Learned => AnswerScope::Learned,
            Self::All => AnswerScope::All,
        }
    }
}

/// The engines, as `--engine` takes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineArgument {
    /// By the work ahead.
    #[default]
    Auto,
    /// ONNX Runtime alone.
    #[value(name = "onnxruntime")]
    OnnxRuntime,
    /// rten alone.
    Rten,
}

impl EngineArgument {
    /// As the library takes it.
    pub fn choice(self) -> EngineChoice {
        match self {
            Self::Auto => EngineChoice::Auto,
            Self::OnnxRuntime => EngineChoice::OnnxRuntime,
            Self::Rten => EngineChoice::Rten,
        }
    }
}

impl BackboneArgument {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Int8 => "int8",
        }
    }

    /// The bundle with this backbone.
    ///
    /// # Errors
    /// [`OpenError`] if it has none.
    pub fn select(self, bundle: Bundle) -> Result<Bundle, OpenError> {
        match self {
            Self::Float => Ok(bundle),
            Self::Int8 => bundle.with_int8(),
        }
    }
}

impl Options {
    /// The folder of the device's part in a fleet, for the state in this folder.
    #[cfg(feature = "hub")]
    pub fn fleet_folder(&self, state: &Path) -> DeviceFolder {
        self.fleet.as_ref().map_or_else(|| DeviceFolder::of_state(state), DeviceFolder::new)
    }

    /// These options with the bundle where it is found, if its name alone was given, or none.
    pub fn with_bundle_found(mut self) -> Self {
        match bundle_search::find(&self.bundle, &bundle_search::BundleFolders::of_machine()) {
            Ok(folder) => self.bundle = folder,
            Err(searched) => self.searched = searched,
        }
        self
    }

    /// Opens the bundle with the backbone that was asked for, signed where a key is configured.
    pub fn open_bundle(&self) -> Result<Bundle> {
        if !self.searched.is_empty() {
            let places: Vec<String> = self.searched.iter().map(|place| place.display().to_string()).collect();
            bail!(
                "no bundle was found; looked for in {}: name its folder with --bundle DIR or ORCO_BUNDLE",
                places.join(", ")
            );
        }
        let bundle = Bundle::open_trusted(&self.bundle, self.public_key()?.as_ref())?;
        Ok(self.backbone.select(bundle)?)
    }

    /// The key that signatures are checked with, if one is configured.
    pub fn public_key(&self) -> Result<Option<PublicKey>> {
        Ok(self.public_key.as_deref().map(PublicKey::read).transpose()?)
    }

    /// Folder of the state of a bundle of that name: `--state`, else `$XDG_STATE_HOME/orco/NAME`, else
    /// `~/.local/state/orco/NAME`.
    pub fn state_folder(&self, bundle_name: &str) -> Result<PathBuf> {
        if let Some(folder) = &self.state {
            return Ok(folder.clone());
        }
        let states =
            usual_states().context("neither --state nor HOME is set; say where the state lies with --state DIR")?;
        let folder: String = bundle_name.chars().map(in_a_path).collect();
        Ok(states.join(folder))
    }

    /// Refuses a destination in the bundle's folder, in the folder of the device's states, whatever bundle they belong
    /// to, or in that of its part in a fleet; the file of the result as JSON, which would replace what is written
    /// there; and `-`.
    ///
    /// # Errors
    /// If the destination is one of these.
    pub fn check_destination(&self, path: &Path) -> Result<()> {
        // Who pipes a backup on would keep a sentence for it.
        if path == Path::new("-") {
            bail!("cannot write -: standard output is for --json alone; name a file");
        }
        self.check_report(path)?;
        match &self.json {
            Some(report) if destination::is_same_file(path, report) => {
                bail!("cannot write {}: --json names that file, too; name another one for one of them", path.display())
            }
            _ => Ok(()),
        }
    }

    /// Refuses a file for results in the bundle's folder, in the folder of the device's states or in that of its part
    /// in a fleet.
    ///
    /// # Errors
    /// If the file is in one of these.
    pub fn check_report(&self, path: &Path) -> Result<()> {
        destination::check(path, &self.bundle, "bundle's folder")?;
        #[cfg(feature = "hub")]
        if let Some(fleet) = &self.fleet {
            destination::check(path, fleet, "folder of the device's part in a fleet")?;
        }
        match self.state.clone().or_else(usual_states) {
            Some(states) => Ok(destination::check(path, &states, "device's state folder")?),
            None => Ok(()),
        }
    }

    /// Limits of the history. The present state has an entry of its own beside the changes that can be undone.
    pub fn limits(&self) -> HistoryLimits {
        HistoryLimits::default().entries(self.history.saturating_add(1)).bytes(self.history_bytes)
    }
}

/// Folder of the states of all bundles, where `--state` names none.
fn usual_states() -> Option<PathBuf> {
    // The specification of these variables has programs ignore relative paths: the state would be another one in every
    // folder.
    let xdg = bundle_search::variable("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let base = xdg.or_else(|| Some(bundle_search::variable("HOME")?.join(".local/state")))?;
    Some(base.join("orco"))
}

/// Reads a number of threads.
fn at_least_one(argument: &str) -> Result<usize, String> {
    argument.parse().ok().filter(|count| *count > 0).ok_or_else(|| "expected a number from 1".into())
}

/// Reads a number of seconds.
fn seconds(argument: &str) -> Result<Duration, String> {
    let seconds = argument.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "expected a number of seconds, such as 10 or 0.5".into())
}

/// Replaces a letter that may not stand in a path, since names out of files must not lead to other folders.
pub fn in_a_path(letter: char) -> char {
    if letter.is_alphanumeric() || letter == '-' { letter } else { '_' }
}
