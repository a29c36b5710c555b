//! How a comparison is continued.

use std::path::Path;

use anyhow::{Result, bail};
use orco_trainer::job::request;
use orco_trainer::run::RunRecord;

use crate::arguments::Command;

/// Commands of `orco-train`, whose runs look like ours.
const OF_THE_TRAINER: [&str; 3] = ["pretrain", "align", "run"];

/// The command that continues the comparison in a folder, which may have been carried anywhere since it was begun.
///
/// # Errors
/// If the folder holds no comparison, or one that does not say how it was begun.
pub fn stored(folder: &Path) -> Result<Command> {
    let stored = RunRecord::read(folder)?.request;
    if let Some(verb) = OF_THE_TRAINER.iter().find(|verb| stored.get(verb).is_some()) {
        bail!("{} holds a run of `orco-train {verb}`, which `orco-train resume` continues", folder.display());
    }
    let mut command = request::decode(stored, folder)?;
    match &mut command {
        Command::Compare { common, .. } => common.continue_in(folder),
        Command::Ablate { .. } | Command::Rival { .. } => bail!(
            "{} holds no run that could be resumed: it is part of what `orco-train-lab ablate` or `rival` trains; the \
             command that began it goes on with it",
            folder.display()
        ),
        Command::Tune { .. } | Command::Resume { .. } => bail!("{} holds no run", folder.display()),
    }
    Ok(command)
}

/// The number of threads that a command, or the one that it resumes, names.
pub fn threads(command: &Command) -> Option<i32> {
    match command {
        Command::Compare { common, .. } | Command::Ablate { common, .. } | Command::Rival { common, .. } => {
            common.threads
        }
        Command::Resume { run } => threads(&stored(run).ok()?),
        Command::Tune { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::arguments::Cli;

    #[test]
    fn a_comparison_is_continued_where_it_lies() {
        let words = "orco-train-lab compare a.toml --run first --draws 3 --threads 2 --backbone-rate 0.1";
        let command = Cli::parse_from(words.split(' ')).command;
        let folder = tempfile::tempdir().unwrap();
        let record = RunRecord::new(1, tch::Device::Cpu, request::encode(&command).unwrap());
        std::fs::write(folder.path().join("run.json"), serde_json::to_string(&record).unwrap()).unwrap();
        std::fs::write(folder.path().join("recipe.toml"), "").unwrap();
        let Command::Compare { common, draws, backbone_rates } = stored(folder.path()).unwrap() else {
            panic!("another command")
        };
        assert_eq!((common.run.as_path(), draws, &backbone_rates[..]), (folder.path(), 3, &[0.1][..]));
        assert_eq!(common.images.recipe, folder.path().join("recipe.toml"));
        assert_eq!(threads(&Command::Resume { run: folder.path().into() }), Some(2));
    }

    #[test]
    fn part_of_an_ablation_is_continued_by_its_own_command() {
        let command = Cli::parse_from("orco-train-lab ablate losses a.toml --run first".split(' ')).command;
        let folder = tempfile::tempdir().unwrap();
        let record = RunRecord::new(1, tch::Device::Cpu, request::encode(&command).unwrap());
        std::fs::write(folder.path().join("run.json"), serde_json::to_string(&record).unwrap()).unwrap();
        let refused = stored(folder.path()).err().unwrap().to_string();
        assert!(refused.contains("the command that began it goes on with it"), "{refused}");
    }

    #[test]
    fn a_run_of_orco_train_is_left_to_it() {
        let folder = tempfile::tempdir().unwrap();
        for verb in OF_THE_TRAINER {
            let record = RunRecord::new(1, tch::Device::Cpu, json!({ verb: {} }));
            std::fs::write(folder.path().join("run.json"), serde_json::to_string(&record).unwrap()).unwrap();
            let refused = stored(folder.path()).err().unwrap().to_string();
            assert!(refused.contains("`orco-train resume` continues"), "{refused}");
        }
    }
}
