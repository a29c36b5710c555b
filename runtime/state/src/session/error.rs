//! Why a session is refused.

use alloc::string::String;
use core::fmt;

use crate::state::{MAX_SHOTS, MAX_TEXT};
use orco_core::align::AlignError;

/// Why a session was refused. The old state holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LearnError {
    /// There is nothing to learn.
    NoClasses,
    /// A class came without shots.
    NoShots {
        /// Its label.
        label: String,
    },
    /// A label is empty, too long, or has characters in it that cannot be seen or typed.
    BadLabel {
        /// The label.
        label: String,
    },
    /// A class would have more shots than [`MAX_SHOTS`].
    TooManyShots {
        /// Its label.
        label: String,
        /// Shots that it would have.
        shots: usize,
    },
    /// The label belongs to a known class.
    LabelExists {
        /// The label.
        label: String,
    },
    /// The label came twice in one session.
    LabelTwice {
        /// The label.
        label: String,
    },
    /// No class has this label.
    UnknownLabel {
        /// The label.
        label: String,
    },
    /// The class came with the bundle, which the device does not change.
    BaseClass {
        /// The label.
        label: String,
    },
    /// There are fewer free pseudo-targets than new classes.
    NoFreeTargets {
        /// New classes.
        wanted: usize,
        /// Free pseudo-targets.
        free: usize,
    },
    /// A shot's features are not whole rows of the right length, or not finite, or beyond 1e15.
    BadFeatures {
        /// Label of the class.
        label: String,
        /// Number of the shot, from 0.
        shot: usize,
    },
    /// A class's exemplars are stored in another layout than the state's: features, views or precision differ.
    OtherLayout {
        /// Label of the class.
        label: String,
    },
    /// This state has counted as many sessions as it can.
    TooManySessions,
    /// The alignment came to no end.
    Align(AlignError),
}

impl fmt::Display for LearnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClasses => write!(f, "there is no class to learn"),
            Self::NoShots { label } => write!(f, "the class \"{label}\" has no shots"),
            Self::BadLabel { label } => {
                const SHOWN: usize = 64;
                let shown: String = label.chars().take(SHOWN).collect();
                write!(
                    f,
                    "the label {shown:?} cannot be used: it is empty, longer than {MAX_TEXT} bytes, starts or ends with \
                     white space, or holds \"=\", control characters, marks of direction or characters that cannot be seen"
                )
            }
            Self::TooManyShots { label, shots } => write!(
                f,
                "the class \"{label}\" would have {shots} shots, but a class may have at most {MAX_SHOTS}; give fewer, such \
                 as the most different ones"
            ),
            Self::LabelExists { label } => write!(f, "the label \"{label}\" exists already; choose another one"),
            Self::LabelTwice { label } => {
                write!(f, "the label \"{label}\" is given twice; every class needs one of its own")
            }
            Self::UnknownLabel { label } => write!(f, "no class has the label \"{label}\"; `orco list` shows all"),
            Self::BaseClass { label } => {
                write!(f, "\"{label}\" came with the bundle; only learned classes can be forgotten or renamed")
            }
            Self::NoFreeTargets { wanted, free } => {
                write!(f, "{wanted} new classes need as many free targets, but only {free} are left")
            }
            Self::BadFeatures { label, shot } => write!(f, "shot {} of \"{label}\" has unusable features", shot + 1),
            Self::OtherLayout { label } => {
                write!(f, "the exemplars of \"{label}\" are stored in another form than this bundle's")
            }
            Self::TooManySessions => write!(f, "this state cannot count any more sessions"),
            Self::Align(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for LearnError {}

impl From<AlignError> for LearnError {
    fn from(error: AlignError) -> Self {
        Self::Align(error)
    }
}
