//! What can be changed, as it is asked of the thread that changes.

use std::sync::Arc;

use orco_runtime::image_rs::RgbImage;
use orco_runtime::ndarray::Array3;
use orco_runtime::pack::Pack;
use orco_runtime::state::Balance;
use orco_runtime::state::history::EntryId;
use serde::Deserialize;

use crate::admission::BodyPermit;
use crate::id::Id;

/// What becomes of a base class whose label the shots have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BaseClassChoice {
    /// It gets the shots.
    #[default]
    Add,
    /// A learned class with these shots is answered in its place on this device.
    Replace,
}

/// Shots that are to be learned.
#[derive(Clone, Debug)]
pub struct LabelledShots {
    /// Label of their class.
    pub label: String,
    /// Their features, `[shots, views, features]`.
    pub features: Array3<f32>,
    /// Their pictures, where they are kept.
    pub pictures: Option<Vec<RgbImage>>,
    /// Their identifiers; they are removed from the pending shots once they are learned.
    pub ids: Vec<Id>,
    /// What becomes of a base class of that label.
    pub choice: BaseClassChoice,
}

/// A change that is requested.
#[derive(Clone, Debug)]
pub enum ChangeRequest {
    /// Learns a class, or gives a known one further shots.
    Learn(LabelledShots),
    /// Learns the class of a pack.
    Import {
        /// Its label here.
        label: String,
        /// The pack.
        pack: Box<Pack>,
        /// The memory that the pack takes, which goes back with it.
        permit: Arc<BodyPermit>,
    },
    /// Moves a stored shot to another class.
    Move {
        /// The class that has it.
        from: String,
        /// SHA-256 of its exemplar.
        exemplar: [u8; 32],
        /// The class that gets it.
        to: String,
    },
    /// Removes a stored shot.
    RemoveShot {
        /// The class that has it.
        label: String,
        /// SHA-256 of its exemplar.
        exemplar: [u8; 32],
    },
    /// Gives a learned class another label.
    Rename {
        /// Its label.
        from: String,
        /// The new one.
        to: String,
    },
    /// Forgets a learned class.
    Forget {
        /// Its label.
        label: String,
    },
    /// Forgets a class together with its past, also one that was forgotten before.
    Purge {
        /// Its label.
        label: String,
    },
    /// Undoes the last change.
    Undo {
        /// The last entry; nothing is undone if it is another one by then.
        last: Option<EntryId>,
    },
    /// Redoes the change that was undone last.
    Redo {
        /// The last entry; nothing is done if it is another one by then.
        last: Option<EntryId>,
    },
    /// Goes back to the class set after an entry of the history.
    UndoTo {
        /// The entry.
        entry: EntryId,
    },
    /// Moves the border between base classes and learned ones.
    Balance {
        /// How both are weighed against each other.
        balance: Balance,
    },
}

impl ChangeRequest {
    /// What it is called: `learn`, `forget`, ...
    pub fn name(&self) -> &'static str {
        match self {
            Self::Learn(_) => "learn",
            Self::Import { .. } => "import",
            Self::Move { .. } => "move",
            Self::RemoveShot { .. } => "remove",
            Self::Rename { .. } => "rename",
            Self::Forget { .. } => "forget",
            Self::Purge { .. } => "purge",
            Self::Undo { .. } | Self::UndoTo { .. } => "undo",
            Self::Redo { .. } => "redo",
            Self::Balance { .. } => "balance",
        }
    }

    /// The class that it is about.
    pub fn label(&self) -> Option<&str> {
        match self {
            Self::Learn(LabelledShots { label, .. })
            | Self::Import { label, .. }
            | Self::Forget { label }
            | Self::Purge { label }
            | Self::RemoveShot { label, .. }
            | Self::Rename { from: label, .. }
            | Self::Move { from: label, .. } => Some(label),
            Self::Undo { .. } | Self::Redo { .. } | Self::UndoTo { .. } | Self::Balance { .. } => None,
        }
    }

    /// The new label of a class that is renamed, or the class that a stored shot is moved to.
    pub fn to_label(&self) -> Option<&str> {
        if let Self::Rename { to, .. } | Self::Move { to, .. } = self { Some(to) } else { None }
    }
}
