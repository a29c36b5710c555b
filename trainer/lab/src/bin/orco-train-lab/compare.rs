//! `orco-train-lab compare`: g alone beside f and g, in the incremental sessions.

use anyhow::{Context, Result};
use orco_lab::format::print;
use orco_runtime::encoder::onnx;
use orco_trainer::data::digest::session_digest;
use orco_trainer::job::{self, TrainingArguments, TrainingJob};
use orco_trainer::platform::failure::catch_torch;
use orco_trainer::platform::interrupt;
use orco_trainer_lab::comparison::{check, compare, table};
use orco_trainer_lab::measurements::Experiment;

/// Trains both phases as far as they are not done yet, and measures the learners; of several ranks, the first alone.
///
/// # Errors
/// If the recipe leaves nothing to compare, or something cannot be trained or measured.
pub fn run(common: &TrainingArguments, request: serde_json::Value, draws: usize, shares: &[f64]) -> Result<()> {
    interrupt::continue_with(Some("orco-train-lab resume"));
    let group = job::join(common)?;
    if !group.is_first() {
        return job::follow(common, request, &group);
    }
    sigpipe::reset();
    onnx::start().context("the runtime's learner needs ONNX Runtime; see `orco-train doctor`")?;
    let mut job = TrainingJob::open_for_both_phases(common, request, &group)?;
    check(&job.model, &job.recipe.learn, shares)?;
    job.pretrain(None)?;
    let targets = job.align()?;
    let TrainingJob { recipe, data, model, run } = &mut job;
    let experiment = Experiment { recipe, data, run, sessions: &session_digest(data)?, draws };
    let compared = || compare(model, &targets, &experiment, shares);
    let summaries = catch_torch("learn.batch", compared).context("comparison")?;
    Ok(print(table(&summaries, draws))?)
}
