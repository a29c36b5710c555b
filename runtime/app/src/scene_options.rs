//! Options that choose which part of a picture is classified or learned.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use orco_runtime::image::{self, PictureFileError};
use orco_runtime::learner::Learner;
use orco_runtime::scene::{Background, BackgroundError, BackgroundFile, MAX_VIEWS, NamedRegion, Viewfinder};
use orco_runtime::store::Store;

use crate::folder_shots::folder_pictures;
use crate::output::Output;

/// What is said where no background is kept.
pub const NO_EMPTY_PLACE: &str = "no empty place is kept; show it with `orco scene learn PICTURE...`";

/// Options of the commands that learn or classify pictures.
#[derive(Args, Debug)]
pub struct SceneOptions {
    /// Uses only this part of every picture: left edge, upper edge, width and height, as shares of the picture
    /// (0.5,0,0.5,1) or in pixels. `classify` takes several, each with a name.
    #[arg(long = "region", value_name = "[NAME=]X,Y,WIDTH,HEIGHT")]
    regions: Vec<NamedRegion>,
    /// A picture of the empty place by the same camera, or a folder of them; may be given again, three pictures are a
    /// good number. Things in front of the place are cut out of every picture, and each is used alone.
    #[arg(long, value_name = "PICTURE")]
    empty: Vec<PathBuf>,
    /// As --empty, with the empty place that `orco scene learn` keeps.
    #[arg(long, conflicts_with = "empty")]
    scene: bool,
}

impl SceneOptions {
    /// What the options say of every picture, for a learner's backbone.
    pub fn viewfinder(&self, learner: &Learner, output: &Output) -> Result<Viewfinder> {
        let input = &learner.bundle().manifest.preprocessing;
        Ok(Viewfinder::new(input, self.background(learner.store(), output)?, self.regions.clone()))
    }

    /// As [`SceneOptions::viewfinder`], for answers, which name their regions.
    pub fn viewfinder_of_named_regions(&self, learner: &Learner, output: &Output) -> Result<Viewfinder> {
        let names: BTreeSet<&str> = self.regions.iter().map(|named| named.name.as_str()).collect();
        if names.len() < self.regions.len() {
            bail!("two regions have one name, or none: give each a name of its own, --region NAME=X,Y,WIDTH,HEIGHT");
        }
        self.viewfinder(learner, output)
    }

    fn background(&self, store: &Store, output: &Output) -> Result<Option<Background>> {
        if self.scene {
            let kept = BackgroundFile::of(store.folder()).read()?;
            return kept.map(Some).context(NO_EMPTY_PLACE);
        }
        if self.empty.is_empty() { Ok(None) } else { learn_background(&self.empty, &self.regions, output).map(Some) }
    }
}

/// A background from pictures of the empty place, and from folders of them. Pictures may differ outside regions, if
/// there are some.
pub fn learn_background(paths: &[PathBuf], regions: &[NamedRegion], output: &Output) -> Result<Background> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() { files.extend(folder_pictures(path, output)?) } else { files.push(path.clone()) }
    }
    // Before any of them is decoded.
    if !(1..=MAX_VIEWS).contains(&files.len()) {
        return Err(BackgroundError::Count { views: files.len() }.into());
    }
    let views = files.iter().map(image::open).collect::<Result<Vec<_>, PictureFileError>>()?;
    regions.iter().try_for_each(|named| named.region.in_frame(views[0].width(), views[0].height()).map(drop))?;
    Ok(Background::learn_in(&views, regions)?)
}
