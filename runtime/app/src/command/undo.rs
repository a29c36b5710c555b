//! `orco undo`.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use orco_runtime::learner::{ChangeError, ChangeOutcome, Learner, UndoOutcome};
use serde_json::Value;

use super::history;
use crate::change_options::AlignmentOptions;
use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::progress::ProgressBars;
use crate::session_report;

/// Arguments of `orco undo`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// How many changes to undo.
    #[arg(value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    changes: u32,
    /// Goes to the class set after this entry of `orco history` instead.
    #[arg(long, value_name = "ENTRY", conflicts_with = "changes")]
    to: Option<u32>,
    #[command(flatten)]
    alignment: AlignmentOptions,
}

/// Restores an earlier class set and saves it as the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    go_to_class_set(options, output, arguments.alignment, "went back to", |learner, progress| match arguments.to {
        Some(entry) => learner.undo_to(entry, progress),
        None => learner.undo(arguments.changes as usize, progress),
    })
}

/// Goes back to another class set by `step`, or forth, and prints what that did.
pub(super) fn go_to_class_set(
    options: &Options,
    output: &Output,
    alignment: AlignmentOptions,
    went: &str,
    step: impl FnOnce(&mut Learner, &mut ProgressBars) -> Result<ChangeOutcome<UndoOutcome>, ChangeError>,
) -> Result<Value> {
    let started = Instant::now();
    let mut learner = device::open(options, output)?;
    alignment.apply(&mut learner);
    let answered_before = learner.answered_classes();
    let restored = step(&mut learner, &mut ProgressBars::default())?;
    let UndoOutcome { report, entry, exact, .. } = session_report::note_outcome(output, restored);
    let seconds = started.elapsed().as_secs_f64();
    // With few changes to remember, the entry may be forgotten already.
    let what = learner.history().entry(entry).map(|entry| format!(" ({})", history::describe(entry)));
    let what = format!("{went} entry {entry}{}", what.unwrap_or_default());
    session_report::print(output, &report, &what, seconds, learner.answered_classes())?;
    match exact {
        Some(true) => say!(output, "the state is that of then, to the bit")?,
        Some(false) if learner.awaits_alignment() => {
            say!(output, "classes and exemplars are those of then; `orco align` brings back the head of then, too")?;
        }
        Some(false) => say!(
            output,
            "classes and exemplars are those of then; the head was aligned anew and differs in its last bits, as \
             another processor or other settings make it"
        )?,
        None => {
            let head = match learner.state().head {
                Some(_) => "; the head was aligned anew",
                None if learner.awaits_alignment() => "; `orco align` aligns the head to them",
                None => "",
            };
            say!(output, "classes and exemplars are those of then, without what was purged{head}")?;
        }
    }
    session_report::print_scope(output, &learner, &[], answered_before)?;
    let mut result = session_report::to_json(output, &report, seconds);
    (result["entry"], result["exact"]) = (entry.into(), exact.into());
    Ok(result)
}
