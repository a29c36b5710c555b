//! `orco add`.

use std::slice;

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use crate::change_options::{ClassFolder, LearnOptions};
use crate::folder_session::FolderSession;
use crate::options::Options;
use crate::output::Output;
use crate::progress::ProgressBars;
use crate::scene_options::SceneOptions;

/// Arguments of `orco add`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A known class and the folder with further pictures of it.
    #[arg(value_name = "[LABEL=]FOLDER", value_parser = ClassFolder::parser())]
    class: ClassFolder,
    #[command(flatten)]
    options: LearnOptions,
    #[command(flatten)]
    scene: SceneOptions,
}

/// Gives a known class more shots and saves the new state.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let classes = slice::from_ref(&arguments.class);
    let session = FolderSession { classes, options: &arguments.options, scene: &arguments.scene };
    session.run(options, output, |learner, classes| {
        let (label, shots) = &classes[0];
        Ok((learner.add(label, shots.clone(), &mut ProgressBars::default())?, "added to"))
    })
}
