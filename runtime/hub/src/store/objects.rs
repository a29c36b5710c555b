//! Objects: packs, pictures and files of bundles, each named by its SHA-256.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use orco_runtime::files;

use crate::error::HubError;
use crate::protocol::{ByteRange, MAX_CHUNK, MAX_OBJECT, ObjectDigest};

/// Name of the folder.
pub(super) const FOLDER: &str = "objects";

/// The folder of objects. An object is there as a whole or not at all, and never changes.
#[derive(Clone, Debug)]
pub struct ObjectFolder(PathBuf);

/// A part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPart {
    /// Its bytes; empty where the range begins behind the object.
    pub bytes: Vec<u8>,
    /// Bytes of the whole object.
    pub total: u64,
}

impl ObjectFolder {
    pub(super) fn open(hub: &Path) -> Result<Self, HubError> {
        let folder = hub.join(FOLDER);
        if !folder.is_dir() {
            files::create_folder(&folder).map_err(HubError::file(&folder))?;
        }
        Ok(Self(folder))
    }

    /// Whether there was ever an object.
    pub(super) fn is_used(&self) -> bool {
        fs::read_dir(&self.0).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// Where an object lies: 256 folders keep each of them small.
    pub fn path(&self, digest: &ObjectDigest) -> PathBuf {
        let name = digest.to_string();
        self.0.join(&name[..2]).join(name)
    }

    /// Keeps an object. When this returns, it survives a power cut.
    ///
    /// # Errors
    /// [`HubError::Full`] if there is no room for it, [`HubError::File`] if it cannot be written.
    pub fn put(&self, bytes: &[u8]) -> Result<ObjectDigest, HubError> {
        let digest = ObjectDigest::of(bytes);
        let path = self.path(&digest);
        self.put_at(&path, bytes).map_err(HubError::file(path))?;
        Ok(digest)
    }

    fn put_at(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.0);
        files::create_own_folder(folder)?;
        match files::create(path, bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match files::read_own(path, MAX_OBJECT) {
                // The process that wrote it may not have synced the folder yet.
                Ok(there) if there == bytes => files::sync_folder(folder),
                // Damaged since; now it is whole again.
                _ => files::replace(path, bytes),
            },
            made => made,
        }
    }

    /// Removes an object, if it is there. A power cut may bring it back until
    /// [its folder is synced](ObjectFolder::sync_folders_of).
    pub(super) fn remove(&self, digest: &ObjectDigest) -> Result<(), HubError> {
        let path = self.path(digest);
        files::remove_if_there(&path).map_err(HubError::file(path))
    }

    /// When this returns, no power cut brings back those of the objects that were removed: their records go next. Each
    /// folder is synced once, also where an object was gone before: a purge that was cut off may not have synced it.
    pub(super) fn sync_folders_of<'a>(
        &self,
        digests: impl IntoIterator<Item = &'a ObjectDigest>,
    ) -> Result<(), HubError> {
        let paths = digests.into_iter().map(|digest| self.path(digest));
        let folders: BTreeSet<PathBuf> = paths.map(|path| files::folder_of(&path).to_owned()).collect();
        for folder in folders {
            match files::sync_folder(&folder) {
                // None of its objects was ever there.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                synced => synced.map_err(HubError::file(&folder))?,
            }
        }
        Ok(())
    }

    /// Whether an object is there.
    pub fn holds(&self, digest: &ObjectDigest) -> bool {
        fs::symlink_metadata(self.path(digest)).is_ok_and(|facts| facts.is_file())
    }

    /// Reads a whole object and compares it with its name.
    ///
    /// # Errors
    /// [`HubError`] if it cannot be read, is lost or damaged.
    pub fn read(&self, digest: &ObjectDigest) -> Result<Vec<u8>, HubError> {
        let path = self.path(digest);
        let bytes = files::read_own(&path, MAX_OBJECT).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => HubError::Lost { digest: *digest },
            _ => HubError::file(&path)(error),
        })?;
        if ObjectDigest::of(&bytes) == *digest { Ok(bytes) } else { Err(HubError::Damaged { digest: *digest }) }
    }

    /// Reads a part of an object, at most [`MAX_CHUNK`] bytes. Whoever has all parts compares them with the name; here
    /// that is only done where the part is the whole, to tell the operator in the log.
    ///
    /// # Errors
    /// [`HubError::File`] if it cannot be read.
    pub fn read_part(&self, digest: &ObjectDigest, range: ByteRange) -> Result<ObjectPart, HubError> {
        let path = self.path(digest);
        let read = || -> io::Result<ObjectPart> {
            let mut file = files::open_own(OpenOptions::new().read(true), &path)?;
            let total = file.metadata()?.len();
            let length = (range.last - range.start).saturating_add(1).min(MAX_CHUNK);
            file.seek(SeekFrom::Start(range.start.min(total)))?;
            let mut bytes = Vec::new();
            file.take(length).read_to_end(&mut bytes)?;
            Ok(ObjectPart { bytes, total })
        };
        let part = read().map_err(HubError::file(&path))?;
        if part.bytes.len() as u64 == part.total && ObjectDigest::of(&part.bytes) != *digest {
            log::error!("{}", HubError::Damaged { digest: *digest });
        }
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_whole_and_read_in_parts() {
        let hub = tempfile::tempdir().unwrap();
        let objects = ObjectFolder::open(hub.path()).unwrap();
        let digest = objects.put(b"0123456789").unwrap();
        assert_eq!(objects.put(b"0123456789").unwrap(), digest);
        assert_eq!(objects.read(&digest).unwrap(), b"0123456789");
        let part = |start, last| objects.read_part(&digest, ByteRange { start, last }).unwrap();
        assert_eq!(part(2, 4), ObjectPart { bytes: b"234".to_vec(), total: 10 });
        assert_eq!(part(8, u64::MAX), ObjectPart { bytes: b"89".to_vec(), total: 10 });
        assert_eq!(part(10, 20), ObjectPart { bytes: Vec::new(), total: 10 });
        let other = ObjectDigest::of(b"other");
        assert!(!objects.holds(&other));
        assert!(matches!(objects.read(&other), Err(HubError::Lost { digest }) if digest == other));
    }

    #[test]
    fn objects_that_are_removed_are_gone_and_others_stay() {
        let hub = tempfile::tempdir().unwrap();
        let objects = ObjectFolder::open(hub.path()).unwrap();
        let [one, two, kept] = [b"1", b"2", b"3"].map(|bytes| objects.put(bytes).unwrap());
        let removed = [one, two, ObjectDigest::of(b"never there")];
        removed.iter().for_each(|object| objects.remove(object).unwrap());
        objects.sync_folders_of(&removed).unwrap();
        assert_eq!([one, two, kept].map(|object| objects.holds(&object)), [false, false, true]);
    }

    #[test]
    fn a_truncated_object_is_noticed() {
        let hub = tempfile::tempdir().unwrap();
        let objects = ObjectFolder::open(hub.path()).unwrap();
        let digest = objects.put(b"0123456789").unwrap();
        fs::write(objects.path(&digest), b"012345").unwrap();
        assert!(matches!(objects.read(&digest), Err(HubError::Damaged { .. })));
        // Sending it again repairs it.
        assert_eq!(objects.put(b"0123456789").unwrap(), digest);
        assert_eq!(objects.read(&digest).unwrap(), b"0123456789");
    }
}
