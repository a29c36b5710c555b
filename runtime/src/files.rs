//! Reading files without trust in their size.

use std::format;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::vec::Vec;

/// Reads a regular file of at most `limit` bytes.
///
/// # Errors
/// If it cannot be read, is no regular file (a pipe could block, a device never end), or is larger.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    // The size is counted while reading, since the file may grow.
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}
