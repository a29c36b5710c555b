//! The shots of classes, out of their folders.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use image::RgbImage;
use orco_runtime::learner::{PictureFolder, Shots};
use orco_runtime::scene::Viewfinder;
use orco_runtime::state::sentence::join_first;

use crate::change_options::ClassFolder;
use crate::output::Output;
use crate::picture;

/// Most pictures that a message names.
const SHOWN: usize = 5;

/// The shots of a class.
pub struct FolderShots {
    label: String,
    pictures: FolderPictures,
}

enum FolderPictures {
    /// As they are.
    Files(Vec<PathBuf>),
    /// What is learned of them, and their files.
    CutOut { names: Vec<String>, pictures: Vec<RgbImage> },
}

impl FolderShots {
    /// With the class's label, as the learner takes them.
    pub fn labelled(&self) -> (&str, Shots<'_>) {
        let shots = match &self.pictures {
            FolderPictures::Files(files) => Shots::Files(files.clone()),
            FolderPictures::CutOut { names, pictures } => Shots::NamedPictures { names, pictures },
        };
        (&self.label, shots)
    }
}

/// The shots of all classes, as a viewfinder shows them. Pictures in formats that are not read are named one by one,
/// those that can be no shots in one sentence.
pub fn folder_shots(viewfinder: &Viewfinder, classes: &[ClassFolder], output: &Output) -> Result<Vec<FolderShots>> {
    if viewfinder.regions.len() > 1 {
        bail!("shots are taken of one region: give --region once");
    }
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for ClassFolder { label, folder } in classes {
        let PictureFolder { pictures: files, foreign } = PictureFolder::read_filled(folder)?;
        foreign.iter().for_each(|file| output.warn(file));
        let pictures = if viewfinder.is_plain() {
            FolderPictures::Files(files)
        } else {
            cut_out(viewfinder, &files, &mut refused)
        };
        all.push(FolderShots { label: label.clone(), pictures });
    }
    if !refused.is_empty() {
        bail!("{}; nothing was changed", join_first(refused.iter(), SHOWN, "; "));
    }
    Ok(all)
}

/// What is learned of pictures; why others are no shots goes to `refused`.
fn cut_out(viewfinder: &Viewfinder, files: &[PathBuf], refused: &mut Vec<String>) -> FolderPictures {
    let (mut names, mut pictures) = (Vec::new(), Vec::new());
    for path in files {
        match shot_of(viewfinder, path) {
            Ok(shot) => {
                names.push(path.display().to_string());
                pictures.push(shot);
            }
            Err(error) => refused.push(error.to_string()),
        }
    }
    FolderPictures::CutOut { names, pictures }
}

fn shot_of(viewfinder: &Viewfinder, path: &Path) -> Result<RgbImage> {
    let picture = picture::open_with_size(path)?;
    viewfinder.shot(&picture).map_err(|error| anyhow!("{} is no shot: {error}", path.display()))
}
