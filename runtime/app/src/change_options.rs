//! Options of the commands that change the state.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use orco_runtime::learner::{AlignmentTime, Learner, ShotChecks};
use orco_runtime::state::label;

/// When the head is aligned to a change.
#[derive(Args, Clone, Copy, Debug)]
pub struct AlignmentOptions {
    /// When the head is aligned to a change, where the bundle's settings align one. The change is saved first and
    /// answers at once; then the aligned head answers, too. By default `now`, and `later` in a service.
    #[arg(long, value_enum, value_name = "WHEN", env = "ORCO_ALIGN")]
    align: Option<AlignArgument>,
}

/// [`AlignmentTime`], as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AlignArgument {
    /// Before the command ends, or a service says that the change is done
    Now,
    /// By `orco align`, or by a service on the same state as soon as no change waits
    Later,
    /// Not by this call: by `orco align`, or by a service on the same state
    Never,
}

impl AlignArgument {
    /// This choice as a learner takes it.
    fn time(self) -> AlignmentTime {
        match self {
            Self::Now => AlignmentTime::Now,
            Self::Later => AlignmentTime::Later,
            Self::Never => AlignmentTime::Never,
        }
    }
}

impl AlignmentOptions {
    /// The time that was asked for, or else this one.
    pub fn time_or(self, default: AlignmentTime) -> AlignmentTime {
        self.align.map_or(default, AlignArgument::time)
    }

    /// Sets these options on a learner.
    pub fn apply(self, learner: &mut Learner) {
        learner.settings_mut().alignment = self.time_or(AlignmentTime::Now);
    }
}

/// What every command that aligns the head anew takes.
#[derive(Args, Debug)]
pub struct ChangeOptions {
    #[command(flatten)]
    alignment: AlignmentOptions,
    /// Seed of shuffling and perturbation.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Forgetting budget, in percentage points of accuracy. A change is refused, and the state stays as it was, if this
    /// session and all earlier ones together cost the old classes more than that. Base classes together are measured on
    /// the bundle's samples that were set aside, learned classes together on their shots; a single class counts only
    /// where it lost too many samples for chance. Without a budget, losses are only reported.
    #[arg(long, value_name = "POINTS", env = "ORCO_FORGETTING_BUDGET", value_parser = points)]
    pub forgetting_budget: Option<f32>,
}

impl ChangeOptions {
    /// Sets these options on a learner.
    pub fn apply(&self, learner: &mut Learner) {
        self.alignment.apply(learner);
        let settings = learner.settings_mut();
        settings.seed = self.seed;
        settings.forgetting_budget = self.forgetting_budget;
    }
}

/// Whether pictures of shots are kept.
#[derive(Args, Debug)]
pub struct KeepOptions {
    /// Keeps the shots' pictures beside the exemplars, at the size that the backbone sees, so that `orco upgrade` can
    /// learn all classes again on a new bundle. They stay on the device, and go with their exemplars.
    #[arg(long, env = "ORCO_KEEP_SHOTS", value_parser = clap::builder::BoolishValueParser::new())]
    pub keep_shots: bool,
}

/// Whether pictures are checked before they become shots.
#[derive(Args, Debug)]
pub struct CheckOptions {
    /// Learns from unfit pictures too, with a warning for each: too dark, too bright, blurred, nothing but noise, or
    /// the same as another picture of this command. Without it, they are refused.
    #[arg(long)]
    pub take_anyway: bool,
}

impl CheckOptions {
    /// Sets these options on a learner.
    pub fn apply(&self, learner: &mut Learner) {
        learner.settings_mut().shot_checks = if self.take_anyway { ShotChecks::Warn } else { ShotChecks::Refuse };
    }
}

/// What the commands that learn from pictures take.
#[derive(Args, Debug)]
pub struct LearnOptions {
    #[command(flatten)]
    change: ChangeOptions,
    #[command(flatten)]
    keep: KeepOptions,
    #[command(flatten)]
    check: CheckOptions,
}

impl LearnOptions {
    /// Sets these options on a learner.
    pub fn apply(&self, learner: &mut Learner) {
        self.change.apply(learner);
        self.check.apply(learner);
        learner.settings_mut().keep_shots = self.keep.keep_shots;
    }
}

/// A class and the folder with its pictures, as the command line names them.
#[derive(Clone, Debug)]
pub struct ClassFolder {
    /// The class's label.
    pub label: String,
    /// Whether the label is the folder's name, since none was given.
    pub is_named_by_folder: bool,
    /// The folder.
    pub folder: PathBuf,
}

impl ClassFolder {
    /// Reads arguments with [`ClassFolder::parse`]. Names of folders need not be text.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(|argument| Self::parse(&argument))
    }

    /// Reads `LABEL=FOLDER`, or `FOLDER`, whose last name is the label.
    fn parse(argument: &OsStr) -> Result<Self, String> {
        let split = split_label(argument);
        if split.is_some_and(|(_, folder)| !Path::new(folder).exists()) && Path::new(argument).is_dir() {
            return Err(
                "the folder's name holds \"=\", which ends a label: write LABEL=FOLDER, such as mug=set/class=mug"
                    .into(),
            );
        }
        let (label, folder) = match split {
            Some((label, folder)) => (label.to_owned(), folder),
            None => (folder_name(Path::new(argument)).unwrap_or_default(), argument),
        };
        let Some(label) = label.to_str() else {
            return Err("the label is no text in UTF-8: write LABEL=FOLDER, such as mug=pictures/of-mugs".into());
        };
        if label.trim().is_empty() || folder.is_empty() {
            return Err("expected LABEL=FOLDER or FOLDER, such as mug=pictures/of-mugs or shots/mug".into());
        }
        Ok(Self { label: label::normal(label), is_named_by_folder: split.is_none(), folder: folder.into() })
    }
}

/// The folder's own name, also where its path ends in `.` or `..`.
fn folder_name(folder: &Path) -> Option<OsString> {
    let last = folder.file_name().map(OsStr::to_owned);
    last.or_else(|| Some(fs::canonicalize(folder).ok()?.file_name()?.to_owned()))
}

/// What is before the first `=`, and what is after it.
#[cfg(unix)]
fn split_label(argument: &OsStr) -> Option<(&OsStr, &OsStr)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = argument.as_bytes();
    let sign = bytes.iter().position(|byte| *byte == b'=')?;
    Some((OsStr::from_bytes(&bytes[..sign]), OsStr::from_bytes(&bytes[sign + 1..])))
}

/// Other systems than Unix cut text alone.
#[cfg(not(unix))]
fn split_label(argument: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let (label, folder) = argument.to_str()?.split_once('=')?;
    Some((OsStr::new(label), OsStr::new(folder)))
}

/// Reads a budget in percentage points as a share.
fn points(argument: &str) -> Result<f32, String> {
    match argument.parse::<f32>() {
        Ok(points) if (0.0..=100.0).contains(&points) => Ok(points / 100.0),
        _ => Err("expected a number from 0 to 100".into()),
    }
}
