//! How a run remembers the command that began it, and continues by it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use orco_trainer::run::{Record, verify_recipe};

use crate::arguments::Command;

/// Fields of a command that are paths.
const PATHS: [&str; 7] = ["recipe", "data", "run", "lists", "output", "backbone", "sign"];

/// A command as `run.json` keeps it: with absolute paths, so that it can be resumed from any folder.
///
/// # Errors
/// If a path is not valid Unicode.
pub fn request(command: &Command) -> Result<serde_json::Value> {
    fn absolute(value: &mut serde_json::Value) -> Result<()> {
        for (name, field) in value.as_object_mut().into_iter().flatten() {
            match field.as_str() {
                Some(path) if PATHS.contains(&name.as_str()) => {
                    *field = serde_json::to_value(std::path::absolute(path)?)?
                }
                _ => absolute(field)?,
            }
        }
        Ok(())
    }
    let mut value = serde_json::to_value(command).context("the paths of the command must be valid Unicode")?;
    absolute(&mut value)?;
    Ok(value)
}

/// The command that continues the run in a folder, which may have been carried anywhere since it was begun.
///
/// # Errors
/// If the folder holds no run, or one that does not say how it was begun.
pub fn stored(folder: &Path) -> Result<Command> {
    let record = Record::read(folder)?;
    let mut command: Command = serde_json::from_value(record.request).with_context(|| {
        format!(
            "{} does not say how to resume; start the run again with its first command",
            folder.join("run.json").display()
        )
    })?;
    match &mut command {
        Command::Pretrain { common, .. }
        | Command::Align(common)
        | Command::Run { common, .. }
        | Command::Compare { common, .. } => {
            verify_recipe(folder)?;
            common.images.recipe = folder.join("recipe.toml");
            common.run = folder.into();
        }
        Command::Ablate { .. } | Command::Rival { .. } => bail!(
            "{} holds no run that could be resumed: it is part of what `orco-train ablate` or `rival` trains; the \
             command that began it goes on with it",
            folder.display()
        ),
        _ => bail!("{} holds no run that could be resumed", folder.display()),
    }
    if let Command::Pretrain { until, .. } = &mut command {
        *until = None;
    }
    Ok(command)
}

/// The number of threads that a command, or the one that it resumes, names.
pub fn threads(command: &Command) -> Option<i32> {
    match command {
        Command::Pretrain { common, .. }
        | Command::Align(common)
        | Command::Run { common, .. }
        | Command::Compare { common, .. }
        | Command::Ablate { common, .. }
        | Command::Rival { common, .. } => common.threads,
        Command::Resume { run } => threads(&stored(run).ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
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
        let request = request(&command).unwrap();
        let images = &request["pretrain"]["common"]["images"];
        assert!(Path::new(images["recipe"].as_str().unwrap()).is_absolute(), "{request}");
        let folder = tempfile::tempdir().unwrap();
        let record = Record::new(1, tch::Device::Cpu, request);
        std::fs::write(folder.path().join("run.json"), serde_json::to_string(&record).unwrap()).unwrap();
        std::fs::write(folder.path().join("recipe.toml"), "").unwrap();
        let Command::Pretrain { common, until } = stored(folder.path()).unwrap() else { panic!("another command") };
        assert_eq!((common.run.as_path(), until), (folder.path(), None));
        assert_eq!(threads(&Command::Resume { run: folder.path().into() }), Some(2));
        assert_eq!(common.images.recipe, folder.path().join("recipe.toml"));
        assert_eq!(common.images.data.as_deref(), Some(Path::new("/data")));
    }

    #[test]
    fn what_is_no_training_is_not_resumed() {
        let folder = tempfile::tempdir().unwrap();
        for (request, said) in [
            (request(&asked(&["doctor"])).unwrap(), "holds no run that could be resumed"),
            (json!({ "fly": {} }), "does not say how to resume; start the run again with its first command"),
        ] {
            let record = Record::new(1, tch::Device::Cpu, request);
            std::fs::write(folder.path().join("run.json"), serde_json::to_string(&record).unwrap()).unwrap();
            let refused = stored(folder.path()).err().unwrap().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
