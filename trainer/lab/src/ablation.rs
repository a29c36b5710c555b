//! The paper's ablations. Those of what comes before phase 3 train every variant by a recipe of its own, and measure it
//! with the published program's phase 3. Those of phase 3 train once, by the recipe as it is; the ones that vary the
//! head alone are the lab's ([`orco_lab::phase3_ablations`], on a bundle `orco-lab ablate`). All answer by
//! pseudo-targets alone.

use std::path::Path;

use anyhow::{Result, bail};
use orco_benchmark::Summary;
use orco_benchmark::csv::csv;
use orco_core::config::MethodConfig;
use orco_lab::ablation::Assignment;
use orco_lab::kept_measurements::fingerprint;
use orco_lab::phase3_ablations::{self, AblationResults, Phase3Settings, RANDOM_IN_BOTH};
use orco_lab::published::{self, PaperReading};
use orco_lab::question::{AblationVariant, LossSelection, Question};
use orco_lab::results::MeasuredSystem;
use orco_state::target::TargetMethod;
use serde_json::json;

use crate::comparison::{check_trainable, compare, measure_variants, on_device};
use crate::measurements::{self, Experiment, ResultsContext};
use orco_trainer::config::{Architecture, BaseAssignment, Recipe, Stem, TargetConfig};
use orco_trainer::model::Model;
use orco_trainer::run::digest::{digest, phase_1_inputs};
use orco_trainer::train::objective::Targets;

/// Whether the question concerns the head alone, so that the lab's variants answer it.
fn varies_the_head_alone(question: Question) -> bool {
    matches!(question, Question::Perturbation | Question::Assignment | Question::Exemplars | Question::Noise)
}

/// Whether it trains by the recipe as it is: such questions share what is trained.
pub fn trains_the_recipe(question: Question) -> bool {
    question == Question::Frozen || varies_the_head_alone(question)
}

/// What is trained for a question, each a change of the recipe. Phase 3 is the published program's for its data, with
/// the views and the precision of the recipe; by the text, its settings and those of phase 2 are the text's.
///
/// # Errors
/// If the recipe leaves nothing to vary, with what to do.
pub fn variants(question: Question, recipe: &Recipe, reading: PaperReading) -> Result<Vec<AblationVariant<Recipe>>> {
    check(question, recipe)?;
    let learn = MethodConfig {
        views: recipe.learn.views,
        precision: recipe.learn.precision,
        ..phase_3_settings(recipe, reading)
    };
    let align = match reading {
        PaperReading::Program => recipe.align.clone(),
        PaperReading::Text => recipe.align.with_paper_text(),
    };
    let recipe = Recipe { learn, align, ..recipe.clone() };
    Ok(match question {
        Question::Losses => LossSelection::VARIANTS.map(|(name, selection)| losses(&recipe, name, selection)).into(),
        Question::Targets => target_methods(&recipe),
        Question::Pretraining => [
            pretraining(&recipe, "CE", [1.0, 0.0, 0.0]),
            pretraining(&recipe, "CE + SCL", [1.0, 0.5, 0.0]),
            pretraining(&recipe, "SCL", [0.0, 1.0, 0.0]),
            pretraining(&recipe, "SCL + SSCL", [0.0, 0.9, 0.1]),
            pretraining(&recipe, "SSCL", [0.0, 0.0, 1.0]),
        ]
        .into(),
        Question::Backbone => [
            backbone(&recipe, "resnet18", Architecture::Resnet18),
            backbone(&recipe, "resnet12", Architecture::Resnet12),
            backbone(&recipe, "resnet20", Architecture::Resnet20),
            backbone(&recipe, "mobilenetv2", Architecture::Mobilenetv2),
        ]
        .into(),
        Question::Assignment => {
            let mut random = recipe.clone();
            random.align.assignment = BaseAssignment::Random;
            vec![variant("recipe", recipe), variant(RANDOM_IN_BOTH, random)]
        }
        // The lab alone asks how a device answers by default: that needs the statistics of a bundle.
        Question::Frozen | Question::Perturbation | Question::Exemplars | Question::Noise | Question::Answer => {
            vec![variant("recipe", recipe)]
        }
    })
}

/// The published settings of phase 3 that are varied.
fn phase_3_settings(recipe: &Recipe, reading: PaperReading) -> MethodConfig {
    reading.settings(published::program(recipe.data.kind.title()))
}

/// The lab's variants of a question that varies the head alone, as far as they fit how phase 2 was trained.
fn variants_of_head(
    question: Question,
    recipe: &Recipe,
    reading: PaperReading,
) -> Vec<AblationVariant<Phase3Settings>> {
    let variants = phase3_ablations::variants(question, &phase_3_settings(recipe, reading));
    match recipe.align.assignment {
        BaseAssignment::Matched => variants,
        BaseAssignment::Random => {
            let random =
                variants.into_iter().filter(|variant| variant.settings.ablation.assignment == Assignment::Random);
            random.map(|variant| AblationVariant { name: RANDOM_IN_BOTH.into(), ..variant }).collect()
        }
    }
}

/// Refuses a recipe that leaves nothing to vary.
fn check(question: Question, recipe: &Recipe) -> Result<()> {
    if !recipe.has_phase_1() && matches!(question, Question::Pretraining | Question::Backbone) {
        bail!("the recipe's backbone is given, not trained; \"{}\" needs a recipe with [pretrain]", question.name());
    }
    if recipe.backbone.weights.is_some() && question == Question::Backbone {
        bail!("backbone.weights fit one architecture, and \"backbone\" trains several; leave them out");
    }
    if question == Question::Backbone && !recipe.backbone.architecture.has_width() {
        bail!("\"backbone\" compares families at one width; name one of them in [backbone]");
    }
    if question == Question::Frozen {
        check_trainable(recipe.backbone.is_imported())?;
    }
    Ok(())
}

fn variant(name: &str, recipe: Recipe) -> AblationVariant<Recipe> {
    AblationVariant { name: name.into(), settings: recipe }
}

/// A variant by the losses that phases 2 and 3 use.
fn losses(recipe: &Recipe, name: &str, selection: LossSelection) -> AblationVariant<Recipe> {
    let mut align = recipe.align.clone();
    for (is_used, weight) in [
        (selection.contrast, &mut align.contrast),
        (selection.cross_entropy, &mut align.cross_entropy),
        (selection.orthogonality, &mut align.orthogonality),
    ] {
        if !is_used {
            *weight = 0.0;
        }
    }
    variant(name, Recipe { align, learn: selection.applied_to(&recipe.learn), ..recipe.clone() })
}

fn target_methods(recipe: &Recipe) -> Vec<AblationVariant<Recipe>> {
    let (count, dimension) = (recipe.targets.count as i64, recipe.head.projection);
    let optimised = TargetConfig { method: TargetMethod::Optimised, ..recipe.targets };
    // What only a descent has is as by default.
    let direct = |method| TargetConfig { method, learning_rate: 1.0, accumulate: true, ..recipe.targets };
    let made = |name, targets| variant(name, Recipe { targets, ..recipe.clone() });
    let mut variants = vec![made("optimised", optimised), made("random", direct(TargetMethod::Random))];
    if count <= dimension {
        variants.push(made("orthonormal", direct(TargetMethod::Orthonormal)));
    }
    if count <= dimension + 1 {
        variants.push(made("simplex", direct(TargetMethod::Simplex)));
    }
    variants
}

/// A variant by the weights of cross entropy, SCL and SSCL in phase 1.
fn pretraining(
    recipe: &Recipe,
    name: &str,
    [cross_entropy, supervised, self_supervised]: [f64; 3],
) -> AblationVariant<Recipe> {
    let mut recipe = recipe.clone();
    let pretrain = &mut recipe.pretrain;
    pretrain.cross_entropy = cross_entropy;
    pretrain.supervised_contrast = supervised;
    pretrain.self_contrast = self_supervised;
    // Contrast without cross entropy compares two views of an image.
    pretrain.views = pretrain.views.max(if cross_entropy > 0.0 { 1 } else { 2 });
    variant(name, recipe)
}

fn backbone(recipe: &Recipe, name: &str, architecture: Architecture) -> AblationVariant<Recipe> {
    let mut recipe = recipe.clone();
    recipe.backbone.architecture = architecture;
    if architecture != Architecture::Resnet18 {
        recipe.backbone.stem = Stem::Small;
    }
    variant(name, recipe)
}

/// A digest of all that phase 1 depends on beside the data: variants that share it share its checkpoint.
pub fn phase_1_digest(variant: &AblationVariant<Recipe>) -> String {
    digest(json!(phase_1_inputs(&variant.settings)))
}

/// Measures what was trained for a variant, with its recipe in place of the experiment's, or reads what was measured of
/// the same before.
///
/// # Errors
/// As for [`compare`].
pub fn measure(
    question: Question,
    reading: PaperReading,
    variant: &AblationVariant<Recipe>,
    model: &mut Model,
    targets: &Targets,
    experiment: &Experiment<'_>,
) -> Result<Vec<Summary>> {
    let experiment = &Experiment { recipe: &variant.settings, ..*experiment };
    let Experiment { recipe, data, run, sessions, draws } = *experiment;
    let imported = model.onnx.as_ref().map(|onnx| onnx.digest);
    let inputs = fingerprint(json!([recipe, imported, sessions, question.name(), reading, draws]));
    let file = run.path(&format!("{}.json", AblationResults::file(question, reading)));
    measurements::read_or_measure(&file, &inputs, || {
        if question == Question::Frozen {
            return compare(model, targets, experiment, &[1.0]);
        }
        if varies_the_head_alone(question) {
            return measure_variants(&variants_of_head(question, recipe, reading), model, targets, experiment);
        }
        let measured = on_device(model, targets, recipe, data, draws)?;
        Ok(vec![Summary { name: variant.name.clone(), ..measured }])
    })
}

/// Writes what was measured for a question, each beside the paper's number, as JSON and CSV under the name of
/// [`AblationResults::file`].
///
/// # Errors
/// If a file cannot be written.
pub fn write(
    folder: &Path,
    question: Question,
    reading: PaperReading,
    measured: &[Summary],
    context: ResultsContext<'_>,
) -> Result<()> {
    let beside =
        |summary: &Summary| MeasuredSystem::from(summary.clone()).beside(published::numbers(question, &summary.name));
    let mut results = context.empty_results();
    results.systems = measured.iter().map(beside).collect();
    let name = AblationResults::file(question, reading);
    measurements::write(folder, &name, context.recipe, None, &results, &csv(measured))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{ON_DEVICE, TrainedParts};

    fn recipe() -> Recipe {
        toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap()
    }

    #[test]
    fn every_variant_has_a_recipe_that_makes_sense_and_a_name_of_its_own() {
        let of_imagenet: Recipe = toml::from_str(include_str!("../../recipes/miniimagenet-published.toml")).unwrap();
        for (question, recipe) in
            Question::PAPER.into_iter().flat_map(|question| [(question, recipe()), (question, of_imagenet.clone())])
        {
            let variants = variants(question, &recipe, PaperReading::Program).unwrap();
            for (index, variant) in variants.iter().enumerate() {
                let text = toml::to_string(&variant.settings).unwrap();
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("recipe.toml");
                std::fs::write(&path, text).unwrap();
                assert_eq!(Recipe::read(&path).unwrap(), variant.settings, "{}", variant.name);
                let same =
                    |other: &AblationVariant<Recipe>| other.name == variant.name || other.settings == variant.settings;
                assert!(!variants[..index].iter().any(same), "{}", variant.name);
            }
        }
    }

    #[test]
    fn the_papers_numbers_are_those_of_variants_and_of_compared_systems() {
        for question in Question::PAPER {
            let variants = variants(question, &recipe(), PaperReading::Program).unwrap();
            if trains_the_recipe(question) {
                continue;
            }
            let is_a_variant = |name: &&str| variants.iter().any(|variant| variant.name == **name);
            assert!(published::reported(question).all(|name| is_a_variant(&name)), "{question:?}");
        }
        let compared = [ON_DEVICE.to_owned(), TrainedParts::Head.name(), TrainedParts::Both(1.0).name()];
        assert!(published::reported(Question::Frozen).eq(compared.iter().map(String::as_str)), "{compared:?}");
    }

    #[test]
    fn phase_3_is_the_published_programs_for_the_data() {
        for text in [
            include_str!("../../recipes/cifar100-published.toml"),
            include_str!("../../recipes/miniimagenet-published.toml"),
            include_str!("../../recipes/cub200-published.toml"),
        ] {
            let recipe: Recipe = toml::from_str(text).unwrap();
            for variant in variants(Question::Targets, &recipe, PaperReading::Program).unwrap() {
                assert_eq!(variant.settings.learn, recipe.learn, "{}", recipe.name);
            }
        }
    }

    #[test]
    fn phase_1_is_shared_where_it_is_the_same() {
        let phases = |question: Question| {
            let variants = variants(question, &recipe(), PaperReading::Program).unwrap();
            let phases: std::collections::HashSet<String> = variants.iter().map(phase_1_digest).collect();
            (variants.len(), phases.len())
        };
        assert_eq!((phases(Question::Targets), phases(Question::Frozen)), ((4, 1), (1, 1)));
        assert_eq!(phases(Question::Losses), (6, 1));
        assert_eq!((phases(Question::Pretraining), phases(Question::Backbone)), ((5, 5), (4, 4)));
    }

    #[test]
    fn what_cannot_be_varied_is_said() {
        let mut given = recipe();
        given.pretrain.epochs = 0;
        let said = variants(Question::Pretraining, &given, PaperReading::Program).unwrap_err().to_string();
        assert!(said.contains("is given, not trained") && said.contains("\"pretraining\""), "{said}");
        assert!(
            variants(Question::Targets, &given, PaperReading::Program).is_ok()
                && variants(Question::Frozen, &given, PaperReading::Program).is_ok()
        );
        given.backbone.onnx = Some("backbone.onnx".into());
        let said = variants(Question::Frozen, &given, PaperReading::Program).unwrap_err().to_string();
        assert!(said.contains("cannot be trained") && said.contains("backbone.weights"), "{said}");
    }
}
