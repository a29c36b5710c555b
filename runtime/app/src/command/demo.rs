//! `orco demo`.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use orco_core::align::Progress;
use orco_lab::benchmark::Benchmark;
use orco_lab::{Measurement, Row, System};
use orco_runtime::encoder::choice::Work;
use orco_runtime::threads::Threads;
use orco_state::classify::Classifier;
use orco_state::history::{Change, Verb};
use orco_state::session;
use serde_json::{Value, json};

use crate::device::Device;
use crate::lesson::{self, LessonOptions};
use crate::options::Options;
use crate::output::{self, Output, say};
use crate::shots;

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
    let device = Device::open(&options, output)?;
    let rows = sessions(&device, output)?;
    say!(output, "")?;
    let (right, total) = pictures(&options, output, arguments)?;
    say!(output, "\nthe demonstration took {:.1} s", started.elapsed().as_secs_f64())?;
    Ok(json!({
        "sessions": rows, "pictures": { "right": right, "total": total }, "seconds": started.elapsed().as_secs_f64(),
    }))
}

/// The benchmark's sessions, a row after each.
fn sessions(device: &Device, output: &Output) -> Result<Vec<Row>> {
    let (bundle, foundation) = (&device.bundle, &device.bundle.foundation);
    let benchmark = Benchmark::of(&bundle)?;
    say!(
        output,
        "{}: {} base classes, then {} of new classes, {} each, measured on {} ({})\n",
        bundle.manifest.name,
        foundation.classes.len(),
        output::counted(benchmark.ways.len() as u64, "session"),
        output::counted(benchmark.shots, "shot"),
        benchmark.measured.len(),
        benchmark.source
    )?;
    say!(output, "{}", Row::HEADING)?;
    let bar = output::bar(benchmark.ways.len() * foundation.config.epochs, "learning");
    let mut on_progress = |session: usize, progress: Progress| {
        bar.set_position(((session - 1) * foundation.config.epochs + progress.epoch) as u64);
        bar.set_message(format!("session {session}"));
        ControlFlow::Continue(())
    };
    let mut said = Ok(());
    let mut on_row = |row: &Row| {
        if said.is_ok() {
            said = bar.suspend(|| say!(output, "{row}"));
        }
    };
    let (system, config) = (System::Orco, &foundation.config);
    let measurement = Measurement { foundation, benchmark: &benchmark, system, config, seed: SEED };
    let threads = Threads::of_machine();
    let rows = measurement.draw(0, &threads, &mut on_progress, &mut on_row)?.rows;
    bar.finish_and_clear();
    said.map(|()| rows)
}

/// Learns two classes from the sample pictures, opens the saved state again, and classifies other pictures of them.
/// Returns how many were recognised, and of how many.
fn pictures(options: &Options, output: &Output, arguments: &Arguments) -> Result<(usize, usize)> {
    let device = Device::open_to_change(options, output)?;
    let mut encoder = device.encoder(options, Work::Shots)?;
    say!(output, "engine: {}", encoder.engine())?;
    let started = Instant::now();
    let folders = LEARNED.map(|label| (label.to_owned(), arguments.shots.join("learn").join(label)));
    let new = lesson::read(&device, encoder.as_mut(), &folders)?;
    let foundation = &device.bundle.foundation;
    let lesson_options = LessonOptions { seed: SEED, forgetting_budget: None };
    let change = Change::new(Verb::Learn, SEED).labels(LEARNED);
    // What it changes is its own: nobody is to be told.
    let own = Output::silent();
    let report =
        lesson::change(&device, &own, &lesson_options, lesson::size(&new), &change, |workspace, on_progress| {
            session::learn(foundation, &device.state, &new, &foundation.config, SEED, workspace, on_progress)
        })?;
    let what = format!("learned {}", lesson::describe(&new));
    lesson::print(output, &report, &what, started.elapsed().as_secs_f64())?;
    let device = Device::open(options, output)?;
    say!(output, "\nthe saved state, opened again, on other pictures:")?;
    let foundation = &device.bundle.foundation;
    let classifier = Classifier::new(foundation, &device.state);
    let labels: Vec<&str> = device.state.known(foundation).map(|class| class.label.as_str()).collect();
    let (mut right, mut total) = (0, 0);
    for label in LEARNED {
        let mut answers = Vec::new();
        for path in shots::pictures(&arguments.shots.join("try").join(label))? {
            let features = device.views(encoder.as_mut(), &shots::open(&path)?, 1)?;
            answers.push(labels[classifier.nearest(&features)[0]]);
        }
        let hits = answers.iter().filter(|answer| **answer == label).count();
        let others: Vec<&str> = answers.iter().copied().filter(|answer| *answer != label).collect();
        let others = if others.is_empty() { String::new() } else { format!(" (taken for: {})", others.join(", ")) };
        say!(output, "{label}: {hits} of {} recognised among {} classes{others}", answers.len(), labels.len())?;
        (right, total) = (right + hits, total + answers.len());
    }
    Ok((right, total))
}
