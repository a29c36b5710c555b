//! Statistics of the base classes: for a bundle that is being written, or for one that is there already.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use orco_benchmark::benchmark::Benchmark;
use orco_core::config::MethodConfig;
use orco_lab::statistics::{Features, UnseenPictures, ValidationPictures, class_means, fit};
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::image::Preprocessing;
use orco_runtime::manifest::{BENCHMARK, STATISTICS, hexadecimal};
use orco_state::bank::Bank;
use orco_state::codec;
use orco_state::state::BaseModel;
use orco_state::statistics::Statistics;

use super::features::clean_features;
use super::preset::{NewStatistics, replace_manifest, storing_as};
use super::source::describe_training_images;
use crate::config::Recipe;
use crate::data::dataset::{DataSet, Images, Split};
use crate::model::backbone::cosine;

/// Images of the base classes, and how the backbone gets them.
#[derive(Clone, Copy)]
pub(super) struct BaseImages<'a> {
    pub input: &'a Preprocessing,
    pub train: &'a Images,
    pub split: &'a Split,
}

/// Computes the statistics of the base images from their features, `[split.base, features]`; the samples that the split
/// set aside go along, and how much easier these are than images that no phase has seen.
pub(super) fn statistics(
    base_model: &BaseModel,
    encoder: &mut dyn Encoder,
    images: BaseImages<'_>,
    values: &[f32],
    seed: u64,
) -> Result<Statistics> {
    let BaseImages { input, train, split } = images;
    let inputs = base_model.head.inputs;
    let aside = clean_features(encoder, input, inputs, train, &split.set_aside)?;
    let mut set_aside = Bank::new(inputs, 1, base_model.exemplars.precision());
    for (row, class) in aside.chunks_exact(inputs).zip(train.classes(&split.set_aside)) {
        set_aside.push(class, row);
    }
    let of_held_out = train.classes(&split.held_out);
    let held_out;
    let unseen = if !split.held_out.is_empty() {
        held_out = clean_features(encoder, input, inputs, train, &split.held_out)?;
        UnseenPictures::Others(Features { values: &held_out, classes: &of_held_out })
    } else if split.unseen().is_empty() {
        UnseenPictures::None
    } else {
        UnseenPictures::SetAside
    };
    let features = Features { values, classes: &train.classes(&split.base) };
    // Its time grows with the cube of their number.
    log::info!("computing the statistics of the base classes, by {inputs} features");
    Ok(fit(base_model, features, ValidationPictures { set_aside, unseen }, seed))
}

/// Gives a bundle that is there the statistics of its base classes, computed from the images that it was trained on,
/// and the settings that use them, unless its own do. What was learned on the bundle goes on to hold, since the learner
/// file stays; its signature does not, since the manifest changes.
///
/// # Errors
/// If the bundle does not open, the images, split or seed are not those that it was trained with, ONNX Runtime is
/// missing, or a file cannot be written; the bundle is then as it was.
pub fn add_statistics(folder: &Path, recipe: &Recipe, data: &DataSet) -> Result<()> {
    let bundle = Bundle::open(folder)?;
    check_origin(folder, &bundle, recipe, data)?;
    let (base_model, input) = (&bundle.base_model, &bundle.manifest.preprocessing);
    let mut encoder = Onnx::pool(&bundle.backbone, input).context("features are computed with ONNX Runtime")?;
    let (train, split) = (&data.train, &data.split);
    let values = clean_features(&mut encoder, input, base_model.head.inputs, train, &split.base)?;
    let benchmark = Benchmark::if_carried(&bundle)?;
    if let Some(benchmark) = &benchmark {
        let (inputs, classes) = (base_model.head.inputs, train.classes(&split.base));
        let features = Features { values: &values, classes: &classes };
        let found = class_means(features, inputs, split.base_classes);
        check_means(folder, &found, &benchmark.base_means, inputs)?;
    }
    let statistics = statistics(base_model, &mut encoder, BaseImages { input, train, split }, &values, recipe.seed)?;
    let bytes = statistics.encode();
    let mut manifest = bundle.manifest.clone();
    if manifest.learn.answer.is_none() {
        manifest.learn = storing_as(&manifest.learn, MethodConfig::combined());
    }
    manifest.files.insert(STATISTICS.to_owned(), hexadecimal(&codec::digest(&bytes)));
    if benchmark.is_none() {
        log::warn!("the bundle carries no {BENCHMARK}; what the statistics gain cannot be measured on it");
    }
    let were_trained_on = split.unseen().is_empty();
    replace_manifest(folder, &manifest, Some(NewStatistics { bytes: &bytes, were_trained_on }))
}

/// Refuses images, split and seed that are not those which the bundle was trained with.
fn check_origin(folder: &Path, bundle: &Bundle, recipe: &Recipe, data: &DataSet) -> Result<()> {
    // Another split would take images that were trained on for unseen ones.
    let provenance = &bundle.manifest.provenance;
    ensure!(
        recipe.seed == provenance.seed,
        "{} was trained with seed {}, not {}, which sets other images aside; give --seed {}",
        folder.display(),
        provenance.seed,
        recipe.seed,
        provenance.seed
    );
    let known = bundle.base_model.classes.iter().map(|class| class.label.as_str());
    let base = &data.class_names[..data.split.base_classes.min(data.class_names.len())];
    ensure!(
        known.eq(base.iter().map(String::as_str)),
        "the recipe's base classes are not those of {}; give the recipe and the data that it was made from",
        folder.display()
    );
    let input = bundle.manifest.preprocessing;
    ensure!(
        input.look == recipe.data.look,
        "the backbone of {} sees the {}, but the recipe's data.look is the {}",
        folder.display(),
        input.look,
        recipe.data.look
    );
    let side = recipe.data.side();
    // An imported backbone may take images of another size than the recipe's.
    ensure!(
        bundle.manifest.backbone.is_imported() || [input.width, input.height] == [side; 2],
        "the backbone of {} takes images of {} x {} pixels, but the recipe's data.image_size is {side}; give the \
         recipe that it was made from",
        folder.display(),
        input.width,
        input.height
    );
    let trained_on = describe_training_images(recipe, &data.split);
    ensure!(
        trained_on == provenance.trained_on,
        "{} was trained on {}, but the recipe and the data give {trained_on}; give those that it was made from",
        folder.display(),
        provenance.trained_on
    );
    Ok(())
}

/// Refuses means of the base classes that are not the bundle's own: its pictures were others, or were cut otherwise.
fn check_means(folder: &Path, found: &[f32], own: &[f32], inputs: usize) -> Result<()> {
    /// Versions of ONNX Runtime differ by less, and so do processors in sums of bytes. A slightly other cut passes: a
    /// `data.crop` of 0.9 on small pictures leaves more, 0.85 leaves less.
    const LEAST: f64 = 0.99;
    let pairs = found.chunks_exact(inputs).zip(own.chunks_exact(inputs));
    // What is the same agrees, zero or not.
    let lowest = pairs.filter(|(found, own)| found != own).map(|(found, own)| cosine(found, own)).fold(1.0, f64::min);
    ensure!(
        lowest >= LEAST,
        "the pictures are not those that {} was made from, or data.fit or data.crop of the recipe is another: the mean \
         features of a base class have a cosine of {lowest:.4} to the bundle's own, less than {LEAST}; give the recipe \
         and the data that it was made from",
        folder.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_other_pictures_are_refused() {
        let check = |found: &[f32]| check_means(Path::new("mine"), found, &[1.0, 0.0, 0.0, 2.0], 2);
        check(&[1.01, 0.01, 0.0, 1.99]).unwrap();
        check_means(Path::new("mine"), &[0.0; 2], &[0.0; 2], 2).unwrap();
        let said = check(&[1.0, 0.0, 0.4, 2.0]).unwrap_err().to_string();
        assert!(said.contains("not those that mine was made from") && said.contains("cosine of 0.9806"), "{said}");
    }
}
