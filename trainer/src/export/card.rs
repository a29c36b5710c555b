//! The model card, from the recipe and from what was measured.

mod front_matter;
mod on_device;
mod phase_1;

use std::env;
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use orco_benchmark::benchmark::{Benchmark, SEED};
use orco_benchmark::spread::two_decimals;
use orco_benchmark::{AccuracyEstimateError, Draw, Metric, SessionAccuracy, Summary, percent_or_dash, summarise};
use orco_core::loss::contrast::ContrastForm;
use orco_lab::format::{lab_command, shell_word};
use orco_lab::{Measurement, System};
use orco_runtime::bundle::Bundle;
use orco_runtime::manifest::{BACKBONE, BACKBONE_INT8, BENCHMARK, LEARNER, STATISTICS};
use orco_state::sentence::counted;
use orco_state::state::BaseModel;
use orco_state::target::TargetMethod;

use self::front_matter::front_matter;
pub(super) use self::on_device::with_settings;
use self::on_device::{MEASURED, on_device};
use self::phase_1::{phase_1, training_time};
use super::report::ExportReport;
use crate::config::{MeasureOn, Recipe, TargetConfig};
use crate::data::dataset::DataSet;
use crate::platform::interrupt;
use crate::run::progress::WorkProgress;
use crate::run::{ALIGN_CHECKPOINT, Run};

/// Measures the bundle and writes its card, Markdown with Hugging Face front matter.
pub(super) fn write(
    bundle: &Bundle,
    recipe: &Recipe,
    exported: &ExportReport,
    run: &Run,
    data: &DataSet,
) -> Result<String> {
    let benchmark = Benchmark::of(bundle)?;
    let base_model = &bundle.base_model;
    let draws = benchmark.distinct_draws(recipe.export.draws);
    let drawn = measure_systems(base_model, &benchmark, draws)?;
    let fixed = summarise(drawn[0].0.name(), &drawn[0].1[..1]);
    let measured: Vec<Summary> = drawn.iter().map(|(system, draws)| summarise(system.name(), draws)).collect();
    let ours = &measured[0];
    let by_targets = measured.iter().find(|summary| summary.name == System::IMPRINT.name());
    let card = Card { bundle, recipe, exported, run };
    let mut text = String::new();
    front_matter(&mut text, recipe, &benchmark.source, ours)?;
    writeln!(text, "# {}\n", bundle.manifest.name)?;
    writeln!(
        text,
        "A bundle for `orco`: it knows {} classes and learns up to {} more on the device.\n",
        base_model.classes.len(),
        base_model.target_count() - base_model.classes.len()
    )?;
    card.backbone(&mut text)?;
    card.training(&mut text, data, by_targets)?;
    on_device(&mut text, base_model, data.split.unseen().is_empty())?;
    card.files(&mut text)?;
    writeln!(text, "\n{MEASURED}")?;
    card.benchmark(&mut text, &benchmark)?;
    if let Some(sentence) = data.unmeasured_sentence(recipe.split.measure_on) {
        writeln!(text, "Note: {sentence}.\n")?;
    }
    systems(&mut text, &measured)?;
    if benchmark.fixed_draw && draws > 1 {
        writeln!(text, "\nOn the field's fixed draw alone, device: aHM {:.2}, aACC {:.2}.", fixed.ahm, fixed.aacc)?;
    }
    sessions(&mut text, ours)?;
    if let Some(errors) = &ours.estimate_errors {
        estimate_errors(&mut text, &errors.mean)?;
        if let Some(warning) = hopeful(&errors.mean) {
            log::warn!("{warning}");
        }
    }
    if let Some(last) = ours.sessions.last() {
        log::info!("{}", outcome(&benchmark.source, benchmark.shots, last));
    }
    Ok(text)
}

/// Measures the device, which stands first, and its rivals on the benchmark: the draws of each.
fn measure_systems(base_model: &BaseModel, benchmark: &Benchmark, draws: usize) -> Result<Vec<(System, Vec<Draw>)>> {
    let compared: Vec<System> = System::supported_by(base_model).collect();
    log::info!("measuring the device and its rivals on the benchmark, in {}", counted(draws, "draw"));
    let mut progress = WorkProgress::new("measuring", "systems", compared.len() as u64, 0);
    let mut measured = Vec::with_capacity(compared.len());
    for system in compared {
        let measurement = Measurement { base_model, benchmark, system, config: &base_model.config, seed: SEED };
        let drawn = measurement.draws(draws, &interrupt::flow);
        interrupt::check()?;
        progress.advance(1, system.name());
        measured.push((system, drawn?));
    }
    progress.finish();
    Ok(measured)
}

/// What the last session came to, for people.
fn outcome(source: &str, shots: u32, last: &SessionAccuracy) -> String {
    let learned = last.inc.map_or_else(String::new, |inc| format!(", {inc:.1} % of new classes of {shots} shots each"));
    format!("recognised of {source}: {:.1} % of base classes{learned}", last.base)
}

/// What a card is about.
struct Card<'a> {
    bundle: &'a Bundle,
    recipe: &'a Recipe,
    exported: &'a ExportReport,
    run: &'a Run,
}

impl Card<'_> {
    /// Backbone, look and head.
    fn backbone(&self, text: &mut String) -> Result<()> {
        let Self { bundle: Bundle { manifest, base_model, .. }, recipe, .. } = self;
        let facts = &manifest.backbone;
        let imported = if facts.is_imported() { "imported as an ONNX file, " } else { "" };
        writeln!(
            text,
            "- Backbone: {}, {:.2} M parameters, {imported}{} for one {}x{} image, {} features.",
            facts.architecture,
            facts.parameters as f64 / 1e6,
            facts.work_in_words(),
            manifest.preprocessing.width,
            manifest.preprocessing.height,
            facts.features
        )?;
        if let Some(cut) = recipe.data.crop_mismatch() {
            writeln!(
                text,
                "- Pictures: {cut}, in training and in what is measured below. A device takes the largest square from the \
                 middle, uncropped, and recognises fewer."
            )?;
        }
        if recipe.align.mirrored {
            let what = "A feature vector is the mean over an image and its mirror image";
            writeln!(text, "- {what}; the file and the multiply-adds include both.")?;
        }
        let look = manifest.preprocessing.look;
        if !look.is_whole() {
            let times = look.parts().len();
            writeln!(
                text,
                "- Look: {look}. A feature vector is the mean over these {times} images of a picture; each takes those \
                 multiply-adds."
            )?;
        }
        let head = &base_model.head;
        writeln!(
            text,
            "- Head: {}-{}-{}, {:.2} M multiply-adds for one image; {} pseudo-targets ({}).",
            head.inputs,
            head.hidden,
            head.outputs,
            (head.hidden * (head.inputs + head.outputs)) as f64 / 1e6,
            recipe.targets.count,
            made_by(&recipe.targets)
        )?;
        Ok(())
    }

    /// Data and phases. Of the measured systems the one that answers `by_targets` tells what phase 2 made of phase 1.
    fn training(&self, text: &mut String, data: &DataSet, by_targets: Option<&Summary>) -> Result<()> {
        let Self { bundle, recipe, exported, run } = self;
        let split = &data.split;
        let without = match data.skipped.len() {
            0 => String::new(),
            1 => "; 1 broken image of the data set was left out".into(),
            count => format!("; {count} broken images of the data set were left out"),
        };
        let align = recipe.align.for_images_on(split.base.len(), run.group().size());
        writeln!(text, "- Trained on: {}, seed {}{without}.", bundle.manifest.provenance.trained_on, recipe.seed)?;
        phase_1(text, recipe)?;
        training_time(text, recipe, &run.metrics("pretrain"))?;
        let watched = recipe.align.steps.is_some() && !split.unseen().is_empty();
        writeln!(
            text,
            "- Phase 2: {}, batch {}{}{}. {} This phase selected nothing on test data.",
            if watched { format!("{} epochs at most", align.epochs) } else { format!("{} epochs", align.epochs) },
            align.batch,
            match recipe.align.contrast_form {
                ContrastForm::Outside => String::new(),
                form => format!(", PSCL {form:?}"),
            },
            if recipe.align.train_backbone { ", backbone trained too" } else { "" },
            if watched {
                "The shipped head is the last to lower the loss on the training images that were set aside by 1 % or more."
            } else {
                "The last epoch's head is shipped."
            }
        )?;
        if let Some(accuracy) = accuracy(run, split.base.len() / align.batch.max(1)) {
            writeln!(text, "- Accuracy on base training images after phase 2: {accuracy:.1} %.")?;
        }
        if let (Some(by_classifier), Some(by_targets)) = (exported.classifier_accuracy, by_targets) {
            // Imprinting answers by targets alone, and in session 0 nothing is imprinted yet.
            writeln!(
                text,
                "- Accuracy on measured images of base classes: {:.2} % by phase 1's classifier, {:.2} % by phase 2's \
                 targets.",
                by_classifier, by_targets.sessions[0].base
            )?;
        }
        Ok(())
    }

    /// The stored backbones beside the trained one, and the size of each file.
    fn files(&self, text: &mut String) -> Result<()> {
        let Self { bundle, exported, .. } = self;
        if let Some(parity) = exported.parity {
            writeln!(text, "- {}, weights in f32.", parity.sentence("the training network"))?;
        }
        if let Some(stored) = &exported.stored {
            let weights = bundle.manifest.backbone.weights.name();
            writeln!(text, "- `{BACKBONE}` stores weights in {weights}, computes in f32, {}.", stored.sentence())?;
        }
        if let Some(int8) = &exported.int8 {
            writeln!(text, "- `{BACKBONE_INT8}` computes in int8; it {}.", int8.sentence())?;
        }
        let size = |name: &str| std::fs::metadata(bundle.folder.join(name)).map_or(0, |file| file.len());
        let sizes = [BACKBONE, LEARNER, STATISTICS, BENCHMARK]
            .map(|name| format!("`{name}` {:.2} MB", size(name) as f64 / 1e6));
        writeln!(text, "- Files: {}.", sizes.join(", "))?;
        Ok(())
    }

    /// What was asked, and the command that asks it again.
    fn benchmark(&self, text: &mut String, benchmark: &Benchmark) -> Result<()> {
        let Self { recipe, exported, .. } = self;
        let draws = benchmark.distinct_draws(recipe.export.draws);
        writeln!(
            text,
            "On {}: {} of {} new classes, {} shots each; {}{}. Percent.\n",
            benchmark.source,
            counted(benchmark.ways.len(), "session"),
            benchmark.ways.first().copied().unwrap_or(0),
            benchmark.shots,
            match draws {
                1 if benchmark.fixed_draw => "the field's fixed draw".to_owned(),
                1 => "one draw".to_owned(),
                _ => format!("means of {draws} draws"),
            },
            if benchmark.fixed_draw && draws > 1 { ", the first the published one" } else { "" }
        )?;
        match recipe.split.measure_on {
            MeasureOn::Test => {
                let bundle = shell_word(&from_here(&exported.folder).to_string_lossy());
                let command = lab_command(format_args!("eval {bundle} --draws {draws} --seed {SEED}"));
                writeln!(text, "    {command}\n")?
            }
            MeasureOn::Holdout => {
                writeln!(text, "These images are for choosing settings; the numbers are no result to report.\n")?
            }
        }
        Ok(())
    }
}

/// A folder as commands name it that are given where this program was started. A run that is resumed knows its whole
/// path, and must end in the same card.
fn from_here(folder: &Path) -> &Path {
    let here = env::current_dir().ok();
    let below = here.and_then(|here| folder.strip_prefix(here).ok());
    below.filter(|path| !path.as_os_str().is_empty()).unwrap_or(folder)
}

/// A row for each system.
fn systems(text: &mut String, measured: &[Summary]) -> Result<()> {
    writeln!(text, "| system | aHM | aACC | area | base decay | performance decay |\n|---|---|---|---|---|---|")?;
    for summary in measured {
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            summary.name,
            summary.cell(Metric::Ahm),
            summary.cell(Metric::Aacc),
            percent_or_dash(summary.area),
            two_decimals(summary.base_decay),
            two_decimals(summary.performance_decay)
        )?;
    }
    Ok(())
}

/// A row for each session of the device's own answers.
fn sessions(text: &mut String, ours: &Summary) -> Result<()> {
    writeln!(text, "\n| session (device) | base | incremental | HM | top-1 |\n|---|---|---|---|---|")?;
    for row in &ours.sessions {
        writeln!(
            text,
            "| {} | {:.2} | {} | {} | {:.2} |",
            row.session,
            row.base,
            percent_or_dash(row.inc),
            percent_or_dash(row.hm),
            row.top1
        )?;
    }
    Ok(())
}

/// By how much a device is off that says which accuracy to expect.
fn estimate_errors(text: &mut String, errors: &AccuracyEstimateError) -> Result<()> {
    let [base, learned, overall] = [errors.base, errors.learned, errors.overall].map(two_decimals);
    writeln!(
        text,
        "\nAfter every session the device says which accuracy to expect. What it says less what is measured here, in \
         percentage points: base classes {base}, new classes {learned}, all classes {overall}."
    )?;
    Ok(())
}

/// The warning where devices would promise much more of base classes than is measured.
fn hopeful(errors: &AccuracyEstimateError) -> Option<String> {
    /// Percentage points.
    const MUCH: f64 = 10.0;
    let base = errors.base;
    (base > MUCH).then(|| {
        format!(
            "devices will tell an accuracy on base classes that is {base:.1} percentage points higher than measured, \
             often because the training images resemble each other more than the measured ones: train on pictures of \
             more places and days"
        )
    })
}

/// Accuracy on the base training images after the epoch of phase 2 whose head is shipped, in percent, where an epoch
/// has `steps` steps. Of no other epoch, where a damaged line of the metrics was passed over.
fn accuracy(run: &Run, steps: usize) -> Option<f64> {
    let lines = run.metrics("align");
    // Checkpoints of older programs do not say how many there were.
    let Some(taken) = run.steps(ALIGN_CHECKPOINT) else {
        return lines.last()?["accuracy"].as_f64();
    };
    let shipped = taken / steps.max(1) as u64;
    let line = lines.iter().find(|line| line["epoch"].as_u64() == Some(shipped));
    if line.is_none() {
        log::warn!("metrics.jsonl lacks epoch {shipped} of phase 2; the card goes without its accuracy");
    }
    line?["accuracy"].as_f64()
}

/// How the pseudo-targets were made.
fn made_by(targets: &TargetConfig) -> String {
    let TargetConfig { method, steps, learning_rate, accumulate, .. } = *targets;
    match method {
        TargetMethod::Optimised if accumulate => {
            format!("{method:?}, {steps} steps of rate {learning_rate}, gradients accumulated")
        }
        TargetMethod::Optimised => format!("{method:?}, {steps} steps of rate {learning_rate}"),
        _ => format!("{method:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_bundle_came_to_is_told_in_a_sentence() {
        let last =
            SessionAccuracy { session: 1, base: 96.67, inc: Some(86.66), hm: Some(91.4), top1: 93.5, area: None };
        let said = outcome("own test images", 5, &last);
        assert_eq!(
            said,
            "recognised of own test images: 96.7 % of base classes, 86.7 % of new classes of 5 shots each"
        );
        let unmeasured = outcome("test images", 5, &SessionAccuracy { inc: None, hm: None, ..last });
        assert_eq!(unmeasured, "recognised of test images: 96.7 % of base classes");
    }

    #[test]
    fn estimates_that_are_off_are_told() {
        let off = AccuracyEstimateError { base: 35.4, learned: -0.001, overall: 28.25 };
        let mut text = String::new();
        estimate_errors(&mut text, &off).unwrap();
        assert!(text.ends_with("points: base classes 35.40, new classes 0.00, all classes 28.25.\n"), "{text}");
        let warning = hopeful(&off).unwrap();
        assert!(warning.contains("that is 35.4 percentage points higher than measured"), "{warning}");
        for base in [-35.4, 9.9, f64::NAN] {
            assert_eq!(hopeful(&AccuracyEstimateError { base, ..off }), None);
        }
    }

    #[test]
    fn a_card_names_its_folder_from_where_the_program_was_started() {
        let here = env::current_dir().unwrap();
        assert_eq!(from_here(&here.join("models/mine")), Path::new("models/mine"));
        assert_eq!(from_here(&here), here);
        for given in ["mine", "../mine"].map(Path::new) {
            assert_eq!(from_here(given), given);
        }
    }
}
