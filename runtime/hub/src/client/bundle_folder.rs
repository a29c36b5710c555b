//! Folders of bundles that were fetched, and the link to the one that the device runs with.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use orco_runtime::files;
use orco_runtime::manifest::{MANIFEST, MAX_MANIFEST};

use crate::protocol::ObjectDigest;

/// Makes a bundle's folder of files that were fetched, each with its name there; it is there as a whole or not at all.
pub(super) fn assemble(folder: &Path, fetched: &[(&str, PathBuf)]) -> io::Result<()> {
    let unfinished = folder.with_extension("new");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    files::create_folder(&unfinished)?;
    for (name, object) in fetched {
        fs::hard_link(object, unfinished.join(name)).or_else(|_| copy(object, &unfinished.join(name)))?;
    }
    files::sync_folder(&unfinished)?;
    fs::rename(&unfinished, folder)?;
    files::sync_folder(files::folder_of(folder))
}

/// Copies where the system has no hard links, so that the copy survives a power cut.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    fs::OpenOptions::new().write(true).open(to)?.sync_all()
}

/// Whether the bundle in a folder has that manifest.
pub(super) fn has_manifest(folder: &Path, manifest: ObjectDigest) -> bool {
    files::read(&folder.join(MANIFEST), MAX_MANIFEST).is_ok_and(|bytes| ObjectDigest::of(&bytes) == manifest)
}

/// Removes a bundle's folder; the log says where that fails.
pub(super) fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        log::warn!("{} is left: {error}", folder.display());
    }
}

/// Has a link lead to a folder beside it, at once.
pub(super) fn replace_link(folder: &Path, link: &Path) -> io::Result<()> {
    let new = new_link(folder, link)?;
    if fs::symlink_metadata(link).is_ok_and(|facts| facts.is_dir()) {
        // A device was copied by what follows links, as `scp -r` does.
        fs::remove_dir_all(link)?;
    }
    fs::rename(&new, link)?;
    files::sync_folder(files::folder_of(link))
}

/// Checks that a link to a folder beside it can be made: FAT and exFAT have none.
pub(super) fn check_links(folder: &Path, link: &Path) -> io::Result<()> {
    new_link(folder, link).and_then(|new| files::remove_if_there(&new))
}

/// Makes a link to a folder beside it, which has yet to take the name of `link`; returns where it is.
#[cfg(unix)]
fn new_link(folder: &Path, link: &Path) -> io::Result<PathBuf> {
    let new = link.with_file_name(".current.new");
    files::remove_if_there(&new)?;
    std::os::unix::fs::symlink(folder.file_name().unwrap_or_default(), &new)?;
    Ok(new)
}

#[cfg(not(unix))]
fn new_link(_: &Path, _: &Path) -> io::Result<PathBuf> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "bundles are switched by links, which this system does not have"))
}
