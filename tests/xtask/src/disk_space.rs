//! Checks the free space on the disk before anything is built: a linker that runs out of space is killed by a signal,
//! an hour later and without a reason.

use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::library::LIBTORCH;
use crate::metadata::target_folder;

/// What `cargo xtask test` leaves in an empty target folder, with a tenth more.
const BUILD_BYTES: u64 = 2_300_000_000;
/// What the libraries take in an empty cache while they are set up: the largest beside its wheel.
const LIBRARY_BYTES: u64 = 1_300_000_000;

/// Bytes that will be written to a folder.
#[derive(Debug)]
struct Need {
    folder: PathBuf,
    bytes: u64,
}

/// Free bytes of a folder's file system, and its number.
#[derive(Clone, Copy, Debug)]
struct FileSystem {
    device: u64,
    free: u64,
}

/// Demands free space for what `cargo xtask test` builds beside what is there, and for the libraries if they are not
/// set up.
///
/// # Errors
/// If there is too little, with how much is needed.
pub fn check() -> Result<(), Box<dyn Error>> {
    let target = target_folder()?;
    let built = BUILD_BYTES.saturating_sub(size(&target));
    let fetched = if LIBTORCH.is_set_up() { 0 } else { LIBRARY_BYTES };
    let needs = [Need { folder: target, bytes: built }, Need { folder: Cache::of_user()?.path(""), bytes: fetched }];
    Ok(compare(&needs, file_system)?)
}

/// What needs together more than a file system has.
fn compare(needs: &[Need], file_system: impl Fn(&Path) -> Option<FileSystem>) -> Result<(), String> {
    // A file system that does not tell is taken to have room.
    let placed = needs.iter().filter(|need| need.bytes > 0);
    let placed: Vec<_> = placed.filter_map(|need| Some((need, file_system(&need.folder)?))).collect();
    for (_, FileSystem { device, free }) in &placed {
        let here = placed.iter().filter(|(_, of)| of.device == *device).map(|(need, _)| *need);
        if here.clone().map(|need| need.bytes).sum::<u64>() > *free {
            let parts: Vec<String> =
                here.map(|need| format!("{} in {}", gigabytes(need.bytes), need.folder.display())).collect();
            return Err(format!(
                "the disk has {} free, and {} are needed; make room, or name folders elsewhere with CARGO_TARGET_DIR \
                 and ORCO_CACHE",
                gigabytes(*free),
                parts.join(" and ")
            ));
        }
    }
    Ok(())
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// That of a folder, or of the one that it would be made in.
fn file_system(folder: &Path) -> Option<FileSystem> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let room = rustix::fs::statvfs(there).ok()?;
    Some(FileSystem { device: fs::metadata(there).ok()?.dev(), free: room.f_bavail * room.f_frsize })
}

/// Bytes that the files of a folder take; 0 if there is none.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        let facts = entry.metadata().ok()?;
        // A file with several names, as Cargo makes them, is counted by its share.
        Some(if facts.is_dir() { size(&entry.path()) } else { facts.blocks() * 512 / facts.nlink().max(1) })
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(built: u64, fetched: u64) -> [Need; 2] {
        [("/t", built), ("/c", fetched)].map(|(folder, bytes)| Need { folder: folder.into(), bytes })
    }

    #[test]
    fn folders_of_one_disk_share_its_room() {
        let one = |_: &Path| Some(FileSystem { device: 1, free: 3_000_000_000 });
        let two =
            |folder: &Path| Some(FileSystem { device: u64::from(folder == Path::new("/c")), free: 3_000_000_000 });
        let large = needs(2_500_000_000, 1_000_000_000);
        assert!(compare(&large, two).is_ok());
        assert_eq!(
            compare(&large, one).unwrap_err(),
            "the disk has 3.0 GB free, and 2.5 GB in /t and 1.0 GB in /c are needed; make room, or name folders \
             elsewhere with CARGO_TARGET_DIR and ORCO_CACHE"
        );
        assert!(compare(&needs(2_500_000_000, 0), one).is_ok());
        assert!(compare(&large, |_| None).is_ok());
    }

    #[test]
    fn what_is_built_already_needs_no_room() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(size(&folder.path().join("none")), 0);
        fs::create_dir(folder.path().join("deps")).unwrap();
        let file = folder.path().join("deps/program");
        fs::write(&file, vec![1; 1 << 20]).unwrap();
        fs::hard_link(&file, folder.path().join("program")).unwrap();
        assert!((1 << 20..3 << 19).contains(&size(folder.path())), "{}", size(folder.path()));
        assert!(file_system(&folder.path().join("not/there")).is_some_and(|here| here.free > 0));
    }
}
