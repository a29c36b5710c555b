//! `orco-train ablate`: the trials of a question, one after the other.

use anyhow::Result;
use orco_lab::published::{Reading, settings_for};
use orco_lab::shown::print;
use orco_trainer::ablate::{Question, claim, heading, line, of_sessions, write};
use orco_trainer::platform::distributed::Group;
use orco_trainer::platform::failure::guarded;
use orco_trainer::platform::interrupt;
use orco_trainer::train::align::SharedFeatures;
use orco_trainer::train::pretrain;

use crate::arguments::Common;
use crate::job::{self, Job};

/// Trains and measures every trial. The images are read once; trials with the same phase 1 share it.
///
/// # Errors
/// If the recipe leaves nothing to vary, or a trial cannot be trained or measured; what is done by then is kept.
pub fn all(
    (question, reading): (Question, Reading),
    common: &Common,
    request: &serde_json::Value,
    draws: usize,
) -> Result<()> {
    interrupt::of_several();
    // Before hours of training.
    claim(&common.run, question.name())?;
    let group = Group::alone();
    let (recipe, mut data) = job::begin(common, &group)?;
    let trials = question.trials(&recipe, reading)?;
    let of = settings_for(recipe.data.kind.title()).name();
    let (name, recipe_name) = (question.name(), &recipe.name);
    print(format!("{name} on {recipe_name}, draws: {draws}; {reading} for {of}\n{}", heading()))?;
    let sessions = of_sessions(&data)?;
    let mut features = SharedFeatures::default();
    let mut measured = Vec::new();
    for trial in trials {
        log::info!("trial \"{}\"", trial.name);
        let below = |folder: String| Common { run: common.run.join(folder), ..common.clone() };
        let phase_1 = below(format!("phase-1-{}", &trial.phase_1()[..12]));
        let mut job = Job::over(trial.recipe.clone(), data, &phase_1, request.clone(), &group)?;
        job.pretrain(None)?;
        data = job.data;
        let own =
            if question.is_of_phase_3() { trial.name.into() } else { format!("{}/{}", question.name(), trial.name) };
        let own = below(own.replace(' ', ""));
        let mut job = Job::over(trial.recipe.clone(), data, &own, request.clone(), &group)?;
        job.run.take_over(pretrain::CHECKPOINT, &phase_1.run)?;
        job.pretrain(None)?;
        let targets = job.align_sharing(&mut features)?;
        let model = (&mut job.model, &targets);
        let summaries =
            guarded("learn.batch", || trial.measure(question, model, &job.data, &job.run, (&sessions, draws)))?;
        for (summary, theirs) in summaries.into_iter().zip(trial.theirs) {
            print(line(&summary, theirs.as_ref()))?;
            measured.push((summary, theirs));
        }
        write(&common.run, question, &measured, &recipe)?;
        data = job.data;
    }
    Ok(())
}
