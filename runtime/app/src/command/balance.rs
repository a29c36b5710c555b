//! `orco balance`.

use std::time::Instant;

use anyhow::Result;
use clap::{Args, ValueEnum};
use orco_runtime::state::Balance;
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::progress::ProgressBars;
use crate::session_report;

/// Arguments of `orco balance`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// How base classes are weighed against learned ones from now on.
    #[arg(value_enum)]
    balance: BalanceArgument,
}

/// [`Balance`], as the command line names it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum BalanceArgument {
    /// Old answers stay as they were, wherever possible: accuracy over all classes counts four times as much as the
    /// harmonic mean of both sides, in which base classes count three times as much
    KeepBase,
    /// Accuracy over all classes counts as much as the harmonic mean of both sides, or more where answers would
    /// otherwise be right less often than those of the nearest class mean
    Balanced,
    /// The harmonic mean alone counts: of base classes and new ones alike
    FavourNew,
}

impl BalanceArgument {
    /// As the library takes it.
    fn balance(self) -> Balance {
        match self {
            Self::KeepBase => Balance::KeepBase,
            Self::Balanced => Balance::Balanced,
            Self::FavourNew => Balance::FavourNew,
        }
    }
}

/// Moves the border between base classes and learned ones, and saves the new state. Scripts may set the balance again:
/// that is no change.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let started = Instant::now();
    let balance = arguments.balance.balance();
    let mut learner = device::open(options, output)?;
    let before = learner.state().calibration;
    let saves = learner.generation();
    let set = learner.set_balance(balance, &mut ProgressBars::default())?;
    if learner.generation() == saves {
        say!(output, "nothing to do: the balance is {} already", balance.name())?;
        return Ok(json!({ "balance": balance.name() }));
    }
    let report = session_report::note_outcome(output, set);
    let seconds = started.elapsed().as_secs_f64();
    let what = format!("set the balance to {}", balance.name());
    session_report::print(output, &report, &what, seconds, learner.answered_classes())?;
    if learner.is_learned_only() {
        say!(output, "the balance makes little difference while answers name only what was learned")?;
    } else if before.is_some_and(|before| Some(before.border) == learner.state().calibration.map(|after| after.border))
    {
        say!(output, "the border stays where it is: by the stored samples it is the best one for this balance too")?;
    }
    let mut result = session_report::to_json(output, &report, seconds);
    result["balance"] = balance.name().into();
    Ok(result)
}
