//! Why a session is refused.

use alloc::string::String;

use crate::label::MAX_TEXT;
use crate::sentence::counted;
use crate::state::MAX_SHOTS;
use orco_core::align::AlignError;

/// Why a session was refused. The old state is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LearnError {
    /// There is nothing to learn.
    #[error("there is no class to learn")]
    NoClasses,
    /// Answers follow the paper, which has no border between known classes and new ones, or the bundle has no
    /// statistics to choose it by.
    #[error("this bundle's answers have no border between known classes and new ones that could be moved")]
    NoBorder,
    /// A class came without shots.
    #[error("the class \"{label}\" has no shots")]
    NoShots {
        /// Its label.
        label: String,
    },
    /// A label is empty, `.` or `..`, what is answered without a class, too long, or has characters in it that cannot
    /// be seen or typed.
    #[error(
        "the label {:?} cannot be used: it is empty, \".\" or \"..\", longer than {MAX_TEXT} bytes, starts or ends with white space, \
         or holds \"=\", control characters, marks of direction or characters that cannot be seen, or is \"unknown\" or \
         \"empty\", which are answers of their own",
        shown(label)
    )]
    BadLabel {
        /// The label.
        label: String,
    },
    /// A class would have more shots than [`MAX_SHOTS`].
    #[error("the class \"{label}\" would have {shots} shots, but a class may have at most {MAX_SHOTS}")]
    TooManyShots {
        /// Its label.
        label: String,
        /// Shots that it would have.
        shots: usize,
    },
    /// The label belongs to a known class.
    #[error("the label \"{label}\" exists already; choose another one")]
    LabelExists {
        /// The label.
        label: String,
    },
    /// The label belongs to a class that came with the bundle.
    #[error("the label \"{label}\" exists already: a class that came with the bundle has it")]
    BaseLabelExists {
        /// The label.
        label: String,
    },
    /// The label came twice in one session.
    #[error("the label \"{label}\" is given twice; every class needs one of its own")]
    LabelTwice {
        /// The label.
        label: String,
    },
    /// A class has no shot of that number.
    #[error("\"{label}\" has no shot {number}: the device stores {shots} of it")]
    NoShot {
        /// Its label.
        label: String,
        /// The number that was asked for.
        number: usize,
        /// Shots of the class that are stored.
        shots: usize,
    },
    /// The shot is all that a class has.
    #[error("this is the last shot of \"{label}\"; forget the class instead")]
    LastShot {
        /// Its label.
        label: String,
    },
    /// A shot would be moved to the class that has it.
    #[error("the shot belongs to \"{label}\" already")]
    SameClass {
        /// The class's label.
        label: String,
    },
    /// No class has this label.
    #[error("no class has the label \"{label}\"")]
    UnknownLabel {
        /// The label.
        label: String,
    },
    /// The class came with the bundle, which the device does not change.
    #[error("\"{label}\" came with the bundle; only learned classes can be forgotten or renamed")]
    BaseClass {
        /// The label.
        label: String,
    },
    /// There are fewer free pseudo-targets than new classes.
    #[error(
        "no room for {}: of the targets that the bundle keeps for new classes, only {free} are left",
        counted(*wanted, "new class")
    )]
    NoFreeTargets {
        /// New classes.
        wanted: usize,
        /// Free pseudo-targets.
        free: usize,
    },
    /// A shot's features are not whole rows of the right length, or not finite, or beyond 1e15.
    #[error(
        "shot {} of \"{label}\" has unusable features: they are not whole rows of the bundle's length, or some are not \
         finite or beyond 1e15",
        shot + 1
    )]
    BadFeatures {
        /// Label of the class.
        label: String,
        /// Number of the shot, from 0.
        shot: usize,
    },
    /// A class's exemplars are stored in another layout than the state's: features, views or precision differ.
    #[error("the exemplars of \"{label}\" are stored in another form than this bundle's")]
    OtherLayout {
        /// Label of the class.
        label: String,
    },
    /// This state has counted as many sessions as it can.
    #[error("this state cannot count any more sessions")]
    TooManySessions,
    /// The alignment ended without a head.
    #[error(transparent)]
    Align(#[from] AlignError),
}

/// The start of a label, which may be long.
fn shown(label: &str) -> String {
    label.chars().take(64).collect()
}
