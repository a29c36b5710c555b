//! The state: its folder, its lock, what is in it, and the room on its disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use orco_runtime::bundle::Bundle;
use orco_runtime::files;
use orco_runtime::files::lock::{Lock, LockError};
use orco_runtime::learner::Learner;
use orco_runtime::scene::{BackgroundFile, RegionFile};
use orco_runtime::state::sentence::byte_size;

use super::Findings;
use super::writable::{cannot_be_written, existing, try_write};
use crate::advice;
use crate::device;
use crate::options::Options;

/// Free room below which a save may soon fail.
const MIN_ROOM: u64 = 32 << 20;
/// Further files that a disk takes below which a save may soon fail: some run out of them before they run out of room.
const MIN_FILES: u64 = 100;

/// Where the state lies, unless the bundle's name says so and is not known.
pub fn folder(options: &Options, bundle: Option<&Bundle>, findings: &mut Findings) -> Option<PathBuf> {
    let name = bundle.map_or("", |bundle| bundle.manifest.name.as_str());
    match options.state_folder(name) {
        Ok(_) if bundle.is_none() && options.state.is_none() => None,
        Ok(folder) => Some(folder),
        Err(error) => {
            findings.failed(STATE, error);
            None
        }
    }
}

/// Whether the state can be read and changed. Returns how many bytes of memory a session takes.
pub fn check(options: &Options, folder: &Path, bundle: Option<Bundle>, findings: &mut Findings) -> Option<usize> {
    if check_folder(folder, findings) {
        lock(folder, findings);
        camera_files(folder, findings);
    }
    room(folder, findings);
    let bundle = bundle?;
    let opened = device::store(options, &bundle).and_then(|store| {
        let settings = device::settings(options, &store, 1);
        Ok(Learner::new(bundle, store, settings)?)
    });
    match opened {
        Ok(learner) if learner.warnings().is_empty() => {
            let count = learner.state().classes.len();
            let is_saved = !learner.store().revision().is_empty();
            let copies = if is_saved { "both copies can be read" } else { "nothing was saved yet" };
            findings.good("knowledge", format!("learned classes: {count}; {copies}"));
            Some(device::session_bytes(&learner))
        }
        Ok(learner) => {
            learner.warnings().iter().for_each(|warning| findings.wrong("knowledge", warning));
            Some(device::session_bytes(&learner))
        }
        Err(error) => {
            findings.wrong("knowledge", advice::sentence(&error));
            None
        }
    }
}

/// The subject of what is said about the state's folder.
const STATE: &str = "state";

/// Says whose the folder is, and who may look into it. Returns whether it is there.
fn check_folder(folder: &Path, findings: &mut Findings) -> bool {
    let shown = folder.display();
    let facts = match fs::metadata(folder) {
        Ok(facts) if facts.is_dir() => facts,
        Ok(_) => {
            findings.wrong(STATE, format!("{shown} is no folder; name another with --state DIR"));
            return false;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            missing_folder(folder, findings);
            return false;
        }
        Err(error) => {
            findings.failed(STATE, anyhow!("{shown} cannot be read: {error}; run this as the user whose it is"));
            return false;
        }
    };
    if are_rights_sound(folder, &facts, findings) {
        if let Err(error) = try_write(folder) {
            findings.wrong(STATE, cannot_be_written(folder, &error));
        } else if let Err(error) = files::sync_folder(folder) {
            findings.wrong(STATE, format!("{shown} cannot be synced: {error}; name another with --state DIR"));
        } else {
            findings.good(STATE, format!("{shown}, this user's alone"));
        }
    }
    true
}

/// Whether a folder that is not there can be made.
fn missing_folder(folder: &Path, findings: &mut Findings) {
    let shown = folder.display();
    if let Err(error) = files::check_own_folder(folder) {
        // Root looks after other users' services.
        return findings.note(STATE, format!("{shown} is not there, and root does not make it: {error}"));
    }
    let Some((above, error)) = existing(folder).and_then(|above| Some((above, try_write(above).err()?))) else {
        return findings.good(STATE, format!("{shown} is made with the first change"));
    };
    let text = match error.kind() {
        // A dangling link, which the error names.
        _ if files::is_absent(above) => {
            return findings.wrong(STATE, format!("{error}; name another with --state DIR"));
        }
        io::ErrorKind::PermissionDenied => {
            format!("; name another with --state DIR, or give this user the right to write {}", above.display())
        }
        _ => format!(" in {}: {error}; name another with --state DIR", above.display()),
    };
    findings.wrong(STATE, format!("{shown} is not there and cannot be made{text}"));
}

/// Whether the folder is this user's and nobody else may enter it; says if not.
#[cfg(unix)]
fn are_rights_sound(folder: &Path, facts: &fs::Metadata, findings: &mut Findings) -> bool {
    use std::os::unix::fs::MetadataExt;
    let shown = folder.display();
    let (owner, user) = (facts.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        let text = format!("{shown} belongs to user {owner}, and only that one can change it; run orco as that user");
        // Root looks after other users' services.
        if user == 0 {
            findings.note(STATE, text);
        } else {
            findings.wrong(STATE, text);
        }
    } else if facts.mode() & 0o022 != 0 {
        let advice = "make it private (chmod 700; mount FAT and exFAT with umask=077)";
        findings.wrong(STATE, format!("others may write into {shown}; {advice}"));
    } else if facts.mode() & 0o077 != 0 {
        findings.note(STATE, format!("others may look into {shown}, though not read its files; chmod 700 ends that"));
    } else {
        return true;
    }
    false
}

#[cfg(not(unix))]
fn are_rights_sound(_: &Path, _: &fs::Metadata, _: &mut Findings) -> bool {
    true
}

/// Whether another program is changing the state.
fn lock(folder: &Path, findings: &mut Findings) {
    const SUBJECT: &str = "lock";
    let path = folder.join(".lock");
    if !path.exists() {
        return findings.good(SUBJECT, "nothing was changed yet");
    }
    match Lock::take_existing(&path, Duration::ZERO) {
        Ok(_) => findings.good(SUBJECT, "free"),
        Err(LockError::Held) => {
            findings.note(SUBJECT, "another orco is changing the state just now; it is let go when that ends")
        }
        // Said about the folder, and about the disk.
        Err(LockError::OtherOwner { .. }) => {}
        Err(LockError::Open(error)) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {}
        Err(error @ LockError::Unsupported(_)) => {
            let text = format!("{}: {error}; name a folder on another one with --state DIR", path.display());
            findings.wrong(SUBJECT, text);
        }
        Err(error) => findings.wrong(SUBJECT, format!("{}: {error}; remove it while no orco runs", path.display())),
    }
}

/// Whether the empty place and the regions that are kept for a camera can be used.
fn camera_files(folder: &Path, findings: &mut Findings) {
    const PLACE: &str = "empty place";
    match BackgroundFile::of(folder).read() {
        Ok(Some(_)) => findings.good(PLACE, "is kept"),
        Ok(None) => {}
        Err(error) => findings.failed(PLACE, error),
    }
    if let Err(error) = RegionFile::of(folder).read() {
        findings.failed("regions", error);
    }
}

/// How much room is left.
fn room(folder: &Path, findings: &mut Findings) {
    #[cfg(unix)]
    if let Some(disk) = files::path_and_parents(folder).find_map(|part| rustix::fs::statvfs(part).ok()) {
        let free = disk.f_bavail * disk.f_frsize;
        if disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
            findings.wrong("disk", format!("the disk of {} is read-only; mount it to be written", folder.display()));
        } else if disk.f_blocks == 0 {
            // As some file systems on the network and in FUSE.
            findings.note("disk", format!("the disk of {} does not tell how much room is left", folder.display()));
        } else if free < MIN_ROOM {
            let text = format!(
                "{} free, {} should be; make room where {} lies",
                byte_size(free),
                byte_size(MIN_ROOM),
                folder.display()
            );
            findings.wrong("disk", text);
        } else if disk.f_files > 0 && disk.f_favail < MIN_FILES {
            // File systems without a number of files to come give 0 for both.
            let text = format!(
                "it takes only {} more files, {MIN_FILES} should be; remove files where {} lies",
                disk.f_favail,
                folder.display()
            );
            findings.wrong("disk", text);
        } else {
            findings.good("disk", format!("{} free", byte_size(free)));
        }
    }
    #[cfg(not(unix))]
    let _ = (folder, findings, MIN_ROOM, MIN_FILES, byte_size);
}
