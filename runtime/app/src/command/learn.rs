//! `orco learn`.

use anyhow::{Result, bail};
use clap::Args;
use orco_runtime::learner::{ChangeOutcome, Learner, Shots};
use serde_json::Value;

use crate::change_options::{ClassFolder, LearnOptions};
use crate::folder_session::FolderSession;
use crate::options::Options;
use crate::output::Output;
use crate::progress::ProgressBars;
use crate::scene_options::SceneOptions;

/// Arguments of `orco learn`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A class and the folder with its pictures; a folder alone names the class: `orco learn shots/*`.
    #[arg(required = true, value_name = "[LABEL=]FOLDER", value_parser = ClassFolder::parser())]
    classes: Vec<ClassFolder>,
    /// If the class came with the bundle under this label: gives it these shots, too.
    #[arg(long)]
    add_to_base: bool,
    /// If classes came with the bundle under these labels: answers yours in their place on this device. `orco forget`
    /// brings them back.
    #[arg(long, conflicts_with = "add_to_base")]
    replace: bool,
    #[command(flatten)]
    options: LearnOptions,
    #[command(flatten)]
    scene: SceneOptions,
}

impl Arguments {
    /// Learns the classes, or adds to the one that came with the bundle; says which of both.
    fn learn(&self, learner: &mut Learner, classes: &[(&str, Shots<'_>)]) -> Result<(ChangeOutcome, &'static str)> {
        let bars = &mut ProgressBars::default();
        if self.replace {
            return Ok((learner.replace_base(classes, bars)?, "learned"));
        }
        if !self.add_to_base {
            return Ok((learner.learn_many(classes, bars)?, "learned"));
        }
        let [(label, shots)] = classes else { bail!("--add-to-base takes one class; nothing was changed") };
        let base = learner.base_model().classes.len();
        match learner.state().find_class(learner.base_model(), label) {
            Some(class) if class < base => Ok((learner.add(label, shots.clone(), bars)?, "added to")),
            _ => Ok((learner.learn_many(classes, bars)?, "learned")),
        }
    }
}

/// Learns the classes in one session and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let session = FolderSession { classes: &arguments.classes, options: &arguments.options, scene: &arguments.scene };
    session.run(options, output, |learner, classes| arguments.learn(learner, classes))
}
