//! What the verbs that change the state have in common: their options, progress, and the report.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use orco_runtime::align::LossTerms;
use orco_runtime::label::{self, EscapedText};
use orco_runtime::learner::{ChangeOutcome, ChangeStep, Learner, Observer, ShotChecks, Shots, losses};
use orco_runtime::listing::join_first;
use orco_runtime::session::{AccuracyChange, CumulativeLoss, ExpectedAccuracy, RepeatedShots, SessionReport};
use serde_json::json;

use crate::advice;
use crate::output::{self, Output, say};

/// What every verb that aligns the head anew takes.
#[derive(Args, Debug)]
pub struct ChangeOptions {
    /// Seed of shuffling and perturbation.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Forgetting budget, in percentage points of accuracy. A change is refused, and the state stays as it was, if this
    /// session and all earlier ones together cost the old classes more than that. Base classes together are measured on
    /// the bundle's held-out samples, learned classes together on their shots; a single class counts only where it lost
    /// too many samples for chance. Without a budget, losses are only reported.
    #[arg(long, value_name = "POINTS", env = "ORCO_FORGETTING_BUDGET", value_parser = points)]
    pub forgetting_budget: Option<f32>,
}

impl ChangeOptions {
    /// Makes the learner work so.
    pub fn apply(&self, learner: &mut Learner) {
        let settings = learner.settings_mut();
        settings.seed = self.seed;
        settings.forgetting_budget = self.forgetting_budget;
    }
}

/// Whether pictures of shots are kept.
#[derive(Args, Debug)]
pub struct KeepOptions {
    /// Keeps the shots' pictures beside the exemplars, at the size that the backbone sees, so that `orco upgrade` can
    /// learn all classes again on a new bundle. They stay on the device, and go with their exemplars.
    #[arg(long, env = "ORCO_KEEP_SHOTS", value_parser = clap::builder::BoolishValueParser::new())]
    pub keep_shots: bool,
}

/// Whether pictures are looked at before they become shots.
#[derive(Args, Debug)]
pub struct CheckOptions {
    /// Learns from unfit pictures too, with a warning for each: too dark, too bright, blurred, nothing but noise, or the
    /// same as another picture of this command. Without it, they are refused.
    #[arg(long)]
    pub take_anyway: bool,
}

impl CheckOptions {
    /// Makes the learner work so.
    pub fn apply(&self, learner: &mut Learner) {
        learner.settings_mut().shot_checks = if self.take_anyway { ShotChecks::Warn } else { ShotChecks::Refuse };
    }
}

/// What the verbs that learn from pictures take.
#[derive(Args, Debug)]
pub struct LearnOptions {
    #[command(flatten)]
    change: ChangeOptions,
    #[command(flatten)]
    keep: KeepOptions,
    #[command(flatten)]
    check: CheckOptions,
}

impl LearnOptions {
    /// Makes the learner work so.
    pub fn apply(&self, learner: &mut Learner) {
        self.change.apply(learner);
        self.check.apply(learner);
        learner.settings_mut().keep_shots = self.keep.keep_shots;
    }
}

/// Says what speaks against shots that were taken all the same.
pub fn warn_of_shots(output: &Output, learner: &Learner) {
    learner.doubtful_shots().iter().for_each(|shot| output.warn(shot));
}

/// Reads a budget in percentage points as a share.
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
            Ok((label::normal(label), folder.into()))
        }
        _ => Err("expected LABEL=FOLDER, such as mug=shots/mug".into()),
    }
}

/// "LABEL (N shots)" for the first few of the classes.
pub fn describe(classes: &[(&str, Shots<'_>)]) -> String {
    const SHOWN: usize = 10;
    let entries = classes.iter().map(|(label, shots)| format!("{label} ({})", output::counted(shots.count(), "shot")));
    join_first(entries, SHOWN, ", ")
}

/// Shows a change's progress: a bar for kept pictures that are looked at, one for the shots, then one for the epochs.
#[derive(Default)]
pub struct Bars {
    pictures: Option<ProgressBar>,
    shots: Option<ProgressBar>,
    epochs: Option<ProgressBar>,
}

impl Observer for Bars {
    fn step(&mut self, step: ChangeStep) -> ControlFlow<()> {
        match step {
            ChangeStep::Pictures { done, total } => count(&mut self.pictures, "pictures", done, total),
            ChangeStep::Shots { done, total } => count(&mut self.shots, "shots", done, total),
            ChangeStep::Epoch(progress) => {
                let bar = self.epochs.get_or_insert_with(|| output::bar(progress.epochs, "learning"));
                bar.set_position(progress.epoch as u64);
                bar.set_message(format!("loss {:.3}", progress.losses.total()));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Moves a bar, which is made with the first thing that is done and goes with the last.
fn count(bar: &mut Option<ProgressBar>, what: &str, done: usize, total: usize) {
    let bar = bar.get_or_insert_with(|| output::bar(total, what));
    bar.set_position(done as u64);
    if done == total {
        bar.finish_and_clear();
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        [&self.pictures, &self.shots, &self.epochs].into_iter().flatten().for_each(ProgressBar::finish_and_clear);
    }
}

/// Notes that a change is made, and what is doubtful about it; the verb goes on with what it did.
pub fn made<T>(output: &Output, made: ChangeOutcome<T>) -> T {
    output.changed();
    if let Some(uncertain) = made.uncertain {
        output.changed_but(advice::sentence(&uncertain.into()));
    }
    made.report
}

/// Says what a session did.
pub fn print(output: &Output, report: &SessionReport, what: &str, seconds: f64) -> Result<()> {
    say!(output, "{} in {seconds:.1} s", EscapedText(what))?;
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
    if let Some(AccuracyChange { before, after }) = report.old_accuracy() {
        say!(
            output,
            "stored samples of old classes recognised: {:.1} % before, {:.1} % after",
            percent(before),
            percent(after)
        )?;
    }
    let forgotten = report.forgotten(0.0);
    if !forgotten.is_empty() {
        say!(output, "stored samples recognised less than before: {}", losses::by_this(&forgotten))?;
    }
    let forgotten = report.forgotten_since(0.0);
    if !forgotten.is_empty() {
        say!(output, "recognised less than at first, over all sessions: {}", losses::since_first(&forgotten))?;
    }
    let losses: Vec<String> = report.group_losses().iter().map(losses::of_group).collect();
    if !losses.is_empty() {
        say!(output, "recognised at first and now: {}", losses.join("; "))?;
    }
    if let Some(accuracy) = report.new_accuracy() {
        say!(output, "shots of the new classes recognised: {:.1} %", percent(accuracy))?;
    }
    if let Some(ExpectedAccuracy { base, learned }) = report.expected {
        let share = |share: Option<f32>| share.map(|share| format!("{:.0} %", percent(share)));
        match (share(base), share(learned)) {
            (Some(base), Some(learned)) => say!(
                output,
                "to be expected from now on: {base} of pictures of base classes right, {learned} of learned ones"
            )?,
            (Some(base), None) => say!(
                output,
                "to be expected from now on: {base} of pictures of base classes right; of learned ones nothing can be \
                 told before a class has two different shots that no other class has, too"
            )?,
            _ => say!(output, "what is to be expected cannot be told: the bundle set no samples aside")?,
        }
    }
    for [one, other] in report.in_two_classes.iter().take(5) {
        let (one, other) = (EscapedText(one), EscapedText(other));
        say!(output, "the same shot is stored as {one} and as {other}: such shots say nothing; forget the wrong one")?;
    }
    for RepeatedShots { label, shots } in report.repeated.iter().take(5) {
        let (label, shots) = (EscapedText(label), output::counted(*shots, "shot"));
        say!(
            output,
            "stored as {label} more than once: {shots}; the same picture again teaches nothing, take another"
        )?;
    }
    for confusion in report.confusions.iter().take(5) {
        say!(
            output,
            "now confused: {} is taken for {} ({:.0} %)",
            EscapedText(&confusion.label),
            EscapedText(&confusion.taken_for),
            percent(confusion.share)
        )?;
    }
    say!(output, "{} left", output::counted(report.free_targets, "free target"))
}

/// The report as JSON.
pub fn to_json(report: &SessionReport, seconds: f64) -> serde_json::Value {
    let classes: Vec<_> = report
        .classes
        .iter()
        .map(|class| {
            let (first, now) = class.since.map(|since| (since.first, since.now)).unzip();
            json!({ "label": class.label, "before": class.before, "after": class.after, "samples": class.samples, "first": first, "now": now })
        })
        .collect();
    let confusions: Vec<_> = report
        .confusions
        .iter()
        .map(
            |confusion| json!({ "label": confusion.label, "taken_for": confusion.taken_for, "share": confusion.share }),
        )
        .collect();
    let groups = report.group_losses().into_iter().map(|loss| {
        let CumulativeLoss { first, now, samples } = loss.since;
        (loss.group.name().to_owned(), json!({ "first": first, "now": now, "samples": samples }))
    });
    let groups: serde_json::Map<String, serde_json::Value> = groups.collect();
    json!({
        "seconds": seconds, "since_first": groups, "exemplars": report.exemplars, "free_targets": report.free_targets,
        "old_accuracy_before": report.old_accuracy().map(|old| old.before),
        "old_accuracy_after": report.old_accuracy().map(|old| old.after),
        "new_accuracy": report.new_accuracy(),
        "expected_base": report.expected.and_then(|expected| expected.base),
        "expected_learned": report.expected.and_then(|expected| expected.learned),
        "losses": report.losses.iter().map(LossTerms::total).collect::<Vec<_>>(),
        "classes": classes, "confusions": confusions, "in_two_classes": report.in_two_classes,
        "repeated": report.repeated.iter().map(|RepeatedShots { label, shots }| json!({ "label": label, "shots": shots }))
            .collect::<Vec<_>>(),
    })
}
