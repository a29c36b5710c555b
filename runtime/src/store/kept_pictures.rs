//! The kept pictures of shots: a folder for each bundle beside the slots, a file for each picture, named by the digest
//! of the exemplar that came of it.
//!
//! No file lists them. The slots say which exemplars the present state and earlier ones have; a picture without such an
//! exemplar is removed after the next change. So renaming touches no picture, undoing finds them in place, and purging
//! removes them. A picture is on the disk before the state that has its exemplar.
//!
//! Only regular files with names as ours are removed, and only from folders with names as ours: what somebody else has
//! put there stays. A link in the place of a folder is not followed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ::image::RgbImage;

use super::bundle_record::{BUNDLE_RECORD, BundleRecord, BundleRecordError, MAX_BUNDLE_RECORD};
use super::disk::{Disk, FolderDisk, remove, replace, without_attempt};
use crate::files::folder::{FolderEntry, OpenFolder};
use crate::files::{self, SymlinkPolicy};
use crate::image::{self, ImageError, MAX_CANVAS};
use crate::manifest::{from_hexadecimal, hexadecimal};

/// Most pictures that are kept for a bundle. A change that would keep more is refused.
pub const MAX_PICTURES: usize = 10_000;
/// Largest file of a picture that is read, in bytes.
pub const MAX_PICTURE: u64 = 5 << 20;

/// Start of the names of the folders.
const FOLDER: &str = "kept-";
/// Hexadecimal digits of the bundle's digest in their names.
const DIGITS: usize = 16;
/// Name of the file that holds the last state of a bundle that another one has taken the place of.
const FORMER_STATE: &str = "state";
/// Start of the names of files that are being written.
const UNFINISHED: &str = ".kept-";
const ENDING: &str = ".png";

/// The pictures that are kept for one bundle.
#[derive(Clone, Debug)]
pub struct KeptPictures {
    folder: PathBuf,
    digest: [u8; 32],
}

/// Number and size of kept pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptUsage {
    /// How many there are.
    pub pictures: usize,
    /// Bytes of their files.
    pub bytes: u64,
}

/// Most bytes of the file of a picture of that size in pixels: four a pixel, and 1 KiB for what stands beside them.
pub fn most_bytes(width: u32, height: u32) -> u64 {
    4 * u64::from(width) * u64::from(height) + 1024
}

/// A picture as it is kept: PNG, eight bits, without loss.
///
/// # Errors
/// If it is larger than any backbone's input.
pub fn encoded(picture: &RgbImage) -> io::Result<Vec<u8>> {
    let (width, height) = picture.dimensions();
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(::png::ColorType::Rgb);
    encoder.set_depth(::png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(io::Error::other)?;
    writer.write_image_data(picture.as_raw()).map_err(io::Error::other)?;
    writer.finish().map_err(io::Error::other)?;
    let fits = width.max(height) <= MAX_CANVAS && bytes.len() as u64 <= most_bytes(width, height);
    if fits { Ok(bytes) } else { Err(io::Error::other(format!("a picture takes {} bytes", bytes.len()))) }
}

/// Decodes the file of a kept picture.
///
/// # Errors
/// [`ImageError`] if it is damaged, no picture, or larger than one that is kept.
pub fn decoded(bytes: &[u8]) -> Result<RgbImage, ImageError> {
    // By its header: a hub decodes pictures of all its devices at a time.
    let (width, height) = image::size(bytes)?;
    if width.max(height) > MAX_CANVAS { Err(ImageError::TooLarge) } else { image::decode(bytes) }
}

impl KeptPictures {
    pub(super) fn new(store: &Path, digest: [u8; 32]) -> Self {
        Self { folder: store.join(name_of(&digest)), digest }
    }

    /// Their folder, which is there only if any were kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of the picture of an exemplar.
    pub fn path(&self, exemplar: &[u8; 32]) -> PathBuf {
        self.folder.join(file_of(exemplar))
    }

    /// The bundle that they were kept with.
    ///
    /// # Errors
    /// If that is not known, or its file cannot be read.
    pub fn kept_with(&self) -> io::Result<BundleRecord> {
        let invalid = |reason: BundleRecordError| io::Error::new(io::ErrorKind::InvalidData, reason);
        BundleRecord::parse(&bundle_text(&self.folder)?, &self.digest).map_err(invalid)
    }

    /// The exemplars whose pictures are there.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn exemplars(&self) -> io::Result<BTreeSet<[u8; 32]>> {
        Ok(self.disk().list()?.iter().filter_map(|name| exemplar_of(name)).collect())
    }

    /// How many of these exemplars' there are, and what they take. What a killed process left is not among them.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn usage(&self, of: &BTreeSet<[u8; 32]>) -> io::Result<KeptUsage> {
        self.exemplars()?.intersection(of).try_fold(KeptUsage::default(), |usage, exemplar| {
            let bytes = fs::symlink_metadata(self.path(exemplar))?.len();
            Ok(KeptUsage { pictures: usage.pictures + 1, bytes: usage.bytes + bytes })
        })
    }

    /// The file of an exemplar's picture.
    ///
    /// # Errors
    /// If it is missing or cannot be read.
    pub fn read(&self, exemplar: &[u8; 32]) -> io::Result<Vec<u8>> {
        files::read_own(&self.path(exemplar), MAX_PICTURE)
    }

    /// The bytes of the slot that held the bundle's last state when another bundle took its place.
    ///
    /// # Errors
    /// If they cannot be read; the kind is [`io::ErrorKind::NotFound`] where there are none.
    pub fn former_state(&self) -> io::Result<Vec<u8>> {
        files::read_own(&self.folder.join(FORMER_STATE), super::MAX_SLOT)
    }

    fn disk(&self) -> FolderDisk {
        disk_at(&self.folder)
    }

    /// Makes the folder, unless it is there. A link in its place is refused.
    fn create_folder(&self) -> io::Result<()> {
        if self.disk().open()?.is_none() { files::create_folder(&self.folder) } else { Ok(()) }
    }

    /// Makes the folder with what is to be known of the bundle, so that both survive a power cut.
    pub(super) fn begin(&self, with: &BundleRecord) -> io::Result<()> {
        self.create_folder()?;
        match self.kept_with() {
            Ok(there) if there == *with => Ok(()),
            // What says something else, or nothing, is written anew. What cannot be read may be somebody else's.
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => Err(error),
            _ => put(&self.disk(), BUNDLE_RECORD, with.text()?.as_bytes()),
        }
    }

    /// Keeps a picture, so that it survives a power cut; says whether it was not there before.
    pub(super) fn keep(&self, exemplar: &[u8; 32], bytes: &[u8]) -> io::Result<bool> {
        let is_new = match self.read(exemplar) {
            Ok(there) if there == bytes => return Ok(false),
            // Damaged.
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            // Something else lies there, or nobody knows what.
            Err(error) => return Err(error),
        };
        put(&self.disk(), &file_of(exemplar), bytes)?;
        Ok(is_new)
    }

    /// Keeps the bytes of the slot that holds the bundle's last state.
    pub(super) fn keep_former_state(&self, slot: &[u8]) -> io::Result<()> {
        self.create_folder()?;
        match OpenFolder::entry_at(&self.folder, FORMER_STATE)? {
            None | Some(FolderEntry::File(_)) => put(&self.disk(), FORMER_STATE, slot),
            Some(_) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "something else lies in the place of the state"))
            }
        }
    }

    /// Removes pictures again.
    pub(super) fn remove<'a>(&self, exemplars: impl IntoIterator<Item = &'a [u8; 32]>) -> io::Result<()> {
        let disk = self.disk();
        exemplars.into_iter().try_for_each(|exemplar| remove(&disk, &file_of(exemplar)))
    }

    /// Removes what belongs to none of these exemplars, and what was left of earlier writes. This bundle is the one
    /// whose state the slots hold.
    pub(super) fn sweep(&self, exemplars: &BTreeSet<[u8; 32]>) -> io::Result<()> {
        sweep(&self.disk(), exemplars)
    }
}

/// The disk of a folder of kept pictures. A link in the place of the folder is refused.
fn disk_at(path: &Path) -> FolderDisk {
    FolderDisk { path: path.to_owned(), links: SymlinkPolicy::Refuse }
}

/// Whether a name is that of a file which is being written, as [`put`] names them.
fn is_unfinished(name: &str) -> bool {
    let of = name.strip_prefix(UNFINISHED).and_then(without_attempt);
    of.is_some_and(|of| of == BUNDLE_RECORD || of == FORMER_STATE || exemplar_of(of).is_some())
}

/// Puts a file into the place of one of that name, if there is one, so that it survives a power cut.
pub(super) fn put<D: Disk>(disk: &D, name: &str, bytes: &[u8]) -> io::Result<()> {
    replace(disk, name, &format!("{UNFINISHED}{name}"), bytes, D::rename)
}

/// As [`KeptPictures::sweep`].
pub(super) fn sweep<D: Disk>(disk: &D, exemplars: &BTreeSet<[u8; 32]>) -> io::Result<()> {
    let mut swept = false;
    for name in disk.list()? {
        let stray = exemplar_of(&name).is_some_and(|exemplar| !exemplars.contains(&exemplar));
        if stray || name == FORMER_STATE || is_unfinished(&name) {
            remove(disk, &name)?;
            swept = true;
        }
    }
    if swept { disk.sync_folder() } else { Ok(()) }
}

/// All folders of kept pictures in a store's folder.
pub(super) fn folders(store: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(folder) = OpenFolder::open(store, SymlinkPolicy::Follow)? else { return Ok(Vec::new()) };
    let mut folders = Vec::new();
    for name in folder.names()? {
        if is_folder(&name) && folder.entry(&name)? == Some(FolderEntry::Folder) {
            folders.push(store.join(name));
        }
    }
    Ok(folders)
}

/// All folders of kept pictures in a store's folder, except that of one bundle.
pub(super) fn other_folders(store: &Path, digest: &[u8; 32]) -> io::Result<Vec<PathBuf>> {
    let own = store.join(name_of(digest));
    let mut folders = folders(store)?;
    folders.retain(|folder| *folder != own);
    Ok(folders)
}

/// The state that was kept aside in a folder of kept pictures, if there is one.
pub(super) fn former_state_in(folder: &Path) -> PathBuf {
    folder.join(FORMER_STATE)
}

/// Whether a state was kept aside in a folder of kept pictures.
///
/// # Errors
/// If the system does not tell: then nobody may take the folder for one without.
pub(super) fn has_former_state(folder: &Path) -> io::Result<bool> {
    Ok(OpenFolder::entry_at(folder, FORMER_STATE)?.is_some())
}

fn bundle_text(folder: &Path) -> io::Result<String> {
    let text = String::from_utf8(files::read_own(&folder.join(BUNDLE_RECORD), MAX_BUNDLE_RECORD)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The bundle that a folder of kept pictures says it belongs to; `None` if it does not say so.
pub(super) fn recorded_bundle(folder: &Path) -> Option<BundleRecord> {
    toml::from_str(&bundle_text(folder).ok()?).ok()
}

/// Removes a folder of kept pictures with what is ours in it; returns whether it was ours. The state goes first:
/// without it, nothing of the rest can come back. The file that names the bundle goes last: until then, a removal that
/// was cut off can be repeated.
pub(super) fn discard(folder: &Path) -> io::Result<bool> {
    if !is_ours(folder)? {
        log::warn!("{} is left alone: it does not hold kept pictures of a bundle", folder.display());
        return Ok(false);
    }
    let disk = disk_at(folder);
    remove(&disk, FORMER_STATE)?;
    for name in disk.list()? {
        if is_unfinished(&name) || exemplar_of(&name).is_some() {
            remove(&disk, &name)?;
        }
    }
    remove(&disk, BUNDLE_RECORD)?;
    disk.sync_folder()?;
    // What somebody else has put there stays, and the folder with it.
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(true),
        removed => removed.map(|()| true),
    }
}

/// Whether a folder's own file names the bundle that the folder is named after. A folder without that file is ours only
/// if it holds nothing but files that we write: of a bundle without kept pictures, only the state was kept aside, and a
/// change that was cut off leaves pictures alone.
fn is_ours(folder: &Path) -> io::Result<bool> {
    match bundle_text(folder) {
        Ok(text) => {
            let digest = toml::from_str::<BundleRecord>(&text).ok().and_then(|kept| from_hexadecimal(&kept.digest));
            Ok(digest.is_some_and(|digest| folder.file_name().is_some_and(|name| name == name_of(&digest).as_str())))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let names = disk_at(folder).list()?;
            Ok(names.iter().all(|name| name == FORMER_STATE || is_unfinished(name) || exemplar_of(name).is_some()))
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(false),
        Err(error) => Err(error),
    }
}

/// Enough digits to tell a device's bundles apart; the file within has them all.
fn name_of(digest: &[u8; 32]) -> String {
    format!("{FOLDER}{}", &hexadecimal(digest)[..DIGITS])
}

/// Whether a name is that of a folder of kept pictures.
fn is_folder(name: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.strip_prefix(FOLDER).is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(is_digit))
}

/// Name of the file of an exemplar's picture.
pub fn file_of(exemplar: &[u8; 32]) -> String {
    hexadecimal(exemplar) + ENDING
}

/// The exemplar whose picture has that name, if it is one's.
pub fn exemplar_of(name: &str) -> Option<[u8; 32]> {
    from_hexadecimal(name.strip_suffix(ENDING)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_kept_as_it_is_within_its_bytes() {
        let mut noise = orco_core::random::Random::new(3, "noise");
        for (width, height) in [(1, 1), (32, 32), (224, 224), (1024, 7)] {
            let picture =
                RgbImage::from_fn(width, height, |_, _| ::image::Rgb([0; 3].map(|_: u8| (noise.unit() * 255.0) as u8)));
            let bytes = encoded(&picture).unwrap();
            assert!(bytes.len() as u64 <= most_bytes(width, height), "{width} x {height}: {} bytes", bytes.len());
            assert_eq!(decoded(&bytes).unwrap(), picture);
        }
        assert!(encoded(&RgbImage::new(MAX_CANVAS + 1, 1)).is_err());
        assert!(most_bytes(MAX_CANVAS, MAX_CANVAS) <= MAX_PICTURE);
    }

    #[test]
    fn a_picture_that_is_larger_than_kept_ones_is_not_decoded() {
        let mut large = Vec::new();
        let mut encoder = ::png::Encoder::new(&mut large, MAX_CANVAS + 1, 1);
        encoder.set_color(::png::ColorType::Rgb);
        encoder.set_depth(::png::BitDepth::Eight);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[0; 3 * (MAX_CANVAS as usize + 1)]).unwrap();
        writer.finish().unwrap();
        // Its pixels are cut off.
        let refused = decoded(&large[..large.len() - 20]);
        assert!(matches!(refused, Err(ImageError::TooLarge)), "{refused:?}");
    }

    #[test]
    fn what_was_kept_aside_goes_with_or_without_pictures_and_what_is_of_others_stays() {
        let store = tempfile::tempdir().unwrap();
        let exemplar = [7; 32];
        let bundle = |digest: &[u8; 32]| BundleRecord {
            name: "everyday".into(),
            release: 1,
            digest: hexadecimal(digest),
            labels: Vec::new(),
        };
        let with_pictures = KeptPictures::new(store.path(), [1; 32]);
        with_pictures.begin(&bundle(&[1; 32])).unwrap();
        with_pictures.keep(&exemplar, b"picture").unwrap();
        with_pictures.keep_former_state(b"state").unwrap();
        // No picture was kept of its shots, so nothing names the bundle.
        let state_alone = KeptPictures::new(store.path(), [2; 32]);
        state_alone.keep_former_state(b"state").unwrap();
        // A removal that was cut off before the last file.
        let cut_off = KeptPictures::new(store.path(), [3; 32]);
        cut_off.begin(&bundle(&[3; 32])).unwrap();
        let of_others = KeptPictures::new(store.path(), [4; 32]);
        of_others.keep_former_state(b"state").unwrap();
        fs::write(of_others.folder().join("holiday.png"), b"precious").unwrap();
        for pictures in [&with_pictures, &state_alone, &cut_off] {
            assert!(discard(pictures.folder()).unwrap());
            assert!(!pictures.folder().exists());
        }
        assert!(!discard(of_others.folder()).unwrap());
        assert_eq!(fs::read_dir(of_others.folder()).unwrap().count(), 2);
    }

    #[test]
    fn names_stand_for_exemplars_and_nothing_else() {
        let exemplar: [u8; 32] = core::array::from_fn(|index| 7 * index as u8);
        assert_eq!(exemplar_of(&file_of(&exemplar)), Some(exemplar));
        let name = file_of(&exemplar);
        for other in
            [&name[1..], &name.to_uppercase(), &format!("../{name}"), &name.replace(".png", ""), "bundle.toml", ""]
        {
            assert_eq!(exemplar_of(other), None, "{other}");
        }
        for of in [&name, BUNDLE_RECORD, FORMER_STATE] {
            assert!(is_unfinished(&format!("{UNFINISHED}{of}-0")) && is_unfinished(&format!("{UNFINISHED}{of}-1")));
            assert!(!is_unfinished(&format!("{UNFINISHED}{of}")) && !is_unfinished(&format!("{UNFINISHED}{of}-2")));
        }
        assert!(!is_unfinished(".kept-note-0"));
        assert!(is_folder(&name_of(&exemplar)));
        for other in ["kept-", "kept-2019", "kept-0123456789ABCDEF", "kept-0123456789abcdef0", "0123456789abcdef"] {
            assert!(!is_folder(other), "{other}");
        }
    }
}
