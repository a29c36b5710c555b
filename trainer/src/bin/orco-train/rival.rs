//! `orco-train rival`: one rival after the other, by one seed after the other.

use anyhow::{Context, Result};
use clap::ValueEnum;
use orco_lab::seeds::OverSeeds;
use orco_lab::shown::print;
use orco_trainer::config::Recipe;
use orco_trainer::distributed::Group;
use orco_trainer::failure::guarded;
use orco_trainer::interrupt::{self, Work};
use orco_trainer::rival::{Rival, check, heading, line, of_sessions, write, write_over_seeds};

use crate::arguments::{Common, Rivals};
use crate::job::{self, Job};

/// Trains and measures the rivals that are asked for, by so many seeds from the recipe's on. The images are read once;
/// rivals on the same backbone share it. What others were measured by the same recipe, over however many draws, stands in
/// the files beside them.
///
/// # Errors
/// If the recipe trains no backbone, or a rival cannot be trained or measured; what is done by then is kept.
pub fn all(rivals: &Rivals, common: &Common, request: &serde_json::Value, (seeds, draws): (u32, usize)) -> Result<()> {
    interrupt::of_several();
    let group = Group::alone();
    let (first, mut data) = job::begin(common, &group)?;
    check(&first)?;
    let of_seed = |more: u32| -> Result<Recipe> {
        let seed = first.seed.checked_add(more.into()).context("there are not so many seeds after the recipe's")?;
        Ok(Recipe { seed, ..first.clone() })
    };
    let recipes = (0..seeds).map(of_seed).collect::<Result<Vec<_>>>()?;
    let sessions = of_sessions(&data)?;
    let mut each = vec![Vec::new(); rivals.0.len()];
    for recipe in &recipes {
        let of = if seeds > 1 { format!(", seed {}", recipe.seed) } else { String::new() };
        print(format!("{}{of}, draws: {draws}\n{}", recipe.name, heading(recipe)))?;
        let folder = |rival: Rival| common.run.join(format!("{}-{}", rival.backbone(), &rival.digest(recipe)[..12]));
        for (&rival, each) in rivals.0.iter().zip(&mut each) {
            log::info!("rival \"{}\"{of}", rival.name());
            let own = Common { run: folder(rival), ..common.clone() };
            let mut job = Job::over(recipe.clone(), data, &own, request.clone(), &group)?;
            interrupt::enter(Work::Run);
            job.data.train.settle(job.model.device());
            let measured = || rival.measure(&mut job.model, recipe, &job.data, &job.run, (&sessions, draws));
            let summary = guarded("pretrain.batch", measured).with_context(|| rival.name())?;
            print(line(rival, recipe, &summary))?;
            each.push(summary);
            data = job.data;
            let all = Rival::value_variants().iter().copied();
            let measured: Vec<_> =
                all.filter_map(|rival| Some((rival, rival.kept(recipe, &sessions, &folder(rival))?))).collect();
            write(&common.run, measured, recipe)?;
        }
    }
    if seeds > 1 {
        print(OverSeeds::heading())?;
        let over: Vec<_> = rivals.0.iter().copied().zip(each).collect();
        for (_, each) in &over {
            print(OverSeeds::of(each).line())?;
        }
        write_over_seeds(&common.run, &over, &recipes)?;
    }
    Ok(())
}
