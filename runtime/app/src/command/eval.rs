//! `orco eval`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use orco_lab::benchmark::{Benchmark, BenchmarkError, SEED};
use orco_lab::unknown::{UnknownRow, mean_rows};
use orco_lab::{Measurement, Summary, System, csv, from_cifar100};
use orco_runtime::bundle::Bundle;
use orco_runtime::config::Config;
use orco_runtime::encoder::choice::Workload;
use orco_runtime::manifest::STATISTICS;
use orco_runtime::unknown::FALSE_ALARMS;
use serde_json::{Value, json};

use crate::options::{Backbone, Options, share};
use crate::output::{self, Output, ReportFile, say};

/// Arguments of `orco eval`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Folder with CIFAR-100's binary layout; without it, the bundle's benchmark file is measured on.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Draws of the shots; the first is the field's fixed one where the bundle knows it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    draws: u32,
    /// Seed of the draws, of shuffling and of perturbation.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Settings of phase 3: `orco` (the published program's for CIFAR-100), `paper` (the text where it differs), `edge`
    /// (ours with a short training), `discriminant` (ours without one, for bundles with statistics); by default the
    /// bundle's.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Answers by pseudo-targets alone, the paper's rule, whatever weight the settings give to class means.
    #[arg(long, conflicts_with = "presets")]
    targets_alone: bool,
    /// Measures instead, over all draws, whether probabilities come true (expected calibration error) and how well
    /// pictures of classes that were not learned yet are told from known ones.
    #[arg(long, conflicts_with = "presets")]
    unknown: bool,
    /// Share of known pictures that may be taken for unknown ones.
    #[arg(long, value_name = "SHARE", default_value_t = FALSE_ALARMS, value_parser = share)]
    false_alarms: f32,
    /// Compares the presets instead of the systems: accuracy, arithmetic and time of each.
    #[arg(long, conflicts_with = "preset")]
    presets: bool,
    /// Also writes every number of the systems to this file as CSV: system, session, metric, mean, deviation.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["presets", "unknown"])]
    csv: Option<PathBuf>,
}

/// Measures all systems and prints every session's row.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let bundle = options.open_bundle()?;
    let mut config = match &arguments.preset {
        None => bundle.base_model.config.clone(),
        Some(name) => match Config::preset(name) {
            Some(config) => config,
            None => bail!("there is no preset \"{name}\"; known are {}", Config::PRESETS.join(", ")),
        },
    };
    if config.answer.is_some() && bundle.base_model.statistics.is_none() {
        bail!("the bundle carries no {STATISTICS}, by which these settings answer; take another --preset");
    }
    if arguments.targets_alone {
        config = config.by_targets_alone();
        if let Some(problem) = config.problem() {
            bail!("--targets-alone needs settings that align the head, such as --preset edge: {problem}");
        }
    }
    let benchmark = match &arguments.data {
        None if options.backbone == Backbone::Int8 => {
            bail!(
                "the bundle's benchmark file holds features of the float backbone; measure int8 from images with --data"
            )
        }
        None => Benchmark::of(&bundle)?,
        Some(folder) => from_images(options, &bundle, folder)?,
    };
    say!(
        output,
        "{} on {}: {} base classes, {}, {} of {}",
        bundle.manifest.name,
        benchmark.source,
        bundle.base_model.classes.len(),
        output::counted(benchmark.ways.len(), "session"),
        output::counted(arguments.draws as usize, "draw"),
        output::counted(benchmark.shots as usize, "shot")
    )?;
    if !arguments.presets {
        say!(output, "orco answers {}", output::rule(&config))?;
    }
    let open = |path: &Path| ReportFile::open(path, orco_lab::csv::HEADING, options);
    let csv = arguments.csv.as_deref().map(open).transpose()?;
    let measure = |system: System, config: &Config, name: &str| {
        let (base_model, seed) = (&bundle.base_model, arguments.seed);
        let measurement = Measurement { base_model, benchmark: &benchmark, system, config, seed };
        let epochs = arguments.draws as usize * benchmark.ways.len() * config.epochs;
        let bar = output::bar(epochs, &format!("{name}, epochs"));
        let summary = measurement.over(arguments.draws as usize, &|| {
            bar.inc(1);
            ControlFlow::Continue(())
        });
        bar.finish_and_clear();
        summary
    };
    let mut results = json!({
        "draws": arguments.draws, "seed": arguments.seed, "bundle": bundle.manifest.name, "source": benchmark.source,
        "backbone": options.backbone.name(),
    });
    if arguments.unknown {
        let (base_model, seed, config) = (&bundle.base_model, arguments.seed, &config);
        let measurement = Measurement { base_model, benchmark: &benchmark, system: System::Orco, config, seed };
        let draw = |draw| Ok(measurement.unknown(draw, arguments.false_alarms)?);
        let draws = (0..arguments.draws as usize).map(draw).collect::<Result<Option<Vec<_>>>>()?;
        let Some(draws) = draws else {
            bail!("these settings answer without the bundle's statistics, so nothing is unknown; take another --preset")
        };
        let rows = mean_rows(&draws);
        let lines: String = rows.iter().map(|row| format!("\n{row}")).collect();
        say!(output, "\n{}{lines}", UnknownRow::HEADING)?;
        results["unknown"] = json!({ "false_alarms": arguments.false_alarms, "sessions": rows });
    } else if arguments.presets {
        let preset = |name| Ok((name, measure(System::Orco, &Config::preset(name).expect("it is listed"), name)?));
        let statistics = bundle.base_model.statistics.is_some();
        let answered = |name: &&str| statistics || Config::preset(name).is_some_and(|config| config.answer.is_none());
        let measured = Config::PRESETS.into_iter().filter(answered).map(preset).collect::<Result<Vec<_>>>()?;
        say!(output, "\n{}", output::presets(&measured))?;
        let as_json = |(name, summary): &(&str, Summary)| -> Value {
            json!({ "preset": name, "measured": summary, "seconds": summary.seconds })
        };
        results["presets"] = measured.iter().map(as_json).collect();
    } else {
        let mut summaries = Vec::new();
        for system in System::on(&bundle.base_model) {
            let summary = measure(system, &config, system.name())?;
            say!(output, "\n{}", output::summary(&summary))?;
            summaries.push(summary);
        }
        if let Some(file) = csv {
            file.write(&csv::csv(&summaries))?;
        }
        results["class_means"] = json!(config.class_means);
        results["systems"] = json!(summaries);
    }
    Ok(results)
}

/// Computes the benchmark's features from the images themselves: the very images that the bundle's benchmark file
/// names, where it has one.
fn from_images(options: &Options, bundle: &Bundle, folder: &Path) -> Result<Benchmark> {
    let template = match Benchmark::of(bundle) {
        Ok(benchmark) => Some(benchmark),
        Err(BenchmarkError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let (mut encoder, _) = bundle.encoder(options.engine.choice(), Workload::Stream)?;
    let mut bar = None;
    let mut on_progress = |done: usize, total: usize| {
        bar.get_or_insert_with(|| output::bar(total, "features")).set_position(done as u64);
    };
    let benchmark = from_cifar100(bundle, template.as_ref(), encoder.as_mut(), folder, &mut on_progress);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(benchmark?)
}
