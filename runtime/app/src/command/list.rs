//! `orco list`.

use anyhow::Result;
use orco_runtime::state::label::EscapedText;
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};

/// Prints the known classes.
pub fn run(options: &Options, output: &Output) -> Result<Value> {
    let learner = device::open(options, output)?;
    let base_model = learner.base_model();
    let banks = [&base_model.exemplars, &learner.state().exemplars];
    let stored =
        |class: usize| banks.iter().flat_map(|bank| bank.classes()).filter(|&&member| member as usize == class).count();
    let mut listed = Vec::new();
    say!(output, "{:>5}  {:24} {:>9} {:>9}", "class", "label", "session", "exemplars")?;
    for (index, class) in learner.classes().enumerate() {
        let session = if class.session == 0 { "base".to_owned() } else { class.session.to_string() };
        say!(output, "{index:>5}  {:24} {session:>9} {:>9}", EscapedText(&class.label).to_string(), stored(index))?;
        listed.push(json!({
            "class": index, "label": class.label, "session": class.session, "exemplars": stored(index),
        }));
    }
    Ok(json!({ "classes": listed }))
}
