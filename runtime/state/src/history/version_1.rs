//! Bodies of version 1, whose entries do not say how the classes were recognised at first.

use alloc::vec::Vec;

use serde::Deserialize;

use super::{Entry, HeadMark, History, Known, Name, Saved, Verb};
use crate::bank::Bank;
use crate::state::State;

#[derive(Deserialize)]
struct SavedThen {
    state: State,
    history: HistoryThen,
}

#[derive(Deserialize)]
struct HistoryThen {
    entries: Vec<EntryThen>,
    attic: Bank,
    next_class: u32,
}

#[derive(Deserialize)]
struct EntryThen {
    number: u32,
    verb: Verb,
    names: Vec<Name>,
    to: Option<u32>,
    when: Option<u64>,
    seed: u64,
    sessions: u32,
    classes: Vec<Known>,
    exemplars: Vec<u32>,
    exemplar_classes: Vec<u32>,
    head: HeadMark,
}

/// Reads such a body.
pub(crate) fn decode(body: &[u8]) -> Option<Saved> {
    let (SavedThen { state, history }, []) = postcard::take_from_bytes(body).ok()? else { return None };
    let entry = |then: EntryThen| {
        let EntryThen { number, verb, names, to, when, seed, sessions, classes, exemplars, exemplar_classes, head } =
            then;
        let origins = Vec::new();
        Entry { number, verb, names, to, when, seed, sessions, classes, exemplars, exemplar_classes, head, origins }
    };
    let HistoryThen { entries, attic, next_class } = history;
    let history = History { entries: entries.into_iter().map(entry).collect(), attic, next_class };
    Some(Saved { state, history })
}
