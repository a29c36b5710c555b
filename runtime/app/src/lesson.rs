//! What learning, adding shots and forgetting have in common: reading shots, progress, saving, the report.

mod budget;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::Args;
use orco_core::align::{Losses, Progress, Workspace};
use orco_runtime::encoder::Encoder;
use orco_runtime::store::StoreError;
use orco_runtime::threads::Threads;
use orco_state::history::{Change, PurgeError, Verb};
use orco_state::label::{self, Shown};
use orco_state::session::{self, LearnError, Memory, NewClass, Report};
use orco_state::state::State;
use serde_json::json;

use crate::device::{Device, Editable};
use crate::output::{self, Output, say};
use crate::shots;

/// What every verb that aligns the head anew takes.
#[derive(Args, Debug)]
pub struct LessonOptions {
    /// Seed of shuffling and perturbation.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Forgetting budget, in percent points: refuses the change, and keeps what was known before, if it and all sessions
    /// before it together cost any old class more: the exemplars of the bundle are compared with what its own head
    /// recognised, the shots of a learned class with what was recognised right after its session, by targets alone.
    /// Without it, losses are reported only.
    #[arg(long, value_name = "POINTS", env = "ORCO_FORGETTING_BUDGET", value_parser = budget::points)]
    pub forgetting_budget: Option<f32>,
}

/// Reads `LABEL=FOLDER`.
pub fn parse(argument: &str) -> Result<(String, PathBuf), String> {
    match argument.split_once('=') {
        Some((label, folder)) if !label.trim().is_empty() && !folder.is_empty() => {
            Ok((label::normal(label), folder.into()))
        }
        _ => Err("expected LABEL=FOLDER, such as mug=shots/mug".into()),
    }
}

/// Features of the shots of every class; how many there are is checked before any is computed.
pub fn read(device: &Device, encoder: &mut dyn Encoder, classes: &[(String, PathBuf)]) -> Result<Vec<NewClass>> {
    let views = device.bundle.foundation.config.views;
    let list = |(label, folder): &(String, PathBuf)| -> Result<(String, Vec<PathBuf>)> {
        let pictures = shots::pictures(folder)?;
        session::check_count(&device.bundle.foundation, &device.state, label, pictures.len())
            .context("nothing was changed")?;
        Ok((label.clone(), pictures))
    };
    let listed = classes.iter().map(list).collect::<Result<Vec<_>>>()?;
    let mut read = |(label, pictures): (String, Vec<PathBuf>)| -> Result<NewClass> {
        let mut features = |path: &PathBuf| device.views(encoder, &shots::open(path)?, views);
        Ok(NewClass { label, shots: pictures.iter().map(&mut features).collect::<Result<_>>()? })
    };
    listed.into_iter().map(&mut read).collect()
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
/// cores and with a progress bar, and saves the new state, remembering what was done.
///
/// # Errors
/// What the session refuses, a class that loses more than the budget, or a store that cannot be written: what was known
/// before is then unchanged.
pub fn change(
    device: &Editable,
    output: &Output,
    options: &LessonOptions,
    size: (usize, usize),
    change: &Change,
    work: impl FnOnce(
        &mut Workspace<'_>,
        &mut (dyn FnMut(Progress) -> ControlFlow<()> + Send),
    ) -> Result<(State, Report), LearnError>,
) -> Result<Report> {
    let (state, report) = train(device, size, work)?;
    if let Some(budget) = options.forgetting_budget {
        budget::check(&report, budget)?;
    }
    commit(device, output, state, change)?;
    Ok(report)
}

/// Runs a change of what is known and saves nothing.
pub fn train(
    device: &Device,
    (classes, shots): (usize, usize),
    work: impl FnOnce(
        &mut Workspace<'_>,
        &mut (dyn FnMut(Progress) -> ControlFlow<()> + Send),
    ) -> Result<(State, Report), LearnError>,
) -> Result<(State, Report)> {
    let foundation = &device.bundle.foundation;
    let mut memory = Memory::new(session::needs(foundation, &device.state, classes, shots, &foundation.config));
    let threads = Threads::of_machine();
    let bar = output::bar(foundation.config.epochs, "learning");
    let mut on_progress = |progress: Progress| {
        bar.set_position(progress.epoch as u64);
        bar.set_message(format!("loss {:.3}", progress.losses.total()));
        ControlFlow::Continue(())
    };
    let changed = work(&mut memory.workspace(&threads), &mut on_progress);
    bar.finish_and_clear();
    changed.context("nothing was changed")
}

/// Saves the next state, remembering what was done.
pub fn commit(device: &Editable, output: &Output, next: State, change: &Change) -> Result<()> {
    let saved = device.saved().then(next, &change.clone().at(now()), device.limits);
    settle(output, device.locked.save(&device.bundle, &saved))
}

/// Notes whether the state is saved. A state that is saved, but not as it should be, is a change like any other: the verb
/// goes on, and says so.
fn settle(output: &Output, saved: Result<(), StoreError>) -> Result<()> {
    match saved {
        Err(error @ StoreError::Uncertain { .. }) => output.changed_but(error),
        saved => {
            saved?;
            output.changed();
        }
    }
    Ok(())
}

/// Saves the next state, which no longer has the class, and removes the class from all that the folder holds: also where
/// only an older copy still has it, after a purge that was cut off, say.
pub fn purge(device: &Editable, output: &Output, next: State, label: &str, seed: u64) -> Result<()> {
    let change = Change::new(Verb::Purge, seed).at(now());
    let purged = match device.saved().purge(&device.bundle.foundation, next, label, &change, device.limits) {
        Err(PurgeError::Unknown { .. }) if device.store.mentions(label)? => device.saved(),
        purged => purged.context("nothing was changed")?,
    };
    settle(output, device.locked.purge(&device.bundle, &purged))
}

/// Seconds since 1970, unless the clock was obviously never set.
fn now() -> Option<u64> {
    const YEAR_2020: u64 = 1_577_836_800;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(since.as_secs()).filter(|seconds| *seconds >= YEAR_2020)
}

/// Says what a session did.
pub fn print(output: &Output, report: &Report, what: &str, seconds: f64) -> Result<()> {
    say!(output, "{} in {seconds:.1} s", Shown(what))?;
    if let (Some(first), Some(last)) = (report.losses.first(), report.losses.last()) {
        let epochs = report.losses.len();
        say!(
            output,
            "loss {:.3} after the first epoch, {:.3} after the last of {epochs}",
            first.total(),
            last.total()
        )?;
    }
    let percent = |share: f32| 100.0 * share;
    if let Some((before, after)) = report.old_accuracy() {
        say!(
            output,
            "stored exemplars of old classes recognised: {:.1} % before, {:.1} % after",
            percent(before),
            percent(after)
        )?;
    }
    let forgotten = report.forgotten(0.0);
    if !forgotten.is_empty() {
        say!(output, "stored exemplars recognised less than before: {}", budget::losses(&forgotten))?;
    }
    let forgotten = report.forgotten_since(0.0);
    if !forgotten.is_empty() {
        say!(output, "recognised less than at first, over all sessions: {}", budget::losses_since(&forgotten))?;
    }
    if let Some(accuracy) = report.new_accuracy() {
        say!(output, "shots of the new classes recognised: {:.1} %", percent(accuracy))?;
    }
    for confusion in report.confusions.iter().take(5) {
        say!(
            output,
            "now confused: {} is taken for {} ({:.0} %)",
            Shown(&confusion.label),
            Shown(&confusion.taken_for),
            percent(confusion.share)
        )?;
    }
    say!(output, "{} free targets are left", report.free_targets)
}

/// The report as JSON.
pub fn to_json(report: &Report, seconds: f64) -> serde_json::Value {
    let classes: Vec<_> = report
        .classes
        .iter()
        .map(|class| {
            let (first, now) = class.since.map(|since| (since.first, since.now)).unzip();
            json!({ "label": class.label, "before": class.before, "after": class.after, "first": first, "now": now })
        })
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
