//! What learning, adding shots and forgetting have in common: reading shots, progress, saving, the report.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use orco_runtime::align::{Losses, Progress, Workspace};
use orco_runtime::encoder::Encoder;
use orco_runtime::session::{self, ClassAccuracy, LearnError, Memory, NewClass, Report};
use orco_runtime::state::State;
use orco_runtime::threads::Threads;
use serde_json::json;

use crate::device::Device;
use crate::{output, shots};

/// What every verb that aligns the head anew takes.
#[derive(Args, Debug)]
pub struct LessonOptions {
    /// Seed of shuffling and perturbation.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Forgetting budget, in percent points: refuses the change, and keeps what was known before, if the stored exemplars
    /// of any old class are recognised so much less afterwards. Without it, losses are reported only.
    #[arg(long, value_name = "POINTS", env = "ORCO_FORGETTING_BUDGET", value_parser = points)]
    pub forgetting_budget: Option<f32>,
}

/// Reads a budget in percent points as a share.
fn points(argument: &str) -> Result<f32, String> {
    match argument.parse::<f32>() {
        Ok(points) if (0.0..=100.0).contains(&points) => Ok(points / 100.0),
        _ => Err("expected a number from 0 to 100".into()),
    }
}

/// Reads `LABEL=FOLDER`.
pub fn parse(argument: &str) -> Result<(String, PathBuf), String> {
    match argument.split_once('=') {
        Some((label, folder)) if !label.trim().is_empty() && !folder.is_empty() => {
            Ok((label.trim().to_owned(), folder.into()))
        }
        _ => Err("expected LABEL=FOLDER, such as mug=shots/mug".into()),
    }
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

/// How many classes and how many shots there are.
pub fn size(classes: &[NewClass]) -> (usize, usize) {
    (classes.len(), classes.iter().map(|class| class.shots.len()).sum())
}

/// "LABEL (N shots)" for every class.
pub fn describe(classes: &[NewClass]) -> String {
    let labels: Vec<String> =
        classes.iter().map(|class| format!("{} ({} shots)", class.label, class.shots.len())).collect();
    labels.join(", ")
}

/// Runs a change of what is known, after which there are at most `shots` more shots and `classes` more classes, on all
/// cores and with a progress bar, and saves the new state.
///
/// # Errors
/// What the session refuses, a class that loses more than the budget, or a store that cannot be written: what was known
/// before is then unchanged.
pub fn change(
    device: &Device,
    options: &LessonOptions,
    (classes, shots): (usize, usize),
    work: impl FnOnce(
        &mut Workspace<'_>,
        &mut (dyn FnMut(Progress) -> ControlFlow<()> + Send),
    ) -> Result<(State, Report), LearnError>,
) -> Result<Report> {
    let foundation = &device.bundle.foundation;
    let mut memory = Memory::new(session::needs(foundation, &device.state, classes, shots, &foundation.config));
    let threads = Threads::of_machine().context("cannot start threads; nothing was changed")?;
    let bar = output::bar(foundation.config.epochs, "learning");
    let mut on_progress = |progress: Progress| {
        bar.set_position(progress.epoch as u64);
        bar.set_message(format!("loss {:.3}", progress.losses.total()));
        ControlFlow::Continue(())
    };
    let changed = work(&mut memory.workspace(&threads), &mut on_progress);
    bar.finish_and_clear();
    let (state, report) = changed.context("nothing was changed")?;
    if let Some(budget) = options.forgetting_budget {
        check_budget(&report, budget)?;
    }
    device.store.save(&state)?;
    Ok(report)
}

fn check_budget(report: &Report, budget: f32) -> Result<()> {
    let forgotten = report.forgotten(budget);
    if forgotten.is_empty() {
        return Ok(());
    }
    bail!(
        "{} would lose more than the forgetting budget of {:.0} points, so nothing was changed: {}; give other shots, or a \
         larger --forgetting-budget",
        plural(forgotten.len(), "class"),
        100.0 * budget,
        losses(&forgotten)
    )
}

fn plural(count: usize, class: &str) -> String {
    if count == 1 { format!("1 {class}") } else { format!("{count} {class}es") }
}

/// "LABEL (80 to 20 %)" for the first few of the classes.
fn losses(forgotten: &[&ClassAccuracy]) -> String {
    const SHOWN: usize = 5;
    let percent = |share: f32| 100.0 * share;
    let one = |class: &&ClassAccuracy| {
        format!("{} ({:.0} to {:.0} %)", class.label, percent(class.before.unwrap_or(0.0)), percent(class.after))
    };
    let mut listed: Vec<String> = forgotten.iter().take(SHOWN).map(one).collect();
    if forgotten.len() > SHOWN {
        listed.push(format!("and {} more", forgotten.len() - SHOWN));
    }
    listed.join(", ")
}

/// Prints what a session did.
pub fn print(report: &Report, what: &str, seconds: f64) {
    println!("{what} in {seconds:.1} s");
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
    let forgotten = report.forgotten(0.0);
    if !forgotten.is_empty() {
        println!("stored exemplars recognised less than before: {}", losses(&forgotten));
    }
    if let Some(accuracy) = report.new_accuracy() {
        println!("shots of the new classes recognised: {:.1} %", percent(accuracy));
    }
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

/// The report as JSON.
pub fn to_json(report: &Report, seconds: f64) -> serde_json::Value {
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
        "losses": report.losses.iter().map(Losses::total).collect::<Vec<_>>(),
        "classes": classes, "confusions": confusions,
    })
}
