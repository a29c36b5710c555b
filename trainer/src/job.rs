//! A recipe with its data, model and run folder, and the phases over them.

mod arguments;
pub mod program;
pub mod request;

use anyhow::{Context, Result};
use orco_runtime::image::Preprocessing;
use orco_state::sentence::counted;

pub use self::arguments::{ImageArguments, MAX_SEED, TrainingArguments};
use crate::config::Recipe;
use crate::data::dataset::{self, ChannelStatistics, DataOrigin, DataSet};
use crate::data::digest::digest_training_data;
use crate::model::backbone::OnnxBackbone;
use crate::model::{Model, Norms, WeightChannels, WeightFile};
use crate::platform::distributed::RankGroup;
use crate::platform::failure::catch_torch;
use crate::platform::interrupt::{self, Activity};
use crate::platform::{device, waiting};
use crate::run::{RECIPE, Run, RunRecord, progress, read_recipe};
use crate::train::base_align::{SharedFeatures, align_sharing};
use crate::train::objective::Targets;
use crate::train::pretrain::pretrain;
use crate::train::require_full_batch;
use crate::train::training_loop::BaseSession;

/// Reads a recipe and its images, together with the other ranks. A recipe that needs `--backbone` is accepted.
///
/// # Errors
/// If a file is missing or invalid.
pub fn open_data(images: &ImageArguments, group: &RankGroup) -> Result<(Recipe, DataSet)> {
    open_images(Recipe::read_for_images(&images.recipe)?, images, group)
}

fn open_images(mut recipe: Recipe, images: &ImageArguments, group: &RankGroup) -> Result<(Recipe, DataSet)> {
    recipe.seed = images.seed.unwrap_or(recipe.seed);
    // Before images are read, and phase 1 is trained.
    if recipe.has_phase_1() {
        group.require_divisible("pretrain.batch", recipe.pretrain.batch)?;
    }
    group.require_divisible("align.batch", recipe.align.batch)?;
    let origin = DataOrigin {
        folder: images.data.as_deref(),
        lists: images.lists.as_deref(),
        skip_broken: images.skip_broken,
        group: group.clone(),
    };
    let data = dataset::open(&recipe, &origin)?;
    // Few images make the batch of phase 2 smaller.
    let settled = recipe.align.for_images_on(data.split.base.len(), group.size());
    group.require_divisible("align.batch", settled.batch)?;
    for skipped in &data.skipped {
        log::warn!("left out: {skipped}");
    }
    if !data.skipped.is_empty() {
        log::warn!("left out: {} in all", counted(data.skipped.len(), "broken image"));
    }
    Ok((recipe, data))
}

/// As [`open_data`], for training: also checks the device and the backbone's file that the command line names.
///
/// # Errors
/// As for [`open_data`]. A missing device or backbone file is reported before images are read.
pub fn open_training_data(arguments: &TrainingArguments, group: &RankGroup) -> Result<(Recipe, DataSet)> {
    device::open_for(arguments.device, group)?;
    let (images, run) = (&arguments.images, &arguments.run);
    // A run's own copy says whether it is whole.
    let is_own = images.recipe == run.join(RECIPE);
    let recipe = match &arguments.backbone {
        Some(model) if is_own => read_recipe(run)?.with_backbone(model)?,
        None if is_own => read_recipe(run)?,
        Some(model) => Recipe::read_on(&images.recipe, model)?,
        None => Recipe::read(&images.recipe)?,
    };
    // Before images are read, which may take long.
    if let Some(model) = &recipe.backbone.onnx {
        OnnxBackbone::check_file(model)?;
    } else if let Some(weights) = &recipe.backbone.weights {
        WeightFile::check(weights)?;
    }
    if let Some(cut) = recipe.data.crop_mismatch().filter(|_| group.is_first()) {
        log::warn!(
            "pictures are {cut} (data.fit, data.crop), but a device takes the largest square from the middle, uncropped, \
             so it recognises fewer pictures than this run measures; leave data.fit and data.crop out for a bundle that \
             goes onto a device"
        );
    }
    open_images(recipe, images, group)
}

/// Warns where an imported backbone probably gets other images than it was trained on.
fn warn_of_mismatch(onnx: &OnnxBackbone, recipe: &Recipe) {
    let Preprocessing { width, height, .. } = onnx.input;
    if let Some(mismatch) = size_mismatch([width, height], recipe.data.side()) {
        log::warn!("{mismatch}");
    }
    if !onnx.names_channels && ChannelStatistics::known(&recipe.data).is_none() {
        log::warn!(
            "nothing says by which mean and deviation the backbone's images are normalised, so what is not known is taken \
             from the data, which makes {:?} and {:?}; a pretrained network needs its own: backbone.mean and \
             backbone.deviation of the recipe",
            onnx.input.mean,
            onnx.input.deviation
        );
    }
}

/// Says that a backbone takes images of another size than the data's, and what to do; none where they are equal.
fn size_mismatch([width, height]: [u32; 2], side: u32) -> Option<String> {
    let remedy = if width == height {
        // CIFAR-100's images have 32 pixels whatever the recipe says.
        format!("set data.image_size = {width}, or export it for {side} pixels")
    } else {
        "export it for square images, if its layers take them".to_owned()
    };
    let says = || {
        format!(
            "the backbone takes images of {width} x {height} pixels, but data.image_size is {side}: it is trained on other \
             pictures than devices show it; {remedy}"
        )
    };
    ([width, height] != [side; 2]).then(says)
}

/// Loads the weights that the recipe names, if any, and the channel statistics that they were trained with; warns if
/// those are unknown.
fn start_from_weights(model: &mut Model, recipe: &Recipe, data: &DataSet) -> Result<Option<WeightFile>> {
    let Some(path) = &recipe.backbone.weights else { return Ok(None) };
    let file = WeightFile::read(path)?;
    let loaded = model.load_weights(&file)?;
    match loaded.channels {
        WeightChannels::Published(_) if recipe.data.mean.is_some() => model.channels = data.channels,
        WeightChannels::Unknown if ChannelStatistics::of(recipe).is_none() => log::warn!(
            "nothing says by which mean and deviation images were normalised when the weights {} were trained, so those \
             of the data are taken, {:?} and {:?}; others are named by data.mean and data.deviation of the recipe",
            path.display(),
            data.channels.mean,
            data.channels.deviation
        ),
        _ => {}
    }
    if loaded.norms == Norms::Folded {
        model.restore_norms(&data.train, &data.split.base);
    }
    Ok(Some(file))
}

/// Joins the other ranks, if a launcher started several. All but the first log warnings only from then on.
///
/// # Errors
/// If they cannot be reached.
pub fn join(arguments: &TrainingArguments) -> Result<RankGroup> {
    let group = RankGroup::from_environment(arguments.device)?;
    if group.is_first() {
        if group.size() > 1 {
            log::info!("{} ranks train together", group.size());
        }
    } else {
        progress::show_warnings_only();
    }
    Ok(group)
}

/// Runs both phases on a rank other than the first, which does the rest of the command.
///
/// # Errors
/// As for [`TrainingJob::open_for_both_phases`], [`TrainingJob::pretrain`] and [`TrainingJob::align`].
pub fn follow(arguments: &TrainingArguments, request: serde_json::Value, group: &RankGroup) -> Result<()> {
    let mut job = TrainingJob::open_for_both_phases(arguments, request, group)?;
    job.pretrain(None)?;
    job.align().map(drop)
}

/// Channels, height and width of the images that a recipe's own backbone takes.
fn input_of(recipe: &Recipe) -> [i64; 3] {
    let side = i64::from(recipe.data.side());
    [3, side, side]
}

/// A recipe with its data, model and run folder.
pub struct TrainingJob {
    /// How it is trained.
    pub recipe: Recipe,
    /// What it is trained on.
    pub data: DataSet,
    /// What is trained.
    pub model: Model,
    /// Its folder.
    pub run: Run,
}

impl TrainingJob {
    /// Reads recipe and data, makes the model, and claims the run's folder. Every rank calls it.
    ///
    /// # Errors
    /// If something is missing or does not fit; the folder is then unchanged.
    pub fn open(arguments: &TrainingArguments, request: serde_json::Value, group: &RankGroup) -> Result<Self> {
        let (recipe, data) = open_training_data(arguments, group)?;
        Self::with_data(recipe, data, arguments, request, group)
    }

    /// As [`TrainingJob::open`], for both phases: what phase 2 would refuse is refused before phase 1, which may take
    /// days.
    ///
    /// # Errors
    /// As for [`TrainingJob::open`], and if the base images do not fill a batch of phase 2.
    pub fn open_for_both_phases(
        arguments: &TrainingArguments,
        request: serde_json::Value,
        group: &RankGroup,
    ) -> Result<Self> {
        let (recipe, data) = open_training_data(arguments, group)?;
        let images = data.split.base.len();
        let batch = recipe.align.for_images_on(images, group.size()).batch;
        require_full_batch("align.batch", batch, images).context("phase 2")?;
        Self::with_data(recipe, data, arguments, request, group)
    }

    /// As [`TrainingJob::open`], for a recipe and its data that were read before.
    ///
    /// # Errors
    /// As for [`TrainingJob::open`].
    pub fn with_data(
        recipe: Recipe,
        data: DataSet,
        arguments: &TrainingArguments,
        request: serde_json::Value,
        group: &RankGroup,
    ) -> Result<Self> {
        let device = device::open_for(arguments.device, group)?;
        let mut model = match &recipe.backbone.onnx {
            Some(path) => Model::with_onnx_backbone(
                OnnxBackbone::open(path, &recipe.backbone, recipe.data.side(), data.channels)?,
                &recipe,
                device,
            ),
            None => Model::new(&recipe, input_of(&recipe), device),
        };
        if !model.is_imported() && !recipe.backbone.architecture.has_width() && recipe.backbone.width != 0 {
            log::warn!("backbone.width is ignored: EfficientNet has no width");
        }
        model.channels = data.channels;
        model.onnx.iter().for_each(|onnx| warn_of_mismatch(onnx, &recipe));
        let weights = start_from_weights(&mut model, &recipe, &data)?;
        let imported = model.onnx.as_ref().map(|onnx| onnx.digest);
        let trained_on = digest_training_data(&data, weights.as_ref().map(WeightFile::digest), imported)?;
        // Frees the bytes of the file.
        drop(weights);
        Run::compare_ranks(&recipe, &trained_on, group)?;
        if recipe.has_phase_1() {
            let batch = recipe.pretrain.batch;
            require_full_batch("pretrain.batch", batch, data.split.base.len()).context("phase 1")?;
        }
        // Everything is read; only now is the folder claimed.
        let run = Run::open_on(&arguments.run, &recipe, &trained_on, group)?;
        let record = RunRecord { ranks: group.size(), ..RunRecord::new(recipe.seed, device, request) };
        if !group.is_first() {
            log::debug!("rank {} of {} is ready", group.rank(), group.size());
        } else if let Some(caution) = RunRecord::read(&arguments.run).ok().and_then(|before| before.caution(&record)) {
            log::warn!("{caution}");
        }
        run.record(&record)?;
        if !data.skipped.is_empty() {
            run.log(&serde_json::json!({ "phase": "data", "left_out": data.skipped }))?;
        }
        waiting::watch();
        Ok(Self { recipe, data, model, run })
    }

    /// Runs phase 1, or what is left of it.
    ///
    /// # Errors
    /// As for [`pretrain`].
    pub fn pretrain(&mut self, until: Option<usize>) -> Result<()> {
        if !self.recipe.has_phase_1() {
            log::info!("phase 1 is left out: the backbone is given");
            return Ok(());
        }
        let Self { recipe, data, model, run } = self;
        interrupt::enter(Activity::Run);
        data.train.move_pixels_to(model.device());
        let what = "pretrain.batch or pretrain.views";
        let base = BaseSession { images: &data.train, split: &data.split, seed: recipe.seed, run };
        catch_torch(what, || pretrain(model, &recipe.pretrain, &base, until)).context("phase 1")
    }

    /// Runs phase 2, or what is left of it.
    ///
    /// # Errors
    /// As for [`crate::train::base_align::align`].
    pub fn align(&mut self) -> Result<Targets> {
        self.align_sharing(&mut SharedFeatures::default())
    }

    /// As [`TrainingJob::align`], with features that other jobs over the same backbone share.
    ///
    /// # Errors
    /// As for [`TrainingJob::align`].
    pub fn align_sharing(&mut self, features: &mut SharedFeatures) -> Result<Targets> {
        let Self { recipe, data, model, run } = self;
        interrupt::enter(Activity::Run);
        if !model.is_imported() {
            data.train.move_pixels_to(model.device());
        }
        let what = "align.batch or align.cached_views";
        let base = BaseSession { images: &data.train, split: &data.split, seed: recipe.seed, run };
        catch_torch(what, || align_sharing(model, (&*recipe).into(), &base, features)).context("phase 2")
    }

    /// Brings model and images to the processor, where bundles are written.
    ///
    /// # Errors
    /// If the model does not fit its recipe.
    pub fn move_to_processor(&mut self) -> Result<()> {
        if self.model.device() != tch::Device::Cpu {
            self.model = self.model.to_device(&self.recipe, tch::Device::Cpu)?;
            self.data.train.move_pixels_to(tch::Device::Cpu);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tch::{Device, Tensor};

    use super::*;
    use crate::config::Stem;
    use crate::model::backbone::published_names;

    fn recipe() -> Recipe {
        let mut recipe: Recipe = toml::from_str(include_str!("../recipes/synthetic-tiny.toml")).unwrap();
        (recipe.backbone.width, recipe.backbone.stem) = (2, Stem::Imagenet);
        (recipe.data.train_per_class, recipe.data.test_per_class) = (Some(12), Some(2));
        recipe.export.candidates_per_class = 5;
        recipe
    }

    #[test]
    fn what_helps_against_another_size_is_said() {
        assert_eq!(size_mismatch([96, 96], 96), None);
        assert!(size_mismatch([98, 98], 96).unwrap().contains("; set data.image_size = 98, or export"));
        assert!(
            size_mismatch([128, 96], 96).unwrap().ends_with("; export it for square images, if its layers take them")
        );
    }

    /// The channels of a model that begins with the weights in a file.
    fn channels(recipe: &Recipe, weights: &Path) -> ChannelStatistics {
        let mut recipe = recipe.clone();
        recipe.backbone.weights = Some(weights.into());
        let data = dataset::open(&recipe, &DataOrigin::default()).unwrap();
        let mut model = Model::new(&recipe, input_of(&recipe), Device::Cpu);
        model.channels = data.channels;
        let file = start_from_weights(&mut model, &recipe, &data).unwrap().unwrap();
        assert_eq!(file.digest(), WeightFile::read(weights).unwrap().digest());
        model.channels
    }

    #[test]
    fn published_weights_see_images_as_they_were_trained() {
        let (folder, mut recipe) = (tempfile::tempdir().unwrap(), recipe());
        let [own, published] = ["own", "published"].map(|name| folder.path().join(name));
        let tensors: Vec<_> = Model::new(&recipe, input_of(&recipe), Device::Cpu)
            .tensors()
            .into_iter()
            .filter(|(name, _)| name.starts_with("backbone."))
            .map(|(name, tensor)| (name, tensor.detach().contiguous()))
            .collect();
        let renamed: Vec<_> =
            tensors.iter().map(|(name, tensor)| (published_names(name).next().unwrap(), tensor)).collect();
        Tensor::write_safetensors(&tensors, &own).unwrap();
        Tensor::write_safetensors(&renamed, &published).unwrap();
        let measured = dataset::open(&recipe, &DataOrigin::default()).unwrap().channels;
        let imagenet = ChannelStatistics { mean: [0.485, 0.456, 0.406], deviation: [0.229, 0.224, 0.225] };
        assert_ne!(measured, imagenet);
        assert_eq!([channels(&recipe, &own), channels(&recipe, &published)], [measured, imagenet]);
        // The recipe has the last word.
        let named = ChannelStatistics { mean: [0.1; 3], deviation: [0.2; 3] };
        (recipe.data.mean, recipe.data.deviation) = (Some(named.mean), Some(named.deviation));
        assert_eq!([channels(&recipe, &own), channels(&recipe, &published)], [named; 2]);
    }
}
