//! A folder into which pictures are put: by another program, over a network, by hand.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use orco_runtime::files;
use orco_runtime::image::{self, UnsupportedFile, UnsupportedFormat};

use crate::error::CameraError;
use crate::frame::{CameraPicture, MAX_PICTURE_BYTES};
use crate::source::OpenSource;
use crate::stop::Stop;

/// Shortest time between two scans of the folder.
const MIN_SCAN_INTERVAL: Duration = Duration::from_millis(250);
/// Most files in the folder: every scan checks each.
const MAX_FILES: usize = 50_000;
/// Most pictures that wait to be given; of more the oldest are passed over.
const MAX_WAITING: usize = 1000;
/// A file that this many scans found rewritten is read although it never settles, such as `latest.jpg`, which a program
/// writes ten times a second.
const MAX_REWRITES: u8 = 4;

/// What tells one content of a file from another, under any name: a new name changes nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ContentIdentity {
    device: u64,
    inode: u64,
    length: u64,
    /// Seconds and nanoseconds of when it was written.
    written: [i64; 2],
}

/// What a scan found of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileState {
    length: u64,
    /// When anything of it changed.
    changed_at: SystemTime,
    /// None where the system does not tell, and of a file that could not be read: under another name or with other
    /// rights it is new.
    identity: Option<ContentIdentity>,
    /// Whether it was given, or stood there from the start.
    is_known: bool,
    /// Whether it is the same as at the scan before.
    is_settled: bool,
    /// How many scans since it was last settled found it written anew, and not just longer.
    rewrites: u8,
}

impl FileState {
    /// The state of a file of which nothing else is known.
    fn of(data: &Metadata) -> io::Result<Self> {
        let (length, changed_at, identity) = (data.len(), changed_at(data)?, identity(data));
        Ok(Self { length, changed_at, identity, is_known: false, is_settled: false, rewrites: 0 })
    }

    /// Whether nothing was written between this and the other. A disk that comes back, or has no numbers of its own for
    /// files, may number them anew.
    fn is_same(&self, other: &Self) -> bool {
        (self.length, self.changed_at) == (other.length, other.changed_at)
    }

    /// Whether this is the other with more in it, as while a file comes over a slow network; some copiers give it its
    /// length first.
    fn is_grown(&self, before: &Self) -> bool {
        let place = |state: &Self| state.identity.map(|identity| (identity.device, identity.inode));
        self.length >= before.length && place(self) == place(before)
    }

    /// This with what the scan before tells of it.
    fn following(self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        if self.is_same(before) {
            return Self { identity: before.identity.and(self.identity), is_settled: true, ..self };
        }
        Self { rewrites: before.rewrites.saturating_add((!self.is_grown(before)).into()), ..self }
    }

    /// Whether it is rewritten so often that it is read without settling first.
    fn is_rewritten_often(&self) -> bool {
        self.rewrites >= MAX_REWRITES
    }

    /// Whether it can be given.
    fn is_complete(&self) -> bool {
        self.length > 0 && (self.is_settled || self.is_rewritten_often())
    }
}

/// A file that is to be given.
struct WaitingFile {
    name: OsString,
    is_rewritten_often: bool,
}

/// What is known of a folder, whether it is there or not.
#[derive(Default)]
pub(crate) struct KnownFiles {
    files: HashMap<OsString, FileState>,
    /// Complete ones that were not given yet; the oldest last.
    waiting: Vec<WaitingFile>,
    /// Whether the folder was ever open: what lay there then is old.
    was_open: bool,
    /// Whether the log said that pictures in a format that is not read are passed over.
    was_told_of_format: bool,
}

/// Gives new pictures, oldest first. A picture is given once two scans found the same length and time of change, so
/// that none is read while it is written. One that is rewritten is new again; one that is only renamed is not. A file
/// that every scan finds rewritten is read at once, and given if nobody wrote it meanwhile.
pub(crate) struct FolderSource<'a> {
    path: PathBuf,
    known: &'a mut KnownFiles,
    stop: Stop,
    every: Duration,
}

impl<'a> FolderSource<'a> {
    /// Opens a folder, for the first time or again: pictures that came while it was away are new.
    pub fn open(path: &Path, stop: &Stop, known: &'a mut KnownFiles) -> Result<Self, CameraError> {
        let mut folder = Self { path: path.into(), known, stop: stop.clone(), every: MIN_SCAN_INTERVAL };
        folder.scan()?;
        if !folder.known.was_open {
            folder.known.was_open = true;
            folder.known.files.values_mut().for_each(|found| found.is_known = true);
        }
        Ok(folder)
    }

    /// Looks at every picture of the folder; those that are complete and new wait to be given.
    fn scan(&mut self) -> Result<(), CameraError> {
        let started = Instant::now();
        let mut files = HashMap::new();
        let mut complete = Vec::new();
        // No more than one for each file that lay there at the last look, and one for each that is complete.
        let known = self.known.files.values().filter(|found| found.is_known);
        let mut given: HashSet<ContentIdentity> = known.filter_map(|found| found.identity).collect();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            if !is_picture(&name) {
                self.tell_of_format(&name);
                continue;
            }
            // A file may go between listing and looking; a link counts as what it leads to.
            let Ok(data) = fs::metadata(entry.path()) else { continue };
            if !data.is_file() {
                continue;
            }
            let now = FileState::of(&data)?;
            let before = self.known.files.get(&name);
            let now = now.following(before);
            let was_given = now.identity.is_some_and(|identity| given.contains(&identity));
            let was_known = was_given || now.is_settled && before.is_some_and(|before| before.is_known);
            let is_complete = now.is_complete();
            if is_complete && !was_known {
                complete.push((now.changed_at, name.clone(), now.is_rewritten_often()));
                given.extend(now.identity);
            }
            files.insert(name, FileState { is_known: is_complete || was_known, ..now });
            if files.len() > MAX_FILES {
                return Err(CameraError::TooManyFiles(MAX_FILES));
            }
        }
        complete.sort();
        let complete = complete.into_iter();
        self.queue(complete.map(|(_, name, often)| WaitingFile { name, is_rewritten_often: often }).collect());
        self.known.files = files;
        // Looking takes a tenth of the time at most.
        self.every = MIN_SCAN_INTERVAL.max(10 * started.elapsed());
        Ok(())
    }

    /// Says once that a picture in a format that is not read is passed over: a camera may save nothing else.
    fn tell_of_format(&mut self, name: &OsString) {
        if self.known.was_told_of_format || files::is_hidden(Path::new(name)) {
            return;
        }
        if let Some(format) = UnsupportedFormat::of_name(Path::new(name)) {
            self.known.was_told_of_format = true;
            let path = self.path.join(name);
            log::warn!("camera: {}; of further files the log says nothing", UnsupportedFile { path, format });
        }
    }

    /// Has complete files, the oldest first, wait to be given after those that wait since the folder went away.
    fn queue(&mut self, complete: Vec<WaitingFile>) {
        let waited = std::mem::take(&mut self.known.waiting);
        self.known.waiting = complete.into_iter().rev().chain(waited).collect();
        if let Some(excess) = self.known.waiting.len().checked_sub(MAX_WAITING).filter(|excess| *excess > 0) {
            log::warn!(
                "camera: more pictures come into {} than are answered: {excess} are passed over",
                self.path.display()
            );
            self.known.waiting.truncate(MAX_WAITING);
        }
    }

    /// The content of a file that is to be given; none if it is written while it is read, or has just gone.
    fn read(&self, file: &WaitingFile) -> io::Result<Option<Vec<u8>>> {
        let path = self.path.join(&file.name);
        if !file.is_rewritten_often {
            return files::read(&path, MAX_PICTURE_BYTES as u64).map(Some);
        }
        let look = || fs::metadata(&path).ok().and_then(|data| FileState::of(&data).ok());
        let before = look();
        let Ok(bytes) = files::read(&path, MAX_PICTURE_BYTES as u64) else { return Ok(None) };
        let is_same = before.zip(look()).is_some_and(|(before, after)| before.is_same(&after));
        Ok((is_same && !bytes.is_empty()).then_some(bytes))
    }
}

fn is_picture(name: &OsString) -> bool {
    let path = Path::new(name);
    !files::is_hidden(path) && image::has_extension(path)
}

/// When anything of the file changed, its name and place included.
#[cfg(unix)]
fn changed_at(data: &Metadata) -> io::Result<SystemTime> {
    use std::os::unix::fs::MetadataExt;
    let nanoseconds = Duration::from_nanos(data.ctime_nsec().clamp(0, 999_999_999) as u64);
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(data.ctime().max(0) as u64) + nanoseconds)
}

#[cfg(not(unix))]
fn changed_at(data: &Metadata) -> io::Result<SystemTime> {
    data.modified()
}

#[cfg(unix)]
fn identity(data: &Metadata) -> Option<ContentIdentity> {
    use std::os::unix::fs::MetadataExt;
    let written = [data.mtime(), data.mtime_nsec()];
    Some(ContentIdentity { device: data.dev(), inode: data.ino(), length: data.len(), written })
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<ContentIdentity> {
    None
}

impl OpenSource for FolderSource<'_> {
    fn next_picture(&mut self) -> Result<Option<CameraPicture>, CameraError> {
        if self.known.waiting.is_empty() && !self.stop.wait(self.every) {
            self.scan()?;
        }
        let Some(file) = self.known.waiting.pop() else { return Ok(None) };
        match self.read(&file) {
            Ok(bytes) => Ok(bytes.map(CameraPicture::File)),
            Err(error) => {
                // What waits in a folder that is away waits until it is back.
                if let Err(away) = fs::read_dir(&self.path) {
                    self.known.waiting.push(file);
                    return Err(away.into());
                }
                log::warn!("camera: {} cannot be read: {error}", self.path.join(&file.name).display());
                if let Some(found) = self.known.files.get_mut(&file.name) {
                    found.identity = None;
                }
                Ok(None)
            }
        }
    }

    fn gives_each_picture_once(&self) -> bool {
        true
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
        write(".part.bmp", b"hidden");
        write("empty.png", b"");
        fs::create_dir(place.path().join("folder.jpg")).unwrap();
        assert_eq!(next(&mut folder), None, "it may still be written");
        write("new.JPG", b"new");
        assert_eq!(next(&mut folder), None, "it was still written");
        assert_eq!(next(&mut folder), Some(b"new".to_vec()));
        assert_eq!(next(&mut folder), None);
        fs::rename(place.path().join(".hidden.jpg"), place.path().join("shown.jpeg")).unwrap();
        assert_eq!((next(&mut folder), next(&mut folder)), (None, Some(b"hidden".to_vec())));
        assert!(!folder.known.was_told_of_format);
        write("scan.BMP", b"BM");
        assert_eq!((next(&mut folder), next(&mut folder)), (None, None));
        assert!(folder.known.was_told_of_format, "it is never given");
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

    #[test]
    #[cfg(unix)]
    fn a_picture_that_gets_another_name_before_it_is_read_is_given_under_that() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let mut known = KnownFiles::default();
        let mut folder = FolderSource::open(place.path(), &Stop::default(), &mut known).unwrap();
        fs::write(at("1.jpg"), b"first").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        fs::write(at("2.jpg"), b"second").unwrap();
        assert_eq!((next(&mut folder), next(&mut folder)), (None, Some(b"first".to_vec())));
        fs::rename(at("1.jpg"), at("1-done.jpg")).unwrap();
        fs::rename(at("2.jpg"), at("2-done.jpg")).unwrap();
        assert_eq!((next(&mut folder), next(&mut folder)), (None, None), "it waited under its old name");
        assert_eq!((next(&mut folder), next(&mut folder)), (Some(b"second".to_vec()), None));
    }

    #[test]
    fn a_file_that_never_rests_is_read_all_the_same() {
        let place = tempfile::tempdir().unwrap();
        let latest = place.path().join("latest.jpg");
        let mut known = KnownFiles::default();
        let mut folder = FolderSource::open(place.path(), &Stop::default(), &mut known).unwrap();
        let mut written = |length: usize| {
            fs::write(&latest, vec![b'x'; length]).unwrap();
            next(&mut folder).map(|bytes| bytes.len())
        };
        assert_eq!([1, 2, 3, 4, 5, 6, 7, 8].map(&mut written), [None; 8], "it grows, and may not be whole");
        // It was seen before the first of these.
        assert_eq!([7, 6, 5, 4, 3, 9].map(written), [None, None, None, Some(4), Some(3), Some(9)]);
        assert_eq!([(); 2].map(|()| next(&mut folder)), [None, None], "it rests, and was given");
    }

    #[test]
    #[cfg(unix)]
    fn a_link_is_what_it_leads_to_and_a_new_name_makes_no_new_picture() {
        let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| place.path().join(name);
        fs::write(at("old.jpg"), b"old").unwrap();
        fs::write(elsewhere.path().join("linked.jpg"), b"linked").unwrap();
        let mut known = KnownFiles::default();
        let mut folder = FolderSource::open(place.path(), &Stop::default(), &mut known).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("linked.jpg"), at("1.jpg")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("nowhere.jpg"), at("2.jpg")).unwrap();
        assert_eq!((next(&mut folder), next(&mut folder)), (None, Some(b"linked".to_vec())));
        fs::write(at("3.jpg"), b"given").unwrap();
        assert_eq!((next(&mut folder), next(&mut folder)), (None, Some(b"given".to_vec())));
        for (from, to) in [("3.jpg", "3-done.jpg"), ("old.jpg", "older.jpg")] {
            fs::rename(at(from), at(to)).unwrap();
            assert_eq!([(); 3].map(|()| next(&mut folder)), [None, None, None], "{from} has another name");
        }
        fs::write(at("3-done.jpg"), b"written again").unwrap();
        assert_eq!((next(&mut folder), next(&mut folder)), (None, Some(b"written again".to_vec())));
    }
}
