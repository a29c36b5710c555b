//! `orco demo`.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use orco_lab::benchmark::Benchmark;
use orco_lab::{Measurement, Row, System};
use orco_runtime::align::Progress;
use orco_runtime::encoder::choice::Work;
use orco_runtime::learner::{Learner, Shots, pictures_in};
use orco_runtime::threads::Threads;
use serde_json::{Value, json};

use crate::change::{self, Bars};
use crate::options::Options;
use crate::output::{self, Output, say};
use crate::{device, picture};

/// The two classes that the demonstration learns from the sample pictures.
const LEARNED: [&str; 2] = ["rubber-duck", "traffic-cone"];
const SEED: u64 = 1;

/// Arguments of `orco demo`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Folder with the sample pictures: `learn/CLASS/*.jpg` and `try/CLASS/*.jpg`.
    #[arg(long, value_name = "DIR", default_value = "examples/shots")]
    shots: PathBuf,
}

/// Runs the sessions of the bundle's benchmark, then learns and recognises two classes in a state of its own, which
/// leaves the device's alone.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let folder = tempfile::tempdir().context("cannot make a temporary folder for the demonstration's state")?;
    let options = Options { state: Some(folder.path().into()), ..options.clone() };
    let rows = sessions(&device::open(&options, output)?, output)?;
    say!(output, "")?;
    let (right, total) = pictures(&options, output, arguments)?;
    say!(output, "\nthe demonstration took {:.1} s", started.elapsed().as_secs_f64())?;
    Ok(json!({
        "sessions": rows, "pictures": { "right": right, "total": total }, "seconds": started.elapsed().as_secs_f64(),
    }))
}

/// The benchmark's sessions, a row after each.
fn sessions(learner: &Learner, output: &Output) -> Result<Vec<Row>> {
    let (bundle, base_model) = (learner.bundle(), learner.base_model());
    let benchmark = Benchmark::of(bundle)?;
    say!(
        output,
        "{}: {} base classes, then {} of new classes, {} each, measured on {} ({})\n",
        bundle.manifest.name,
        base_model.classes.len(),
        output::counted(benchmark.ways.len(), "session"),
        output::counted(benchmark.shots as usize, "shot"),
        benchmark.measured.len(),
        benchmark.source
    )?;
    say!(output, "{}", Row::HEADING)?;
    let bar = output::bar(benchmark.ways.len() * base_model.config.epochs, "learning");
    let mut on_progress = |session: usize, progress: Progress| {
        bar.set_position(((session - 1) * base_model.config.epochs + progress.epoch) as u64);
        bar.set_message(format!("session {session}"));
        ControlFlow::Continue(())
    };
    let mut said = Ok(());
    let mut on_row = |row: &Row| {
        if said.is_ok() {
            said = bar.suspend(|| say!(output, "{row}"));
        }
    };
    let (system, config) = (System::Orco, &base_model.config);
    let measurement = Measurement { base_model, benchmark: &benchmark, system, config, seed: SEED };
    let threads = Threads::of_machine();
    let rows = measurement.draw(0, &threads, &mut on_progress, &mut on_row)?.rows;
    bar.finish_and_clear();
    said.map(|()| rows)
}

/// Learns two classes from the sample pictures, opens the saved state again, and classifies other pictures of them.
/// Returns how many were recognised, and of how many.
fn pictures(options: &Options, output: &Output, arguments: &Arguments) -> Result<(usize, usize)> {
    let mut learner = device::open(options, output)?;
    learner.settings_mut().seed = SEED;
    say!(output, "engine: {}", learner.engine(Work::Shots)?.0)?;
    let started = Instant::now();
    let class = |label| Ok((label, Shots::folder(arguments.shots.join("learn").join(label))?));
    let new = LEARNED.map(class).into_iter().collect::<Result<Vec<_>>>()?;
    let report = learner.learn(&new, &mut Bars::default())?.report;
    let what = format!("learned {}", change::describe(&new));
    change::print(output, &report, &what, started.elapsed().as_secs_f64())?;
    let mut learner = device::open(options, output)?;
    say!(output, "\nthe saved state, opened again, on other pictures:")?;
    let classes = learner.classes().count();
    let (mut right, mut total) = (0, 0);
    for label in LEARNED {
        let mut answers = Vec::new();
        for path in pictures_in(&arguments.shots.join("try").join(label))? {
            answers.push(learner.classify(&picture::open(&path)?)?.label);
        }
        let hits = answers.iter().filter(|answer| *answer == label).count();
        let others: Vec<&str> = answers.iter().map(String::as_str).filter(|answer| *answer != label).collect();
        let others = if others.is_empty() { String::new() } else { format!(" (taken for: {})", others.join(", ")) };
        say!(output, "{label}: {hits} of {} recognised among {classes} classes{others}", answers.len())?;
        (right, total) = (right + hits, total + answers.len());
    }
    Ok((right, total))
}
