//! What a change did, for people and as JSON.

use std::borrow::Cow;

use anyhow::Result;
use orco_runtime::learner::{
    AnswerScope, ChangeError, ChangeOutcome, Learner, Shots, forgetting_sentences, shot_warnings,
};
use orco_runtime::method::align::LossTerms;
use orco_runtime::state::answer::AnsweredClasses;
use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::label;
use orco_runtime::state::sentence::{counted, join_first, with_causes};
use orco_runtime::state::session::{
    AccuracyChange, ChangeReport, ClassAccuracy, ConfusedPair, ExpectedAccuracy, LearnedOnlyAccuracy, MistakenShot,
    RepeatedShots,
};
use serde_json::{Value, json};

use crate::advice;
use crate::output::{Output, say};

/// Most labels that one sentence names.
const MAX_LABELS: usize = 5;
/// Most pairs or classes that are named with the same doubt.
const MAX_DOUBTS: usize = 5;
/// Most pictures that are named with a doubt.
const MAX_PICTURES: usize = 3;
/// Most classes that a change is said to be about.
pub const MAX_CLASSES: usize = 10;

/// Notes in the output that a change is made, and what is doubtful about it. Returns what the change did.
pub fn note_outcome<T>(output: &Output, outcome: ChangeOutcome<T>) -> T {
    output.mark_changed();
    if let Some(uncertain) = outcome.uncertain {
        output.mark_changed_with_error(advice::sentence(&uncertain.into()));
    }
    if let Some(unaligned) = outcome.unaligned {
        let next = match unaligned {
            ChangeError::Forgetting { .. } => "aligns it all the same",
            _ => "tries again",
        };
        // Advice on such an error would say that nothing was changed.
        output.mark_changed_with_error(format_args!(
            "the change is made, but the head was not aligned (answers follow the change already): {}; \
             `orco align` {next}",
            with_causes(&unaligned)
        ));
    }
    outcome.report
}

/// Warns of shots that were taken although something speaks against them; of each where experts want to see all.
pub fn warn_of_shots(output: &Output, learner: &Learner) {
    let shots = learner.doubtful_shots();
    if output.is_verbose() {
        shots.iter().for_each(|shot| output.warn(shot));
    } else {
        shot_warnings(shots).iter().for_each(|warning| output.warn(warning));
    }
}

/// Says so where a change made answers leave base classes out, or name them again; `before` are the classes that
/// answers named before it. Warns of base classes that got shots but are not answered: of all of them if answers named
/// them before, else of those in `changed`.
pub fn print_scope(output: &Output, learner: &Learner, changed: &[&str], before: AnsweredClasses) -> Result<()> {
    let is_changed = |label: &&str| changed.iter().any(|given| label::same(given, label));
    let mut unanswered = learner.unanswered_classes();
    unanswered.retain(|label| before == AnsweredClasses::All || is_changed(label));
    if !unanswered.is_empty() {
        let labels = join_first(unanswered.into_iter().map(EscapedText), MAX_LABELS, ", ");
        output.warn(format_args!(
            "no answer names {labels}, although you gave shots: answers name only what was learned. Learn it with \
             --replace, or answer all classes with --answers all"
        ));
    }
    let replaced = learner.state().replaced(learner.base_model());
    let base = replaced.iter().filter(|is_replaced| !**is_replaced).count();
    let count = learner.state().classes.len();
    match (before, learner.answered_classes()) {
        (AnsweredClasses::All, AnsweredClasses::Learned) => say!(
            output,
            "from now on answers name only the {count} classes that you taught, or say unknown; \
             --answers all names the {base} that came with the bundle, too"
        ),
        (AnsweredClasses::Learned, AnsweredClasses::All) => say!(
            output,
            "from now on answers name the {base} classes that came with the bundle, too, until you have taught {}; \
             --answers learned keeps them out",
            AnswerScope::ENOUGH
        ),
        _ => Ok(()),
    }
}

/// "LABEL (N shots)" for the first few of the classes.
pub fn list_classes(classes: &[(&str, Shots<'_>)]) -> String {
    let entries = classes.iter().map(|(label, shots)| format!("{label} ({})", counted(shots.count(), "shot")));
    join_first(entries, MAX_CLASSES, ", ")
}

/// Says what a session did; `answered` are the classes that answers name after it.
pub fn print(
    output: &Output,
    report: &ChangeReport,
    what: &str,
    seconds: f64,
    answered: AnsweredClasses,
) -> Result<()> {
    say!(output, "{} in {seconds:.1} s", EscapedText(what))?;
    let answered_part = answered_part(report, answered);
    // Shots are always measured among all classes; the expectation below is among those that answers name.
    let rivals = match answered {
        AnsweredClasses::All => "",
        AnsweredClasses::Learned => " among all classes",
    };
    print_old_classes(output, &answered_part, rivals)?;
    if let Some(accuracy) = report.new_accuracy() {
        let accuracy = percent(accuracy);
        say!(output, "new classes: {accuracy} of their shots recognised{rivals}, each left out in turn")?;
    }
    if let Some(expected) = report.expected {
        print_expectation(output, report, expected, answered)?;
    }
    if !report.one_scene.is_empty() {
        let labels = join_first(report.one_scene.iter().map(|label| EscapedText(label)), MAX_LABELS, ", ");
        say!(output, "the shots of {labels} are much alike: add two from other sides, or taken elsewhere")?;
    }
    if output.is_verbose() {
        print_details(output, &answered_part)?;
    }
    print_doubts(output, &answered_part)?;
    say!(output, "{}", room(report.free_targets))
}

/// Says what the session did to classes known before it; `rivals` says among which classes that was measured.
fn print_old_classes(output: &Output, report: &ChangeReport, rivals: &str) -> Result<()> {
    if let Some(change) = report.old_accuracy() {
        say!(output, "{}{rivals}", old_classes(change))?;
    }
    let is_worth_saying = |class: &&ClassAccuracy| {
        output.is_verbose() || class.before.is_some_and(|before| is_visible_loss([before, class.after], class.samples))
    };
    let forgotten: Vec<&ClassAccuracy> = report.lost_in_session(0.0).into_iter().filter(is_worth_saying).collect();
    if !forgotten.is_empty() {
        say!(output, "recognised less than before: {}", forgetting_sentences::session_loss_sentence(&forgotten))?;
    }
    Ok(())
}

/// Says which shots are stored twice, and what is confused now.
fn print_doubts(output: &Output, report: &ChangeReport) -> Result<()> {
    for [one, other] in report.sharing_shots.iter().take(MAX_DOUBTS) {
        let (one, other) = (EscapedText(one), EscapedText(other));
        say!(
            output,
            "the same shot is stored as {one} and as {other}: such shots say nothing; take it from the class \
             that it does not show with `orco forget LABEL --shot PICTURE`"
        )?;
    }
    for RepeatedShots { label, shots } in report.repeated.iter().take(MAX_DOUBTS) {
        let (label, shots) = (EscapedText(label), counted(*shots, "shot"));
        say!(
            output,
            "stored as {label} more than once: {shots}; the same picture again teaches nothing, take another"
        )?;
    }
    for confusion in report.confusions.iter().take(MAX_DOUBTS) {
        say!(
            output,
            "now confused: {} is taken for {} ({})",
            EscapedText(&confusion.label),
            EscapedText(&confusion.taken_for),
            confused_part(report, confusion)
        )?;
    }
    Ok(())
}

/// How many samples of a class are confused, and by which pictures of this change, for people to see whether one shows
/// something else. A share would read as one of all pictures to come, of which five shots say little.
fn confused_part(report: &ChangeReport, pair: &ConfusedPair) -> String {
    // A learned class that replaces a base class comes after it.
    let part = match report.classes.iter().rposition(|class| class.label == pair.label) {
        None => percent(pair.share),
        Some(at) if at < report.base_classes => part_of(pair.share, report.classes[at].samples, "sample"),
        Some(at) => part_of(pair.share, report.classes[at].samples, "shot"),
    };
    let of_pair = |shot: &&MistakenShot| shot.label == pair.label && shot.taken_for == pair.taken_for;
    let pictures = report.mistaken_shots.iter().filter(of_pair).filter_map(|shot| shot.picture.as_deref());
    let pictures: Vec<EscapedText<'_>> = pictures.map(EscapedText).collect();
    if pictures.is_empty() { part } else { format!("{part}: {}", join_first(pictures.iter(), MAX_PICTURES, ", ")) }
}

/// "2 of 5 shots".
fn part_of(share: f32, count: u32, noun: &str) -> String {
    format!("{:.0} of {}", share * count as f32, counted(count as usize, noun))
}

/// A report without what does not concern answers: where they name learned classes alone, no class is taken for a base
/// class, and what base classes lost does not matter.
fn answered_part(report: &ChangeReport, answered: AnsweredClasses) -> Cow<'_, ChangeReport> {
    if answered == AnsweredClasses::All {
        return Cow::Borrowed(report);
    }
    let mut part = report.clone();
    part.classes.drain(..part.base_classes);
    part.base_classes = 0;
    let is_learned = |label: &String| part.classes.iter().any(|class| class.label == *label);
    part.confusions.retain(|pair| is_learned(&pair.label) && is_learned(&pair.taken_for));
    Cow::Owned(part)
}

/// "room for 512 more things".
pub fn room(free: usize) -> String {
    match free {
        0 => "no room for more things: forget one first".to_owned(),
        free => format!("room for {}", counted(free, "more thing")),
    }
}

/// Whether a class lost more than a single one of its samples, which may be chance, and people see a difference.
fn is_visible_loss([before, after]: [f32; 2], samples: u32) -> bool {
    ((before - after) * samples as f32).round() > 1.0 && percent(before) != percent(after)
}

fn percent(share: f32) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// What the session did to classes known before it; accuracies that people would read as equal are unchanged.
fn old_classes(AccuracyChange { before, after }: AccuracyChange) -> String {
    let [before, after] = [before, after].map(percent);
    if before == after {
        format!("classes known before: unchanged ({after})")
    } else {
        format!("classes known before: {before} recognised before, {after} now")
    }
}

/// Says what accuracy to expect on new pictures of the classes that answers name, and which new classes the estimate
/// leaves out.
fn print_expectation(
    output: &Output,
    report: &ChangeReport,
    expected: ExpectedAccuracy,
    answered: AnsweredClasses,
) -> Result<()> {
    let (expectation, has_estimate) = match answered {
        AnsweredClasses::All => (expectation_of_all(expected), expected.base.is_some() && expected.learned.is_some()),
        AnsweredClasses::Learned => {
            let learned = &report.classes[report.base_classes..];
            (expectation_of_learned(report.expected_learned_only, learned), report.expected_learned_only.is_some())
        }
    };
    say!(output, "expected accuracy on new pictures: {expectation}")?;
    if !has_estimate || report.too_few_shots.is_empty() {
        return Ok(());
    }
    let labels = join_first(report.too_few_shots.iter().map(|label| EscapedText(label)), MAX_LABELS, ", ");
    say!(output, "that leaves out {labels}: an estimate needs {ENOUGH_SHOTS}")
}

/// The shots of a class that an estimate for it needs.
const ENOUGH_SHOTS: &str = "three different shots, one of which no other class has";

/// What to expect if answers name all classes: a range for learned classes, where one is known.
fn expectation_of_all(expected: ExpectedAccuracy) -> String {
    let ExpectedAccuracy { base, learned, learned_range, .. } = expected;
    match (base.map(percent), learned_range.map(range).or(learned.map(percent))) {
        (Some(base), Some(learned)) => format!("base classes {base}, learned classes {learned}"),
        (Some(base), None) => format!("base classes {base}; for learned classes, an estimate needs {ENOUGH_SHOTS}"),
        (None, _) => "it cannot be told, since the bundle set no samples aside".to_owned(),
    }
}

/// What to expect if answers name learned classes alone, which are `classes`.
fn expectation_of_learned(expected: Option<LearnedOnlyAccuracy>, classes: &[ClassAccuracy]) -> String {
    if let Some(LearnedOnlyAccuracy { learned, learned_range, .. }) = expected {
        return format!("learned classes {}", learned_range.map_or_else(|| percent(learned), range));
    }
    // Without a left-out shot, nothing tells how far a picture of them may be behind base classes, nor how unlike the
    // shots: things that differ are refused then, and things that resemble each other hardly ever.
    match classes {
        [] | [_] => "an estimate needs two learned classes, since answers name no others".to_owned(),
        _ if classes.iter().any(|class| class.samples > 0) => format!("an estimate needs {ENOUGH_SHOTS}"),
        _ => format!(
            "an estimate needs {ENOUGH_SHOTS}; of things with a single shot, nearly all pictures may be unknown, or \
             hardly any"
        ),
    }
}

/// "80 to 95 %", or one number where people see no difference.
fn range([low, high]: [f32; 2]) -> String {
    let [least, most] = [low, high].map(percent);
    if least == most { most } else { format!("{:.0} to {most}", 100.0 * low) }
}

/// Says what only experts need: losses, exact shares, and the cost of all sessions together.
fn print_details(output: &Output, report: &ChangeReport) -> Result<()> {
    if let (Some(first), Some(last)) = (report.losses.first(), report.losses.last()) {
        let epochs = report.losses.len();
        say!(
            output,
            "loss {:.3} after the first epoch, {:.3} after the last of {epochs}",
            first.total(),
            last.total()
        )?;
    }
    if let Some(AccuracyChange { before, after }) = report.old_accuracy() {
        let [before, after] = [before, after].map(|share| 100.0 * share);
        say!(output, "stored samples of old classes recognised: {before:.1} % before, {after:.1} % after")?;
    }
    let forgotten = report.lost_since_first(0.0);
    if !forgotten.is_empty() {
        say!(
            output,
            "recognised less than at first, over all sessions: {}",
            forgetting_sentences::forgetting_sentence(&forgotten)
        )?;
    }
    let losses: Vec<String> = report.group_losses().iter().map(forgetting_sentences::group_sentence).collect();
    if !losses.is_empty() {
        say!(output, "recognised at first and now: {}", losses.join("; "))?;
    }
    Ok(())
}

/// The report as JSON: its summary, and the classes that changed; with `--verbose`, all classes and the losses.
///
/// # Panics
/// Never: serialising into memory cannot fail.
pub fn to_json(output: &Output, report: &ChangeReport, seconds: f64) -> Value {
    let mut result = json!(report.summary(usize::MAX));
    result["seconds"] = seconds.into();
    if output.is_verbose() {
        result["classes"] = json!(report.classes);
        result["losses"] = report.losses.iter().map(LossTerms::total).collect::<Vec<_>>().into();
    } else {
        let changed = report.classes.iter().filter(|class| class.before != Some(class.after));
        result["classes"] = json!(changed.collect::<Vec<_>>());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_room_accuracies_and_losses_in_words() {
        assert_eq!(room(512), "room for 512 more things");
        assert_eq!(room(1), "room for 1 more thing");
        assert!(room(0).contains("forget one"));
        let change = |before, after| old_classes(AccuracyChange { before, after });
        assert_eq!(change(0.905, 0.903), "classes known before: unchanged (90 %)");
        assert_eq!(change(0.9, 0.82), "classes known before: 90 % recognised before, 82 % now");
        assert!(is_visible_loss([1.0, 0.6], 5) && !is_visible_loss([1.0, 0.8], 5));
        assert!(!is_visible_loss([0.163, 0.158], 1000), "16 to 16 %");
        assert_eq!([part_of(0.6, 5, "shot"), part_of(1.0, 1, "sample")], ["3 of 5 shots", "1 of 1 sample"]);
        assert_eq!([[0.534, 0.99], [0.996, 1.0]].map(range), ["53 to 99 %", "100 %"]);
    }
}
