//! Why moving to another bundle is refused.

use std::io;
use std::path::PathBuf;

use orco_core::align::AlignError;
use orco_state::sentence::{counted, join_first};
use orco_state::session::LearnError;

use super::super::ShotsError;
use super::check::ClassComparison;
use crate::release::ReleaseError;
use crate::store::{BundleRecord, StoreError};

/// Why moving to another bundle, or back, is refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// The state cannot be read, locked or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bundle is an older release than was used before.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The backbone cannot be started or fails.
    #[error(transparent)]
    Shots(#[from] ShotsError),
    /// The classes cannot be learned on the new bundle.
    #[error("the classes cannot be learned on this bundle")]
    Learn(#[source] LearnError),
    /// The observer cancelled it.
    #[error("the change was cancelled")]
    Cancelled,
    /// There is no state.
    #[error("nothing was learned in {}", folder.display())]
    Nothing {
        /// The store's folder.
        folder: PathBuf,
    },
    /// The state is one of this bundle.
    #[error("the state belongs to this bundle, {name}, already")]
    Same {
        /// The bundle's name.
        name: String,
    },
    /// What the pictures were kept with is not known.
    #[error(
        "no pictures of the shots were kept in {}, or it is not known any more with which bundle",
        folder.display()
    )]
    NotKept {
        /// The folder that would hold them.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A kept picture is there, but cannot be read. It may be sound, so nothing is learned without it.
    #[error("cannot read {}, the picture of a shot of \"{label}\"", path.display())]
    Picture {
        /// Its file.
        path: PathBuf,
        /// Label of its class.
        label: String,
        /// What the system said.
        source: io::Error,
    },
    /// Some classes have no picture left.
    #[error("no picture is kept, or none can be used, of the shots of {}", quoted(labels))]
    Missing {
        /// Their labels.
        labels: Vec<String>,
    },
    /// Classes would be recognised clearly worse than when they were learned.
    #[error("the new bundle would recognise clearly worse: {}", listed(classes))]
    Worse {
        /// The classes; one without a label stands for all of them together.
        classes: Vec<ClassComparison>,
    },
    /// No state of the bundle was kept aside.
    #[error(
        "no state of this bundle, {name}, was kept aside that could be brought back{}",
        former.as_ref().map_or(String::new(), |other| format!("; release {} of {} has one", other.release, other.name))
    )]
    NoEarlier {
        /// The bundle's name.
        name: String,
        /// The bundle whose state was kept aside, if any.
        former: Option<Box<BundleRecord>>,
    },
    /// The state that was kept aside cannot be read.
    #[error("cannot read the state that was kept aside in {}", folder.display())]
    FormerState {
        /// Its folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl From<LearnError> for UpgradeError {
    fn from(error: LearnError) -> Self {
        match error {
            LearnError::Align(AlignError::Cancelled) => Self::Cancelled,
            error => Self::Learn(error),
        }
    }
}

/// Most entries of a list in a sentence.
const LISTED: usize = 10;

fn quoted(labels: &[String]) -> String {
    join_first(labels.iter().map(|label| format!("\"{label}\"")), LISTED, ", ")
}

fn listed(classes: &[ClassComparison]) -> String {
    let entries = classes.iter().map(|class| {
        let name = if class.label.is_empty() { "all classes together".into() } else { format!("\"{}\"", class.label) };
        let (before, after) = (class.before.unwrap_or_default(), class.after.unwrap_or_default());
        let shots = counted(class.pictures, "shot");
        format!("{name} {:.0} % of {shots}, not {:.0} %", 100.0 * after, 100.0 * before)
    });
    join_first(entries, LISTED, ", ")
}
