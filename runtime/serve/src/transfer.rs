//! What leaves the device and comes to it in files: backups of all that it knows, packs of one class.

use std::env;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Duration;

use jiff::Timestamp;
use orco_runtime::backup::{self, BackupContents, BackupError};
use orco_runtime::bundle::Bundle;
use orco_runtime::files;
use orco_runtime::learner::{Learner, LearnerSettings};
use orco_runtime::pack::{self, Pack, PackOrigin};
use orco_runtime::signature::PublicKey;
use orco_runtime::store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::{ErrorCode, Refusal};
use crate::turns::TurnQueue;

/// Most bytes of a pack that is taken in over HTTP, by a service or a hub: twice what 1,000 shots with float features
/// of 512 numbers take. Some may wait to be learned at a time; `orco import` takes larger ones.
pub const MAX_PACK: usize = 8 << 20;

/// Backups that lie on the disk at a time, being written or sent.
pub const MAX_BACKUPS: usize = 2;

/// How long a backup waits, at least, for a change that is being made.
const MIN_BACKUP_WAIT: Duration = Duration::from_secs(10);

/// Writes and reads the files.
#[derive(Clone)]
pub struct Transfer(Arc<SharedTransfer>);

struct SharedTransfer {
    bundle: Bundle,
    store: Store,
    settings: LearnerSettings,
    /// Packs must be signed with this key's secret key, where there is one.
    key: OnceLock<PublicKey>,
    /// One file is written at a time.
    writing: Mutex<()>,
    backups: Arc<Semaphore>,
    turns: TurnQueue,
}

/// A backup that was written.
#[non_exhaustive]
pub struct WrittenBackup {
    /// A file without a name, at its beginning.
    pub file: File,
    /// Its length.
    pub bytes: u64,
    /// What it may be called.
    pub name: String,
    /// Its place on the disk, to be kept as long as the file.
    pub place: OwnedSemaphorePermit,
}

impl SharedTransfer {
    /// A backup in a file without a name: on the state's disk, since others may be small, or memory; where that takes
    /// no file, in the system's folder for temporary ones.
    fn written_backup(&self) -> Result<(File, BackupContents), BackupError> {
        match self.written_into(tempfile::tempfile_in(self.store.folder())) {
            Err(BackupError::File(error)) if takes_nothing(&error) => {
                self.written_into(temporary_file()).map_err(|second| match second {
                    BackupError::File(second) => BackupError::File(nowhere_to_write(&error, &second)),
                    other => other,
                })
            }
            written => written,
        }
    }

    /// A backup in this file.
    fn written_into(&self, file: io::Result<File>) -> Result<(File, BackupContents), BackupError> {
        let mut file = file?;
        let contents = backup::write(&self.bundle, &self.store, &self.settings, &mut file)?;
        Ok((file, contents))
    }
}

/// A file without a name where `TMPDIR` says; else where temporary files outlive a start, which is a disk, before the
/// system's folder, which may be memory.
fn temporary_file() -> io::Result<File> {
    match env::var_os("TMPDIR") {
        Some(_) => tempfile::tempfile(),
        None => tempfile::tempfile_in("/var/tmp").or_else(|_| tempfile::tempfile()),
    }
}

/// Whether a disk takes no file, or no more of it.
fn takes_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    files::is_disk_full(error) || matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// Neither the state's disk nor the system's folder for temporary files takes a backup.
fn nowhere_to_write(state: &io::Error, temporary: &io::Error) -> io::Error {
    let folder = env::temp_dir();
    let folder = folder.display();
    let sentence = format!(
        "the state's disk takes none ({state}), nor does {folder} ({temporary}); `orco backup FILE` writes one on \
         another disk"
    );
    io::Error::new(state.kind(), sentence)
}

impl Transfer {
    pub(crate) fn new(bundle: Bundle, store: Store, settings: LearnerSettings, turns: TurnQueue) -> Self {
        let backups = Arc::new(Semaphore::new(MAX_BACKUPS));
        Self(Arc::new(SharedTransfer {
            bundle,
            store,
            settings,
            key: OnceLock::new(),
            writing: Mutex::default(),
            backups,
            turns,
        }))
    }

    /// From now on only packs are taken that were signed with this key's secret key.
    pub fn require_signatures(&self, key: PublicKey) {
        let _ = self.0.key.set(key);
    }

    /// Writes a backup, as `orco backup` does, into a temporary file. It waits for a change that is being made, and
    /// changes wait for it.
    ///
    /// # Errors
    /// [`Refusal`] if nothing was learned, a file is being written already, [`MAX_BACKUPS`] are being sent, a change or
    /// another program holds the state for too long, or the backup cannot be written.
    pub fn backup(&self) -> Result<WrittenBackup, Refusal> {
        let _exclusive = self.try_exclusive()?;
        let SharedTransfer { store, settings, backups, turns, .. } = &*self.0;
        if files::is_absent(store.folder()) {
            return Err(Refusal::nothing_to_back_up());
        }
        let place = Arc::clone(backups).try_acquire_owned().map_err(|_| {
            let sentence = format!("{MAX_BACKUPS} backups are being sent already; try again when one has arrived");
            Refusal::new(ErrorCode::TooManyBackups, sentence).with("limit", MAX_BACKUPS)
        })?;
        let turn = turns.take_within(settings.wait.max(MIN_BACKUP_WAIT)).ok_or_else(|| {
            Refusal::new(ErrorCode::StateBusy, "no backup: a change is being made; ask again when it is done")
        })?;
        let (mut file, contents) = self.0.written_backup().map_err(|error| Refusal::from(&error))?;
        drop(turn);
        contents.warnings.iter().for_each(|warning| log::warn!("backup: {warning}"));
        file.seek(SeekFrom::Start(0)).map_err(|error| Refusal::no_backup(&error))?;
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let bundle: String = contents.bundle.name.chars().map(plain).collect();
        let name = format!("{bundle}-{}.orcobackup", Timestamp::now().strftime("%Y-%m-%d"));
        Ok(WrittenBackup { file, bytes: contents.bytes, name, place })
    }

    /// A learned class as an unsigned pack, as `orco export` writes it.
    ///
    /// # Errors
    /// [`Refusal`] if there is no such class, it came with the bundle, or the state cannot be read.
    pub fn pack(&self, label: &str) -> Result<Vec<u8>, Refusal> {
        let _exclusive = self.try_exclusive()?;
        let SharedTransfer { bundle, store, settings, .. } = &*self.0;
        let learner = Learner::new(bundle.clone(), store.clone(), settings.clone());
        let mut learner = learner.map_err(|error| Refusal::from(&error))?;
        let exported = learner.export(label, PackOrigin::default()).map_err(|error| Refusal::from(&error))?;
        pack::unsigned(&exported).ok_or_else(|| {
            let sentence = format!("\"{label}\" has a label that no pack may have: rename it first");
            Refusal::new(ErrorCode::LabelNotExportable, sentence).with("label", label)
        })
    }

    /// Opens a pack that was sent, and checks that it is of this bundle. Its thumbnails are let go.
    ///
    /// # Errors
    /// [`Refusal`] if it is no sound pack, is not signed with the configured key, or is of another bundle.
    pub fn open(&self, bytes: &[u8]) -> Result<Pack, Refusal> {
        let refused = |refusal: Refusal| refusal.about("the pack cannot be imported");
        let opened = pack::open(bytes, self.0.key.get()).map_err(|error| refused((&error).into()))?;
        opened.to_class(&self.0.bundle.digest).map_err(|error| refused((&error).into()))?;
        Ok(Pack { thumbnails: Vec::new(), ..opened })
    }

    fn try_exclusive(&self) -> Result<MutexGuard<'_, ()>, Refusal> {
        match self.0.writing.try_lock() {
            Ok(exclusive) => Ok(exclusive),
            Err(TryLockError::Poisoned(broken)) => Ok(broken.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let sentence = "another file is being written; try again in a moment";
                Err(Refusal::new(ErrorCode::TransferBusy, sentence))
            }
        }
    }
}
