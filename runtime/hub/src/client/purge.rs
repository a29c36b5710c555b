//! Erases from a device's records of its fleet: a purged class, or classes that a restored backup does not have.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use orco_runtime::files;
use orco_runtime::files::lock::Lock;

use super::error::SyncError;
use super::folder::DeviceFolder;

/// Holds the lock of a device's fleet folder: no round with the hub runs until this is dropped.
#[derive(Debug)]
pub struct LockedDeviceFolder {
    folder: DeviceFolder,
    _lock: Lock,
}

impl DeviceFolder {
    /// Keeps rounds out while a class is purged or a backup restored: a round under way would write the old labels
    /// back. Waits up to `wait` for it to end. `None` if the device takes part in no fleet.
    ///
    /// # Errors
    /// [`SyncError::Busy`] if a round is under way all the time, [`SyncError::File`] if the folder cannot be locked.
    pub fn lock_out_rounds(&self, wait: Duration) -> Result<Option<LockedDeviceFolder>, SyncError> {
        if !self.path().is_dir() {
            return Ok(None);
        }
        let lock = self.lock_within(wait)?;
        Ok(Some(LockedDeviceFolder { folder: self.clone(), _lock: lock }))
    }
}

impl LockedDeviceFolder {
    /// Whether one of these labels is still mentioned, after a purge that was cut off, say.
    ///
    /// # Errors
    /// [`SyncError`] if what the device keeps cannot be read.
    pub fn mentions(&self, labels: &BTreeSet<String>) -> Result<bool, SyncError> {
        Ok(self.folder.progress()?.mentions(labels))
    }

    /// Removes labels of a purged class from all files. Also removes downloads that were not used yet, since a pack
    /// holds its class, and temporary files of killed processes.
    ///
    /// # Errors
    /// [`SyncError`] if a file cannot be read, written or removed.
    pub fn forget_labels(&self, labels: &BTreeSet<String>) -> Result<(), SyncError> {
        let (folder, objects) = (self.folder.path(), self.folder.objects());
        remove_files(folder, files::is_temporary).map_err(SyncError::file(folder))?;
        remove_files(&objects, DeviceFolder::is_object).map_err(SyncError::file(&objects))?;
        // The last one: while it names a label, the purge can be repeated.
        let mut progress = self.folder.progress()?;
        if progress.forget_labels(labels) { self.folder.keep_progress(&progress, &mut ()) } else { Ok(()) }
    }

    /// Forgets what was learned and pushed of classes that are not among these labels, after another state was put into
    /// the place of the device's: the next round learns what the channel holds of them.
    ///
    /// # Errors
    /// [`SyncError`] if what the device keeps cannot be read or written.
    pub fn retain_labels(&self, labels: &BTreeSet<String>) -> Result<(), SyncError> {
        let mut progress = self.folder.progress()?;
        if progress.retain_labels(labels) { self.folder.keep_progress(&progress, &mut ()) } else { Ok(()) }
    }
}

/// Removes the files of a folder that have such names, for good.
fn remove_files(folder: &Path, has_such_name: impl Fn(&str) -> bool) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut removed = false;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.file_name().to_str().is_some_and(&has_such_name) {
            files::remove_if_there(&entry.path())?;
            removed = true;
        }
    }
    if removed { files::sync_folder(folder) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::progress::{LearnedPack, PushedClass, RefusedRelease, SyncProgress};
    use super::*;
    use crate::protocol::{ObjectDigest, ReleaseId, ReleaseOutcome};

    #[test]
    fn a_purged_class_is_named_in_no_file_and_its_pack_is_not_learned_again() {
        let place = tempfile::tempdir().unwrap();
        let folder = DeviceFolder::new(place.path().join("fleet"));
        assert!(folder.lock_out_rounds(Duration::ZERO).unwrap().is_none() && !folder.path().exists());
        let digest = |text: &str| ObjectDigest::of(text.as_bytes());
        let learned = |label: &str| LearnedPack {
            pack: digest(label),
            bundle_digest: digest("bundle"),
            label: label.into(),
            shots_digest: digest("content"),
        };
        let pushed = |label: &str| PushedClass {
            label: label.into(),
            shots_digest: digest("content"),
            pack: digest(label),
            bundle_digest: Some(digest("bundle")),
            pictures: false,
            picture_count: None,
        };
        let reason = |label: &str| format!("this device was taught another \"{label}\"");
        let refused = |release, label: &str| RefusedRelease {
            release: ReleaseId(release),
            manifest: Some(digest("manifest")),
            reason: reason(label),
        };
        let outcome =
            |release, label: &str| ReleaseOutcome { release: ReleaseId(release), refused: Some(reason(label)) };
        let labels = ["anna", "mug"];
        let progress = SyncProgress {
            learned: labels.map(learned).into(),
            former: vec![learned("anna")],
            is_restored: false,
            pushed: labels.map(pushed).into(),
            refused: vec![refused(1, "anna"), refused(2, "mug")],
            outcomes: vec![outcome(1, "anna"), outcome(2, "mug")],
            learning: Some(LearnedPack { pack: digest("later"), ..learned("anna") }),
            replays: 0,
        };
        folder.keep_progress(&progress, &mut ()).unwrap();
        let part = format!("{}.part", digest("pack"));
        let leftovers = [folder.path().join(".orco-0123456789abcdef"), folder.objects().join(part)];
        fs::create_dir(folder.objects()).unwrap();
        leftovers.iter().for_each(|path| fs::write(path, "anna").unwrap());
        let theirs = [folder.path().join("note"), folder.objects().join("teapot.obj")];
        theirs.iter().for_each(|path| fs::write(path, "a user's").unwrap());

        let locked = folder.lock_out_rounds(Duration::ZERO).unwrap().unwrap();
        assert!(matches!(folder.lock_out_rounds(Duration::ZERO), Err(SyncError::Busy { .. })));
        let purged = BTreeSet::from(["anna".to_owned()]);
        for part in ["ann", "another", "device"] {
            assert!(!locked.mentions(&BTreeSet::from([part.to_owned()])).unwrap(), "{part} is no label there");
        }
        assert!(locked.mentions(&purged).unwrap() && leftovers.iter().all(|path| path.exists()));
        locked.forget_labels(&purged).unwrap();
        assert!(!locked.mentions(&purged).unwrap());
        let after = folder.progress().unwrap();
        assert!(!serde_json::to_string(&after).unwrap().contains("anna"), "{after:?}");
        assert!(!leftovers.iter().any(|path| path.exists()) && theirs.iter().all(|path| path.exists()));
        // What the channel holds was learned, and what was refused stays so.
        assert!(after.learned(&digest("later")).is_some() && after.learning.is_none());
        assert!(after.refusal(ReleaseId(1), digest("manifest")).is_some());
        assert_eq!(after.learned[0], learned("mug"));
        let without_label = PushedClass { label: String::new(), shots_digest: digest(""), ..pushed("anna") };
        assert_eq!(after.pushed, [without_label, pushed("mug")], "a release of its own pack is not learned, either");
        assert!(after.has_purged(&digest("anna")) && !after.has_purged(&digest("mug")));
        assert_eq!((&after.refused[1], &after.outcomes[1]), (&refused(2, "mug"), &outcome(2, "mug")));
    }
}
