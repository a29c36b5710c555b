//! The model card, from the recipe and from what was measured.

use std::fmt::Write;

use anyhow::Result;
use orco_runtime::bundle::Bundle;
use orco_runtime::protocol::{Measurement, Summary, System};

use crate::config::{MeasureOn, Recipe};

/// Draws of the shots that the card's numbers are means of.
const DRAWS: usize = 3;
/// Seed of the draws.
const SEED: u64 = 1;

/// Measures the bundle and writes its card, Markdown with Hugging Face front matter.
pub(super) fn write(bundle: &Bundle, recipe: &Recipe, parity: f64) -> Result<String> {
    let benchmark = bundle.benchmark()?;
    let (foundation, config) = (&bundle.foundation, &bundle.foundation.config);
    let measured = System::ALL
        .into_iter()
        .map(|system| {
            let measurement = Measurement { foundation, benchmark: &benchmark, system, config, seed: SEED };
            measurement.over(DRAWS, &|| {})
        })
        .collect::<Result<Vec<Summary>, _>>()?;
    let manifest = &bundle.manifest;
    let ours = &measured[0];
    let mut text = String::new();
    writeln!(
        text,
        "---\nlicense: {}\ntags: [image-classification, few-shot-learning, class-incremental-learning, onnx]\n\
         datasets: [cifar100]\nmodel-index:\n- name: {}\n  results:\n  - task: {{type: image-classification, name: few-shot class-incremental}}\n    \
         dataset: {{type: cifar100, name: {}}}\n    metrics:\n    - {{type: accuracy, name: aHM, value: {:.2}}}\n    \
         - {{type: accuracy, name: aACC, value: {:.2}}}\n---",
        env!("CARGO_PKG_LICENSE").to_lowercase(),
        manifest.name,
        benchmark.source,
        ours.ahm,
        ours.aacc
    )?;
    writeln!(text, "# {}\n", manifest.name)?;
    writeln!(
        text,
        "A bundle for `orco`: it knows {} classes and learns up to {} more on the device.\n",
        bundle.foundation.classes.len(),
        bundle.foundation.target_count() - bundle.foundation.classes.len()
    )?;
    writeln!(
        text,
        "- Backbone: {}, {:.2} M parameters, {:.1} M multiply-adds for one {}x{} image, {} features.",
        manifest.backbone.architecture,
        manifest.backbone.parameters as f64 / 1e6,
        manifest.backbone.multiply_adds as f64 / 1e6,
        manifest.preprocessing.width,
        manifest.preprocessing.height,
        manifest.backbone.features
    )?;
    let head = &bundle.foundation.head;
    writeln!(
        text,
        "- Head: {}-{}-{}; {} pseudo-targets ({:?}, {} steps).",
        head.inputs, head.hidden, head.outputs, recipe.targets.count, recipe.targets.method, recipe.targets.steps
    )?;
    writeln!(text, "- Trained on: {}, seed {}.", manifest.provenance.trained_on, recipe.seed)?;
    let pretrain = &recipe.pretrain;
    writeln!(
        text,
        "- Phase 1: {} epochs of {} view(s), batch {}; cross entropy {}, SCL {}, SSCL {} (weights).",
        pretrain.epochs,
        pretrain.views,
        pretrain.batch,
        pretrain.cross_entropy,
        pretrain.supervised_contrast,
        pretrain.self_contrast
    )?;
    writeln!(
        text,
        "- Phase 2: {} epochs, batch {}. The last epoch's head is shipped; nothing was selected on test data.",
        recipe.align.epochs, recipe.align.batch
    )?;
    let config = &bundle.foundation.config;
    writeln!(
        text,
        "- Phase 3 (on the device): {} epochs, batch {}, {} exemplars of a base class, {} stored views of each.",
        config.epochs, config.batch, config.base_exemplars, config.views
    )?;
    writeln!(text, "- ONNX Runtime equals the training network within {parity:.1e} on 1,000 images.\n")?;
    writeln!(text, "## Measured\n")?;
    writeln!(
        text,
        "On {}: {} sessions of {} new classes, {} shots each; means of {DRAWS} draws of the shots{}. Percent.\n",
        benchmark.source,
        benchmark.ways.len(),
        benchmark.ways.first().copied().unwrap_or(0),
        benchmark.shots,
        if benchmark.fixed_draw { ", the first of them the field's fixed one" } else { "" }
    )?;
    match recipe.split.measure_on {
        MeasureOn::Test => writeln!(
            text,
            "    cargo run --release -p orco -- eval --bundle models/{} --draws {DRAWS} --seed {SEED}\n",
            manifest.name
        )?,
        MeasureOn::Holdout => writeln!(text, "Held-out images, for choosing settings: no result to report.\n")?,
    }
    writeln!(text, "| system | aHM | aACC | base decay | performance decay |\n|---|---|---|---|---|")?;
    for summary in &measured {
        writeln!(
            text,
            "| {} | {:.2} ± {:.2} | {:.2} ± {:.2} | {:.2} | {:.2} |",
            summary.system,
            summary.ahm,
            summary.ahm_deviation,
            summary.aacc,
            summary.aacc_deviation,
            summary.base_decay,
            summary.performance_decay
        )?;
    }
    writeln!(text, "\n| session (orco) | base | incremental | HM | top-1 |\n|---|---|---|---|---|")?;
    for row in &ours.sessions {
        let shown = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        writeln!(
            text,
            "| {} | {:.2} | {} | {} | {:.2} |",
            row.session,
            row.base,
            shown(row.inc),
            shown(row.hm),
            row.top1
        )?;
    }
    Ok(text)
}
