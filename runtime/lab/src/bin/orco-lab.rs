//! `orco-lab`: the laboratory on the command line.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use orco_lab::System;
use orco_lab::benchmark::Benchmark;
use orco_lab::report::collect;
use orco_lab::trials::{Question, Trials};
use orco_runtime::bundle::Bundle;
use orco_runtime::threads::{Threads, cores};

#[derive(Parser)]
#[command(version, about = "Measures OrCo beside its rivals, on the features that bundles carry")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measures all systems on a bundle's benchmark file and writes a report: report.json, numbers.csv, pictures as SVG
    /// and PNG, and index.html, which holds all of it and opens offline.
    Report(ReportArguments),
    /// Measures one of the paper's ablations of phase 3 on a bundle's benchmark file. Draws that are done are kept:
    /// stopped, it goes on where it was.
    Ablate(AblateArguments),
}

#[derive(Args)]
struct AblateArguments {
    /// What is varied: losses, perturbation, assignment, exemplars or noise.
    #[arg(value_parser = PossibleValuesParser::new(Question::ALL.map(Question::name)))]
    question: String,
    /// The bundle's folder.
    bundle: PathBuf,
    /// Draws of the shots.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    draws: u32,
    /// Seed of the draws, of shuffling and of perturbation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for draws that are done.
    #[arg(long, value_name = "DIR", env = "ORCO_LAB_CACHE", default_value = "target/orco-lab")]
    cache: PathBuf,
}

#[derive(Args)]
struct ReportArguments {
    /// The bundle's folder.
    bundle: PathBuf,
    /// Draws of the shots; the first is the field's fixed one where the bundle knows it.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    draws: u32,
    /// Seed of the draws, of shuffling and of perturbation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leaves out the systems that train a head in every session, which take most of the time.
    #[arg(long)]
    untrained: bool,
    /// Folder to write to; by default `report` in the bundle's.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    env_logger::Builder::from_default_env().init();
    let done = match Cli::parse().verb {
        Verb::Report(arguments) => report(&arguments),
        Verb::Ablate(arguments) => ablate(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn report(arguments: &ReportArguments) -> Result<()> {
    let started = Instant::now();
    let ReportArguments { bundle: folder, draws, seed, untrained, output } = arguments;
    let bundle = Bundle::open(folder)?;
    let output = output.clone().unwrap_or_else(|| folder.join("report"));
    // What can be written is known before anything is measured.
    std::fs::create_dir_all(&output).with_context(|| format!("cannot make the folder {}", output.display()))?;
    let command = format!(
        "cargo run --release -p orco-lab -- report models/{} --draws {draws} --seed {seed}{}",
        bundle.manifest.name,
        if *untrained { " --untrained" } else { "" }
    );
    let systems = System::ALL.into_iter().chain(System::FURTHER);
    let systems: Vec<System> = systems.filter(|system| !untrained || !system.trains()).collect();
    let mut last: Option<(&str, Instant)> = None;
    let mut done = |next: Option<&'static str>| {
        if let Some((name, since)) = last {
            println!("{name}: {:.1} s", since.elapsed().as_secs_f64());
        }
        last = next.map(|name| (name, Instant::now()));
    };
    let on_system = &mut |system: System| done(Some(system.name()));
    let of = (*draws as usize, *seed);
    let report = collect(&bundle, &systems, of, &command, on_system, &|| ControlFlow::Continue(()))?;
    done(None);
    report.write(&output)?;
    for summary in &report.systems {
        let (ahm, aacc) = (summary.ahm, summary.aacc);
        let (of_ahm, of_aacc) = (summary.ahm_deviation, summary.aacc_deviation);
        println!("{:<24} aHM {ahm:5.2} ± {of_ahm:4.2}  aACC {aacc:5.2} ± {of_aacc:4.2}", summary.system);
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{} is written, after {seconds:.0} s", output.join("index.html").display());
    Ok(())
}

fn ablate(arguments: &AblateArguments) -> Result<()> {
    let AblateArguments { question, bundle, draws, seed, cache } = arguments;
    let question = Question::ALL.into_iter().find(|known| known.name() == question).context("no such question")?;
    let bundle = Bundle::open(bundle)?;
    let benchmark = Benchmark::of(&bundle)?;
    std::fs::create_dir_all(cache).with_context(|| format!("cannot make the folder {}", cache.display()))?;
    let trials = Trials { bundle: &bundle, benchmark: &benchmark, cache, seed: *seed };
    let threads = Threads::new(cores())?;
    println!("{} on {}, draws: {draws}", question.name(), benchmark.source);
    println!("{:<28} {:>14} {:>14} {:>14}  the paper's, on mini-ImageNet", "", "aHM", "last HM", "aACC");
    for trial in question.trials() {
        let summary = trials.measure(&trial, *draws as usize, &threads, &|| ControlFlow::Continue(()))?;
        let both = |mean: f64, deviation: f64| format!("{mean:.2} ± {deviation:.2}");
        let last = summary
            .last_hm
            .zip(summary.last_hm_deviation)
            .map_or("-".into(), |(mean, deviation)| both(mean, deviation));
        println!(
            "{:<28} {:>14} {last:>14} {:>14}  {}",
            trial.name,
            both(summary.ahm, summary.ahm_deviation),
            both(summary.aacc, summary.aacc_deviation),
            trial.theirs.map_or_else(String::new, |theirs| theirs.to_string())
        );
    }
    Ok(())
}
