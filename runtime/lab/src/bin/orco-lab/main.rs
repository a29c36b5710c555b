//! `orco-lab`: the laboratory on the command line.

mod eval;
mod output;
mod scenes;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use orco_benchmark::Metric;
use orco_benchmark::benchmark::{Benchmark, SEED};
use orco_benchmark::csv::csv;
use orco_lab::format::{lab_command, print, say_of_draws, shell_word};
use orco_lab::geometry::SessionGeometry;
use orco_lab::phase3_ablations::{AblationResults, Phase3Ablations, Phase3Settings, QUESTIONS, VariantGeometry};
use orco_lab::published::{self, PaperReading, VARIANT_WIDTH, ablation_heading, ablation_line};
use orco_lab::question::{AblationVariant, Question};
use orco_lab::report::figures::{self, paper_figures};
use orco_lab::report::{self, BundleReport, ReportPlan, collect};
use orco_lab::results::{self, MeasuredSystem, Results};
use orco_lab::results_pages::{self, ResultsPages};
use orco_lab::seeds::{self, SeedSummary};
use orco_lab::{Measurement, System};
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::telemetry;
use orco_runtime::threads::{Threads, usable_threads};
use orco_state::sentence::counted;
use serde::Serialize;

use self::output::{check_replaced, prepare_folder, write};

#[derive(Parser)]
#[command(version, about = "Measures OrCo beside its rivals, on the features that bundles carry")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures the device and the simplest rivals on a bundle's benchmark file, or on images, and prints every
    /// session.
    Eval(eval::EvalArguments),
    /// Measures all systems on a bundle's benchmark file and writes a report: report.json, numbers.csv, pictures as SVG
    /// and PNG, and index.html, which holds all of it and opens offline.
    Report(ReportArguments),
    /// Makes the figures of the paper that a report does not have, on the first draw of a bundle's benchmark file:
    /// angles against the dimension, projections before and after the sessions with their targets, losses over the
    /// epochs, confusion matrices. Writes figures.json, and pictures as SVG and PNG.
    Figures(FiguresArguments),
    /// Measures one of the paper's ablations of phase 3 on a bundle's benchmark file. Draws that are done are kept:
    /// stopped, it goes on where it was.
    Ablate(AblateArguments),
    /// Measures bundles that one recipe trained with different seeds: every number's mean, and how far it deviates over
    /// draws of the shots and over seeds of the training. A seed also draws which pictures may be shots; what that
    /// moves counts as the seed's.
    Seeds(SeedsArguments),
    /// Measures whether a device knows things in other places than those where it learned them: things with masks are
    /// pasted onto photographs of places, and are learned and asked with and without an empty view.
    Scenes(scenes::ScenesArguments),
    /// Writes the results pages of the book, as Markdown, from the reports of all bundles in a folder. Measures
    /// nothing.
    ResultsPages(ResultsPagesArguments),
}

/// What is measured of a bundle.
#[derive(Args)]
struct MeasureArguments {
    /// Draws of the shots; the first is the field's fixed one where the bundle knows it.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    draws: u32,
    /// Seed of the draws, of shuffling and of perturbation.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Leaves out the systems that train a head in every session, which take most of the time.
    #[arg(long)]
    untrained: bool,
}

impl MeasureArguments {
    /// All systems, or those that train nothing.
    fn systems(&self) -> impl Iterator<Item = System> {
        System::every().filter(|system| !self.untrained || !system.trains())
    }
}

#[derive(Args)]
struct SeedsArguments {
    /// The bundles' folders.
    #[arg(required = true, num_args = 1.., value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    #[command(flatten)]
    measuring: MeasureArguments,
    /// Folder for all numbers: seeds.json and seeds.csv.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[derive(Args)]
struct AblateArguments {
    /// What is varied: losses, perturbation, assignment, exemplars or noise; or `answer`, the losses behind a device's
    /// default answer.
    #[arg(value_parser = PossibleValuesParser::new(QUESTIONS.map(Question::name)))]
    question: String,
    /// The bundle's folder.
    bundle: PathBuf,
    /// Draws of the shots.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    draws: u32,
    /// Seed of the draws, of shuffling and of perturbation.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Whose settings are varied: those of the authors' code (program), or of the paper's text (text).
    /// `answer` varies a device's default settings, whichever is named.
    #[arg(long = "by", value_name = "READING", default_value = "program")]
    reading: PaperReading,
    /// Learns the first draw once more and says how classes lie after it (the paper's Table 4): wrong answers that name
    /// a new class, in percent; the mean cosine between two classes, and between a class and its target; and how many
    /// earlier classes changed their targets. Pictures are the measured ones.
    #[arg(long)]
    geometry: bool,
    /// Folder for all numbers: QUESTION.json and QUESTION.csv, with `-text` behind the question by the text. The book
    /// shows those in report/ablations of a bundle's folder.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Folder for draws that are done.
    #[arg(long, value_name = "DIR", env = "ORCO_LAB_CACHE", default_value = "target/orco-lab")]
    cache: PathBuf,
}

#[derive(Args)]
struct FiguresArguments {
    /// The bundle's folder.
    bundle: PathBuf,
    /// Seed of the draw, of shuffling and of perturbation.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Folder to write to; by default `figures` in the bundle's.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[derive(Args)]
struct ResultsPagesArguments {
    /// Folder of bundles.
    #[arg(default_value = "models")]
    bundles: PathBuf,
    /// Folder of what `orco-train-lab rival` measured, a JSON file for each recipe; there may be none.
    #[arg(long, value_name = "DIR", default_value = "docs/rivals")]
    rivals: PathBuf,
    /// Folder to write to.
    #[arg(long, value_name = "DIR", default_value = "docs/src/results")]
    output: PathBuf,
}

#[derive(Args)]
struct ReportArguments {
    /// The bundle's folder.
    bundle: PathBuf,
    #[command(flatten)]
    measuring: MeasureArguments,
    /// Measures nothing: draws page and pictures again from the report.json that is there.
    #[arg(long, conflicts_with_all = ["draws", "seed", "untrained"])]
    redraw: bool,
    /// Folder to write to; by default `report` in the bundle's.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    // What it prints is read: nobody left to read it is no reason to panic.
    sigpipe::reset();
    // Before any other thread. Where it fails, ONNX Runtime is not loaded, and that is said when it is wanted.
    let _ = telemetry::turn_off();
    env_logger::Builder::from_default_env().init();
    let done = match Cli::parse().command {
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Report(arguments) => make_report(&arguments),
        Command::Figures(arguments) => make_figures(&arguments),
        Command::Ablate(arguments) => ablate(&arguments),
        Command::Seeds(arguments) => seeds(&arguments),
        Command::Scenes(arguments) => scenes::run(&arguments),
        Command::ResultsPages(arguments) => write_results_pages(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Lets every measurement run to its end: Ctrl-C ends the program.
fn never_stop() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn make_report(arguments: &ReportArguments) -> Result<()> {
    let started = Instant::now();
    let ReportArguments { bundle: folder, measuring, redraw, output } = arguments;
    let MeasureArguments { draws, seed, untrained } = measuring;
    let written = output.clone().unwrap_or_else(|| folder.join("report"));
    if *redraw {
        BundleReport::read(&written)?.write(&written)?;
        return Ok(print(format!("{} is drawn again", written.join("index.html").display()))?);
    }
    let bundle = Bundle::open(folder)?;
    // What cannot be measured, or written, is known before anything is.
    let benchmark = Benchmark::of(&bundle)?;
    report::prepare(&written)?;
    let command = lab_command(format_args!(
        "report {} --draws {draws} --seed {seed}{}{}",
        shell_word(&folder.to_string_lossy()),
        if *untrained { " --untrained" } else { "" },
        output.as_deref().map_or_else(String::new, of_output)
    ));
    let systems: Vec<System> = measuring.systems().collect();
    let mut last: Option<(&str, Instant)> = None;
    let mut done = |next: Option<&'static str>| {
        if let Some((name, since)) = last {
            eprintln!("{name}: {:.1} s", since.elapsed().as_secs_f64());
        }
        last = next.map(|name| (name, Instant::now()));
    };
    let on_system = &mut |system: System| done(Some(system.name()));
    let plan = ReportPlan {
        bundle: &bundle,
        benchmark: &benchmark,
        systems: &systems,
        draws: *draws as usize,
        seed: *seed,
        command: &command,
    };
    say_of_draws(benchmark.distinct_draws(plan.draws), plan.draws)?;
    let mut report = collect(&plan, on_system, &never_stop)?;
    done(None);
    report.results = report.results.with_manifests_of(&[folder])?;
    report.write(&written)?;
    for summary in report.results.summaries() {
        let [ahm, aacc] = [Metric::Ahm, Metric::Aacc].map(|metric| summary.cell(metric));
        print(format!("{:<24} aHM {ahm:<14} aACC {aacc}", summary.name))?;
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(print(format!("{} is written, after {seconds:.0} s", written.join("index.html").display()))?)
}

/// The option that writes into a folder.
fn of_output(folder: &Path) -> String {
    format!(" --output {}", shell_word(&folder.to_string_lossy()))
}

fn make_figures(arguments: &FiguresArguments) -> Result<()> {
    let FiguresArguments { bundle: folder, seed, output } = arguments;
    let bundle = Bundle::open(folder)?;
    let benchmark = Benchmark::of(&bundle)?;
    let written = output.clone().unwrap_or_else(|| folder.join("figures"));
    figures::prepare(&written)?;
    let command = lab_command(format_args!(
        "figures {} --seed {seed}{}",
        shell_word(&folder.to_string_lossy()),
        output.as_deref().map_or_else(String::new, of_output)
    ));
    let threads = Threads::new(usable_threads())?;
    let figures = paper_figures(&bundle, &benchmark, *seed, &command, &threads, &never_stop)?;
    figures.write(&written)?;
    Ok(print(format!("the figures are in {}", written.display()))?)
}

fn seeds(arguments: &SeedsArguments) -> Result<()> {
    let SeedsArguments { bundles: folders, measuring, output } = arguments;
    let MeasureArguments { draws: asked, seed, .. } = measuring;
    let open = |folder: &PathBuf| -> Result<(Bundle, Benchmark)> {
        let bundle = Bundle::open(folder)?;
        let benchmark = Benchmark::of(&bundle)?;
        Ok((bundle, benchmark))
    };
    let bundles = folders.iter().map(open).collect::<Result<Vec<_>>>()?;
    seeds::check(&bundles)?;
    if let Some(output) = output {
        prepare_folder(output)?;
        results::claim(output, "seeds")?;
    }
    let distinct = bundles.iter().map(|(_, benchmark)| benchmark.distinct_draws(*asked as usize));
    let draws = distinct.max().unwrap_or_default();
    let of_training: Vec<u64> = bundles.iter().map(|(bundle, _)| bundle.manifest.provenance.seed).collect();
    let shown: Vec<String> = of_training.iter().map(u64::to_string).collect();
    let (shown, of_each, source) = (shown.join(", "), counted(draws, "draw"), &bundles[0].1.source);
    print(format!("seeds {shown} of the training, {of_each} with each, on {source}"))?;
    say_of_draws(draws, *asked as usize)?;
    print(SeedSummary::heading())?;
    let (first, measured_on) = &bundles[0];
    let results = Results::new(&first.manifest.name, &measured_on.source, draws);
    let mut results = Results { seed: *seed, training_seeds: of_training, ..results.with_manifests_of(folders)? };
    let mut all = Vec::new();
    for system in measuring.systems().filter(|system| system.fits(&first.base_model)) {
        let measured = bundles.iter().map(|(bundle, benchmark)| {
            let (base_model, config) = (&bundle.base_model, &bundle.base_model.config);
            let measurement = Measurement { base_model, benchmark, system, config, seed: *seed };
            measurement.run(draws, &never_stop)
        });
        let each = measured.collect::<Result<Vec<_>, _>>()?;
        let over = SeedSummary::of(&each);
        print(over.line())?;
        results.systems.push(MeasuredSystem::of_trainings(&over, each));
        all.push(over);
    }
    if let Some(output) = output {
        let bundles = folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect();
        write_results(output, "seeds", &SeedsResults { results, bundles }, &seeds::csv(&all))?;
    }
    for over in &all {
        print(format!("\n{}\n{}", over.over_seeds.name, over.table()))?;
    }
    if let Some(output) = output {
        print(format!("\nall numbers are in {}", output.display()))?;
    }
    Ok(())
}

/// What `orco-lab seeds` writes.
#[derive(Serialize)]
struct SeedsResults {
    #[serde(flatten)]
    results: Results,
    /// The bundles' folders, in the order of the trainings.
    bundles: Vec<String>,
}

fn write_results(output: &Path, name: &str, results: &impl Serialize, csv: &str) -> Result<()> {
    results::write(output, name, results, csv)
        .with_context(|| format!("cannot write {name}.json in {}", output.display()))
}

fn write_results_pages(arguments: &ResultsPagesArguments) -> Result<()> {
    let ResultsPagesArguments { bundles, rivals, output } = arguments;
    let pages = ResultsPages::read(bundles)?.with_rivals(rivals)?.pages();
    prepare_folder(output)?;
    let is_page = |text: &[u8]| text.starts_with(results_pages::MARK.as_bytes());
    for (name, _) in &pages {
        check_replaced(&output.join(name), is_page, "a page of results")?;
    }
    pages.iter().try_for_each(|(name, text)| write(&output.join(name), text))?;
    Ok(print(format!("{} pages are written to {}", pages.len(), output.display()))?)
}

fn ablate(arguments: &AblateArguments) -> Result<()> {
    let AblateArguments { question, bundle, draws: asked, seed, reading, geometry, output, cache } = arguments;
    let question = Question::named(question).context("no such question")?;
    let folder = bundle;
    let bundle = Bundle::open(folder)?;
    let benchmark = Benchmark::of(&bundle)?;
    let file = AblationResults::file(question, *reading);
    output.iter().chain([cache]).try_for_each(|folder| prepare_folder(folder))?;
    output.iter().try_for_each(|output| results::claim(output, &file))?;
    let content = serde_json::to_string(&bundle.manifest.files)?;
    let base_model = &bundle.base_model;
    let ablations = Phase3Ablations { base_model, benchmark: &benchmark, content: &content, cache, seed: *seed };
    let threads = Threads::new(usable_threads())?;
    let settings = match question {
        Question::Answer => "a device's default settings".to_owned(),
        _ => format!("{reading} for {}", published::settings_for(&benchmark.source).name()),
    };
    let draws = benchmark.distinct_draws(*asked as usize);
    print(format!("{} on {}, draws: {draws}; {settings}", question.name(), benchmark.source))?;
    say_of_draws(draws, *asked as usize)?;
    print(ablation_heading())?;
    let results = Results::new(&bundle.manifest.name, &benchmark.source, draws);
    let mut results = Results { seed: *seed, ..results.with_manifests_of(&[folder])? };
    for variant in ablations.of(question, *reading) {
        let summary = ablations.measure(&variant, draws, &threads, &never_stop)?;
        print(ablation_line(question, &summary))?;
        let published = published::numbers(question, &variant.name);
        results.systems.push(MeasuredSystem::from(summary).beside(published));
    }
    let geometry =
        if *geometry { measure_geometry(&ablations, ablations.of(question, *reading), &threads)? } else { Vec::new() };
    if let Some(output) = output {
        let csv = csv(results.summaries());
        let command = ablation_command(arguments, folder, output);
        let reading = *reading;
        let ablation = AblationResults { results, command, question, settings, reading, geometry };
        write_results(output, &file, &ablation, &csv)?;
        print(format!("all numbers are in {}", output.display()))?;
    }
    Ok(())
}

/// Measures the geometry of each variant, and prints it under a heading.
fn measure_geometry(
    ablations: &Phase3Ablations<'_>,
    variants: Vec<AblationVariant<Phase3Settings>>,
    threads: &Threads,
) -> Result<Vec<VariantGeometry>> {
    print(format!("\n{:<VARIANT_WIDTH$} {}", "", SessionGeometry::HEADING))?;
    let mut measured = Vec::with_capacity(variants.len());
    for variant in variants {
        let geometry = ablations.geometry(&variant, threads, &never_stop)?;
        if let Some(found) = &geometry {
            print(format!("{:<VARIANT_WIDTH$} {}", variant.name, found.line()))?;
        }
        measured.push(VariantGeometry { system: variant.name, geometry });
    }
    Ok(measured)
}

/// The command that measures an ablation so.
fn ablation_command(arguments: &AblateArguments, bundle: &Path, output: &Path) -> String {
    let AblateArguments { question, draws, seed, reading, geometry, .. } = arguments;
    let [bundle, output] = [bundle, output].map(|path| shell_word(&path.to_string_lossy()));
    let mut command = lab_command(format_args!("ablate {question} {bundle} --draws {draws}"));
    if *seed != SEED {
        command += &format!(" --seed {seed}");
    }
    if *reading == PaperReading::Text && question != Question::Answer.name() {
        command += " --by text";
    }
    if *geometry {
        command += " --geometry";
    }
    command + " --output " + &output
}
