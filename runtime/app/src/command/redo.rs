//! `orco redo`.

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::undo::go_to_class_set;
use crate::change_options::AlignmentOptions;
use crate::options::Options;
use crate::output::Output;

/// Arguments of `orco redo`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// How many changes to redo.
    #[arg(value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    changes: u32,
    #[command(flatten)]
    alignment: AlignmentOptions,
}

/// Restores a class set that was undone, and saves it as the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    go_to_class_set(options, output, arguments.alignment, "redid up to", |learner, progress| {
        learner.redo(arguments.changes as usize, progress)
    })
}
