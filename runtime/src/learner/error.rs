//! Why a learner cannot be opened, and why a change is refused.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use orco_core::align::AlignError;
use orco_state::escape::EscapedText;
use orco_state::history::PurgeError;
use orco_state::pack::PackError;
use orco_state::sentence::{counted, join_first};
use orco_state::session::{ForgettingExcess, LearnError};

use super::forgetting_sentences::excess_sentence;
use super::settings::SettingsError;
use super::shot_examiner::DoubtfulShot;
use crate::bundle::OpenError;
use crate::encoder::EncodeError;
use crate::image::{ImageError, PictureFileError, UnsupportedFile};
use crate::release::ReleaseError;
use crate::scene::ViewError;
use crate::store::StoreError;

/// Why a learner cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenLearnerError {
    /// The settings make no sense.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The bundle cannot be used.
    #[error(transparent)]
    Bundle(#[from] OpenError),
    /// A newer release of the bundle was used before.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The state cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why shots cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShotsError {
    /// A folder cannot be read.
    #[error("cannot read the folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder holds no pictures.
    #[error(
        "the folder {} holds no pictures (JPEG, PNG or WebP){}{}",
        path.display(), passed_over(unsupported), inner(*folders)
    )]
    Empty {
        /// The folder.
        path: PathBuf,
        /// Folders in it.
        folders: usize,
        /// Its pictures in formats that are not read.
        unsupported: Vec<UnsupportedFile>,
    },
    /// Pictures cannot be used: all of the session's that cannot.
    #[error("{}", listed(.0))]
    Pictures(Vec<BrokenPicture>),
    /// Pictures can be read, but are not fit to be learned from: all of the session's that are not.
    #[error("{}", listed(.0))]
    Unfit(Vec<DoubtfulShot>),
    /// A picture in memory has no pixels.
    #[error("{shot} has no pixels")]
    NoPixels {
        /// What it is called in a sentence.
        shot: String,
    },
    /// There is another number of pictures than of features.
    #[error("{}, but features of {}, were given for {}", counted(*pictures, "picture"), counted(*features, "shot"), EscapedText(label))]
    Unequal {
        /// Label of the class.
        label: String,
        /// Pictures.
        pictures: usize,
        /// Shots that have features.
        features: usize,
    },
    /// Features have another length than the bundle's, or no view.
    #[error(
        "the features of {} have {} of {actual} numbers, but this bundle wants one or more views of {expected}",
        EscapedText(label), counted(*views, "view")
    )]
    OtherFeatures {
        /// Label of the class.
        label: String,
        /// Views of each shot.
        views: usize,
        /// Numbers of a view of this bundle.
        expected: usize,
        /// Numbers of a view.
        actual: usize,
    },
    /// The backbone cannot be started or fails.
    #[error("the backbone fails on the shots")]
    Encode(#[source] EncodeError),
}

/// A picture that cannot be used. The reason goes on with the sentence.
#[derive(Debug, thiserror::Error)]
#[error("{} {reason}", path.display())]
#[non_exhaustive]
pub struct BrokenPicture {
    /// The picture.
    pub path: PathBuf,
    /// Why.
    pub reason: PictureProblem,
}

impl From<PictureFileError> for BrokenPicture {
    fn from(PictureFileError { path, reason }: PictureFileError) -> Self {
        Self { path, reason: reason.into() }
    }
}

/// Why a picture cannot be learned from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PictureProblem {
    /// It cannot be opened.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Nothing of it can be a shot.
    #[error("is no shot: {0}")]
    View(#[from] ViewError),
}

/// Says that fewer changes can be undone or redone than were to be.
fn too_few(possible: usize, asked: usize, what: &str) -> String {
    match possible {
        0 => format!("nothing can be {what}"),
        _ => format!("only {} can be {what}, not {asked}", counted(possible, "change")),
    }
}

/// What a folder without pictures holds instead.
fn inner(folders: usize) -> String {
    match folders {
        0 => String::new(),
        _ => format!(", but {}: give each by itself, as FOLDER/*", counted(folders, "folder")),
    }
}

fn passed_over(unsupported: &[UnsupportedFile]) -> String {
    if unsupported.is_empty() { String::new() } else { format!("; {}", listed(unsupported)) }
}

fn listed(pictures: &[impl Display]) -> String {
    join_first(pictures.iter(), 10, "; ")
}

/// Why a change is refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The settings make no sense.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The input makes no sense, or the alignment failed.
    #[error(transparent)]
    Learn(LearnError),
    /// The observer cancelled it.
    #[error("the change was cancelled")]
    Cancelled,
    /// A shot cannot be used.
    #[error(transparent)]
    Shots(#[from] ShotsError),
    /// A pack was made with another bundle.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// A class cannot be purged.
    #[error(transparent)]
    Purge(#[from] PurgeError),
    /// The state cannot be read, locked or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bundle is an older release than was used before.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// Old classes would have lost more than the forgetting budget.
    #[error(
        "old classes would have lost more than the forgetting budget of {}, over all sessions since the bundle: {}",
        in_points(*budget),
        excess_sentence(excess)
    )]
    Forgetting {
        /// The budget, 0..1.
        budget: f32,
        /// What is beyond it.
        excess: ForgettingExcess,
    },
    /// Fewer changes are remembered than were to be undone.
    #[error("{}", too_few(*remembered, *asked, "undone"))]
    NotEnoughToUndo {
        /// Changes that were to be undone.
        asked: usize,
        /// Changes that can be.
        remembered: usize,
    },
    /// Fewer changes were undone than were to be redone.
    #[error("{}", too_few(*undone, *asked, "redone"))]
    NotEnoughToRedo {
        /// Changes that were to be redone.
        asked: usize,
        /// Changes that can be.
        undone: usize,
    },
    /// The entry is the present state's own.
    #[error("entry {number} is the present state already")]
    Present {
        /// Its number.
        number: u32,
    },
    /// The last change is another one than the one that was to be undone.
    #[error("the last change is entry {last}, not entry {number}; nothing was changed")]
    NotLast {
        /// Number of the entry that was to be undone.
        number: u32,
        /// Number of the last one.
        last: u32,
    },
    /// The entry of that number is another one than the one that is meant.
    #[error(
        "entry {number} of the history is not the one that was shown any more: the state was restored, purged or begun \
         anew since; nothing was changed"
    )]
    OtherEntry {
        /// The number.
        number: u32,
    },
    /// The shot that is meant is not one of the class's.
    #[error(
        "the shot is not one of \"{label}\" any more: it was moved, forgotten or undone since; nothing was changed"
    )]
    OtherShot {
        /// The class's label.
        label: String,
    },
    /// The history has no such entry.
    #[error("there is no entry {number} in the history")]
    NoEntry {
        /// The number.
        number: u32,
    },
}

impl From<LearnError> for ChangeError {
    fn from(error: LearnError) -> Self {
        match error {
            LearnError::Align(AlignError::Cancelled) => Self::Cancelled,
            error => Self::Learn(error),
        }
    }
}

/// Why a class cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The newest state cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The class is unknown, came with the bundle, or has no exemplars left.
    #[error(transparent)]
    Class(#[from] orco_state::pack::PackExportError),
}

/// A share in percentage points, without the digits that come of its being stored as a share.
fn in_points(share: f32) -> String {
    let points = ((f64::from(share) * 1e6).round() / 1e4).to_string();
    let plural = if points == "1" { "" } else { "s" };
    format!("{points} percentage point{plural}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_budget_is_printed_as_it_was_given() {
        for (share, points) in [(0.0, "0"), (0.004, "0.4"), (0.025, "2.5"), (0.333, "33.3"), (1.0, "100")] {
            assert_eq!(super::in_points(share), format!("{points} percentage points"));
        }
        assert_eq!(super::in_points(0.01), "1 percentage point");
    }
}
