//! Arguments that the programs share which train.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::request;
use crate::platform::device::DeviceChoice;
use crate::run::RECIPE;

/// The largest seed: recipes are TOML, whose numbers end there.
pub const MAX_SEED: u64 = i64::MAX as u64;

/// A recipe and the images it works on.
#[derive(Clone, Args, Serialize, Deserialize)]
pub struct ImageArguments {
    /// The recipe, a TOML file; see trainer/recipes.
    #[serde(serialize_with = "request::absolute_path")]
    pub recipe: PathBuf,
    /// Folder of the data set, laid out as its publishers do; not needed for synthetic data.
    #[arg(long)]
    #[serde(serialize_with = "request::optional_absolute_path")]
    pub data: Option<PathBuf>,
    /// Folder with the field's session lists (session_2.txt ...); without it every draw of shots is a seeded one.
    #[arg(long)]
    #[serde(serialize_with = "request::optional_absolute_path")]
    pub lists: Option<PathBuf>,
    /// Leaves images out that cannot be decoded, and lists them, instead of stopping.
    #[arg(long)]
    pub skip_broken: bool,
    /// Seed in place of the recipe's. With bundles of several seeds, `orco-lab seeds` tells chance from gain. It also
    /// draws the test images of a folder without `test`, so that such bundles are measured on other images each.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=MAX_SEED))]
    #[serde(default)]
    pub seed: Option<u64>,
}

/// What all commands that train take.
#[derive(Clone, Args, Serialize, Deserialize)]
pub struct TrainingArguments {
    /// The recipe and its images.
    #[command(flatten)]
    pub images: ImageArguments,
    /// Folder for checkpoints and metrics.
    #[arg(long)]
    #[serde(serialize_with = "request::absolute_path")]
    pub run: PathBuf,
    /// Threads, of training and of what is measured after it; all cores by default.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=1024))]
    pub threads: Option<i32>,
    /// ONNX file of a feature extractor to take instead of training one: phases 2 and 3 only. The recipe's
    /// `backbone.onnx` says the same.
    #[arg(long, value_name = "MODEL")]
    #[serde(serialize_with = "request::optional_absolute_path")]
    pub backbone: Option<PathBuf>,
    /// Where to train: auto, cpu, cuda or cuda:N.
    #[arg(long, default_value = "auto")]
    #[serde(default)]
    pub device: DeviceChoice,
}

impl TrainingArguments {
    /// Names the run in a folder, which may have been carried anywhere since it was begun, and the recipe in it.
    pub fn continue_in(&mut self, folder: &Path) {
        self.images.recipe = folder.join(RECIPE);
        self.run = folder.into();
    }
}
