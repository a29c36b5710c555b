//! `orco history`.

use anyhow::Result;
use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::history::{ChangeKind, HistoryEntry};
use orco_runtime::state::sentence::{counted, join_first};
use serde::Serialize;
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{self, Output, say};
use crate::session_report;

/// A change in the JSON.
#[derive(Serialize)]
struct ListedEntry<'a> {
    entry: u32,
    /// What was done, in words.
    change: String,
    seconds_since_1970: Option<u64>,
    /// Labels of the classes that were learned by then.
    classes: Vec<&'a str>,
    exemplars: usize,
    sessions: u32,
}

impl<'a> ListedEntry<'a> {
    fn of(entry: &'a HistoryEntry) -> Self {
        Self {
            entry: entry.number,
            change: describe(entry),
            seconds_since_1970: entry.when,
            classes: entry.classes.iter().map(|known| known.class.label.as_str()).collect(),
            exemplars: entry.exemplars(),
            sessions: entry.sessions,
        }
    }
}

/// Prints the changes that are remembered, oldest first. A change and its undo are one line.
pub fn run(options: &Options, output: &Output) -> Result<Value> {
    let learner = device::open(options, output)?;
    let entries = learner.history().entries();
    let timeline = learner.history().timeline();
    say!(output, "{:>5}  {:16}  {:>7}  {:>9}  change", "entry", "time (UTC)", "classes", "exemplars")?;
    for entry in entries.iter().filter(|entry| output.is_verbose() || !learner.history().is_undo_or_redo(entry)) {
        let when = entry.when.map_or_else(|| "-".to_owned(), output::format_utc);
        let (count, exemplars, what) = (entry.classes.len(), entry.exemplars(), describe(entry));
        let now = if entry.number == timeline.present() { "  (now)" } else { "" };
        // Of an entry that went elsewhere, the changes there say so; a purge is never undone.
        let is_step = entry.kind != ChangeKind::Purge && !learner.history().is_undo_or_redo(entry);
        let is_undone = is_step && timeline.is_undone(entry.number);
        let undone = if is_undone { "  (undone)" } else { "" };
        say!(
            output,
            "{:>5}  {when:16}  {count:>7}  {exemplars:>9}  {}{now}{undone}",
            entry.number,
            EscapedText(&what)
        )?;
    }
    let listed: Vec<ListedEntry<'_>> = entries.iter().map(ListedEntry::of).collect();
    say!(
        output,
        "{} can be undone, {} redone; the history takes {} bytes",
        counted(timeline.earlier().len(), "change"),
        timeline.later().len(),
        learner.history().bytes()
    )?;
    Ok(json!({
        "entries": listed, "bytes": learner.history().bytes(), "present": timeline.present(),
        "undo": timeline.earlier(), "redo": timeline.later(),
    }))
}

/// What was done, in words.
pub fn describe(entry: &HistoryEntry) -> String {
    let label = |label: &String| if label.is_empty() { "(purged)".to_owned() } else { label.clone() };
    let names: Vec<String> = entry.names.iter().map(|name| label(&name.label)).collect();
    let what = entry.kind.past_tense();
    match (entry.kind, entry.restored_entry, &names[..]) {
        (ChangeKind::Undo, Some(number), _) => format!("{what} to entry {number}"),
        (ChangeKind::Rename | ChangeKind::Move, _, [from, to]) => format!("{what} {from} to {to}"),
        (ChangeKind::Purge, ..) => format!("{what} a class"),
        (ChangeKind::Balance, ..) => format!("{what} {}", entry.balance.name()),
        (_, _, []) => what.to_owned(),
        _ => format!("{what} {}", join_first(names.iter(), session_report::MAX_CLASSES, ", ")),
    }
}
