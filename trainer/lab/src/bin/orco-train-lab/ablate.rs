//! `orco-train-lab ablate`: the variants of a question, one after the other.

use anyhow::Result;
use orco_benchmark::benchmark::distinct_draws;
use orco_lab::format::{print, say_of_draws};
use orco_lab::phase3_ablations::AblationResults;
use orco_lab::published::{PaperReading, ablation_heading, ablation_line, settings_for};
use orco_lab::question::Question;
use orco_lab::results::claim;
use orco_trainer::config::SHOTS;
use orco_trainer::data::digest::session_digest;
use orco_trainer::job::{self, TrainingArguments, TrainingJob};
use orco_trainer::platform::distributed::RankGroup;
use orco_trainer::platform::failure::catch_torch;
use orco_trainer::platform::interrupt;
use orco_trainer::run::PRETRAIN_CHECKPOINT;
use orco_trainer::train::base_align::SharedFeatures;
use orco_trainer_lab::ablation::{measure, phase_1_digest, trains_the_recipe, variants, write};
use orco_trainer_lab::measurements::{Experiment, ResultsContext};

/// Trains and measures every variant. The images are read once; variants with the same phase 1 share it.
///
/// # Errors
/// If the recipe leaves nothing to vary, or a variant cannot be trained or measured; what is done by then is kept.
pub fn run(
    question: Question,
    reading: PaperReading,
    common: &TrainingArguments,
    request: &serde_json::Value,
    asked: usize,
) -> Result<()> {
    interrupt::continue_with(None);
    // Before hours of training.
    claim(&common.run, &AblationResults::file(question, reading))?;
    let group = RankGroup::alone();
    let (recipe, mut data) = job::open_training_data(common, &group)?;
    let variants = variants(question, &recipe, reading)?;
    let of = settings_for(recipe.data.kind.title()).name();
    let (name, recipe_name) = (question.name(), &recipe.name);
    // What is trained anew for each draw differs with its seed.
    let candidates = data.split.candidates.iter().map(Vec::len);
    let draws = if question == Question::Frozen { asked } else { distinct_draws(asked, SHOTS, candidates) };
    print(format!("{name} on {recipe_name}, draws: {draws}; {reading} for {of}"))?;
    say_of_draws(draws, asked)?;
    print(ablation_heading())?;
    let sessions = session_digest(&data)?;
    let mut features = SharedFeatures::default();
    let mut measured = Vec::new();
    for variant in variants {
        log::info!("variant \"{}\"", variant.name);
        let below = |folder: String| TrainingArguments { run: common.run.join(folder), ..common.clone() };
        let shared = below(format!("phase-1-{}", &phase_1_digest(&variant)[..12]));
        let mut job = TrainingJob::with_data(variant.settings.clone(), data, &shared, request.clone(), &group)?;
        job.pretrain(None)?;
        data = job.data;
        let folder = if trains_the_recipe(question) {
            variant.name.clone()
        } else {
            format!("{}/{}", question.name(), variant.name)
        };
        let own = below(folder.replace(' ', ""));
        let mut job = TrainingJob::with_data(variant.settings.clone(), data, &own, request.clone(), &group)?;
        job.run.take_over(PRETRAIN_CHECKPOINT, &shared.run)?;
        job.pretrain(None)?;
        let targets = job.align_sharing(&mut features)?;
        let TrainingJob { recipe: varied, data: images, model, run } = &mut job;
        let experiment = Experiment { recipe: varied, data: images, run, sessions: &sessions, draws };
        let summaries =
            catch_torch("learn.batch", || measure(question, reading, &variant, model, &targets, &experiment))?;
        for summary in summaries {
            print(ablation_line(question, &summary))?;
            measured.push(summary);
        }
        data = job.data;
        let context = ResultsContext { recipe: &recipe, test_seed: data.test_seed, draws };
        write(&common.run, question, reading, &measured, context)?;
    }
    Ok(())
}
