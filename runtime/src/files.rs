//! Reads, makes and replaces files without trusting their size or kind (a path may be a link or a pipe); a replaced
//! file survives a power cut.

pub mod destination;
pub(crate) mod folder;
pub mod lock;
mod owner;

use std::collections::hash_map::RandomState;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::{NamedTempFile, PersistError, TempPath};

pub use self::owner::check_own_folder;
#[cfg(unix)]
pub use self::owner::user_name;
pub(crate) use self::owner::{FolderOfAnotherUser, OWNER_PROBE, folder_of_another_user, probe_other_owner};

/// Largest file of certificates, or of a key for TLS, that is read, in bytes.
pub const MAX_PEM_BYTES: u64 = 1 << 20;

/// Whether there was no room for what was to be written.
pub fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether the last name of a path begins with a dot, as names of hidden files do.
pub fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Opens a regular file for reading, or the one that a link leads to.
///
/// # Errors
/// If it cannot be opened, or is no regular file (a pipe could block, a device never end).
pub fn open_regular(path: &Path) -> io::Result<File> {
    check_regular(&fs::metadata(path)?)?;
    open(OpenOptions::new().read(true), path, SymlinkPolicy::Follow)
}

/// Reads a regular file of at most `limit` bytes, or the one that a link leads to.
///
/// # Errors
/// If it cannot be read, is no regular file (a pipe could block, a device never end), or is larger.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_opened(open_regular(path)?, limit)
}

/// Reads a regular file as [`read`] does, but follows no link in its place: for files that are our own.
///
/// # Errors
/// As for [`read`], and if it is a link.
pub fn read_own(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_own_with_room(path, limit, 0)
}

/// Reads a file as [`read_own`] does; `None` if there is none.
///
/// # Errors
/// As for [`read_own`], except that of a missing file.
pub fn read_own_if_there(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    if_there(read_own(path, limit))
}

/// What was done with a file, or `None` where there was none.
///
/// # Errors
/// All but that of a missing file.
pub fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// Device and number of a file: the same for all its names.
#[cfg(unix)]
pub fn identity(facts: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (facts.dev(), facts.ino())
}

/// Refuses what is neither a regular file nor absent, such as a link.
fn check_regular_or_absent(path: &Path) -> io::Result<()> {
    if_there(fs::symlink_metadata(path))?.as_ref().map_or(Ok(()), check_regular)
}

/// Reads a file as [`read_own`] does, into memory with room for `room` more bytes.
///
/// # Errors
/// As for [`read_own`].
pub(crate) fn read_own_with_room(path: &Path, limit: u64, room: usize) -> io::Result<Vec<u8>> {
    read_with_room(open_own(OpenOptions::new().read(true), path)?, limit, room)
}

/// Reads a file of at most `limit` bytes that is open already, as after a check of its rights: its path may lead to
/// another file by then.
///
/// # Errors
/// If it cannot be read, or is larger.
pub fn read_opened(file: File, limit: u64) -> io::Result<Vec<u8>> {
    read_with_room(file, limit, 0)
}

fn read_with_room(file: File, limit: u64, room: usize) -> io::Result<Vec<u8>> {
    // Room for all of it at once: bytes that grew as they came would take up to three times the memory.
    let length = usize::try_from(file.metadata()?.len().min(limit)).unwrap_or(0);
    let limit_in_memory = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(length.saturating_add(room).min(limit_in_memory));
    // The size is counted while reading, since the file may grow.
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Replaces a regular file, or makes it, readable by its owner alone. When this returns, the bytes survive a power cut;
/// until then the old file is there as it was.
///
/// # Errors
/// If it cannot be written; the old file is then as it was, unless the new one is in place and [unsynced](is_unsynced).
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, |new| new.write_all(bytes))
}

/// Replaces a file as [`replace`] does; its folder is made if it is not there.
///
/// # Errors
/// As for [`replace`], and if the folder cannot be made.
pub fn replace_in_new_folder(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.is_dir());
    folder.map_or(Ok(()), create_folder)?;
    replace(path, bytes)
}

/// Replaces a file as [`replace_in_new_folder`] does, unless root would so take it from the user whose folder it is in:
/// for files beside a device's state.
///
/// # Errors
/// As for [`replace`] and [`create_own_folder`].
pub fn replace_in_own_folder(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_own_folder(folder_of(path))?;
    replace(path, bytes)
}

/// Replaces a file as [`replace`] does, by what `write` writes into a new one.
///
/// # Errors
/// As for [`replace`], and if `write` fails.
pub fn replace_with<T, E: From<io::Error>>(path: &Path, write: impl FnOnce(&mut File) -> Result<T, E>) -> Result<T, E> {
    replace_by(NewFile { temporary: &temporary_path(path), mode: 0o600 }, path, write, || Ok(()))
}

/// Makes a file as [`replace`] does, unless something lies there already. The file is whole or not there.
///
/// # Errors
/// If it cannot be written, or with [`io::ErrorKind::AlreadyExists`] if something lies there. The file is not there
/// then, unless it is in place and [unsynced](is_unsynced).
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_with(path, |new| new.write_all(bytes))
}

/// Makes a file as [`create`] does, by what `write` writes into a new one.
///
/// # Errors
/// As for [`create`], and if `write` fails.
pub(crate) fn create_with<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let (new, result) = NewFile { temporary: &temporary_path(path), mode: 0o600 }.create(write)?;
    new.persist_noclobber(path).or_else(|failed| persist_without_links(failed, path))?;
    sync_folder_of(path)?;
    Ok(result)
}

/// Gives a new file its name where the file system has neither hard links nor a rename that keeps what is there, as
/// exFAT through FUSE: only a look tells then whether something is there.
fn persist_without_links(failed: PersistError, path: &Path) -> io::Result<File> {
    let is_taken = failed.error.kind() == io::ErrorKind::AlreadyExists || fs::symlink_metadata(path).is_ok();
    if is_taken { Err(failed.error) } else { failed.file.persist(path).map_err(|failed| failed.error) }
}

/// Replaces a file as [`replace`] does, readable by whom the process's mask lets read: for results that others look at.
/// Until the new file is whole it lies at [`partial`], so that killed processes leave one such file at most. Only one
/// process may write at a time. A link in the file's place is replaced, not followed.
///
/// # Errors
/// As for [`replace`].
pub fn replace_shared(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_shared_with(path, |new| new.write_all(bytes), |_| Ok(()))
}

/// Replaces a file as [`replace_shared`] does, by what `write` writes into a new one. When that is whole and synced,
/// `before` gets its path; then it takes the file's name.
///
/// # Errors
/// As for [`replace`], and if `write` or `before` fails.
pub fn replace_shared_with<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, E>,
    before: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<T, E> {
    let partial = partial(path);
    // What a killed process left.
    remove_if_there(&partial)?;
    replace_by(NewFile { temporary: &partial, mode: 0o666 }, path, write, || before(&partial))
}

/// Where [`replace_shared`] writes a file before it takes its name: `.NAME.orco-partial` beside it. No other program
/// gives files such names.
pub fn partial(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.orco-partial", path.file_name().unwrap_or_default().to_string_lossy()))
}

/// Removes a file, or a link in its place, if there is one.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    if_there(fs::remove_file(path)).map(drop)
}

/// Removes a file, or a link in its place, if there is one; says whether there was. When this returns, no power cut
/// brings it back.
///
/// # Errors
/// If it cannot be removed, or its folder cannot be synced.
pub fn remove_durably(path: &Path) -> io::Result<bool> {
    let was_there = if_there(fs::remove_file(path))?.is_some();
    if was_there {
        sync_folder(folder_of(path))?;
    }
    Ok(was_there)
}

/// Opens a regular file that is our own: no link is followed in its place, and nobody waits for the other end of a
/// pipe.
///
/// # Errors
/// If it cannot be opened, or something else lies in its place.
pub fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Where there is none, the options say whether it is made.
    check_regular_or_absent(path)?;
    open(options, path, SymlinkPolicy::Refuse)
}

/// Options that make files for their owner's eyes alone.
pub fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder that its owner alone may look into, and those above it, unless they are there. When this returns, all
/// that were made survive a power cut.
///
/// # Errors
/// If it cannot be made.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    check_links(path)?;
    let above: Vec<&Path> = missing_folders(path).skip(1).collect();
    builder.recursive(true).create(path)?;
    // The folder itself, even if it existed: the process that made it may have been stopped before the sync.
    std::iter::once(path).chain(above).try_for_each(|folder| sync_folder(folder_of(folder)))
}

/// Makes a folder as [`create_folder`] does, unless it is there. Refuses root a folder of another user, there or still
/// to be made.
///
/// # Errors
/// If it cannot be made, and as for [`check_own_folder`].
pub fn create_own_folder(path: &Path) -> io::Result<()> {
    check_own_folder(path)?;
    if path.is_dir() { Ok(()) } else { create_folder(path) }
}

/// A path and the folders above it, the innermost first; for a relative path the last one is the current folder.
pub fn path_and_parents(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().map(|part| if part.as_os_str().is_empty() { Path::new(".") } else { part })
}

/// A folder and those above it that are not there, the innermost first.
pub(crate) fn missing_folders(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().take_while(|folder| {
        let there = fs::symlink_metadata(folder);
        !folder.as_os_str().is_empty() && there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    })
}

/// Makes the names in a folder survive a power cut. Other systems than Unix do not let a folder be synced.
///
/// # Errors
/// If the folder cannot be synced; the error says so where its file system can sync none.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all().map_err(unsyncable) } else { Ok(()) }
}

/// Why a folder could not be synced, in words where its file system can sync none (folders that VirtualBox shares).
pub(crate) fn unsyncable(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => io::Error::new(
            error.kind(),
            format!("its file system cannot sync folders ({error}); what must survive a power cut needs another one"),
        ),
        _ => error,
    }
}

/// Start of the names of files that are being written.
const TEMPORARY: &str = ".orco-";

/// Where a file is written before it gets its name.
fn temporary_path(path: &Path) -> PathBuf {
    path.with_file_name(format!("{TEMPORARY}{}", random_name()))
}

/// Whether the bytes of a file stand for one that Git LFS has not fetched.
pub fn is_lfs_pointer(bytes: &[u8]) -> bool {
    bytes.starts_with(b"version https://git-lfs.github.com/spec/")
}

/// Whether a file has a name as files have that are being written.
pub fn is_temporary(name: &str) -> bool {
    name.strip_prefix(TEMPORARY).is_some_and(is_random_name)
}

/// A file is in place, but its folder could not be synced.
#[derive(Debug, thiserror::Error)]
#[error("it was written, but a power cut could still undo that: {0}")]
struct Unsynced(io::Error);

/// Whether a file is in place as a whole although writing it failed: only its folder could not be synced, so a power
/// cut could still undo the change.
pub fn is_unsynced(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| cause.is::<Unsynced>())
}

/// A file that is to be made.
struct NewFile<'a> {
    /// Where it lies until it gets its name.
    temporary: &'a Path,
    /// Its permissions, without what the process's mask takes.
    mode: u32,
}

impl NewFile<'_> {
    /// Makes the file, writes and syncs it; returns it with what `write` gave. The file is removed again if anything
    /// fails; errors do not name it, since nobody asked for it.
    fn create<T, E: From<io::Error>>(
        self,
        write: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<(NamedTempFile, T), E> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, self.mode);
        let file = options.open(self.temporary)?;
        let mut new = NamedTempFile::from_parts(file, TempPath::try_from_path(self.temporary)?);
        let result = write(new.as_file_mut())?;
        new.as_file().sync_all()?;
        Ok((new, result))
    }
}

/// Replaces the file `path` by a new one; `before` runs when that is whole and synced.
fn replace_by<T, E: From<io::Error>>(
    new: NewFile<'_>,
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, E>,
    before: impl FnOnce() -> Result<(), E>,
) -> Result<T, E> {
    let (new, result) = new.create(write)?;
    before()?;
    new.persist(path).map_err(|failed| failed.error)?;
    sync_folder_of(path)?;
    Ok(result)
}

/// A file as it is told from one that took its place, without reading either; all zeros where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileStamp {
    bytes: u64,
    modified: Option<SystemTime>,
    number: u64,
    /// Seconds and nanoseconds of its last change of any kind, that of its mode among them.
    changed: (i64, i64),
}

impl FileStamp {
    /// The stamp of a file with this metadata.
    pub fn of(facts: &Metadata) -> Self {
        #[cfg(unix)]
        let (number, changed) = {
            use std::os::unix::fs::MetadataExt as _;
            (facts.ino(), (facts.ctime(), facts.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let (number, changed) = (0, (0, 0));
        Self { bytes: facts.len(), modified: facts.modified().ok(), number, changed }
    }
}

/// The folder that a path is in; for a bare name, the current folder.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a file's name survive a power cut, which renaming alone does not.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    sync_folder(folder_of(path)).map_err(|error| io::Error::new(error.kind(), Unsynced(error)))
}

/// Whether links are followed in the last part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymlinkPolicy {
    Follow,
    Refuse,
}

/// Opens a regular file, without waiting for the other end of a pipe.
fn open(options: &mut OpenOptions, path: &Path, links: SymlinkPolicy) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let follow = if links == SymlinkPolicy::Refuse { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | follow).bits();
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags.cast_signed());
    }
    #[cfg(not(unix))]
    let _ = links;
    let file = options.open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

fn check_regular(facts: &Metadata) -> io::Result<()> {
    let refuse = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    match facts.file_type() {
        kind if kind.is_file() => Ok(()),
        kind if kind.is_symlink() => refuse("it is a symbolic link, which is not followed here"),
        kind if kind.is_dir() => refuse("it is a folder"),
        _ => refuse("it is not a regular file"),
    }
}

/// A name that no other process chooses.
pub(crate) fn random_name() -> String {
    // Each is seeded by the system's randomness.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// Whether a text is a [`random_name`].
pub(crate) fn is_random_name(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Refuses a path through a link that leads nowhere: the system would say that it is there already.
///
/// # Errors
/// If a part of the path is such a link.
pub fn check_links(path: &Path) -> io::Result<()> {
    match path.ancestors().find(|part| part.is_symlink() && is_absent(part)) {
        None => Ok(()),
        Some(link) => {
            let reason = "is a link that leads nowhere, as where its disk is not mounted";
            Err(io::Error::new(io::ErrorKind::NotFound, format!("{} {reason}", link.display())))
        }
    }
}

/// Whether nothing lies at a path. What cannot be read may be there.
pub fn is_absent(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
