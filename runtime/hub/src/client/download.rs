//! Downloads objects in parts, each as large as arrives within seconds. What came before the network or the power
//! failed is not fetched again.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orco_runtime::files;
use sha2::{Digest, Sha256};

use super::connection::{HubCall, HubConnection};
use super::error::SyncError;
use super::folder::PARTIAL;
use super::observer::{SyncObserver, SyncStep, proceed};
use super::report::free_bytes;
use crate::protocol::{ByteRange, MAX_CHUNK, MAX_OBJECT, OBJECTS_PATH, ObjectDigest};

/// Bytes of the disk that are left to the device's state.
const RESERVE: u64 = 4 << 20;
/// Bytes of a file that are in memory at a time.
const PIECE: usize = 64 << 10;

/// The size of the first part, and the least; a minute for it is a link of 9 kbit/s.
const MIN_PART: u64 = 64 << 10;
/// Parts that came within this time are doubled.
const SHORT: Duration = Duration::from_secs(5);
/// Parts that took longer than this are halved.
const LONG: Duration = Duration::from_secs(20);

/// How many bytes are asked for at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartSize(u64);

impl Default for PartSize {
    fn default() -> Self {
        Self(MIN_PART)
    }
}

impl PartSize {
    /// After a part that took so long to come.
    fn after(self, took: Duration) -> Self {
        match took {
            took if took < SHORT => Self((2 * self.0).min(MAX_CHUNK)),
            took if took > LONG => Self((self.0 / 2).max(MIN_PART)),
            _ => self,
        }
    }
}

/// An object that the channel holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedObject {
    pub digest: ObjectDigest,
    pub size: u64,
}

/// Fetches an object into the device's folder, or finds it there; returns its file.
///
/// Parts are not synced: after a power cut the end of the file may be anything, and the digest tells.
pub(super) fn fetch(
    connection: &mut HubConnection<'_>,
    wanted: WantedObject,
    observer: &mut dyn SyncObserver,
) -> Result<PathBuf, SyncError> {
    let WantedObject { digest, size } = wanted;
    if size > MAX_OBJECT {
        return Err(SyncError::Answer { reason: format!("the object {digest} has {size} bytes") });
    }
    let folder = connection.folder.objects();
    if !folder.is_dir() {
        files::create_folder(&folder).map_err(SyncError::file(&folder))?;
    }
    let path = folder.join(digest.to_string());
    if path.is_file() {
        if is_whole(&path, digest).map_err(SyncError::file(&path))? {
            return Ok(path);
        }
        files::remove_if_there(&path).map_err(SyncError::file(&path))?;
    }
    let partial = folder.join(format!("{digest}{PARTIAL}"));
    let fetched = fetch_parts(connection, wanted, &partial, observer);
    if fetched.as_ref().is_err_and(SyncError::is_disk_full) {
        // The device needs the room more than this object.
        files::remove_if_there(&partial).map_err(SyncError::file(&partial))?;
    }
    fetched?;
    if !is_whole(&partial, digest).map_err(SyncError::file(&partial))? {
        return Err(discard(&partial, digest));
    }
    proceed(observer, SyncStep::Write)?;
    finish(&partial, &path).map_err(SyncError::file(&path))?;
    Ok(path)
}

/// Fetches what has not come yet, if there is room for it.
fn fetch_parts(
    connection: &mut HubConnection<'_>,
    WantedObject { digest, size }: WantedObject,
    partial: &Path,
    observer: &mut dyn SyncObserver,
) -> Result<(), SyncError> {
    let mut received = length(partial).map_err(SyncError::file(partial))?;
    check_room(free_bytes(partial), size.saturating_sub(received)).map_err(SyncError::file(partial))?;
    while received < size {
        let range = ByteRange { start: received, last: (received + connection.part.0).min(size) - 1 };
        let started = Instant::now();
        let part = connection.call(HubCall::get(&format!("{OBJECTS_PATH}/{digest}"), range), observer)?;
        connection.part = connection.part.after(started.elapsed());
        if part.is_empty() || part.len() as u64 > size - received {
            return Err(discard(partial, digest));
        }
        proceed(observer, SyncStep::Write)?;
        append(partial, &part).map_err(SyncError::file(partial))?;
        received += part.len() as u64;
    }
    if size == 0 {
        append(partial, &[]).map_err(SyncError::file(partial))?;
    }
    Ok(())
}

/// Refuses bytes that would fill the disk.
fn check_room(free: Option<u64>, bytes: u64) -> io::Result<()> {
    if bytes == 0 || free.is_none_or(|free| free >= bytes.saturating_add(RESERVE)) {
        return Ok(());
    }
    // Without the free bytes, which change: the hub is told once.
    let reserve = RESERVE >> 20;
    let reason = format!("there is no room for {bytes} bytes beside the {reserve} MiB that a device leaves free");
    Err(io::Error::new(io::ErrorKind::StorageFull, reason))
}

/// Whether a file holds the object of that name. It is read in pieces: a bundle's files may be larger than memory.
fn is_whole(path: &Path, digest: ObjectDigest) -> io::Result<bool> {
    let mut file = files::open_own(OpenOptions::new().read(true), path)?;
    let (mut sum, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(ObjectDigest::new(sum.finalize().into()) == digest),
            length => sum.update(&piece[..length]),
        }
    }
}

/// Gives a file that is whole its name, so that it survives a power cut.
fn finish(partial: &Path, path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).open(partial)?.sync_all()?;
    fs::rename(partial, path)?;
    path.parent().map_or(Ok(()), files::sync_folder)
}

/// Reads an object that was fetched, and makes sure that it is still what its name says.
pub(super) fn read(path: &Path, digest: ObjectDigest) -> Result<Vec<u8>, SyncError> {
    let bytes = files::read_own(path, MAX_OBJECT).map_err(SyncError::file(path))?;
    if ObjectDigest::of(&bytes) == digest { Ok(bytes) } else { Err(discard(path, digest)) }
}

/// Begins anew with an object.
fn discard(path: &Path, digest: ObjectDigest) -> SyncError {
    match files::remove_if_there(path) {
        Ok(()) => SyncError::Object { digest },
        Err(source) => SyncError::File { path: path.into(), source },
    }
}

fn length(path: &Path) -> io::Result<u64> {
    match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_file() => Ok(facts.len()),
        Ok(_) => Err(io::Error::other("it is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    files::open_own(files::private_options().append(true).create(true), path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_that_would_fill_the_disk_is_refused() {
        assert!(check_room(None, u64::MAX).is_ok(), "nobody knows");
        assert!(check_room(Some(0), 0).is_ok(), "all has come");
        assert!(check_room(Some(RESERVE + 10), 10).is_ok());
        let full = check_room(Some(RESERVE + 10), 11).unwrap_err();
        assert!(
            full.to_string().ends_with("no room for 11 bytes beside the 4 MiB that a device leaves free"),
            "{full}"
        );
        assert!(SyncError::file("part")(full).is_disk_full());
        assert!(check_room(Some(u64::MAX - 1), u64::MAX).is_err());
    }

    #[test]
    fn parts_are_as_large_as_come_within_seconds() {
        // What a link of so many bytes a second comes to, and whether every part came within a minute.
        let settled = |rate: u64| {
            let mut part = PartSize::default();
            let mut all_in_time = true;
            for _ in 0..20 {
                let took = Duration::from_secs_f64(part.0 as f64 / rate as f64);
                all_in_time &= took < Duration::from_mins(1);
                part = part.after(took);
            }
            (part.0, all_in_time)
        };
        assert_eq!(settled(1_200), (MIN_PART, true));
        let (slow, in_time) = settled(15_000);
        assert!(in_time && slow > MIN_PART && slow < MAX_CHUNK, "{slow}");
        assert_eq!(settled(10_000_000), (MAX_CHUNK, true));
        assert_eq!(PartSize(MAX_CHUNK).after(LONG * 2), PartSize(MAX_CHUNK / 2));
    }
}
