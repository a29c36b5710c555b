//! The highest release of each bundle that a device has used, remembered so that an older one is refused: an attacker
//! who cannot sign could otherwise bring back a release that was signed once and has faults known today.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files;

/// Name of the file, in the state folder.
pub const RELEASES: &str = "releases.toml";

/// Largest file that is read, in bytes.
pub(crate) const MAX_FILE: u64 = 1 << 20;

/// Why a bundle's release is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The device has used a later one.
    #[error(
        "the bundle {name} is release {release}, but this device has used release {used}; older releases are refused"
    )]
    Older {
        /// Name of the bundle.
        name: String,
        /// Its release.
        release: u32,
        /// The highest release that was used.
        used: u32,
    },
    /// What was remembered cannot be read.
    #[error(
        "{} says which releases were used, but cannot be read: {reason}; remove it to accept any release again",
        path.display()
    )]
    Remembered {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// A text cannot be read as [`Releases`]; the message says what is wrong. Remove a device's [`RELEASES`] to accept any
/// release again; where the text is a backup's, take another backup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReleasesFormatError(String);

/// The highest release of each bundle that was used, by the bundle's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Releases(BTreeMap<String, u32>);

impl Releases {
    /// Reads the releases that are remembered in a state's folder; none if there is no file of them.
    ///
    /// # Errors
    /// [`ReleaseError::Remembered`] if it cannot be read.
    pub fn read(folder: &Path) -> Result<Self, ReleaseError> {
        let path = folder.join(RELEASES);
        let failed = |reason: String| ReleaseError::Remembered { path: path.clone(), reason };
        let read = files::read_own_if_there(&path, MAX_FILE).map_err(|error| failed(error.to_string()))?;
        let Some(bytes) = read else { return Ok(Self::default()) };
        let text = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
        Self::parse(&text).map_err(|error| failed(error.to_string()))
    }

    /// The releases as the text of a file.
    ///
    /// # Errors
    /// If it cannot be written as TOML.
    pub fn text(&self) -> io::Result<String> {
        toml::to_string(self).map_err(io::Error::other)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`ReleasesFormatError`] if it is no TOML table of bundles' names and release numbers.
    pub fn parse(text: &str) -> Result<Self, ReleasesFormatError> {
        toml::from_str(text).map_err(|error| ReleasesFormatError(error.message().to_owned()))
    }

    /// Refuses a release lower than one used before.
    ///
    /// # Errors
    /// [`ReleaseError::Older`] if it is.
    pub fn check(&self, name: &str, release: u32) -> Result<(), ReleaseError> {
        let used = self.0.get(name).copied().unwrap_or(0);
        if release < used { Err(ReleaseError::Older { name: name.into(), release, used }) } else { Ok(()) }
    }

    /// Remembers that a release was used; says whether it is higher than all used before.
    pub fn raise(&mut self, name: &str, release: u32) -> bool {
        let is_higher = release > self.0.get(name).copied().unwrap_or(0);
        if is_higher {
            self.0.insert(name.into(), release);
        }
        is_higher
    }

    /// Remembers all that others have used, too.
    pub fn raise_all(&mut self, others: &Self) {
        for (name, release) in &others.0 {
            self.raise(name, *release);
        }
    }

    /// Writes them into a state's folder, which must be there and locked. Where there are none, the file is removed.
    ///
    /// # Errors
    /// If the file cannot be written or removed.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let path = folder.join(RELEASES);
        if !self.0.is_empty() {
            return files::replace(&path, self.text()?.as_bytes());
        }
        files::remove_if_there(&path)
    }
}

/// Refuses a release lower than one used before; writes nothing. To be asked only of bundles whose signature was
/// checked: what an unsigned manifest says of its release is worth nothing.
///
/// # Errors
/// [`ReleaseError`] if the release is older, or what was remembered cannot be read.
pub fn check(folder: &Path, name: &str, release: u32) -> Result<(), ReleaseError> {
    Releases::read(folder)?.check(name, release)
}

/// As [`check`], but remembers a higher release in `folder`, which must be there and locked; only then is anything
/// written. Where that fails, a warning is logged and the bundle is accepted, so that a full disk stops no camera.
///
/// # Errors
/// [`ReleaseError`] if the release is older, or what was remembered cannot be read.
pub fn accept(folder: &Path, name: &str, release: u32) -> Result<(), ReleaseError> {
    let mut used = Releases::read(folder)?;
    used.check(name, release)?;
    if used.raise(name, release)
        && let Err(error) = used.write(folder)
    {
        log::warn!("cannot remember release {release} of {name} in {}: {error}", folder.join(RELEASES).display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn older_releases_are_refused_and_only_a_rise_is_written() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("state");
        accept(&folder, "one", 0).unwrap();
        check(&folder, "one", 3).unwrap();
        accept(&folder, "one", 3).unwrap();
        assert!(!folder.exists(), "the folder is the store's to make");
        fs::create_dir(&folder).unwrap();
        accept(&folder, "one", 0).unwrap();
        check(&folder, "one", 3).unwrap();
        assert!(!folder.join(RELEASES).exists(), "nothing is worth remembering");
        accept(&folder, "one", 3).unwrap();
        accept(&folder, "two", 1).unwrap();
        let written = fs::read(folder.join(RELEASES)).unwrap();
        let time = fs::metadata(folder.join(RELEASES)).unwrap().modified().unwrap();
        accept(&folder, "one", 3).unwrap();
        assert!(matches!(accept(&folder, "one", 2), Err(ReleaseError::Older { release: 2, used: 3, .. })));
        assert!(matches!(accept(&folder, "one", 0), Err(ReleaseError::Older { .. })));
        assert!(matches!(check(&folder, "one", 2), Err(ReleaseError::Older { release: 2, used: 3, .. })));
        check(&folder, "one", 4).unwrap();
        assert_eq!(fs::read(folder.join(RELEASES)).unwrap(), written);
        assert_eq!(fs::metadata(folder.join(RELEASES)).unwrap().modified().unwrap(), time, "it was written again");
        accept(&folder, "one", u32::MAX).unwrap();
        assert!(matches!(accept(&folder, "one", 4), Err(ReleaseError::Older { .. })));
        fs::write(folder.join(RELEASES), "one = = 3").unwrap();
        assert!(matches!(accept(&folder, "one", 4), Err(ReleaseError::Remembered { .. })));
        fs::write(folder.join(RELEASES), [0xff; 9]).unwrap();
        assert!(matches!(accept(&folder, "one", 4), Err(ReleaseError::Remembered { .. })));
    }
}
