//! Files that a crash leaves whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Replaces a file by new bytes so that a crash leaves the old or the new ones. Until the new ones are whole they lie in
/// `.FILE.orco-partial` beside it. A link in its place is replaced, not followed.
///
/// # Errors
/// If the file cannot be written; the old one is then still there.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, bytes, || Ok(()))
}

/// The same, with what is to be done before the new file, which is whole and synced, takes its name.
///
/// # Errors
/// As for [`write_atomically`], and if that fails.
pub(crate) fn replace(path: &Path, bytes: &[u8], before: impl FnOnce() -> io::Result<()>) -> Result<()> {
    let written = write_with(path, |file| file.write_all(bytes), |_| before());
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// The same by what `write` writes; `before` is told where that lies.
///
/// # Errors
/// As for [`replace`].
pub(crate) fn write_with(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
    before: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let partial = partial(path);
    let written = begin(&partial, write).and_then(|()| before(&partial)).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written.and_then(|()| sync_folder_of(path))
}

/// Where a file is written before it gets its name: nobody else's file is called so, and one process writes at a time.
pub(crate) fn partial(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.orco-partial", path.file_name().unwrap_or_default().to_string_lossy()))
}

/// Opens a file that is our own: no link is followed in its place.
pub(crate) fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
    match fs::symlink_metadata(path) {
        Ok(facts) if !facts.is_file() => {
            Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file, and links are not followed here"))
        }
        _ => options.open(path),
    }
}

fn begin(partial: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    match fs::remove_file(partial) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(partial)?;
    write(&mut file)?;
    file.sync_all()
}

/// Makes a file's name survive a power cut, which renaming alone does not. Other systems than Unix do not let a folder be
/// synced.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_its_neighbours_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recipe.toml");
        // What another program may have left there.
        for neighbour in ["recipe.tmp", "recipe.toml.tmp", ".recipe.toml"] {
            fs::write(folder.path().join(neighbour), "precious").unwrap();
        }
        for bytes in [&b"one"[..], b"another"] {
            write_atomically(&path, bytes).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        let failed = replace(&path, b"third", || Err(io::Error::other("full"))).unwrap_err();
        assert!(format!("{failed:#}").contains("recipe.toml: full"), "{failed:#}");
        assert_eq!(fs::read(&path).unwrap(), b"another");
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, [".recipe.toml", "recipe.tmp", "recipe.toml", "recipe.toml.tmp"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("file"), folder.path().join("other"));
        fs::write(&other, "precious").unwrap();
        for link in [&path, &partial(&path)] {
            std::os::unix::fs::symlink(&other, link).unwrap();
            write_atomically(&path, b"new").unwrap();
            assert_eq!((fs::read(&path).unwrap(), fs::read(&other).unwrap()), (b"new".to_vec(), b"precious".to_vec()));
        }
    }
}
