//! `orco learn`.

use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use orco_runtime::learner::{ChangeOutcome, Learner, Shots};
use serde_json::Value;

use crate::change_options::{ClassFolder, LearnOptions};
use crate::device;
use crate::folder_shots::{folder_shots, folders_or_files, warn_of_long_pictures};
use crate::options::Options;
use crate::output::{Output, say};
use crate::progress::ProgressBars;
use crate::scene_options::SceneOptions;
use crate::session_report;

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
    let started = Instant::now();
    let mut learner = device::open(options, output)?;
    arguments.options.apply(&mut learner);
    let viewfinder = arguments.scene.viewfinder(&learner, output)?;
    let folders = folders_or_files(&arguments.classes, output);
    let classes = folders.into_iter().map(|class| folder_shots(&viewfinder, class, output));
    let classes = classes.collect::<Result<Vec<_>>>()?;
    warn_of_long_pictures(&classes, output);
    let answered_before = learner.answered_classes();
    let (outcome, past) = arguments.learn(&mut learner, &classes)?;
    let report = session_report::note_outcome(output, outcome);
    session_report::warn_of_shots(output, &learner);
    let seconds = started.elapsed().as_secs_f64();
    let what = format!("{past} {}", session_report::list_classes(&classes));
    session_report::print(output, &report, &what, seconds, learner.answered_classes())?;
    if !report.one_scene.is_empty() && viewfinder.background.is_none() {
        say!(output, "if the camera stands still, show the empty place with --empty: then things are cut out of it")?;
    }
    let labels: Vec<&str> = classes.iter().map(|(label, _)| *label).collect();
    session_report::tell_scope(output, &learner, &labels, answered_before)?;
    Ok(session_report::to_json(output, &report, seconds))
}
