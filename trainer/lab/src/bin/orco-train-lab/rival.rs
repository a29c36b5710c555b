//! `orco-train-lab rival`: trains and measures rivals, by one seed or several.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use orco_benchmark::Summary;
use orco_benchmark::benchmark::distinct_draws;
use orco_lab::format::{print, say_of_draws, shell_word};
use orco_lab::results::claim;
use orco_lab::rival_results::RivalRun;
use orco_lab::seeds::SeedSummary;
use orco_trainer::config::{Recipe, SHOTS};
use orco_trainer::data::digest::session_digest;
use orco_trainer::job::{self, MAX_SEED, TrainingArguments, TrainingJob};
use orco_trainer::platform::device::DeviceChoice;
use orco_trainer::platform::distributed::RankGroup;
use orco_trainer::platform::failure::catch_torch;
use orco_trainer::platform::interrupt::{self, Activity};
use orco_trainer_lab::measurements::{Experiment, ResultsContext};
use orco_trainer_lab::rival::{MeasuredRival, Rival, check, heading, line, write, write_over_seeds};

use crate::arguments::Rivals;

/// Trains and measures the rivals that are asked for, by so many seeds from the recipe's on, all on the images and
/// shots that the recipe's own draws. The images are read once; rivals on the same backbone share it. What others were
/// measured by the same recipe stands in the files beside them: by its own seed over however many draws, by all seeds
/// over as many.
///
/// # Errors
/// If the recipe trains no backbone, or a rival cannot be trained or measured; what is done by then is kept.
pub fn run(
    rivals: &Rivals,
    common: &TrainingArguments,
    request: &serde_json::Value,
    seeds: u32,
    asked: usize,
) -> Result<()> {
    interrupt::continue_with(None);
    // Before hours of training.
    ["rivals", "rivals-seeds"].into_iter().try_for_each(|name| claim(&common.run, name))?;
    let group = RankGroup::alone();
    let (first, mut data) = job::open_training_data(common, &group)?;
    check(&first)?;
    let recipes = by_seeds(&first, seeds)?;
    // Of draws that hold the same shots, one is measured: deviations are over shots, and seeds vary the rest.
    let draws = distinct_draws(asked, SHOTS, data.split.candidates.iter().map(Vec::len));
    say_of_draws(draws, asked)?;
    let sessions = session_digest(&data)?;
    let context = ResultsContext { recipe: &first, test_seed: data.test_seed, draws };
    let training = RivalTrainingRequest { common, base_images: data.split.base.len(), context };
    let folders = RivalFolders { run: &common.run, data_seed: first.seed, sessions: &sessions };
    for recipe in &recipes {
        let of = if seeds > 1 { format!(", seed {}", recipe.seed) } else { String::new() };
        print(format!("{}{of}, draws: {draws}\n{}", recipe.name, heading(recipe)))?;
        for &rival in &rivals.0 {
            log::info!("rival \"{}\"{of}", rival.name());
            let own = TrainingArguments { run: folders.of(rival, recipe), ..common.clone() };
            let mut job = TrainingJob::with_data(recipe.clone(), data, &own, request.clone(), &group)?;
            interrupt::enter(Activity::Run);
            job.data.train.move_pixels_to(job.model.device());
            let TrainingJob { data: images, model, run, .. } = &mut job;
            let experiment = Experiment { recipe, data: images, run, sessions: &sessions, draws };
            let measured = || rival.measure(model, &experiment);
            let summary = catch_torch("pretrain.batch", measured).with_context(|| rival.name())?;
            print(line(rival, recipe, &summary))?;
            data = job.data;
            if recipe.seed == first.seed {
                let measured = |rival| Some(MeasuredRival { rival, measured: folders.kept(rival, &first)? });
                let measured: Vec<_> = Rival::ALL.into_iter().filter_map(measured).collect();
                write(&common.run, &measured, &training.run(&measured, 1), context)?;
            }
        }
    }
    if seeds > 1 { write_and_print_over_seeds(rivals, &recipes, &folders, &training) } else { Ok(()) }
}

/// A recipe with `seeds` seeds, from its own on.
fn by_seeds(first: &Recipe, seeds: u32) -> Result<Vec<Recipe>> {
    let of_seed = |more: u32| -> Result<Recipe> {
        let seed = first.seed.checked_add(more.into()).filter(|seed| *seed <= MAX_SEED);
        let seed = seed.with_context(|| format!("--seeds goes beyond {MAX_SEED}, the last seed there is"))?;
        Ok(Recipe { seed, ..first.clone() })
    };
    (0..seeds).map(of_seed).collect()
}

/// What was asked for, as files of results tell it.
struct RivalTrainingRequest<'a> {
    common: &'a TrainingArguments,
    /// Images of base classes that are trained on.
    base_images: usize,
    /// The recipe with the first seed, and draws of the shots.
    context: ResultsContext<'a>,
}

impl RivalTrainingRequest<'_> {
    /// How rivals were trained, with this number of seeds.
    fn run<T>(&self, measured: &[MeasuredRival<T>], seeds: usize) -> RivalRun {
        let Self { common, base_images, context: ResultsContext { recipe, draws, .. } } = *self;
        let rivals: Vec<Rival> = measured.iter().map(|of| of.rival).collect();
        RivalRun {
            command: command(&rivals, common, draws, seeds),
            image_size: recipe.data.side(),
            base_images,
            steps: recipe.pretrain.epochs * recipe.pretrain.steps_per_epoch(base_images),
            lengths: rivals.iter().filter_map(|rival| rival.extra_training()).map(str::to_owned).collect(),
        }
    }
}

/// The command that measures these rivals again. Folders of this machine mean nothing elsewhere: names stand for them.
fn command(rivals: &[Rival], common: &TrainingArguments, draws: usize, seeds: usize) -> String {
    let names: Vec<&str> = rivals.iter().map(|rival| rival.name()).collect();
    let names = if names.len() == Rival::ALL.len() { "all".to_owned() } else { names.join(",") };
    let images = &common.images;
    let recipe = images.recipe.as_path();
    let recipe = if recipe.is_absolute() { Path::new(recipe.file_name().unwrap_or_default()) } else { recipe };
    let shown = |option: &str, value: Option<String>| value.map(|value| format!(" --{option} {value}"));
    let options = [
        shown("data", images.data.as_ref().map(|_| "DATA".to_owned())),
        shown("lists", images.lists.as_ref().map(|_| "LISTS".to_owned())),
        images.skip_broken.then(|| " --skip-broken".to_owned()),
        shown("seed", images.seed.map(|seed| seed.to_string())),
        shown("run", Some("RUN".to_owned())),
        shown("draws", Some(draws.to_string())),
        shown("seeds", (seeds > 1).then(|| seeds.to_string())),
        shown("threads", common.threads.map(|threads| threads.to_string())),
        shown("device", (common.device != DeviceChoice::Auto).then(|| common.device.to_string())),
    ];
    let options: String = options.into_iter().flatten().collect();
    format!("cargo xtask train-lab rival {names} {}{options}", shell_word(&recipe.to_string_lossy()))
}

/// Where rivals keep what is measured of them, by recipe.
struct RivalFolders<'a> {
    /// The folder that holds all of them.
    run: &'a Path,
    /// The seed by which images and shots were drawn.
    data_seed: u64,
    /// Digest of the sessions.
    sessions: &'a str,
}

impl RivalFolders<'_> {
    fn of(&self, rival: Rival, recipe: &Recipe) -> PathBuf {
        self.run.join(format!("{}-{}", rival.backbone(), &rival.digest(recipe, self.data_seed)[..12]))
    }

    /// What was measured of a rival by a recipe, if it was.
    fn kept(&self, rival: Rival, recipe: &Recipe) -> Option<Summary> {
        rival.kept(recipe, self.sessions, &self.of(rival, recipe))
    }
}

/// Writes the rivals that were measured by all recipes, one for each seed, and prints those that were asked for.
fn write_and_print_over_seeds(
    rivals: &Rivals,
    recipes: &[Recipe],
    folders: &RivalFolders<'_>,
    training: &RivalTrainingRequest<'_>,
) -> Result<()> {
    let draws = training.context.draws;
    let each = |rival: Rival| {
        let each = recipes.iter().map(|recipe| folders.kept(rival, recipe).filter(|kept| kept.draws == draws));
        Some(MeasuredRival { rival, measured: each.collect::<Option<Vec<_>>>()? })
    };
    let measured: Vec<_> = Rival::ALL.into_iter().filter_map(each).collect();
    let run = training.run(&measured, recipes.len());
    let seeds: Vec<u64> = recipes.iter().map(|recipe| recipe.seed).collect();
    let over = write_over_seeds(folders.run, &measured, &seeds, &run, training.context)?;
    print(SeedSummary::heading())?;
    for (_, over) in measured.iter().zip(&over).filter(|(of, _)| rivals.0.contains(&of.rival)) {
        print(over.line())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::{Cli, Command};

    #[test]
    fn the_command_that_measures_again_names_no_folder_of_this_machine() {
        let asked = |words: &str| {
            let Command::Rival { common, .. } = Cli::parse_from(words.split(' ')).command else {
                panic!("another command")
            };
            common
        };
        let recipe = "trainer/recipes/cifar100-rivals.toml";
        let all = asked(&format!(
            "orco-train-lab rival all {recipe} --data ../cifar --lists /lists --run /tmp/run --threads 1 --device cpu"
        ));
        assert_eq!(
            command(&Rival::ALL, &all, 3, 2),
            format!(
                "cargo xtask train-lab rival all {recipe} --data DATA --lists LISTS --run RUN --draws 3 --seeds 2 \
                 --threads 1 --device cpu"
            )
        );
        let some = asked("orco-train-lab rival fact /home/me/own.toml --run run --seed 7 --skip-broken");
        let [baseline, fact, ..] = Rival::ALL;
        assert_eq!(
            command(&[baseline, fact], &some, 1, 1),
            "cargo xtask train-lab rival baseline,fact own.toml --skip-broken --seed 7 --run RUN --draws 1"
        );
        let quoted = asked("orco-train-lab rival fact it's.toml --run run");
        assert_eq!(
            command(&[fact], &quoted, 1, 1),
            r"cargo xtask train-lab rival fact 'it'\''s.toml' --run RUN --draws 1"
        );
    }
}
