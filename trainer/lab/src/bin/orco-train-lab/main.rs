//! `orco-train-lab`: research that trains backbones, or chooses settings.

mod ablate;
mod arguments;
mod compare;
mod resume;
mod rival;

use anyhow::{Context, Result};
use clap::Parser;
use orco_lab::question::Question;
use orco_runtime::encoder::onnx;
use orco_trainer::job::{program, request};
use orco_trainer_lab::tuning::tune;

use crate::arguments::{Cli, Command};

fn main() {
    program::set_up();
    let command = Cli::parse().command;
    program::run(resume::threads(&command), || run(command));
}

fn run(command: Command) -> Result<()> {
    let request = request::encode(&command)?;
    match command {
        Command::Compare { common, draws, backbone_rates } => {
            compare::run(&common, request, draws as usize, &backbone_rates)
        }
        Command::Ablate { question, common, reading, draws } => {
            sigpipe::reset();
            onnx::start().context("the runtime's learner needs ONNX Runtime; see `orco-train doctor`")?;
            let question = Question::named(&question).context("no such question")?;
            ablate::run(question, reading, &common, &request, draws as usize)
        }
        Command::Rival { rivals, common, seeds, draws } => {
            sigpipe::reset();
            rival::run(&rivals, &common, &request, seeds, draws as usize)
        }
        Command::Resume { run: folder } => run(resume::stored(&folder)?),
        Command::Tune { bundle, trials, draws, seed } => {
            // A table for reading, unlike training, which outlives whoever reads its log.
            sigpipe::reset();
            tune(&bundle, &trials, draws as usize, seed)
        }
    }
}
