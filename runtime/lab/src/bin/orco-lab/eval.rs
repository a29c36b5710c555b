//! `orco-lab eval`: the systems on one bundle, session by session.

use std::env;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use orco_benchmark::benchmark::{Benchmark, SEED};
use orco_benchmark::terminal::{parse_share, progress_bar};
use orco_benchmark::{EvaluateError, FolderClasses, FolderSessions, Metric, Summary, answer_rule, csv, from_cifar100};
use orco_lab::estimates::{EstimateRow, mean_estimate_rows};
use orco_lab::format::{lab_command, print, say_of_draws, session_table, shell_quoted};
use orco_lab::results::{MeasuredSystem, Results, UnknownResults, are_results};
use orco_lab::unknown::{UnknownRow, mean_unknown_rows};
use orco_lab::{Measurement, System};
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::engine_choice::{EngineChoice, Workload};
use orco_runtime::files::destination::canonical;
use orco_runtime::manifest::STATISTICS;
use orco_runtime::method::config::MethodConfig;
use orco_runtime::signature::PublicKey;
use orco_runtime::state::unknown::FALSE_ALARMS;
use orco_state::sentence::counted;
use orco_state::state::BaseModel;
use serde::Serialize;

use crate::output::{check_output, write};

/// The path that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Arguments of `orco-lab eval`.
#[derive(Args)]
#[command(group(ArgGroup::new("images").args(["data", "pictures"])))]
pub struct EvalArguments {
    /// The bundle's folder.
    bundle: PathBuf,
    /// Folder with CIFAR-100's binary layout; without it, the bundle's benchmark file is measured on.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A folder that holds one folder of pictures for each new class: base classes are measured on the bundle's
    /// benchmark file, new ones on these. Shots are drawn from the first half of a class's pictures by name (--shots
    /// of them at least), and the others are measured on.
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    /// Classes of --pictures that arrive in one session.
    #[arg(long, value_name = "N", default_value = "5", requires = "pictures")]
    ways: NonZeroUsize,
    /// Shots of each class of --pictures.
    #[arg(long, value_name = "N", default_value = "5", requires = "pictures")]
    shots: NonZeroUsize,
    /// Computes features of --data or --pictures with the bundle's int8 backbone.
    #[arg(long, requires = "images")]
    int8: bool,
    /// Which engine computes features of --data or --pictures: `onnxruntime`, `rten`, or `auto`.
    #[arg(
        long,
        value_name = "ENGINE",
        default_value = "auto",
        requires = "images",
        value_parser = ENGINES.map(|(name, _)| name)
    )]
    engine: String,
    /// Draws of the shots; the first is the field's fixed one where the bundle knows it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    draws: u32,
    /// Seed of the draws, of shuffling and of perturbation.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Settings of phase 3, of what is kept of a shot, and of answers: `published` (the authors' program's for
    /// CIFAR-100), `paper-text` (the text where it differs), `edge` (ours with a short training), and, for bundles with
    /// statistics, `combined` (a shorter training beside the closed form) and `closed-form` (no training); by default
    /// the bundle's.
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Answers by pseudo-targets alone, the paper's rule, whatever weight the settings give to class means.
    #[arg(long, conflicts_with = "presets")]
    targets_alone: bool,
    /// Measures these systems alone, separated by commas, also those that only reports have: `device,ncm + border`.
    #[arg(long, value_name = "NAMES", value_parser = systems, conflicts_with_all = ["presets", "unknown"])]
    systems: Option<SystemSelection>,
    /// Measures instead, over all draws, whether probabilities come true (expected calibration error), how well
    /// pictures of classes that were not learned yet are told from known ones, how often sets of labels hold the right
    /// one and how large they are, and what accuracies are estimated less what is measured; estimates and sets once
    /// more where answers name learned classes alone.
    #[arg(long, conflicts_with = "presets")]
    unknown: bool,
    /// Share of known pictures that may be taken for unknown ones.
    #[arg(long, value_name = "SHARE", default_value_t = FALSE_ALARMS, value_parser = parse_share, requires = "unknown")]
    false_alarms: f32,
    /// Compares the presets instead of the systems: accuracy, arithmetic and time of each.
    #[arg(long, conflicts_with = "preset")]
    presets: bool,
    /// Writes every number of the systems to this file as CSV: system, draws, session, metric, mean, deviation.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["presets", "unknown"])]
    csv: Option<PathBuf>,
    /// Writes the result to this file as JSON; `-` is standard output, which then gets nothing else. The book shows
    /// those of --unknown in report/estimates of the bundle's folder, a file for each set of pictures.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Public key of minisign; with it, only bundles that were signed with its secret key are measured.
    #[arg(long, value_name = "FILE", env = "ORCO_PUBLIC_KEY")]
    public_key: Option<PathBuf>,
}

/// The systems that `--systems` asks for.
#[derive(Clone)]
struct SystemSelection(Vec<System>);

/// What `orco-lab eval` writes: results, with what they were measured by.
#[derive(Serialize)]
struct EvalResults {
    #[serde(flatten)]
    results: Results,
    /// The command that measures so: the preset is told by nothing else.
    command: String,
    /// `float` or `int8`.
    backbone: &'static str,
    /// Weight of class means in answers, where systems were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    class_means: Option<f32>,
}

/// Measures all systems and prints every session's row.
pub fn run(arguments: &EvalArguments) -> Result<()> {
    check_outputs(arguments)?;
    let bundle = open(arguments)?;
    let config = settings(arguments, &bundle)?;
    let benchmark = benchmark(arguments, &bundle)?;
    say_what_is_measured(arguments, &bundle, &benchmark, &config)?;
    let measurement = Measurement {
        base_model: &bundle.base_model,
        benchmark: &benchmark,
        system: System::DEVICE,
        config: &config,
        seed: arguments.seed,
    };
    let results = measure(arguments, &bundle.manifest.name, &measurement)?;
    let text = serde_json::to_string_pretty(&results)?;
    match &arguments.json {
        None => Ok(()),
        Some(path) if path == Path::new(STANDARD_OUTPUT) => Ok(print(text)?),
        Some(path) => write(path, &format!("{text}\n")),
    }
}

/// Refuses files to be written that hold something else than results, before anything is measured.
fn check_outputs(arguments: &EvalArguments) -> Result<()> {
    let json = arguments.json.as_deref().filter(|path| *path != Path::new(STANDARD_OUTPUT));
    if let Some(path) = json {
        check_output(path, are_results, &arguments.bundle)?;
    }
    if arguments.csv.as_deref() == Some(Path::new(STANDARD_OUTPUT)) {
        bail!("--csv writes a file, not standard output, which --json alone takes; name a file");
    }
    if let (Some(csv), Some(json)) = (&arguments.csv, json)
        && canonical(csv) == canonical(json)
    {
        bail!("--csv and --json name the same file; name one for each");
    }
    match &arguments.csv {
        Some(path) => check_output(path, |text| text.starts_with(csv::HEADING.as_bytes()), &arguments.bundle),
        None => Ok(()),
    }
}

/// The command line of this process, as it can be pasted.
fn own_command() -> String {
    let words = env::args_os().skip(1).map(|argument| shell_quoted(&argument.to_string_lossy()));
    lab_command(words.collect::<Vec<_>>().join(" "))
}

fn open(arguments: &EvalArguments) -> Result<Bundle> {
    let key = arguments.public_key.as_deref().map(PublicKey::read).transpose()?;
    let bundle = Bundle::open_trusted(&arguments.bundle, key.as_ref())?;
    Ok(if arguments.int8 { bundle.with_int8()? } else { bundle })
}

/// Whether standard output is for people, not for JSON.
fn is_for_people(arguments: &EvalArguments) -> bool {
    arguments.json.as_deref() != Some(Path::new(STANDARD_OUTPUT))
}

/// Prints a line for people, unless standard output is for JSON.
fn say(arguments: &EvalArguments, line: String) -> Result<()> {
    if is_for_people(arguments) { Ok(print(line)?) } else { Ok(()) }
}

fn say_what_is_measured(
    arguments: &EvalArguments,
    bundle: &Bundle,
    benchmark: &Benchmark,
    config: &MethodConfig,
) -> Result<()> {
    let asked = arguments.draws as usize;
    let draws = benchmark.distinct_draws(asked);
    let line = format!(
        "{} on {}: {} base classes, {}, {} of {}",
        bundle.manifest.name,
        benchmark.source,
        bundle.base_model.classes.len(),
        counted(benchmark.ways.len(), "session"),
        counted(draws, "draw"),
        counted(benchmark.shots as usize, "shot")
    );
    say(arguments, line)?;
    if arguments.pictures.is_some() {
        say(arguments, new_classes(benchmark, bundle.base_model.classes.len()))?;
        if !arguments.presets && !arguments.unknown {
            say(arguments, COLUMNS.into())?;
        }
    }
    if is_for_people(arguments) {
        say_of_draws(draws, asked)?;
    }
    if arguments.presets { Ok(()) } else { say(arguments, format!("orco answers {}", answer_rule(config))) }
}

/// What the columns of a system's table say, to somebody who measures pictures of his own.
const COLUMNS: &str = "\
    base, inc: mean over base classes, and over new ones, of the share of a class's pictures that are recognised among \
    all classes, in percent; hm: harmonic mean of both; top-1: share of all pictures. aHM and aACC are means of hm and \
    top-1 over sessions; an estimate error is what a device expects less what is measured. All metrics: \
    docs/src/how/method.md#metrics";

/// What the two *passed* columns count.
const PASSED_COLUMNS: &str = "\
    unknown passed: of pictures of classes that are not learned yet, the share that gets a label among all classes; \
    learned alone, passed: where only learned classes are answered, the share of pictures of all other classes, the \
    bundle's too, that get a learned label";

/// How many new classes there are, and how many pictures are measured on.
fn new_classes(benchmark: &Benchmark, base: usize) -> String {
    let of_new = benchmark.measured.classes().iter().filter(|class| **class as usize >= base).count();
    format!(
        "new classes: {}, measured on {} that are no shots; base classes: measured on {} of the bundle's benchmark",
        counted(benchmark.labels.len(), "folder"),
        counted(of_new, "picture"),
        counted(benchmark.measured.len() - of_new, "picture")
    )
}

/// Measures what is asked for, and prints its tables.
fn measure(arguments: &EvalArguments, name: &str, measurement: &Measurement<'_>) -> Result<EvalResults> {
    let EvalArguments { seed, false_alarms, .. } = *arguments;
    let draws = measurement.benchmark.distinct_draws(arguments.draws as usize) as u32;
    let results = Results::new(name, &measurement.benchmark.source, draws as usize);
    let mut all = EvalResults {
        results: Results { seed, ..results.with_manifests_of(&[&arguments.bundle])? },
        command: own_command(),
        backbone: if arguments.int8 { "int8" } else { "float" },
        class_means: None,
    };
    if arguments.unknown {
        let sessions = unknown(measurement, draws, false_alarms)?;
        let lines: String = sessions.iter().map(|row| format!("\n{row}")).collect();
        say(arguments, format!("\n{}{lines}", UnknownRow::HEADING))?;
        let estimate_errors = estimate_errors(measurement, draws, false_alarms)?;
        let lines: String = estimate_errors.iter().map(|row| format!("\n{row}")).collect();
        say(arguments, format!("\n{}{lines}", EstimateRow::HEADING))?;
        let lines: String = estimate_errors.iter().map(|row| format!("\n{}", row.learned_only_line())).collect();
        say(arguments, format!("\n{}{lines}", EstimateRow::LEARNED_ONLY_HEADING))?;
        say(arguments, format!("\n{PASSED_COLUMNS}"))?;
        all.results.unknown = Some(UnknownResults { false_alarms, sessions, estimate_errors });
    } else if arguments.presets {
        let measured = presets(measurement, draws)?;
        say(arguments, format!("\n{}", preset_table(&measured)))?;
        let timed = |summary: Summary| MeasuredSystem { seconds: Some(summary.seconds), ..summary.into() };
        all.results.systems = measured.into_iter().map(timed).collect();
    } else {
        for system in chosen_systems(arguments, measurement.base_model)? {
            let summary = measure_with_bar(&Measurement { system, ..*measurement }, draws, system.name())?;
            say(arguments, format!("\n{}", session_table(&summary)))?;
            all.results.systems.push(summary.into());
        }
        if let Some(path) = &arguments.csv {
            write(path, &csv::csv(all.results.summaries()))?;
        }
        all.class_means = Some(measurement.config.class_means);
    }
    Ok(all)
}

/// The systems of a list of names.
fn systems(list: &str) -> Result<SystemSelection, String> {
    System::listed(list).map(SystemSelection).map_err(|unknown| {
        let known: Vec<&str> = System::every().map(System::name).collect();
        format!("there is no system \"{unknown}\"; known are {}", known.join("; "))
    })
}

/// The systems that are asked for; all that train nothing where none is.
fn chosen_systems(arguments: &EvalArguments, base_model: &BaseModel) -> Result<Vec<System>> {
    let Some(SystemSelection(systems)) = &arguments.systems else {
        return Ok(System::supported_by(base_model).collect());
    };
    if let Some(system) = systems.iter().find(|system| !system.fits(base_model)) {
        bail!("{} needs {STATISTICS}, which the bundle does not carry", system.name());
    }
    Ok(systems.clone())
}

/// The settings of phase 3 that the command line asks for.
fn settings(arguments: &EvalArguments, bundle: &Bundle) -> Result<MethodConfig> {
    let mut config = match &arguments.preset {
        None => bundle.base_model.config.clone(),
        Some(name) => MethodConfig::preset(name).with_context(|| {
            format!("there is no preset \"{name}\"; known are {}", MethodConfig::PRESETS.join(", "))
        })?,
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
    Ok(config)
}

/// Measures a system over so many draws, with a bar of its epochs.
fn measure_with_bar(measurement: &Measurement<'_>, draws: u32, name: &str) -> Result<Summary> {
    let epochs = draws as usize * measurement.benchmark.ways.len() * measurement.config.epochs;
    let bar = progress_bar(epochs, &format!("{name}, epochs"));
    let summary = measurement.run(draws as usize, &|| {
        bar.inc(1);
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    Ok(summary?)
}

/// How well our answers know what they do not know: means over the draws.
fn unknown(measurement: &Measurement<'_>, draws: u32, false_alarms: f32) -> Result<Vec<UnknownRow>> {
    let rows = rows_of_draws(measurement, draws, |draw| measurement.unknown_rows(draw, false_alarms))?;
    Ok(mean_unknown_rows(&rows))
}

/// Whether estimates come true: means over the draws.
fn estimate_errors(measurement: &Measurement<'_>, draws: u32, false_alarms: f32) -> Result<Vec<EstimateRow>> {
    let rows = rows_of_draws(measurement, draws, |draw| measurement.estimate_rows(draw, false_alarms))?;
    Ok(mean_estimate_rows(&rows))
}

/// The rows of each draw. Refuses settings by which nothing is unknown: they give none.
fn rows_of_draws<T>(
    measurement: &Measurement<'_>,
    draws: u32,
    rows: impl Fn(usize) -> Result<Option<Vec<T>>, EvaluateError>,
) -> Result<Vec<Vec<T>>> {
    let rows = (0..draws as usize).map(rows).collect::<Result<Option<Vec<_>>, _>>()?;
    rows.with_context(|| nothing_unknown(measurement))
}

/// Why no picture is unknown to a device.
fn nothing_unknown(measurement: &Measurement<'_>) -> &'static str {
    let statistics = measurement.base_model.statistics.as_ref();
    if measurement.config.answer.is_some() && statistics.is_some_and(|statistics| statistics.set_aside.is_empty()) {
        return "the bundle has no samples set aside, by which a device tells what is unknown; train it again with more \
                images of each base class";
    }
    "these settings answer without the bundle's statistics, so nothing is unknown; take another --preset"
}

/// Measures every preset that the bundle has what it takes for, each under its name.
fn presets(measurement: &Measurement<'_>, draws: u32) -> Result<Vec<Summary>> {
    let statistics = measurement.base_model.statistics.is_some();
    let mut measured = Vec::new();
    for name in MethodConfig::PRESETS {
        let config = MethodConfig::preset(name).expect("it is listed");
        if statistics || config.answer.is_none() {
            let summary = measure_with_bar(&Measurement { config: &config, ..*measurement }, draws, name)?;
            measured.push(Summary { name: name.into(), ..summary });
        }
    }
    Ok(measured)
}

/// Presets side by side; arithmetic and time are those of learning all sessions of a draw, also as shares of the first
/// preset's.
fn preset_table(measured: &[Summary]) -> String {
    let Some(first) = measured.first() else { return String::new() };
    let line = |summary: &Summary| {
        format!(
            "{:<11} {:<14} {:<14} {:>8.1} {:>7.3} {:>8.2} {:>7.3}",
            summary.name,
            summary.cell(Metric::Ahm),
            summary.cell(Metric::Aacc),
            summary.operations / 1e9,
            summary.operations / first.operations,
            summary.seconds,
            summary.seconds / first.seconds
        )
    };
    let lines: Vec<String> = measured.iter().map(line).collect();
    format!("preset      aHM            aACC              Gflop   share  seconds   share\n{}", lines.join("\n"))
}

/// The choices of an engine, as `--engine` takes them.
const ENGINES: [(&str, EngineChoice); 3] =
    [("auto", EngineChoice::Auto), ("onnxruntime", EngineChoice::OnnxRuntime), ("rten", EngineChoice::Rten)];

/// The engine of that name.
fn engine(name: &str) -> Result<EngineChoice> {
    let found = ENGINES.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, choice)| choice).with_context(|| format!("no engine is called \"{name}\""))
}

/// The bundle's benchmark file, or features computed from the images of `--data` or `--pictures`.
fn benchmark(arguments: &EvalArguments, bundle: &Bundle) -> Result<Benchmark> {
    let engine = engine(&arguments.engine)?;
    if let Some(data) = &arguments.data {
        let bundled = Benchmark::if_carried(bundle)?;
        return with_features(bundle, engine, |encoder, on_progress| {
            Ok(from_cifar100(bundle, bundled.as_ref(), encoder, data, on_progress)?)
        });
    }
    let bundled = Benchmark::of(bundle)?;
    let Some(pictures) = &arguments.pictures else { return Ok(bundled) };
    let sessions = FolderSessions { ways: arguments.ways.get(), shots: arguments.shots.get() };
    let classes = FolderClasses::read(bundle, pictures, sessions, &mut |warning| eprintln!("warning: {warning}"))?;
    with_features(bundle, engine, |encoder, on_progress| {
        Ok(classes.benchmark(bundle, &bundled, encoder, on_progress)?)
    })
}

/// Computes a benchmark with the bundle's backbone, with a bar of the images.
fn with_features(
    bundle: &Bundle,
    engine: EngineChoice,
    compute: impl FnOnce(&mut dyn Encoder, &mut dyn FnMut(usize, usize)) -> Result<Benchmark>,
) -> Result<Benchmark> {
    let mut encoder = bundle.encoder(engine, Workload::Stream)?.encoder;
    let mut progress = None;
    let mut on_progress = |done: usize, total: usize| {
        progress.get_or_insert_with(|| progress_bar(total, "features")).set_position(done as u64);
    };
    let computed = compute(encoder.as_mut(), &mut on_progress);
    if let Some(bar) = progress {
        bar.finish_and_clear();
    }
    computed
}
