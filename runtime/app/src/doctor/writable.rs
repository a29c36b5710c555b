//! Whether a folder can be written or made, and if not, why.

use std::io::{self, Write};
use std::path::Path;

use orco_runtime::files;

/// Says that a folder cannot be written, and what to do where rights are missing.
pub(super) fn cannot_be_written(folder: &Path, error: &io::Error) -> String {
    let text = match error.kind() {
        io::ErrorKind::PermissionDenied => "; give this user the right to (chmod 700)".to_owned(),
        _ => format!(": {error}"),
    };
    format!("{} cannot be written{text}", folder.display())
}

/// The innermost part of a path that exists, even as a dangling link.
pub(super) fn existing(path: &Path) -> Option<&Path> {
    files::path_and_parents(path).find(|part| part.symlink_metadata().is_ok())
}

/// Why this user cannot make a file or folder that does not exist; `None` if that works.
#[cfg(feature = "serve")]
pub(super) fn why_not_made(path: &Path) -> Option<String> {
    let above = existing(path)?;
    let error = try_write(above).err()?;
    let shown = path.display();
    Some(match error.kind() {
        // A dangling link, which the error names.
        _ if files::is_absent(above) => error.to_string(),
        io::ErrorKind::PermissionDenied => {
            format!("{shown} cannot be made: this user has no right to write {}", above.display())
        }
        _ => format!("{shown} cannot be made: {}: {error}", above.display()),
    })
}

/// Makes a file in a folder and writes a block into it, for a moment: rights alone do not tell whether that works (a disk
/// that is read-only or fails, a quota, `/proc`).
pub(super) fn try_write(folder: &Path) -> io::Result<()> {
    files::check_links(folder)?;
    let mut probe = tempfile::Builder::new().prefix(".orco-doctor-").tempfile_in(folder)?;
    // Through the handle, so that an error does not name the temporary file.
    probe.as_file_mut().write_all(&[0; 4096])?;
    probe.as_file().sync_all()
}
