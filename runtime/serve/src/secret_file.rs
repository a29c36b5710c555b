//! Files that hold a secret: a token, a key, a password. They are refused if others may read them.

use std::fs::File;
use std::io;
use std::path::Path;

use orco_runtime::files;

/// Opens a file that must stay secret; none if it [is exposed](is_exposed).
///
/// # Errors
/// If it cannot be opened, or is no regular file.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    let file = files::open_regular(path)?;
    Ok(if is_exposed(&file)? { None } else { Some(file) })
}

/// Whether a file that must stay secret can be read or written by more than its owner. Of a file that belongs to root,
/// a group may read, too: so are systemd's credentials (0440, for the service alone by an access list), and keys that
/// are shared with a group such as `ssl-cert`.
///
/// # Errors
/// If the system does not tell.
#[cfg(unix)]
pub fn is_exposed(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let facts = file.metadata()?;
    let closed = if facts.uid() == 0 { 0o037 } else { 0o077 };
    Ok(facts.mode() & closed != 0)
}

/// Never: this system has no such rights.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn is_exposed(_: &File) -> io::Result<bool> {
    Ok(false)
}
