//! A folder of a file system, operation by operation, so that tests can stand in for it and fail at each; and how a
//! file in it is replaced, so that it survives a power cut.

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

/// The disk that devices have: a folder of a real file system, such as that of the state or of kept pictures.
#[derive(Clone, Debug)]
pub struct FolderDisk {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it may be reached by a link: the one that the user names may, those within it may not.
    pub links: SymlinkPolicy,
}

impl FolderDisk {
    /// The folder itself; `None` if it is not there.
    pub fn open(&self) -> io::Result<Option<OpenFolder>> {
        OpenFolder::open(&self.path, self.links)
    }
}

impl Disk for FolderDisk {
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

/// What went wrong with a new file.
enum Failure {
    /// It is not complete.
    Write(io::Error),
    /// It may not be on the disk.
    Sync(io::Error),
}

/// Replaces a file of a folder by way of a new one, called `new` and the attempt's number: synced, renamed, the folder
/// synced.
///
/// # Errors
/// If it cannot be written; the old file is then as it was, unless only its folder could not be synced.
pub(super) fn replace<D: Disk>(
    disk: &D,
    name: &str,
    new: &str,
    bytes: &[u8],
    rename: fn(&D, &str, &str) -> io::Result<()>,
) -> io::Result<()> {
    // After a sync has failed nobody knows which pages of the file are on the disk, and the system may take the
    // lost ones for written: the second attempt is another file.
    let names = [0, 1].map(|attempt| format!("{new}-{attempt}"));
    let new = match write_new(disk, &names[0], bytes) {
        Ok(()) => &names[0],
        Err(Failure::Write(error)) => return Err(error),
        Err(Failure::Sync(_)) => match write_new(disk, &names[1], bytes) {
            Ok(()) => &names[1],
            Err(Failure::Write(error) | Failure::Sync(error)) => return Err(error),
        },
    };
    rename(disk, new, name).inspect_err(|_| {
        let _ = disk.remove(new);
    })?;
    // Renaming alone does not make the new name survive a power cut.
    disk.sync_folder()
}

/// What [`replace`] was given as `new`, out of the name of a file that it writes; `None` for a name without a number.
pub(super) fn without_attempt(name: &str) -> Option<&str> {
    name.strip_suffix("-0").or(name.strip_suffix("-1"))
}

/// Writes and syncs a new file, or leaves none.
fn write_new<D: Disk>(disk: &D, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    remove(disk, name).map_err(Failure::Write)?;
    let mut file = disk.create(name).map_err(Failure::Write)?;
    let done = write_all(disk, &mut file, bytes).map_err(Failure::Write);
    let done = done.and_then(|()| disk.sync(&mut file).map_err(Failure::Sync));
    done.inspect_err(|_| {
        // Where this fails, too, the next process that locks the folder removes it.
        let _ = disk.remove(name);
    })
}

fn write_all<D: Disk>(disk: &D, file: &mut D::File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match disk.write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes a file if there is one.
pub(super) fn remove<D: Disk>(disk: &D, name: &str) -> io::Result<()> {
    files::if_there(disk.remove(name)).map(drop)
}
