//! `orco learn`.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use orco_runtime::encoder::Encoder;
use orco_runtime::session::{self, NewClass, Report};
use serde_json::json;

use crate::device::Device;
use crate::options::Options;
use crate::{output, shots};

/// Arguments of `orco learn`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A class and the folder with its pictures.
    #[arg(required = true, value_name = "LABEL=FOLDER", value_parser = parse)]
    classes: Vec<(String, PathBuf)>,
    /// Seed of shuffling and perturbation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn parse(argument: &str) -> Result<(String, PathBuf), String> {
    match argument.split_once('=') {
        Some((label, folder)) if !label.trim().is_empty() && !folder.is_empty() => {
            Ok((label.trim().to_owned(), folder.into()))
        }
        _ => Err("expected LABEL=FOLDER, such as mug=shots/mug".into()),
    }
}

/// Learns the classes in one session and saves the new state.
pub fn run(options: &Options, arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    let (device, _lock) = Device::open_to_change(options)?;
    let labels: Vec<&str> = arguments.classes.iter().map(|(label, _)| label.as_str()).collect();
    session::check_labels(&device.bundle.foundation, &device.state, &labels).context("nothing was learned")?;
    let mut encoder = device.encoder()?;
    let new = read(&device, encoder.as_mut(), &arguments.classes)?;
    let report = teach(&device, &new, arguments.seed)?;
    let seconds = started.elapsed().as_secs_f64();
    if !options.quiet() {
        print(&report, &new, seconds);
    }
    options.write_json(&to_json(&report, seconds))
}

/// Features of the shots of every class.
pub fn read(device: &Device, encoder: &mut dyn Encoder, classes: &[(String, PathBuf)]) -> Result<Vec<NewClass>> {
    let views = device.bundle.foundation.config.views;
    let read = |encoder: &mut dyn Encoder, label: &String, folder: &PathBuf| -> Result<NewClass> {
        let features = |path: &PathBuf, encoder: &mut dyn Encoder| device.views(encoder, &shots::open(path)?, views);
        let shots = shots::pictures(folder)?.iter().map(|path| features(path, encoder)).collect::<Result<_>>()?;
        Ok(NewClass { label: label.clone(), shots })
    };
    classes.iter().map(|(label, folder)| read(encoder, label, folder)).collect()
}

/// Runs the session with a progress bar and saves the state.
pub fn teach(device: &Device, new: &[NewClass], seed: u64) -> Result<Report> {
    let foundation = &device.bundle.foundation;
    let bar = output::bar(foundation.config.epochs, "learning");
    let mut on_progress = |progress: session::Progress| {
        bar.set_position(progress.epoch as u64);
        bar.set_message(format!("loss {:.3}", progress.losses.total()));
        ControlFlow::Continue(())
    };
    let learned = session::learn(foundation, &device.state, new, &foundation.config, seed, &mut on_progress);
    bar.finish_and_clear();
    let (state, report) = learned.context("nothing was learned")?;
    device.store.save(&state)?;
    Ok(report)
}

/// Prints what a session did.
pub fn print(report: &Report, new: &[NewClass], seconds: f64) {
    let labels: Vec<String> =
        new.iter().map(|class| format!("{} ({} shots)", class.label, class.shots.len())).collect();
    println!("learned {} in {seconds:.1} s", labels.join(", "));
    if let (Some(first), Some(last)) = (report.losses.first(), report.losses.last()) {
        let epochs = report.losses.len();
        println!("loss {:.3} after the first epoch, {:.3} after the last of {epochs}", first.total(), last.total());
    }
    let percent = |share: f32| 100.0 * share;
    if let Some((before, after)) = report.old_accuracy() {
        println!(
            "stored exemplars of old classes recognised: {:.1} % before, {:.1} % after",
            percent(before),
            percent(after)
        );
    }
    println!("shots of the new classes recognised: {:.1} %", percent(report.new_accuracy()));
    for confusion in report.confusions.iter().take(5) {
        println!(
            "now confused: {} is taken for {} ({:.0} %)",
            confusion.label,
            confusion.taken_for,
            percent(confusion.share)
        );
    }
    println!("{} free targets are left", report.free_targets);
}

fn to_json(report: &Report, seconds: f64) -> serde_json::Value {
    let classes: Vec<_> = report
        .classes
        .iter()
        .map(|class| json!({ "label": class.label, "before": class.before, "after": class.after }))
        .collect();
    let confusions: Vec<_> = report
        .confusions
        .iter()
        .map(
            |confusion| json!({ "label": confusion.label, "taken_for": confusion.taken_for, "share": confusion.share }),
        )
        .collect();
    json!({
        "seconds": seconds, "exemplars": report.exemplars, "free_targets": report.free_targets,
        "old_accuracy_before": report.old_accuracy().map(|pair| pair.0),
        "old_accuracy_after": report.old_accuracy().map(|pair| pair.1),
        "new_accuracy": report.new_accuracy(),
        "losses": report.losses.iter().map(session::Losses::total).collect::<Vec<_>>(),
        "classes": classes, "confusions": confusions,
    })
}
