//! The command line of `orco-train-lab`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use orco_benchmark::benchmark::SEED;
use orco_lab::published::PaperReading;
use orco_lab::question::Question;
use orco_trainer::job::{TrainingArguments, request};
use orco_trainer_lab::rival::Rival;
use serde::{Deserialize, Serialize};

/// The command line.
#[derive(Parser)]
#[command(
    name = "orco-train-lab",
    version,
    about = "Research on OrCo that trains: ablations, rivals, comparisons, settings of phase 3"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What the program is asked to do; `run.json` keeps it, so that a comparison can be resumed.
#[derive(Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    /// The paper's comparison: g alone, as on the device, beside f and g trained together in the incremental sessions.
    /// Runs both phases as far as they are not done yet.
    Compare {
        #[command(flatten)]
        common: TrainingArguments,
        /// Draws of the shots.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        draws: u32,
        /// Learning rate of f as a share of g's; repeat to compare several.
        #[arg(long = "backbone-rate", value_name = "SHARE", default_values_t = [1.0])]
        backbone_rates: Vec<f64>,
    },
    /// One of the paper's ablations. Of what comes before phase 3: every trial trains by a change of the recipe, in a
    /// folder of its own below --run, and is measured with the published program's phase 3. Of phase 3: all train by
    /// the recipe as it is, once. Writes QUESTION.json and QUESTION.csv there, QUESTION-text by the text. Stopped, it
    /// goes on where it was. (On a bundle that is there, `orco-lab ablate` measures those that vary the head alone.)
    Ablate {
        /// What is varied.
        #[arg(value_parser = PossibleValuesParser::new(Question::PAPER.map(Question::name)))]
        question: String,
        #[command(flatten)]
        common: TrainingArguments,
        /// Whose settings are varied: those of the authors' code (program), or of the paper's text (text).
        #[arg(long = "by", value_name = "READING", default_value = "program")]
        #[serde(rename = "by", default)]
        reading: PaperReading,
        /// Draws of the shots.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        draws: u32,
    },
    /// Trains rivals that live in the training of the backbone, and the baseline beside them, all by the recipe's
    /// pretrain table, in folders below --run, and measures them. Writes rivals.json and rivals.csv there; of several
    /// seeds rivals-seeds.json and rivals-seeds.csv, too. Stopped, it goes on where it was.
    #[command(after_long_help = rivals())]
    Rival {
        /// Which: names with commas between, or "all".
        #[arg(value_name = "NAMES")]
        rivals: Rivals,
        #[command(flatten)]
        common: TrainingArguments,
        /// Seeds of the training, from the recipe's on, all on the images and shots of the first: every number's mean,
        /// and how far it deviates over draws and seeds.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        seeds: u32,
        /// Draws of the shots.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        draws: u32,
    },
    /// Measures settings of phase 3 on a bundle made with `measure_on = "holdout"`, to choose one for a recipe.
    Tune {
        /// The bundle.
        #[arg(long)]
        bundle: PathBuf,
        /// Settings to try, as fields of a recipe's learn table: `--try "epochs = 50, learning_rate = 0.2"`; beside
        /// them `assignment`, `perturbed`, `perturbation` and `keep`, of which a device always does the same; repeat
        /// for each trial.
        #[arg(long = "try", required = true, value_name = "SETTINGS")]
        trials: Vec<String>,
        /// Draws of the shots.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
        draws: u32,
        /// Seed of the draws.
        #[arg(long, default_value_t = SEED)]
        seed: u64,
    },
    /// Continues a comparison from its own folder, with the recipe, data and command that it was started with.
    Resume {
        /// The run's folder.
        #[serde(serialize_with = "request::absolute_path")]
        run: PathBuf,
    },
}

/// What each rival is, for the help.
fn rivals() -> String {
    Rival::ALL
        .iter()
        .fold("Rivals:".to_owned(), |text, rival| text + &format!("\n  {:<10} {}", rival.name(), rival.description()))
}

/// Some of the rivals, in the order in which they were asked for.
#[derive(Clone, Serialize, Deserialize)]
pub struct Rivals(pub Vec<Rival>);

impl FromStr for Rivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(Rival::ALL.into()));
        }
        let known = || Rival::ALL.map(Rival::name).join(", ");
        let named = |name: &str| match name.trim() {
            "" => Err(format!("a name is empty; known are all, {}", known())),
            name => Rival::named(name).ok_or_else(|| format!("there is no rival {name}; known are all, {}", known())),
        };
        let rivals = text.split(',').map(named).collect::<Result<Vec<_>, _>>()?;
        let again = rivals.iter().enumerate().find(|(index, rival)| rivals[..*index].contains(rival));
        again.map_or(Ok(()), |(_, rival)| Err(format!("{} is named twice", rival.name())))?;
        Ok(Self(rivals))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn all_names_every_rival() {
        let rivals = "all".parse::<Rivals>().unwrap().0;
        assert_eq!(rivals.into_iter().map(Rival::name).collect::<Vec<_>>(), Rival::ALL.map(Rival::name));
    }

    #[test]
    fn the_version_is_that_of_the_program() {
        assert_eq!(Cli::command().render_version(), concat!("orco-train-lab ", env!("CARGO_PKG_VERSION"), "\n"));
    }
}
