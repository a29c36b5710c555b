//! Checks where results are written: not into the device's state or bundle, whose files they could replace.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};

#[cfg(unix)]
use super::identity;
use super::{create_with, replace_with};

/// Most links that are followed, one after the other.
const MAX_LINKS: usize = 40;

/// What becomes of a file that a result would be written over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExistingFile {
    /// It stays, and writing fails.
    #[default]
    Refuse,
    /// It is replaced.
    Replace,
}

impl ExistingFile {
    /// `Replace` if `replace`, else `Refuse`.
    pub fn replace_if(replace: bool) -> Self {
        if replace { Self::Replace } else { Self::Refuse }
    }

    /// Makes a file, or replaces it where it may be, by what `write` writes into a new one. One that came since
    /// [`file()`] looked stays, too, where the file system has links; elsewhere one that comes in the last moment may
    /// be replaced.
    ///
    /// # Errors
    /// As for [`create_with`] and [`replace_with`].
    pub(crate) fn write_with<T, E: From<io::Error>>(
        self,
        path: &Path,
        write: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<T, E> {
        match self {
            Self::Refuse => create_with(path, write),
            Self::Replace => replace_with(path, write),
        }
    }
}

/// Refuses a path into a folder, through whatever links, and a second name of a file in it. `folder_name` is what the
/// error calls the folder.
///
/// # Errors
/// If the path is such a one, with [`io::ErrorKind::InvalidInput`].
pub fn check(path: &Path, folder: &Path, folder_name: &str) -> io::Result<()> {
    let there = canonical(folder);
    if !canonical(path).starts_with(&there) && !is_second_name(path, &there) {
        return Ok(());
    }
    let (path, folder) = (path.display(), folder.display());
    let refused = format!("cannot write {path}: it is in the {folder_name}, {folder}; choose another place");
    Err(io::Error::new(io::ErrorKind::InvalidInput, refused))
}

/// The file that a path outside a device's state folder leads to, or where one is to be made.
///
/// # Errors
/// With [`io::ErrorKind::InvalidInput`] if it would be in the state's folder, with [`io::ErrorKind::AlreadyExists`] if
/// there is one that may not be replaced, and if something else lies there, such as a device.
pub fn file(path: &Path, state: &Path, existing: ExistingFile) -> io::Result<PathBuf> {
    check(path, state, "device's state folder")?;
    match fs::metadata(path) {
        Ok(facts) if !facts.is_file() => Err(io::Error::other("what is there is no regular file")),
        Ok(_) if existing == ExistingFile::Refuse => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of that name"))
        }
        Ok(_) => fs::canonicalize(path),
        Err(_) if fs::symlink_metadata(path).is_ok() => Err(io::Error::other("it is a link that leads nowhere")),
        Err(_) => Ok(path.to_owned()),
    }
}

/// Whether two paths lead to one plain file, by whatever links or names.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let is_plain = fs::metadata(other).is_ok_and(|facts| facts.is_file());
    is_plain && (canonical(one) == canonical(other) || is_one_file(one, other))
}

/// Whether two paths are names of one file.
#[cfg(unix)]
fn is_one_file(one: &Path, other: &Path) -> bool {
    let identity_of = |path: &Path| fs::metadata(path).ok().map(|facts| identity(&facts));
    identity_of(one).is_some_and(|one| identity_of(other) == Some(one))
}

/// Other systems than Unix do not tell.
#[cfg(not(unix))]
fn is_one_file(_: &Path, _: &Path) -> bool {
    false
}

/// A path without links, as far as it exists: what does not exist yet would be made there.
pub fn canonical(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    resolved(&path, MAX_LINKS).unwrap_or(path)
}

/// A path without links, as far as it exists; `None` if links lead in a circle.
fn resolved(path: &Path, links: usize) -> Option<PathBuf> {
    if let Ok(whole) = fs::canonicalize(path) {
        return Some(whole);
    }
    let Some(parent) = path.parent() else { return Some(path.to_owned()) };
    // A link that leads nowhere leads to where something would be made.
    if let Ok(target) = fs::read_link(path) {
        return resolved(&parent.join(target), links.checked_sub(1)?);
    }
    let mut whole = resolved(parent, links)?;
    match path.components().next_back() {
        Some(Component::ParentDir) => drop(whole.pop()),
        Some(part) => whole.push(part),
        None => {}
    }
    Some(whole)
}

/// Whether a file has a second name, in a folder or in those directly in it.
#[cfg(unix)]
fn is_second_name(path: &Path, folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(facts) = fs::metadata(path) else { return false };
    let holds = |folder: &Path| -> io::Result<bool> {
        let is_same = |other: &fs::Metadata| identity(other) == identity(&facts);
        let mut entries = fs::read_dir(folder)?;
        Ok(entries.any(|entry| entry.and_then(|entry| entry.metadata()).is_ok_and(|other| is_same(&other))))
    };
    let folders = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    facts.is_file()
        && facts.nlink() > 1
        && std::iter::once(folder.to_owned()).chain(folders).any(|folder| holds(&folder).unwrap_or(false))
}

/// Other systems than Unix do not tell.
#[cfg(not(unix))]
fn is_second_name(_: &Path, _: &Path) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_the_same_by_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("report"), b"{}").unwrap();
        fs::write(path("other"), b"{}").unwrap();
        symlink("report", path("link")).unwrap();
        fs::hard_link(path("report"), path("second")).unwrap();
        for same in ["report", "link", "second", "missing/../report"] {
            assert!(is_same_file(&path(same), &path("report")), "{same}");
        }
        for another in ["other", "missing", "."] {
            assert!(!is_same_file(&path(another), &path("report")), "{another}");
        }
        // What takes bytes takes those of both.
        assert!(!is_same_file(Path::new("/dev/null"), Path::new("/dev/null")));
    }

    #[test]
    fn nothing_but_a_file_outside_of_the_state_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("state")).unwrap();
        fs::write(path("mine"), b"mine").unwrap();
        symlink("mine", path("link")).unwrap();
        symlink("missing", path("nowhere")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let file_at = |name: &str, existing: ExistingFile| {
            file(&path(name), &path("state"), existing).map_err(|error| error.to_string())
        };
        for (name, existing, reason) in [
            ("state/slot-a", ExistingFile::Replace, "it is in the device's state folder"),
            ("socket", ExistingFile::Replace, "no regular file"),
            ("nowhere", ExistingFile::Replace, "leads nowhere"),
            ("mine", ExistingFile::Refuse, "there is a file of that name"),
        ] {
            let refused = file_at(name, existing).expect_err(name);
            assert!(refused.contains(reason), "{name}: {refused}");
        }
        assert_eq!(file_at("new", ExistingFile::Refuse), Ok(path("new")));
        assert_eq!(file_at("link", ExistingFile::Replace), Ok(fs::canonicalize(path("mine")).unwrap()));
    }

    #[test]
    fn nothing_leads_into_the_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let state = path("state");
        fs::create_dir_all(state.join("thumbnails")).unwrap();
        fs::create_dir(path("elsewhere")).unwrap();
        fs::write(state.join("slot-a"), b"state").unwrap();
        fs::write(path("mine"), b"mine").unwrap();
        symlink(&state, path("link")).unwrap();
        symlink("state/slot-b", path("nowhere")).unwrap();
        symlink("nowhere", path("twice")).unwrap();
        symlink("loop", path("loop")).unwrap();
        fs::hard_link(state.join("slot-a"), path("second")).unwrap();
        for inside in [
            "state",
            "state/slot-a",
            "state/new",
            "state/thumbnails/new/1.jpg",
            "link/slot-a",
            "link/new",
            "elsewhere/../state/new",
            "missing/../state/new",
            "nowhere",
            "twice",
            "nowhere/below",
            "second",
        ] {
            for state in [&state, &path("link")] {
                let refused = check(&path(inside), state, "device's state folder").expect_err(inside).to_string();
                assert!(refused.contains("it is in the device's state folder"), "{refused}");
            }
        }
        for outside in ["mine", "new", "elsewhere/new", "state.json", "state/../new", "missing/new", "loop"] {
            check(&path(outside), &state, "device's state folder").unwrap_or_else(|error| panic!("{outside}: {error}"));
        }
        // A state that is not there yet.
        check(&path("new/slot-a"), &path("new"), "bundle").unwrap_err();
        check(Path::new("/dev/null"), &path("new"), "bundle").unwrap();
    }
}
