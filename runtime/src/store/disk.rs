//! A folder of a file system, operation by operation, so that tests can stand in for it and fail at each.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use crate::files::folder::OpenFolder;
use crate::files::{self, SymlinkPolicy};

/// Largest file of a slot that is read, in bytes.
pub const MAX_SLOT: u64 = 1 << 30;

/// What a store does with the files of its folder. Names are those of files in it.
pub trait Disk {
    /// An open file.
    type File;

    /// Names of all that is in the folder, whatever it is.
    fn list(&self) -> io::Result<Vec<String>>;

    /// A file's bytes, in memory with room for `room` more; `None` if there is no such file. An error if something else
    /// lies in its place, a link for one.
    fn read(&self, name: &str, room: usize) -> io::Result<Option<Vec<u8>>>;

    /// How many bytes a file has, as far as the system tells; 0 if it does not.
    fn length(&self, name: &str) -> usize;

    /// Makes a file that nobody but its owner can read, and fails if there is one of that name.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Writes some of the bytes at the end of a file; says how many.
    fn write(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<usize>;

    /// Waits until a file's bytes are on the disk.
    fn sync(&self, file: &mut Self::File) -> io::Result<()>;

    /// Gives a file another name; one that had it is gone.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file another name, or fails if there is a file of that name.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. What else has that name, a link or a pipe for example, is not ours, and stays.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Waits until the names in the folder are on the disk.
    fn sync_folder(&self) -> io::Result<()>;
}

/// A real folder.
#[derive(Clone, Debug)]
pub struct StateFolder {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it may be reached by a link: the one that the user names may, those within it may not.
    pub links: SymlinkPolicy,
}

impl StateFolder {
    /// The folder itself; `None` if it is not there.
    pub fn open(&self) -> io::Result<Option<OpenFolder>> {
        OpenFolder::open(&self.path, self.links)
    }
}

impl Disk for StateFolder {
    type File = File;

    fn list(&self) -> io::Result<Vec<String>> {
        self.open()?.map_or(Ok(Vec::new()), |folder| folder.names())
    }

    fn read(&self, name: &str, room: usize) -> io::Result<Option<Vec<u8>>> {
        files::if_there(files::read_own_with_room(&self.path.join(name), MAX_SLOT, room))
    }

    fn length(&self, name: &str) -> usize {
        let facts = fs::symlink_metadata(self.path.join(name));
        facts.map_or(0, |facts| usize::try_from(facts.len().min(MAX_SLOT)).unwrap_or(0))
    }

    fn create(&self, name: &str) -> io::Result<File> {
        // Features of a face are personal data: not even for a moment are they for others.
        files::private_options().write(true).create_new(true).open(self.path.join(name))
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn sync(&self, file: &mut File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            use rustix::io::Errno;
            match renameat_with(CWD, self.path.join(from), CWD, self.path.join(to), RenameFlags::NOREPLACE) {
                // Not every file system can do that.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
                renamed => return Ok(renamed?),
            }
        }
        self.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let folder = self.open()?.ok_or(io::ErrorKind::NotFound)?;
        folder.remove(name, MAX_SLOT)
    }

    fn sync_folder(&self) -> io::Result<()> {
        files::sync_folder(&self.path)
    }
}
