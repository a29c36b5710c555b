//! `orco forget`.

#[cfg(feature = "hub")]
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use orco_runtime::image;
use orco_runtime::learner::{ChangeError, Learner};
use orco_runtime::manifest::from_hexadecimal;
use orco_runtime::state::label;
#[cfg(feature = "hub")]
use orco_runtime::state::sentence::join_first;
use orco_runtime::state::session::ChangeReport;
use serde_json::{Value, json};

use crate::change_options::AlignmentOptions;
use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::progress::ProgressBars;
use crate::session_report;

/// Arguments of `orco forget`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The learned class; with --purge also one that was forgotten before, with --shot also one of the bundle.
    label: String,
    /// Removes the class from the history as well: its exemplars and its label disappear from every file of the state,
    /// damaged slots that were set aside are removed, and it cannot be brought back.
    #[arg(long)]
    purge: bool,
    /// Removes a single shot that the device stores of a class, and no class; `orco undo` brings it back. It is named
    /// by the picture that it was learned from as a whole, or by its id: that names its kept picture and its thumbnail,
    /// and HTTP gives it.
    #[arg(long, value_name = "SHOT", conflicts_with = "purge")]
    shot: Option<PathBuf>,
    /// Seed of shuffling and perturbation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    alignment: AlignmentOptions,
}

/// Forgets a learned class, or one of its shots, aligns the head to the rest, and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let mut learner = device::open(options, output)?;
    learner.settings_mut().seed = arguments.seed;
    arguments.alignment.apply(&mut learner);
    let answered_before = learner.answered_classes();
    let label = label::normal(&arguments.label);
    let (report, what) = if let Some(shot) = &arguments.shot {
        (Some(remove_shot(output, &mut learner, &label, shot)?), "removed a shot of")
    } else if arguments.purge {
        (purge(options, output, &mut learner, &label)?, "purged")
    } else {
        (Some(session_report::note_outcome(output, learner.forget(&label, &mut ProgressBars::default())?)), "forgot")
    };
    let seconds = started.elapsed().as_secs_f64();
    let Some(report) = report else {
        say!(output, "purged {label} from the history; what is known is unchanged")?;
        return Ok(json!({ "seconds": seconds }));
    };
    session_report::print(output, &report, &format!("{what} {label}"), seconds, learner.answered_classes())?;
    session_report::print_scope(output, &learner, &[], answered_before)?;
    Ok(session_report::to_json(output, &report, seconds))
}

/// Removes a stored shot of a class: `shot` is the picture that it was learned from, or its id.
fn remove_shot(output: &Output, learner: &mut Learner, label: &str, shot: &Path) -> Result<ChangeReport> {
    let exemplar = match shot.to_str().and_then(from_hexadecimal) {
        Some(id) => id,
        None => {
            let features = learner.shot_features(&image::open(shot)?)?.into_raw_vec_and_offset().0;
            learner.state().exemplars.digest_of_shot(&features)
        }
    };
    match learner.remove_shot_by_digest(label, &exemplar, &mut ProgressBars::default()) {
        Err(ChangeError::OtherShot { label }) => {
            bail!("\"{label}\" has no such shot: {}; nothing was changed", shot.display())
        }
        removed => Ok(session_report::note_outcome(output, removed?)),
    }
}

#[cfg(not(feature = "hub"))]
fn purge(_: &Options, output: &Output, learner: &mut Learner, label: &str) -> Result<Option<ChangeReport>> {
    Ok(session_report::note_outcome(output, learner.purge(label, &mut ProgressBars::default())?))
}

/// Labels for people, each in quotes.
#[cfg(feature = "hub")]
pub(super) fn list_labels(labels: &BTreeSet<String>) -> String {
    join_first(labels.iter().map(|label| format!("\"{label}\"")), labels.len(), ", ")
}

/// Purges a class from the state, and from the files of the device's part in a fleet.
#[cfg(feature = "hub")]
fn purge(options: &Options, output: &Output, learner: &mut Learner, label: &str) -> Result<Option<ChangeReport>> {
    use orco_runtime::state::history::PurgeError;
    use orco_runtime::state::sentence::with_causes;
    use orco_serve::changes::{labels_of_no_class, purged_labels};

    let fleet = options.fleet_folder(learner.store().folder()).lock_out_rounds(options.wait)?;
    let labels = purged_labels(learner, label);
    let purged = learner.purge(label, &mut ProgressBars::default());
    let Some(fleet) = fleet else { return Ok(session_report::note_outcome(output, purged?)) };
    let report = match purged {
        Err(ChangeError::Purge(PurgeError::Unknown { .. })) if fleet.mentions(&labels)? => {
            output.mark_changed();
            None
        }
        purged => session_report::note_outcome(output, purged?),
    };
    let labels = labels_of_no_class(learner, labels);
    if let Err(error) = fleet.forget_labels(&labels) {
        let (why, labels) = (with_causes(&error), list_labels(&labels));
        output.mark_changed_with_error(format!(
            "the files of the fleet may still name the class: {why}; repeat this with each label that it had: {labels}"
        ));
    }
    Ok(report)
}
