//! A folder into which pictures are put: by another program, over a network, by hand.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use orco_runtime::{files, image};

use crate::error::CameraError;
use crate::frame::{CameraPicture, MAX_PICTURE};
use crate::source::OpenSource;
use crate::stop::Stop;

/// How often it is looked into, at most.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Most files in it; each is looked at again and again.
const MAX_FILES: usize = 50_000;

/// How a file was found.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileState {
    length: u64,
    changed: SystemTime,
    /// Whether it was given, or stood there from the start.
    is_known: bool,
}

/// What is known of a folder, whether it is there or not.
#[derive(Default)]
pub(crate) struct KnownFiles {
    files: HashMap<OsString, FileState>,
    /// Complete ones that were not given yet; the oldest last.
    waiting: Vec<OsString>,
    /// Whether the folder was ever open: what lay there then is old.
    was_open: bool,
}

/// New pictures are given, oldest first, once they were found twice with the same length and time of change, so that
/// one that is still being written is not. One that is written again is new again.
pub(crate) struct FolderSource<'a> {
    path: PathBuf,
    known: &'a mut KnownFiles,
    stop: Stop,
    every: Duration,
}

impl<'a> FolderSource<'a> {
    /// Opens a folder, for the first time or again: pictures that came while it was away are new.
    pub fn open(path: &Path, stop: &Stop, known: &'a mut KnownFiles) -> Result<Self, CameraError> {
        let mut folder = Self { path: path.into(), known, stop: stop.clone(), every: LOOK_EVERY };
        folder.look()?;
        if !folder.known.was_open {
            folder.known.was_open = true;
            folder.known.files.values_mut().for_each(|found| found.is_known = true);
        }
        Ok(folder)
    }

    fn look(&mut self) -> Result<(), CameraError> {
        let started = Instant::now();
        let mut files = HashMap::new();
        let mut complete = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            if !is_picture(&name) {
                continue;
            }
            // A file may go between listing and looking.
            let Ok(data) = entry.metadata() else { continue };
            if !data.is_file() {
                continue;
            }
            let now = FileState { length: data.len(), changed: changed(&data)?, is_known: false };
            let before = self.known.files.get(&name);
            let is_same = before.is_some_and(|before| (before.length, before.changed) == (now.length, now.changed));
            let was_known = before.is_some_and(|before| is_same && before.is_known);
            if is_same && !was_known && now.length > 0 {
                complete.push((now.changed, name.clone()));
            }
            files.insert(name, FileState { is_known: is_same && now.length > 0 || was_known, ..now });
            if files.len() > MAX_FILES {
                return Err(CameraError::Crowded(MAX_FILES));
            }
        }
        complete.sort();
        // Those that waited when the folder went away come first.
        let waited = std::mem::take(&mut self.known.waiting);
        self.known.waiting = complete.into_iter().rev().map(|(_, name)| name).chain(waited).collect();
        self.known.files = files;
        // Looking takes a tenth of the time at most.
        self.every = LOOK_EVERY.max(10 * started.elapsed());
        Ok(())
    }
}

fn is_picture(name: &OsString) -> bool {
    !name.as_encoded_bytes().starts_with(b".") && image::has_extension(Path::new(name))
}

/// When anything of the file changed, its name and place included.
#[cfg(unix)]
fn changed(data: &Metadata) -> io::Result<SystemTime> {
    use std::os::unix::fs::MetadataExt;
    let nanoseconds = Duration::from_nanos(data.ctime_nsec().clamp(0, 999_999_999) as u64);
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(data.ctime().max(0) as u64) + nanoseconds)
}

#[cfg(not(unix))]
fn changed(data: &Metadata) -> io::Result<SystemTime> {
    data.modified()
}

impl OpenSource for FolderSource<'_> {
    fn next_picture(&mut self) -> Result<Option<CameraPicture>, CameraError> {
        if self.known.waiting.is_empty() && !self.stop.wait(self.every) {
            self.look()?;
        }
        let Some(name) = self.known.waiting.pop() else { return Ok(None) };
        match files::read(&self.path.join(&name), MAX_PICTURE as u64) {
            Ok(bytes) => Ok(Some(CameraPicture::File(bytes))),
            Err(error) => {
                log::warn!("camera: {} cannot be read: {error}", self.path.join(&name).display());
                Ok(None)
            }
        }
    }

    fn reopens_when_unreadable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(folder: &mut FolderSource<'_>) -> Option<Vec<u8>> {
        match folder.next_picture().unwrap()? {
            CameraPicture::File(bytes) => Some(bytes),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn new_files_are_given_once_they_stay_as_they_are() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).unwrap();
        write("old.jpg", b"old");
        let mut known = KnownFiles::default();
        let mut folder = FolderSource::open(place.path(), &Stop::default(), &mut known).unwrap();
        assert_eq!(next(&mut folder), None);
        write("new.JPG", b"ne");
        write(".hidden.jpg", b"hidden");
        write("notes.txt", b"notes");
        write("empty.png", b"");
        fs::create_dir(place.path().join("folder.jpg")).unwrap();
        assert_eq!(next(&mut folder), None, "it may still be written");
        write("new.JPG", b"new");
        assert_eq!(next(&mut folder), None, "it was still written");
        assert_eq!(next(&mut folder), Some(b"new".to_vec()));
        assert_eq!(next(&mut folder), None);
        fs::rename(place.path().join(".hidden.jpg"), place.path().join("shown.jpeg")).unwrap();
        assert_eq!((next(&mut folder), next(&mut folder)), (None, Some(b"hidden".to_vec())));
        write("old.jpg", b"written again");
        assert_eq!((next(&mut folder), next(&mut folder)), (None, Some(b"written again".to_vec())));
        for name in ["b.png", "a.webp", "c.png"] {
            write(name, name.as_bytes());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(next(&mut folder), None);
        let three = [(); 3].map(|()| next(&mut folder).unwrap());
        assert_eq!(three, [b"b.png".to_vec(), b"a.webp".to_vec(), b"c.png".to_vec()]);
        assert_eq!(next(&mut folder), None);
        fs::remove_dir_all(place.path()).unwrap();
        assert!(matches!(folder.next_picture(), Err(CameraError::Io(_))));
    }

    #[test]
    fn pictures_that_come_while_the_folder_is_away_are_given_when_it_is_back() {
        let place = tempfile::tempdir().unwrap();
        let (pictures, away) = (place.path().join("pictures"), place.path().join("away"));
        let mut known = KnownFiles::default();
        let stop = Stop::default();
        assert!(FolderSource::open(&pictures, &stop, &mut known).is_err());
        fs::create_dir(&pictures).unwrap();
        fs::write(pictures.join("old.jpg"), b"old").unwrap();
        let mut folder = FolderSource::open(&pictures, &stop, &mut known).unwrap();
        fs::write(pictures.join("given.jpg"), b"given").unwrap();
        assert_eq!((next(&mut folder), next(&mut folder)), (None, Some(b"given".to_vec())));
        fs::rename(&pictures, &away).unwrap();
        assert!(folder.next_picture().is_err());
        assert!(FolderSource::open(&pictures, &stop, &mut known).is_err());
        fs::write(away.join("new.jpg"), b"new").unwrap();
        fs::rename(&away, &pictures).unwrap();
        let mut folder = FolderSource::open(&pictures, &stop, &mut known).unwrap();
        assert_eq!((next(&mut folder), next(&mut folder)), (Some(b"new".to_vec()), None), "it was found twice");
    }
}
