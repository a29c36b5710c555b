//! The folder of sightings: one CSV file, and a picture for each of its lines.
//!
//! The folder is a user's, and may come to hold other files. Only pictures that the CSV file names or named, by ids of
//! our own form, are ever removed. A line is on the disk before its picture, so that every picture has its line. Before
//! lines go, the file [`REMOVING`] names their pictures; it goes once these are gone for good, and where a power cut
//! leaves it, the next start removes them.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use orco_runtime::files;
use orco_runtime::files::lock::HeldFile;

use super::Sighting;
use crate::error::ServeError;

/// Name of the file that lists the sightings.
pub const LIST_FILE: &str = "sightings.csv";
/// The file that names sightings whose pictures are being removed, an id a line. It is there only meanwhile.
const REMOVING: &str = "sightings.removing";
/// Sightings that are kept. The file is written anew once a tenth more are there.
pub const MAX_SIGHTINGS: usize = 1000;
/// Sightings that are held while the file cannot be written: the oldest go first.
const MAX_UNWRITTEN: usize = 2 * MAX_SIGHTINGS;
/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// Largest picture that is read, in bytes.
const MAX_PICTURE: u64 = 1 << 20;
/// The names of the columns.
const HEADING: &str = "id,started,seconds,region,label,probability\n";

/// The sightings of one folder.
pub(super) struct SightingFolder {
    folder: PathBuf,
    /// Oldest first.
    sightings: VecDeque<Sighting>,
    /// Why the last attempt to write failed.
    problem: Option<String>,
}

impl SightingFolder {
    /// Opens a folder, and makes it if it is not there.
    ///
    /// # Errors
    /// [`ServeError::Sightings`] if it cannot be read or made, or holds other files and no sightings. Where one that is
    /// there cannot be written, [`SightingFolder::problem`] says so.
    pub fn open(folder: &Path) -> Result<Self, ServeError> {
        make(folder)?;
        let path = folder.join(LIST_FILE);
        let mut opened = Self { folder: folder.into(), sightings: VecDeque::new(), problem: None };
        let Some(text) = read_list(folder)? else {
            files::replace(&path, HEADING.as_bytes()).map_err(|error| refused(folder, error.to_string()))?;
            return Ok(opened);
        };
        let mut rows = csv::Reader::from_reader(&*text);
        let (read, unread): (Vec<_>, Vec<_>) =
            rows.deserialize::<Sighting>().partition(|row| row.as_ref().is_ok_and(|row| is_id(&row.id)));
        opened.sightings.extend(read.into_iter().flatten());
        // A power cut or a full disk leaves a part of a line.
        let is_damaged = !unread.is_empty() || !text.ends_with(b"\n");
        if is_damaged {
            log::warn!("{}: {} of its lines are no sightings, and are left out", path.display(), unread.len());
        }
        // What cannot be written or removed, as on a disk that is full, is told where sightings are shown, and tried
        // again: it stops no service.
        let written = if is_damaged { opened.rewrite() } else { Ok(()) };
        let written = written.and_then(|()| opened.finish_removal()).and_then(|()| opened.remove_oldest());
        opened.note_problem(&written);
        Ok(opened)
    }

    /// The newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Sighting> {
        self.sightings.iter().rev()
    }

    /// All of them, as the file has them.
    pub fn csv(&self) -> Vec<u8> {
        csv_of(self.sightings.iter())
    }

    /// The newest time that an id names. The clock may be behind it.
    pub fn newest_id(&self) -> Option<Timestamp> {
        let second = |sighting: &Sighting| sighting.id.split_once('-')?.0.parse().ok();
        self.sightings.iter().filter_map(|sighting| Timestamp::from_second(second(sighting)?).ok()).max()
    }

    /// The picture of one, a JPEG.
    pub fn picture(&self, id: &str) -> Option<Vec<u8>> {
        let is_listed = self.sightings.iter().any(|sighting| sighting.id == id);
        is_listed.then(|| files::read_own(&self.picture_path(id), MAX_PICTURE).ok())?
    }

    /// Why sightings are not written, as of the last attempt.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Adds one with its picture. It is listed as long as the service runs, though it may not be written; once the
    /// folder can be written again, all that are listed are.
    pub fn add(&mut self, sighting: Sighting, picture: Option<&[u8]>) {
        let id = sighting.id.clone();
        self.sightings.push_back(sighting);
        let written = self.append_last();
        let written =
            written.and_then(|()| picture.map_or(Ok(()), |bytes| files::create(&self.picture_path(&id), bytes)));
        let written = written.and_then(|()| self.remove_oldest());
        // A disk that stays full or read-only must not fill the memory.
        while self.sightings.len() > MAX_UNWRITTEN {
            self.sightings.pop_front();
        }
        self.note_problem(&written);
    }

    /// Keeps why writing failed, or that it works again; the log has each change once.
    fn note_problem(&mut self, written: &io::Result<()>) {
        let problem = written.as_ref().err().map(io::Error::to_string);
        if self.problem != problem {
            let folder = self.folder.display();
            match &problem {
                Some(reason) => log::warn!("sightings are not written into {folder}: {reason}"),
                None => log::warn!("sightings are written into {folder} again"),
            }
        }
        self.problem = problem;
    }

    /// Writes the last one; where earlier ones may be missing, all of them.
    fn append_last(&self) -> io::Result<()> {
        let path = self.folder.join(LIST_FILE);
        if self.problem.is_some() || !path.exists() {
            files::create_folder(&self.folder)?;
            return self.rewrite();
        }
        let mut file = files::open_own(OpenOptions::new().append(true), &path)?;
        self.sightings.back().map_or(Ok(()), |last| file.write_all(&line(last)))?;
        // Before its picture is there: a power cut could leave that without a line.
        file.sync_data()
    }

    /// Removes the oldest where there are too many.
    fn remove_oldest(&mut self) -> io::Result<()> {
        if self.sightings.len() <= MAX_SIGHTINGS + MAX_SIGHTINGS / 10 {
            return Ok(());
        }
        let old = self.sightings.len() - MAX_SIGHTINGS;
        self.remove_where(&|index, _| index < old)
    }

    /// Removes some.
    ///
    /// # Errors
    /// If the file cannot be written: all of them are still listed then. If a picture cannot be removed.
    pub fn remove(&mut self, is_gone: impl Fn(&Sighting) -> bool) -> io::Result<()> {
        if !self.sightings.iter().any(&is_gone) {
            return Ok(());
        }
        let removed = self.remove_where(&|_, sighting| is_gone(sighting));
        self.note_problem(&removed);
        removed
    }

    /// Writes the file without those that `is_gone` picks by place and content, drops them here, then removes their
    /// pictures. Were they dropped first, they would come back after a restart wherever the file could not be written.
    fn remove_where(&mut self, is_gone: &dyn Fn(usize, &Sighting) -> bool) -> io::Result<()> {
        let all = self.sightings.iter().enumerate();
        let (gone, kept): (Vec<_>, Vec<_>) = all.partition(|(index, sighting)| is_gone(*index, sighting));
        self.begin_removal(gone.iter().map(|(_, sighting)| sighting.id.as_str()))?;
        self.write(kept.iter().map(|(_, sighting)| *sighting))?;
        self.sightings = kept.into_iter().map(|(_, sighting)| sighting.clone()).collect();
        self.finish_removal()
    }

    /// Names sightings whose pictures are to be removed, beside those of which some may be left from before.
    fn begin_removal<'a>(&self, ids: impl Iterator<Item = &'a str>) -> io::Result<()> {
        let mut text = self.removing()?;
        ids.for_each(|id| text.extend([id, "\n"]));
        files::replace(&self.folder.join(REMOVING), text.as_bytes())
    }

    /// Removes the pictures of sightings that are to go and are listed no more, for good.
    fn finish_removal(&self) -> io::Result<()> {
        let text = self.removing()?;
        if text.is_empty() {
            return Ok(());
        }
        let listed: BTreeSet<&str> = self.sightings.iter().map(|sighting| sighting.id.as_str()).collect();
        let gone = text.lines().filter(|id| is_id(id) && !listed.contains(id));
        // One picture that stays must not keep the others.
        let removed: Vec<io::Result<()>> = gone.map(|id| files::remove_if_there(&self.picture_path(id))).collect();
        removed.into_iter().collect::<io::Result<()>>()?;
        files::sync_folder(&self.folder)?;
        files::remove_if_there(&self.folder.join(REMOVING))
    }

    /// The ids of sightings whose pictures are being removed, each with the end of its line.
    fn removing(&self) -> io::Result<String> {
        let bytes = files::read_own_if_there(&self.folder.join(REMOVING), MAX_FILE)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn rewrite(&self) -> io::Result<()> {
        self.write(self.sightings.iter())
    }

    fn write<'a>(&self, listed: impl Iterator<Item = &'a Sighting>) -> io::Result<()> {
        files::replace(&self.folder.join(LIST_FILE), &csv_of(listed))
    }

    fn picture_path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.jpg"))
    }
}

/// Claims a folder for one service, and makes it if it is not there: another service would write the list without the
/// lines of this one. The claim ends when it is dropped, or with the process. Nothing where the system has no locks for
/// folders.
///
/// # Errors
/// [`ServeError::Sightings`] if it cannot be made, or another service keeps its sightings there.
pub(super) fn claim(folder: &Path) -> Result<Option<HeldFile>, ServeError> {
    make(folder)?;
    // What is no folder is refused when it is read; a pipe would not even open.
    if !folder.is_dir() {
        return Ok(None);
    }
    let taken = "another service keeps its sightings there: name a folder for this one alone";
    HeldFile::folder(folder, Duration::ZERO).map_err(|_| refused(folder, taken))
}

/// Makes a folder if it is not there.
fn make(folder: &Path) -> Result<(), ServeError> {
    if folder.exists() {
        return Ok(());
    }
    files::create_folder(folder).map_err(|error| refused(folder, error.to_string()))
}

fn refused(folder: &Path, reason: impl Into<String>) -> ServeError {
    ServeError::Sightings { path: folder.into(), reason: reason.into() }
}

/// The text of a folder's list; none where the folder is empty.
///
/// # Errors
/// [`ServeError::Sightings`] if it is no folder, cannot be read, or holds other files and no sightings.
pub(super) fn read_list(folder: &Path) -> Result<Option<Vec<u8>>, ServeError> {
    let refused = |reason: &str| refused(folder, reason);
    if !folder.is_dir() {
        return Err(refused("it is a file: name a folder"));
    }
    let read = files::read_own_if_there(&folder.join(LIST_FILE), MAX_FILE);
    let Some(text) = read.map_err(|error| refused(&error.to_string()))? else {
        return match fs::read_dir(folder).map_err(|error| refused(&error.to_string()))?.next() {
            Some(_) => {
                Err(refused(&format!("it holds other files and no {LIST_FILE}: name an empty folder, or a new one")))
            }
            None => Ok(None),
        };
    };
    if text.starts_with(HEADING.as_bytes()) {
        return Ok(Some(text));
    }
    Err(refused(&format!("{LIST_FILE} is not one of ours: it does not start with {}", HEADING.trim_end())))
}

/// Whether a text has the form of our ids: such a name leads nowhere else.
fn is_id(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(second, count)| is_number(second) && is_number(count))
}

/// The file that lists some.
fn csv_of<'a>(sightings: impl Iterator<Item = &'a Sighting>) -> Vec<u8> {
    let mut text = HEADING.as_bytes().to_vec();
    sightings.for_each(|sighting| text.extend(line(sighting)));
    text
}

/// A line of the file.
fn line(sighting: &Sighting) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    // Writing into memory cannot fail.
    let _ = writer.serialize(sighting);
    writer.into_inner().unwrap_or_default()
}

#[cfg(test)]
mod tests;
