//! A session that learns from folders of pictures: what `orco learn` and `orco add` have in common.

use std::time::Instant;

use anyhow::Result;
use orco_runtime::learner::{ChangeOutcome, Learner, Shots};
use serde_json::Value;

use crate::change_options::{ClassFolder, LearnOptions};
use crate::device;
use crate::folder_shots::{folder_shots, folders_or_files, warn_of_long_pictures};
use crate::options::Options;
use crate::output::{Output, say};
use crate::scene_options::SceneOptions;
use crate::session_report;

/// The classes and options of a session.
pub struct FolderSession<'a> {
    pub classes: &'a [ClassFolder],
    pub options: &'a LearnOptions,
    pub scene: &'a SceneOptions,
}

impl FolderSession<'_> {
    /// Reads the shots, changes the learner by `change`, and prints the report. For that, `change` also returns a verb
    /// in the past tense.
    pub fn run(
        &self,
        options: &Options,
        output: &Output,
        change: impl FnOnce(&mut Learner, &[(&str, Shots<'_>)]) -> Result<(ChangeOutcome, &'static str)>,
    ) -> Result<Value> {
        let started = Instant::now();
        let mut learner = device::open(options, output)?;
        self.options.apply(&mut learner);
        let viewfinder = self.scene.viewfinder(&learner, output)?;
        let folders = folders_or_files(self.classes, output);
        let classes = folders.into_iter().map(|class| folder_shots(&viewfinder, class, output));
        let classes = classes.collect::<Result<Vec<_>>>()?;
        warn_of_long_pictures(&classes, output);
        let answered_before = learner.answered_classes();
        let (outcome, past_verb) = change(&mut learner, &classes)?;
        let report = session_report::note_outcome(output, outcome);
        session_report::warn_of_shots(output, &learner);
        let seconds = started.elapsed().as_secs_f64();
        let what = format!("{past_verb} {}", session_report::list_classes(&classes));
        session_report::print(output, &report, &what, seconds, learner.answered_classes())?;
        if !report.one_scene.is_empty() && viewfinder.background.is_none() {
            say!(
                output,
                "if the camera stands still, show the empty place with --empty: then things are cut out of it"
            )?;
        }
        let labels: Vec<&str> = classes.iter().map(|(label, _)| *label).collect();
        session_report::print_scope(output, &learner, &labels, answered_before)?;
        Ok(session_report::to_json(output, &report, seconds))
    }
}
