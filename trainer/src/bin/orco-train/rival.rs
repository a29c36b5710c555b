//! `orco-train rival`: one rival after the other.

use anyhow::{Context, Result};
use clap::ValueEnum;
use orco_lab::shown::print;
use orco_trainer::distributed::Group;
use orco_trainer::failure::guarded;
use orco_trainer::interrupt::{self, Work};
use orco_trainer::rival::{Rival, check, heading, line, of_sessions, write};

use crate::arguments::{Common, Rivals};
use crate::job::{self, Job};

/// Trains and measures the rivals that are asked for. The images are read once; rivals on the same backbone share it.
/// What others were measured by the same recipe, over however many draws, stands in the files beside them.
///
/// # Errors
/// If the recipe trains no backbone, or a rival cannot be trained or measured; what is done by then is kept.
pub fn all(rivals: &Rivals, common: &Common, request: &serde_json::Value, draws: usize) -> Result<()> {
    interrupt::of_several();
    let group = Group::alone();
    let (recipe, mut data) = job::begin(common, &group)?;
    check(&recipe)?;
    print(format!("{}, draws: {draws}\n{}", recipe.name, heading(&recipe)))?;
    let sessions = of_sessions(&data)?;
    let folder = |rival: Rival| common.run.join(format!("{}-{}", rival.backbone(), &rival.digest(&recipe)[..12]));
    for &rival in &rivals.0 {
        log::info!("rival \"{}\"", rival.name());
        let own = Common { run: folder(rival), ..common.clone() };
        let mut job = Job::over(recipe.clone(), data, &own, request.clone(), &group)?;
        interrupt::enter(Work::Run);
        job.data.train.settle(job.model.device());
        let measured = || rival.measure(&mut job.model, &recipe, &job.data, &job.run, (&sessions, draws));
        let summary = guarded("pretrain.batch", measured).with_context(|| rival.name())?;
        print(line(rival, &recipe, &summary))?;
        data = job.data;
        let all = Rival::value_variants().iter().copied();
        let measured: Vec<_> =
            all.filter_map(|rival| Some((rival, rival.kept(&recipe, &sessions, &folder(rival))?))).collect();
        write(&common.run, measured, &recipe)?;
    }
    Ok(())
}
