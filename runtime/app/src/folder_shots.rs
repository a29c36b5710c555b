//! The shots of classes, out of their folders.

use anyhow::{Result, bail};
use orco_runtime::learner::{PictureFolder, Shots};
use orco_runtime::scene::Viewfinder;

use crate::change_options::ClassFolder;
use crate::output::Output;

/// The shots of a class by its label, as a viewfinder shows them. Pictures in formats that are not read are named one by
/// one.
pub fn folder_shots<'a>(
    viewfinder: &'a Viewfinder,
    class: &'a ClassFolder,
    output: &Output,
) -> Result<(&'a str, Shots<'a>)> {
    if viewfinder.regions.len() > 1 {
        bail!("shots are taken of one region: give --region once");
    }
    let ClassFolder { label, folder } = class;
    let PictureFolder { pictures: files, foreign } = PictureFolder::read_filled(folder)?;
    foreign.iter().for_each(|file| output.warn(file));
    let shots = if viewfinder.is_plain() { Shots::Files(files) } else { Shots::Viewed { files, viewfinder } };
    Ok((label, shots))
}
