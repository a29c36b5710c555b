//! What a change did, for people and as JSON.

use anyhow::Result;
use orco_runtime::learner::{ChangeOutcome, Learner, Shots, losses};
use orco_runtime::method::align::LossTerms;
use orco_runtime::state::label::EscapedText;
use orco_runtime::state::sentence::{counted, join_first};
use orco_runtime::state::session::{AccuracyChange, ExpectedAccuracy, RepeatedShots, SessionReport};
use serde_json::{Value, json};

use crate::advice;
use crate::output::{Output, say};

/// Notes that a change is made, and what is doubtful about it; the verb goes on with what it did.
pub fn unwrap_outcome<T>(output: &Output, outcome: ChangeOutcome<T>) -> T {
    output.changed();
    if let Some(uncertain) = outcome.uncertain {
        output.changed_but(advice::sentence(&uncertain.into()));
    }
    if let Some(unaligned) = outcome.unaligned {
        let why = advice::sentence(&unaligned.into());
        output.changed_but(format!("the head was not aligned, so answers follow in closed form: {why}"));
    }
    outcome.report
}

/// Says what speaks against shots that were taken all the same.
pub fn warn_of_shots(output: &Output, learner: &Learner) {
    learner.doubtful_shots().iter().for_each(|shot| output.warn(shot));
}

/// "LABEL (N shots)" for the first few of the classes.
pub fn list_classes(classes: &[(&str, Shots<'_>)]) -> String {
    const SHOWN: usize = 10;
    let entries = classes.iter().map(|(label, shots)| format!("{label} ({})", counted(shots.count(), "shot")));
    join_first(entries, SHOWN, ", ")
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
        say!(output, "recognised less than at first, over all sessions: {}", losses::forgetting_sentence(&forgotten))?;
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
    for [one, other] in report.sharing_shots.iter().take(5) {
        let (one, other) = (EscapedText(one), EscapedText(other));
        say!(output, "the same shot is stored as {one} and as {other}: such shots say nothing; forget the wrong one")?;
    }
    for RepeatedShots { label, shots } in report.repeated.iter().take(5) {
        let (label, shots) = (EscapedText(label), counted(*shots, "shot"));
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
    say!(output, "{} left", counted(report.free_targets, "free target"))
}

/// The report as JSON: its summary, and what one session alone can tell in full.
///
/// # Panics
/// Never: serialising into memory cannot fail.
pub fn to_json(report: &SessionReport, seconds: f64) -> Value {
    let mut result = json!(report.summary(usize::MAX));
    result["seconds"] = seconds.into();
    result["classes"] = json!(report.classes);
    result["losses"] = report.losses.iter().map(LossTerms::total).collect::<Vec<_>>().into();
    result
}
