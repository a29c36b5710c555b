//! The highest release of each bundle that a device has used, remembered so that an older one is refused: an attacker
//! who cannot sign could otherwise bring back a release that was signed once and has faults known by now.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::files;

/// Name of the file, in the state folder.
pub const RELEASES: &str = "releases.toml";

const MAX_FILE: u64 = 1 << 20;

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

/// Refuses a release lower than one used before; writes nothing. To be asked only of bundles whose signature was
/// checked: what an unsigned manifest says of its release is worth nothing.
///
/// # Errors
/// [`ReleaseError`] if the release is older, or what was remembered cannot be read.
pub fn check(folder: &Path, name: &str, release: u32) -> Result<(), ReleaseError> {
    compare(&remembered(&folder.join(RELEASES))?, name, release).map(|_| ())
}

/// Whether a release is higher than all used before.
fn compare(used: &BTreeMap<String, u32>, name: &str, release: u32) -> Result<bool, ReleaseError> {
    let highest = used.get(name).copied().unwrap_or(0);
    if release < highest {
        return Err(ReleaseError::Older { name: name.into(), release, used: highest });
    }
    Ok(release > highest)
}

/// The same as [`check`], but a higher release is remembered in `folder`, which must be there and locked, and only then
/// is anything written; where that fails, a warning is logged and the bundle is accepted, so that a full disk stops no
/// camera.
///
/// # Errors
/// [`ReleaseError`] if the release is older, or what was remembered cannot be read.
pub fn accept(folder: &Path, name: &str, release: u32) -> Result<(), ReleaseError> {
    let path = folder.join(RELEASES);
    let mut used = remembered(&path)?;
    if compare(&used, name, release)? {
        used.insert(name.into(), release);
        if let Err(error) = remember(&path, &used) {
            log::warn!("cannot remember release {release} of {name} in {}: {error}", path.display());
        }
    }
    Ok(())
}

fn remembered(path: &Path) -> Result<BTreeMap<String, u32>, ReleaseError> {
    let failed = |reason: String| ReleaseError::Remembered { path: path.into(), reason };
    match files::read_own(path, MAX_FILE) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
            toml::from_str(&text).map_err(|error| failed(error.message().to_string()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn remember(path: &Path, used: &BTreeMap<String, u32>) -> io::Result<()> {
    let text = toml::to_string(used).map_err(io::Error::other)?;
    files::replace(path, text.as_bytes())
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
