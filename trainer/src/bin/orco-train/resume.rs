//! How a run is continued.

use std::path::Path;

use anyhow::{Result, bail};
use orco_lab::format::shell_word;
use orco_trainer::job::{TrainingArguments, request};
use orco_trainer::run::RunRecord;

use crate::arguments::Command;

/// Commands of `orco-train-lab`, whose runs look like ours.
const OF_THE_LAB: [&str; 3] = ["ablate", "compare", "rival"];

/// The command that continues the run in a folder, which may have been carried anywhere since it was begun.
///
/// # Errors
/// If the folder holds no run, or one that does not say how it was begun.
pub fn stored(folder: &Path) -> Result<Command> {
    let stored = RunRecord::read(folder)?.request;
    if let Some(verb) = OF_THE_LAB.iter().find(|verb| stored.get(verb).is_some()) {
        bail!(
            "{} holds no run that could be resumed here: it is of `orco-train-lab {verb}`; the command that began it \
             goes on with it",
            folder.display()
        );
    }
    let mut command = request::decode(stored, folder)?;
    match &mut command {
        Command::Pretrain { common, .. } | Command::Align(common) | Command::Run { common, .. } => {
            common.continue_in(folder);
        }
        _ => bail!("{} holds no run that could be resumed", folder.display()),
    }
    if let Command::Pretrain { until, .. } = &mut command {
        *until = None;
    }
    Ok(command)
}

/// Refuses a run whose data lie no longer where they were, and says how it is continued.
///
/// # Errors
/// If the data's folder is gone.
pub fn find_data(command: &Command, folder: &Path) -> Result<()> {
    let (verb, common, output) = match command {
        Command::Pretrain { common, .. } => ("pretrain", common, ""),
        Command::Align(common) => ("align", common, ""),
        Command::Run { common, .. } => ("run", common, " --output BUNDLE"),
        _ => return Ok(()),
    };
    let TrainingArguments { images, .. } = common;
    match &images.data {
        Some(data) if !data.exists() => bail!(
            "the data of this run were in {}, which is gone. If they moved, run: \
             orco-train {verb} {} --run {} --data DATA{output}",
            data.display(),
            shell_word(&images.recipe.to_string_lossy()),
            shell_word(&folder.to_string_lossy())
        ),
        _ => Ok(()),
    }
}

/// The number of threads that a command, or the one that it resumes, names.
pub fn threads(command: &Command) -> Option<i32> {
    match command {
        Command::Pretrain { common, .. } | Command::Align(common) | Command::Run { common, .. } => common.threads,
        Command::Resume { run } => threads(&stored(run).ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::path::PathBuf;

    use clap::{CommandFactory, Parser};
    use serde_json::json;

    use super::*;
    use crate::arguments::Cli;

    fn asked(words: &[&str]) -> Command {
        Cli::parse_from([&["orco-train"], words].concat()).command
    }

    #[test]
    fn a_run_that_was_carried_away_is_continued_where_it_lies() {
        let words = "pretrain recipes/a.toml --run first --data /data --until 3 --threads 2";
        let command = asked(&words.split(' ').collect::<Vec<_>>());
        let request = request::encode(&command).unwrap();
        let images = &request["pretrain"]["common"]["images"];
        assert!(Path::new(images["recipe"].as_str().unwrap()).is_absolute(), "{request}");
        let folder = tempfile::tempdir().unwrap();
        let record = RunRecord::new(1, tch::Device::Cpu, request);
        std::fs::write(folder.path().join("run.json"), serde_json::to_string(&record).unwrap()).unwrap();
        std::fs::write(folder.path().join("recipe.toml"), "").unwrap();
        let Command::Pretrain { common, until } = stored(folder.path()).unwrap() else { panic!("another command") };
        assert_eq!((common.run.as_path(), until), (folder.path(), None));
        assert_eq!(threads(&Command::Resume { run: folder.path().into() }), Some(2));
        assert_eq!(common.images.recipe, folder.path().join("recipe.toml"));
        assert_eq!(common.images.data.as_deref(), Some(Path::new("/data")));
    }

    #[test]
    fn a_run_whose_data_are_gone_says_how_it_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let (data, run) = (folder.path().join("pictures"), folder.path().join("kept"));
        let words = ["run", "a.toml", "--run", "kept", "--output", "bundle", "--data"].map(str::to_owned);
        let words = ["orco-train".to_owned()].into_iter().chain(words).chain([data.display().to_string()]);
        let mut command = Cli::parse_from(words).command;
        let Command::Run { common, .. } = &mut command else { panic!("another command") };
        common.continue_in(&run);
        let refused = find_data(&command, &run).unwrap_err().to_string();
        let recipe = run.join("recipe.toml");
        let advice = format!("orco-train run {} --run {} --data DATA --output BUNDLE", recipe.display(), run.display());
        assert!(refused.contains(&data.display().to_string()) && refused.ends_with(&advice), "{refused}");
        std::fs::create_dir(&data).unwrap();
        find_data(&command, &run).unwrap();
    }

    #[test]
    fn every_path_of_a_command_that_can_be_resumed_is_kept_absolute() {
        for name in ["pretrain", "align", "run"] {
            let cli = Cli::command();
            let arguments = cli.find_subcommand(name).unwrap().get_arguments();
            let mut words = vec!["orco-train".to_owned(), name.into()];
            for argument in
                arguments.filter(|argument| argument.get_value_parser().type_id() == TypeId::of::<PathBuf>())
            {
                words.extend(argument.get_long().map(|long| format!("--{long}")));
                words.push(format!("relative/{}", argument.get_id()));
            }
            assert!(words.len() > 8, "{words:?}");
            let request = request::encode(&Cli::parse_from(words).command).unwrap().to_string();
            assert!(request.contains("/relative/") && !request.contains("\"relative/"), "{request}");
        }
    }

    #[test]
    fn what_is_no_training_is_not_resumed() {
        let folder = tempfile::tempdir().unwrap();
        for (request, said) in [
            (request::encode(&asked(&["doctor"])).unwrap(), "holds no run that could be resumed"),
            (json!({ "rival": {} }), "of `orco-train-lab rival`"),
            (json!({ "fly": {} }), "does not say how to resume; start the run again with its first command"),
        ] {
            let record = RunRecord::new(1, tch::Device::Cpu, request);
            std::fs::write(folder.path().join("run.json"), serde_json::to_string(&record).unwrap()).unwrap();
            let refused = stored(folder.path()).err().unwrap().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
