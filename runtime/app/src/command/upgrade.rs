//! `orco upgrade`.

use std::time::Instant;

use anyhow::Result;
use clap::Args;
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::upgrade::{self, ClassComparison, UpgradeOptions, UpgradeOutcome};
use orco_runtime::learner::{Learner, LearnerSettings};
use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::sentence::counted;
use orco_runtime::store::Store;
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::progress::ProgressBars;
use crate::session_report;

/// Arguments of `orco upgrade`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Upgrades even if classes have no kept pictures, which are given up then, or are recognised clearly worse.
    #[arg(long, conflicts_with_all = ["undo", "discard_old"])]
    force: bool,
    /// Gives up classes of which no picture was kept, such as those of packs; still refuses if others get clearly
    /// worse.
    #[arg(long, conflicts_with_all = ["undo", "discard_old"])]
    give_up_unkept: bool,
    /// Brings back, to the bit, the state of the bundle that --bundle names, which was kept aside when another took its
    /// place; the present one is kept aside in turn.
    #[arg(long, conflicts_with = "discard_old")]
    undo: bool,
    /// Removes the state that was kept aside, with its pictures.
    #[arg(long)]
    discard_old: bool,
    /// Seed of shuffling and perturbation.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Learns all that the device knows again, on the bundle that the options name; or brings back, or removes, the state
/// that an earlier upgrade kept aside.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let (bundle, store, mut settings) = device::parts(options, 1)?;
    settings.seed = arguments.seed;
    if arguments.discard_old {
        return discard_old(output, &store, &settings);
    }
    if arguments.undo {
        return undo(output, &bundle, &store, &settings);
    }
    let name = bundle.manifest.name.clone();
    let accepted = UpgradeOptions::default().force(arguments.force).give_up_unkept(arguments.give_up_unkept);
    let outcome = upgrade::upgrade(&bundle, &store, &settings, &accepted, &mut ProgressBars::default())?;
    let UpgradeOutcome { report, from, learned_before, classes, dropped, warnings, .. } =
        session_report::note_outcome(output, outcome);
    let seconds = started.elapsed().as_secs_f64();
    warnings.iter().for_each(|warning| output.warn(warning));
    let count = counted(classes.len(), "class");
    let what = format!("upgraded {count} from {} to {name}", shown(&from.name));
    let learned = classes.iter().filter(|class| !class.merged).count();
    let scope = settings.scope;
    session_report::print(output, &report, &what, seconds, scope.answered_classes(learned))?;
    for class in &classes {
        say!(output, "{}", describe(class))?;
    }
    if !dropped.is_empty() {
        say!(output, "given up, since no picture of them was kept: {}", EscapedText(&dropped.join(", ")))?;
    }
    // A class that the bundle brings is no learned class any more: answers may name other classes than before.
    if let Ok(learner) = Learner::new(bundle, store, settings) {
        let labels: Vec<&str> = classes.iter().map(|class| class.label.as_str()).collect();
        session_report::print_scope(output, &learner, &labels, scope.answered_classes(learned_before))?;
    }
    say!(output, "the old state is kept aside: `orco upgrade --undo` with the old bundle brings it back")?;
    let mut result = session_report::to_json(output, &report, seconds);
    // `classes` has all of the bundle's, too.
    result["upgraded"] = classes.iter().map(to_json).collect::<Vec<_>>().into();
    (result["from"], result["bundle"]) = (from.name.into(), name.into());
    result["dropped"] = dropped.into();
    Ok(result)
}

fn discard_old(output: &Output, store: &Store, settings: &LearnerSettings) -> Result<Value> {
    let discarded = upgrade::discard_former_state(store, settings)?;
    if discarded {
        output.mark_changed();
    }
    say!(output, "{}", if discarded { "the state that was kept aside is gone" } else { "nothing was kept aside" })?;
    Ok(json!({ "discarded": discarded }))
}

fn undo(output: &Output, bundle: &Bundle, store: &Store, settings: &LearnerSettings) -> Result<Value> {
    let saved = session_report::note_outcome(output, upgrade::undo_upgrade(bundle, store, settings)?);
    let (name, classes, exemplars) = (&bundle.manifest.name, saved.state.classes.len(), saved.state.exemplars.len());
    say!(
        output,
        "went back to the state of {name} as it was left: {}, {}",
        counted(classes, "learned class"),
        counted(exemplars, "exemplar")
    )?;
    Ok(json!({ "bundle": name, "learned_classes": classes, "exemplars": exemplars }))
}

fn shown(name: &str) -> String {
    if name.is_empty() { "another bundle".into() } else { EscapedText(name).to_string() }
}

fn describe(class: &ClassComparison) -> String {
    let ClassComparison { label, shots, pictures, merged, before, after, .. } = class;
    let percent = |share: &Option<f32>| share.map_or("unknown".to_owned(), |share| format!("{:.0} %", 100.0 * share));
    let kept =
        if pictures == shots { counted(*shots, "shot") } else { format!("{pictures} of {}", counted(*shots, "shot")) };
    let label = EscapedText(label);
    if *merged {
        return format!("  {label}: the new bundle knows it; {kept} are further ones of it now");
    }
    format!("  {label}: {kept}, recognised: {} when learned, {} now", percent(before), percent(after))
}

fn to_json(class: &ClassComparison) -> Value {
    let ClassComparison { label, shots, pictures, merged, before, after, .. } = class;
    json!({
        "label": label, "shots": shots, "pictures": pictures, "merged": merged, "before": before, "after": after,
    })
}
