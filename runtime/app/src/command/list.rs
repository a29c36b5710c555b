//! `orco list`.

use anyhow::Result;
use orco_runtime::state::escape::EscapedText;
use orco_runtime::state::sentence::counted;
use serde::Serialize;
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};

/// A class in the JSON.
#[derive(Serialize)]
struct ListedClass<'a> {
    class: usize,
    label: &'a str,
    /// The session that taught it; 0 of a base class.
    session: u32,
    /// Whether it is a base class in whose place a learned one is answered.
    replaced: bool,
    exemplars: usize,
}

/// Prints the known classes, learned ones first; the JSON has base classes first, by index.
pub fn run(options: &Options, output: &Output) -> Result<Value> {
    let learner = device::open(options, output)?;
    let (base_model, state) = (learner.base_model(), learner.state());
    let banks = [&base_model.exemplars, &state.exemplars];
    let stored =
        |class: usize| banks.iter().flat_map(|bank| bank.classes()).filter(|&&member| member as usize == class).count();
    let replaced = state.replaced(base_model);
    let listed = learner.classes().enumerate().map(|(index, class)| ListedClass {
        class: index,
        label: &class.label,
        session: class.session,
        replaced: replaced.get(index) == Some(&true),
        exemplars: stored(index),
    });
    let listed: Vec<ListedClass<'_>> = listed.collect();
    let (base, learned) = listed.split_at(base_model.classes.len());
    say!(output, "{:>5}  {:24} {:>9} {:>9}", "class", "label", "session", "exemplars")?;
    for ListedClass { class, label, session, replaced, exemplars } in learned.iter().chain(base) {
        let session = match session {
            0 if *replaced => "replaced".to_owned(),
            0 => "base".to_owned(),
            session => session.to_string(),
        };
        say!(output, "{class:>5}  {:24} {session:>9} {exemplars:>9}", EscapedText(label).to_string())?;
    }
    if learner.is_learned_only() {
        say!(output, "answers name only what was learned: {}", counted(learned.len(), "class"))?;
    }
    Ok(json!({ "classes": listed, "learned_only": learner.is_learned_only() }))
}
