//! Rivals that train the backbone, as `orco-train-lab rival` writes them: their results beside the recipe and the run.
//! The trainer's laboratory fills the file; `results_pages` shows it beside the paper's tables.

use serde::{Deserialize, Serialize};

use crate::published::PaperTable;
use crate::results::Results;

/// Rivals that were trained by one recipe.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RivalResults {
    /// Every rival's numbers.
    #[serde(flatten)]
    pub results: Results,
    /// What trained them.
    pub recipe: RivalRecipe,
    /// How they were trained; none in files of older programs.
    #[serde(default)]
    pub run: Option<RivalRun>,
}

/// What the recipe alone does not say of a training.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RivalRun {
    /// The command that repeats it, with `DATA`, `LISTS` and `RUN` in place of folders.
    pub command: String,
    /// Width and height of an image in pixels.
    pub image_size: u32,
    /// Images of base classes that are trained on.
    pub base_images: usize,
    /// Steps of the recipe's phase 1.
    pub steps: usize,
    /// What rivals train the backbone beyond these steps, in words, each with its rival's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<String>,
}

/// The part of a recipe that stands beside the numbers of rivals. The trainer writes the whole of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RivalRecipe {
    /// Its name.
    pub name: String,
    /// Seed of the training; the first of several.
    pub seed: u64,
    /// Which classes are base, and what is measured on.
    pub split: RivalSplit,
    /// The network.
    pub backbone: RivalBackboneConfig,
    /// The budget.
    pub pretrain: RivalBudget,
}

/// The table `split` of a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RivalSplit {
    /// Base classes.
    pub base_classes: usize,
    /// Incremental sessions.
    pub sessions: usize,
    /// New classes of each.
    pub ways: u32,
    /// `test` or `holdout`.
    pub measure_on: String,
}

/// The table `backbone` of a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RivalBackboneConfig {
    /// Name of the architecture.
    pub architecture: String,
    /// Its width; 0 where the architecture has none.
    pub width: u32,
    /// How it begins, if not as for small images.
    #[serde(default)]
    pub stem: Option<String>,
    /// File of the weights that it starts from; none if it is trained from scratch.
    #[serde(default)]
    pub weights: Option<String>,
}

/// The table `pretrain` of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct RivalBudget {
    /// Passes over the base images.
    pub epochs: usize,
    /// Images of a step.
    pub batch: usize,
}

impl RivalResults {
    /// The paper's table that may stand beside; none on other data, on another split, or on held-out images.
    pub fn table(&self) -> Option<PaperTable> {
        let RivalSplit { base_classes, sessions, ways, measure_on } = &self.recipe.split;
        let table = PaperTable::of(&self.results.source, *base_classes, &vec![*ways; *sessions]);
        table.filter(|_| measure_on == "test")
    }
}
