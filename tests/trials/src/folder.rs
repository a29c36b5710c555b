//! Copies of folders.

use std::fs;
use std::path::Path;

/// Makes a folder a copy of the files of another one, without the folders in that.
///
/// # Panics
/// If something cannot be read or written.
pub fn copy_folder(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    let files = fs::read_dir(from).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file());
    for entry in files {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Makes a folder a copy of another one with all that is below it, but for links and pipes.
///
/// # Panics
/// If something cannot be read or written.
pub fn copy_all(from: &Path, to: &Path) {
    copy_folder(from, to);
    let folders = fs::read_dir(from).unwrap().map(Result::unwrap);
    for entry in folders.filter(|entry| entry.file_type().unwrap().is_dir()) {
        copy_all(&entry.path(), &to.join(entry.file_name()));
    }
}
