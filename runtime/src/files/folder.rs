//! A folder that may hold files of others beside ours. Listing it, and removing files from it, follows no links.
//!
//! The folder is opened once, and everything is done relative to what was opened: nobody can put another folder into
//! its place meanwhile. Listing it cannot panic: [`std::fs::ReadDir`] does when the system refuses to close the folder,
//! and folders are listed after a change was saved.

use std::ffi::OsString;
use std::io;
use std::path::Path;

#[cfg(unix)]
use super::unsyncable;
use super::{SymlinkPolicy, check_regular, if_there};

/// An open folder.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    #[cfg(unix)]
    handle: std::os::fd::OwnedFd,
    #[cfg(not(unix))]
    path: std::path::PathBuf,
}

/// What an entry of a folder is. A link is [`FolderEntry::Other`], wherever it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FolderEntry {
    /// A regular file of this many bytes.
    File(u64),
    /// A folder.
    Folder,
    /// A link, a pipe, a device.
    Other,
}

impl OpenFolder {
    /// Opens a folder; `None` if there is nothing of that name.
    ///
    /// # Errors
    /// If it cannot be opened, is no folder ([`io::ErrorKind::NotADirectory`]), or is a link that is not to be followed
    /// ([`io::ErrorKind::InvalidInput`]).
    pub fn open(path: &Path, links: SymlinkPolicy) -> io::Result<Option<Self>> {
        if_there(Self::open_existing(path, links))
    }

    /// Opens a folder that must be there.
    ///
    /// # Errors
    /// As for [`OpenFolder::open`], and if there is nothing of that name.
    pub fn open_existing(path: &Path, links: SymlinkPolicy) -> io::Result<Self> {
        if links == SymlinkPolicy::Refuse
            && let Ok(facts) = std::fs::symlink_metadata(path)
            && facts.is_symlink()
        {
            check_regular(&facts)?;
        }
        Self::open_handle(path, links)
    }

    #[cfg(unix)]
    fn open_handle(path: &Path, links: SymlinkPolicy) -> io::Result<Self> {
        use rustix::fs::{CWD, Mode, OFlags, openat};
        let follow = if links == SymlinkPolicy::Refuse { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK | follow;
        Ok(Self { handle: openat(CWD, path, flags, Mode::empty())? })
    }

    #[cfg(not(unix))]
    fn open_handle(path: &Path, _: SymlinkPolicy) -> io::Result<Self> {
        if std::fs::metadata(path)?.is_dir() {
            Ok(Self { path: path.into() })
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Names of all that is in it. A name that is no text is none of ours, and is left out.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.all_names()?.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    /// Names of all that is in it.
    ///
    /// # Errors
    /// If it cannot be read.
    #[cfg(unix)]
    pub fn all_names(&self) -> io::Result<Vec<OsString>> {
        use std::os::unix::ffi::OsStringExt;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.handle)? {
            match entry?.file_name().to_bytes() {
                b"." | b".." => {}
                name => names.push(OsString::from_vec(name.to_vec())),
            }
        }
        Ok(names)
    }

    /// Names of all that is in it, on other systems than Unix.
    #[cfg(not(unix))]
    pub fn all_names(&self) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    /// What has that name; `None` if nothing has.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn entry(&self, name: &str) -> io::Result<Option<FolderEntry>> {
        if_there(self.look(name))
    }

    #[cfg(unix)]
    fn look(&self, name: &str) -> io::Result<FolderEntry> {
        use rustix::fs::{AtFlags, FileType, statat};
        let facts = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(match FileType::from_raw_mode(facts.st_mode) {
            FileType::RegularFile => FolderEntry::File(u64::try_from(facts.st_size).unwrap_or(u64::MAX)),
            FileType::Directory => FolderEntry::Folder,
            _ => FolderEntry::Other,
        })
    }

    #[cfg(not(unix))]
    fn look(&self, name: &str) -> io::Result<FolderEntry> {
        let facts = std::fs::symlink_metadata(self.path.join(name))?;
        Ok(match facts.file_type() {
            kind if kind.is_file() => FolderEntry::File(facts.len()),
            kind if kind.is_dir() => FolderEntry::Folder,
            _ => FolderEntry::Other,
        })
    }

    /// What has a name in a folder, which may not be a link; `None` if nothing has, or there is no such folder.
    ///
    /// # Errors
    /// As for [`OpenFolder::open`] and [`OpenFolder::entry`].
    pub fn entry_at(folder: &Path, name: &str) -> io::Result<Option<FolderEntry>> {
        Self::open(folder, SymlinkPolicy::Refuse)?.map_or(Ok(None), |folder| folder.entry(name))
    }

    /// Removes a regular file of at most `most` bytes. What else has that name is not ours, and stays.
    ///
    /// # Errors
    /// If it cannot be removed; with [`io::ErrorKind::NotFound`] if nothing has that name.
    pub fn remove(&self, name: &str, most: u64) -> io::Result<()> {
        match self.look(name)? {
            FolderEntry::File(bytes) if bytes <= most => self.unlink(name),
            _ => Ok(()),
        }
    }

    /// Makes the names in it survive a power cut. Other systems than Unix do not let a folder be synced.
    ///
    /// # Errors
    /// If it cannot be synced.
    #[cfg(unix)]
    pub fn sync(&self) -> io::Result<()> {
        rustix::fs::fsync(&self.handle).map_err(|error| unsyncable(error.into()))
    }

    /// Does nothing on other systems than Unix.
    #[cfg(not(unix))]
    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    #[cfg(unix)]
    fn unlink(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name, rustix::fs::AtFlags::empty())?)
    }

    #[cfg(not(unix))]
    fn unlink(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_go_and_no_link_is_followed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), b"bytes").unwrap();
        fs::write(folder.join("large"), b"many bytes").unwrap();
        fs::create_dir(folder.join("below")).unwrap();
        symlink(folder.join("large"), folder.join("link")).unwrap();
        let opened = OpenFolder::open(&folder, SymlinkPolicy::Refuse).unwrap().unwrap();
        let mut names = opened.names().unwrap();
        names.sort();
        assert_eq!(names, ["below", "file", "large", "link"]);
        assert_eq!(opened.entry("link").unwrap(), Some(FolderEntry::Other));
        assert_eq!(opened.entry("below").unwrap(), Some(FolderEntry::Folder));
        assert_eq!(opened.entry("none").unwrap(), None);
        names.iter().for_each(|name| opened.remove(name, 5).unwrap());
        assert_eq!(opened.remove("none", 5).unwrap_err().kind(), io::ErrorKind::NotFound);
        let mut left = opened.names().unwrap();
        left.sort();
        assert_eq!(left, ["below", "large", "link"]);
        // What is opened stays the same folder, whatever takes its place.
        fs::rename(&folder, parent.path().join("moved")).unwrap();
        symlink(parent.path().join("moved"), &folder).unwrap();
        assert_eq!(opened.names().unwrap().len(), 3);
        let refused = OpenFolder::open(&folder, SymlinkPolicy::Refuse).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        assert!(OpenFolder::open(&folder, SymlinkPolicy::Follow).unwrap().is_some());
        assert!(OpenFolder::open(&parent.path().join("none"), SymlinkPolicy::Refuse).unwrap().is_none());
        let refused = OpenFolder::open(&parent.path().join("moved/large"), SymlinkPolicy::Refuse).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotADirectory);
    }
}
