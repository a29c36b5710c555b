//! What of a picture is looked at.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use image::RgbImage;
use orco_runtime::learner::{Learner, Shots, pictures_in};
use orco_runtime::scene::{Background, BackgroundError, KeptBackground, MAX_VIEWS, NamedRegion, Viewfinder};
use orco_runtime::state::sentence::join_first;
use orco_runtime::store::Store;

use crate::change_options::ClassFolder;
use crate::picture;

/// Most pictures that a message names.
const SHOWN: usize = 5;

/// Options of the verbs that look at pictures.
#[derive(Args, Debug)]
pub struct SceneOptions {
    /// Looks at this part of every picture alone: left edge, upper edge, width and height, as shares of the picture
    /// (0.5,0,0.5,1) or in pixels. `classify` takes several, each with a name.
    #[arg(long = "region", value_name = "[NAME=]X,Y,WIDTH,HEIGHT")]
    regions: Vec<NamedRegion>,
    /// Pictures of the empty place, or a folder of them, by the same camera: things in front of it are cut out of every
    /// picture, and each is looked at alone. Three pictures are a good number.
    #[arg(long, value_name = "PICTURE", num_args = 1..)]
    empty: Vec<PathBuf>,
    /// As --empty, with the empty place that `orco scene learn` keeps.
    #[arg(long, conflicts_with = "empty")]
    scene: bool,
}

impl SceneOptions {
    /// What the options say of every picture, for a learner's backbone.
    pub fn viewfinder(&self, learner: &Learner) -> Result<Viewfinder> {
        let input = &learner.bundle().manifest.preprocessing;
        Ok(Viewfinder::new(input, self.background(learner.store())?, self.regions.clone()))
    }

    fn background(&self, store: &Store) -> Result<Option<Background>> {
        if self.scene {
            let kept = KeptBackground::of(store.folder()).read()?;
            return kept.map(Some).context("no empty place is kept; show it with `orco scene learn PICTURE...`");
        }
        if self.empty.is_empty() { Ok(None) } else { learn_background(&self.empty).map(Some) }
    }
}

/// A background from pictures of the empty place, and from folders of them.
pub fn learn_background(paths: &[PathBuf]) -> Result<Background> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() { files.extend(pictures_in(path)?) } else { files.push(path.clone()) }
    }
    // Before any of them is decoded.
    if !(1..=MAX_VIEWS).contains(&files.len()) {
        return Err(BackgroundError::Count { views: files.len() }.into());
    }
    let views = files.iter().map(|path| picture::open(path)).collect::<Result<Vec<_>>>()?;
    Ok(Background::learn(&views)?)
}

/// The shots of a class, cut out of their pictures.
pub struct CutOutShots {
    /// The class.
    pub label: String,
    /// The pictures' files.
    pub names: Vec<String>,
    /// What of them is learned.
    pub pictures: Vec<RgbImage>,
}

impl CutOutShots {
    /// As the learner takes them.
    pub fn as_shots(&self) -> Shots<'_> {
        Shots::NamedPictures { names: &self.names, pictures: &self.pictures }
    }
}

/// Looks at the pictures of all classes. Those that cannot be used are named in one sentence.
pub fn cut_out(viewfinder: &Viewfinder, classes: &[ClassFolder]) -> Result<Vec<CutOutShots>> {
    if viewfinder.regions.len() > 1 {
        bail!("shots are taken of one region: give --region once");
    }
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for ClassFolder { label, folder } in classes {
        let mut shots = CutOutShots { label: label.clone(), names: Vec::new(), pictures: Vec::new() };
        for path in pictures_in(folder)? {
            match shot_of(viewfinder, &path) {
                Ok(shot) => {
                    shots.names.push(path.display().to_string());
                    shots.pictures.push(shot);
                }
                Err(error) => refused.push(error.to_string()),
            }
        }
        all.push(shots);
    }
    if !refused.is_empty() {
        bail!("{}; nothing was changed", join_first(refused.iter(), SHOWN, "; "));
    }
    Ok(all)
}

fn shot_of(viewfinder: &Viewfinder, path: &Path) -> Result<RgbImage> {
    let picture = picture::open(path)?;
    viewfinder.shot(&picture).map_err(|error| anyhow!("{} is no shot: {error}", path.display()))
}
