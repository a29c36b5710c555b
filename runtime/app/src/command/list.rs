//! `orco list`.

use anyhow::Result;
use orco_runtime::state::Class;
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

/// Prints the known classes, learned ones first.
pub fn run(options: &Options, output: &Output) -> Result<Value> {
    let learner = device::open(options, output)?;
    let base_model = learner.base_model();
    let banks = [&base_model.exemplars, &learner.state().exemplars];
    let stored =
        |class: usize| banks.iter().flat_map(|bank| bank.classes()).filter(|&&member| member as usize == class).count();
    let replaced = learner.state().replaced(base_model);
    let is_replaced = |class: usize| replaced.get(class) == Some(&true);
    let (base, known): (usize, Vec<&Class>) = (base_model.classes.len(), learner.classes().collect());
    say!(output, "{:>5}  {:24} {:>9} {:>9}", "class", "label", "session", "exemplars")?;
    for index in (base..known.len()).chain(0..base) {
        let class = known[index];
        let session = match class.session {
            0 if is_replaced(index) => "replaced".to_owned(),
            0 => "base".to_owned(),
            session => session.to_string(),
        };
        say!(output, "{index:>5}  {:24} {session:>9} {:>9}", EscapedText(&class.label).to_string(), stored(index))?;
    }
    if learner.is_learned_only() {
        say!(output, "answers name only what was learned: {}", counted(known.len() - base, "class"))?;
    }
    let listed = known.iter().enumerate().map(|(index, class)| ListedClass {
        class: index,
        label: &class.label,
        session: class.session,
        replaced: is_replaced(index),
        exemplars: stored(index),
    });
    Ok(json!({ "classes": listed.collect::<Vec<_>>(), "learned_only": learner.is_learned_only() }))
}
