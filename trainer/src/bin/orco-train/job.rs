//! A recipe with its data, model and run folder, and the phases over them.

use anyhow::{Context, Result};
use orco_benchmark::Summary;
use orco_trainer::ablate::of_sessions;
use orco_trainer::compare::compare;
use orco_trainer::config::Recipe;
use orco_trainer::data::dataset::{self, DataSet, Origin};
use orco_trainer::model::backbone::OnnxBackbone;
use orco_trainer::model::{Model, Norms};
use orco_trainer::platform::distributed::Group;
use orco_trainer::platform::failure::guarded;
use orco_trainer::platform::interrupt::{self, Work};
use orco_trainer::platform::{device, waiting};
use orco_trainer::run::{Record, Run, TrainedOn};
use orco_trainer::train::align::{SharedFeatures, align_sharing};
use orco_trainer::train::fit::BaseSession;
use orco_trainer::train::objective::Targets;
use orco_trainer::train::pretrain::pretrain;

use crate::arguments::{Common, ImageArgs};

/// Reads a recipe and its images, together with the other ranks.
///
/// # Errors
/// If either is missing or not as it should be.
pub fn open(images: &ImageArgs, group: &Group) -> Result<(Recipe, DataSet)> {
    let mut recipe = Recipe::read(&images.recipe)?;
    recipe.seed = images.seed.unwrap_or(recipe.seed);
    // Before images are read, and phase 1 is trained.
    if recipe.backbone.onnx.is_none() && recipe.pretrain.epochs > 0 {
        group.demand_share("pretrain.batch", recipe.pretrain.batch)?;
    }
    group.demand_share("align.batch", recipe.align.batch)?;
    let origin = Origin {
        folder: images.data.as_deref(),
        lists: images.lists.as_deref(),
        skip_broken: images.skip_broken,
        group: group.clone(),
    };
    let data = dataset::open(&recipe, &origin)?;
    for skipped in &data.skipped {
        log::warn!("left out: {skipped}");
    }
    if !data.skipped.is_empty() {
        log::warn!("{} broken images were left out", data.skipped.len());
    }
    Ok((recipe, data))
}

/// The same on the device, and with the backbone, that the command line names.
///
/// # Errors
/// As for [`open`], or if the device is not there, which is told before images are read.
pub fn begin(common: &Common, group: &Group) -> Result<(Recipe, DataSet)> {
    device::open_for(common.device, group)?;
    let (recipe, data) = open(&common.images, group)?;
    Ok(match &common.backbone {
        Some(model) => (recipe.with_backbone(model)?, data),
        None => (recipe, data),
    })
}

/// Channels, height and width of the images that a recipe's own backbone takes.
fn input_of(recipe: &Recipe) -> [i64; 3] {
    let side = i64::from(recipe.data.side());
    [3, side, side]
}

/// A recipe with its data, model and run folder.
pub struct Job {
    pub recipe: Recipe,
    pub data: DataSet,
    pub model: Model,
    pub run: Run,
}

impl Job {
    /// Reads recipe and data, makes the model, and claims the run's folder; every rank of several does so.
    ///
    /// # Errors
    /// If something is missing or does not fit; the folder is then as it was.
    pub fn open(common: &Common, request: serde_json::Value, group: &Group) -> Result<Self> {
        let (recipe, data) = begin(common, group)?;
        Self::over(recipe, data, common, request, group)
    }

    /// The same for a recipe and its data, read before.
    ///
    /// # Errors
    /// As for [`Job::open`].
    pub fn over(
        recipe: Recipe,
        data: DataSet,
        common: &Common,
        request: serde_json::Value,
        group: &Group,
    ) -> Result<Self> {
        let device = device::open_for(common.device, group)?;
        let mut model = match &recipe.backbone.onnx {
            Some(path) => Model::on(OnnxBackbone::open(path, &recipe.backbone, data.channels)?, &recipe, device),
            None => Model::new(&recipe, input_of(&recipe), device),
        };
        model.channels = data.channels;
        if let Some(weights) = &recipe.backbone.weights
            && model.load_backbone(weights)? == Norms::Folded
        {
            model.restore_norms(&data.train, &data.split.base);
        }
        // Everything is read; only now is the folder claimed.
        let run = Run::open_on(&common.run, &recipe, &TrainedOn::new(&recipe, &data)?, group)?;
        let record = Record { ranks: group.size(), ..Record::new(recipe.seed, device, request) };
        if !group.is_first() {
            log::debug!("rank {} of {} is ready", group.rank(), group.size());
        } else if let Some(caution) = Record::read(&common.run).ok().and_then(|before| before.caution(&record)) {
            log::warn!("{caution}");
        }
        run.record(&record)?;
        if !data.skipped.is_empty() {
            run.log(&serde_json::json!({ "phase": "data", "left_out": data.skipped }))?;
        }
        waiting::watch();
        Ok(Self { recipe, data, model, run })
    }

    /// Phase 1, as far as it is not done yet.
    ///
    /// # Errors
    /// As for [`pretrain`].
    pub fn pretrain(&mut self, until: Option<usize>) -> Result<()> {
        if self.model.onnx.is_some() || self.recipe.pretrain.epochs == 0 {
            log::info!("phase 1 is left out: the backbone is given");
            return Ok(());
        }
        let Self { recipe, data, model, run } = self;
        interrupt::enter(Work::Run);
        data.train.settle(model.device());
        let what = "pretrain.batch or pretrain.views";
        let base = BaseSession { images: &data.train, split: &data.split, seed: recipe.seed, run };
        guarded(what, || pretrain(model, &recipe.pretrain, &base, until)).context("phase 1")
    }

    /// Phase 2, as far as it is not done yet.
    ///
    /// # Errors
    /// As for [`align`].
    pub fn align(&mut self) -> Result<Targets> {
        self.align_sharing(&mut SharedFeatures::default())
    }

    /// The same, with features that other jobs over the same backbone share.
    ///
    /// # Errors
    /// As for [`Job::align`].
    pub fn align_sharing(&mut self, features: &mut SharedFeatures) -> Result<Targets> {
        let Self { recipe, data, model, run } = self;
        interrupt::enter(Work::Run);
        if model.onnx.is_none() {
            data.train.settle(model.device());
        }
        let what = "align.batch or align.cached_views";
        let base = BaseSession { images: &data.train, split: &data.split, seed: recipe.seed, run };
        guarded(what, || align_sharing(model, (&*recipe).into(), &base, features)).context("phase 2")
    }

    /// The paper's comparison.
    ///
    /// # Errors
    /// As for [`compare`].
    pub fn compare(&mut self, targets: &Targets, draws: usize, shares: &[f64]) -> Result<Vec<Summary>> {
        let Self { recipe, data, model, run } = self;
        let sessions = of_sessions(data)?;
        let trained = || compare(model, targets, recipe, data, run, (&sessions, draws, shares));
        guarded("learn.batch", trained).context("comparison")
    }

    /// Brings model and images to the processor, where bundles are written.
    ///
    /// # Errors
    /// If the model does not fit its recipe.
    pub fn come_home(&mut self) -> Result<()> {
        if self.model.device() != tch::Device::Cpu {
            self.model = self.model.moved(&self.recipe, tch::Device::Cpu)?;
            self.data.train.settle(tch::Device::Cpu);
        }
        Ok(())
    }
}
