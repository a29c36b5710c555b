//! The cache folder: library folders that are there whole or not at all.
//!
//! A folder is filled under a temporary name beside its own and renamed when it is complete. A
//! file lock, which the system releases when its holder dies, keeps a second set-up waiting; so
//! the process that holds the lock may delete what killed set-ups left behind.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::SetupCause;

/// The folder that holds one folder for each library.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache of this user: `$ORCO_CACHE`, `$XDG_CACHE_HOME/orco` or `~/.cache/orco`.
    ///
    /// # Errors
    /// [`SetupCause::NoCache`] if there is not even a home folder.
    pub fn of_user() -> Result<Self, SetupCause> {
        let root = choose(|name| std::env::var_os(name), std::env::home_dir()).ok_or(SetupCause::NoCache)?;
        // Cargo runs tests and build scripts in other folders than ours.
        let root = std::path::absolute(&root).map_err(SetupCause::file(&root))?;
        Ok(Self { root })
    }

    /// The path of a library's folder, whether there or not.
    pub fn path(&self, folder: &str) -> PathBuf {
        self.root.join(folder)
    }

    /// Whether the folder is in its place and holds the required files.
    pub fn holds(&self, folder: &str, required: &[&str]) -> bool {
        first_missing(&self.path(folder), required).is_none()
    }

    /// Puts a folder in its place unless it is there already.
    ///
    /// `fill` gets two empty folders: the first becomes the library's, the second is for files
    /// that are not kept. Nothing is put in place when it fails or leaves out a required file.
    /// Waits while another process installs the same folder.
    ///
    /// # Errors
    /// Those of `fill`, [`SetupCause::Missing`] and [`SetupCause::File`].
    pub fn install(
        &self,
        folder: &str,
        required: &[&'static str],
        fill: impl FnOnce(&Path, &Path) -> Result<(), SetupCause>,
    ) -> Result<(), SetupCause> {
        fs::create_dir_all(&self.root).map_err(SetupCause::file(&self.root))?;
        let _lock = self.lock(folder)?;
        if self.holds(folder, required) {
            return Ok(());
        }
        let prefix = format!(".{folder}.partial-");
        self.remove_leftovers(&prefix)?;

        let temporary =
            tempfile::Builder::new().prefix(&prefix).tempdir_in(&self.root).map_err(SetupCause::file(&self.root))?;
        let [kept, scratch, replaced] = ["kept", "scratch", "replaced"].map(|name| temporary.path().join(name));
        for path in [&kept, &scratch] {
            fs::create_dir(path).map_err(SetupCause::file(path))?;
        }
        fill(&kept, &scratch)?;
        if let Some(file) = first_missing(&kept, required) {
            return Err(SetupCause::Missing { file });
        }

        let path = self.path(folder);
        if path.exists() {
            fs::rename(&path, &replaced).map_err(SetupCause::file(&path))?;
        }
        fs::rename(&kept, &path).map_err(SetupCause::file(&path))
    }

    /// Holds the folder's lock until the file is dropped.
    fn lock(&self, folder: &str) -> Result<File, SetupCause> {
        let path = self.root.join(format!(".{folder}.lock"));
        let open = File::options().write(true).create(true).truncate(false).open(&path);
        let file = open.map_err(SetupCause::file(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!("Waiting for another set-up of {folder}");
                file.lock().map_err(SetupCause::file(&path))?;
            }
            Err(TryLockError::Error(error)) => return Err(SetupCause::file(&path)(error)),
        }
        Ok(file)
    }

    /// Removes what killed set-ups left. It never counts as finished, so what cannot be removed,
    /// for one because a pip that outlived its set-up still writes to it, may stay until the next.
    fn remove_leftovers(&self, prefix: &str) -> Result<(), SetupCause> {
        for entry in fs::read_dir(&self.root).map_err(SetupCause::file(&self.root))? {
            let entry = entry.map_err(SetupCause::file(&self.root))?;
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }
}

/// The first variable that is set wins; the XDG one counts only as an absolute path, as its
/// specification demands.
fn choose(variable: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let named = |name| variable(name).filter(|value| !value.is_empty());
    let xdg = || named("XDG_CACHE_HOME").map(PathBuf::from);
    named("ORCO_CACHE")
        .map(PathBuf::from)
        .or_else(|| Some(xdg().filter(|path| path.is_absolute())?.join("orco")))
        .or_else(|| {
            let home = home.filter(|path| !path.as_os_str().is_empty())?;
            Some(home.join(".cache/orco"))
        })
}

fn first_missing<'a>(folder: &Path, required: &[&'a str]) -> Option<&'a str> {
    let missing = |file: &&&str| !folder.join(file).exists();
    required.iter().find(missing).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    const REQUIRED: &[&str] = &["lib/a", "b"];

    fn empty() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("cache");
        (folder, Cache { root })
    }

    fn fill(kept: &Path, scratch: &Path) -> Result<(), SetupCause> {
        fs::create_dir(kept.join("lib")).unwrap();
        fs::write(kept.join("lib/a"), "a").unwrap();
        fs::write(kept.join("b"), "b").unwrap();
        fs::write(scratch.join("wheel"), "not kept").unwrap();
        Ok(())
    }

    /// Names in the cache, without locks.
    fn names(cache: &Cache) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&cache.root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.ends_with(".lock"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn first_variable_wins() {
        let choice = |set: &[(&str, &str)], home: Option<&str>| {
            let value = |name: &str| set.iter().find(|(key, _)| *key == name);
            let variable = |name: &str| value(name).map(|(_, value)| OsString::from(value));
            choose(variable, home.map(PathBuf::from))
        };
        let path = |path: &str| Some(PathBuf::from(path));
        let all = [("ORCO_CACHE", "/a"), ("XDG_CACHE_HOME", "/b")];
        assert_eq!(choice(&all, Some("/c")), path("/a"));
        assert_eq!(choice(&all[1..], Some("/c")), path("/b/orco"));
        assert_eq!(choice(&[], Some("/c")), path("/c/.cache/orco"));
        let unusable = [("ORCO_CACHE", ""), ("XDG_CACHE_HOME", "relative")];
        assert_eq!(choice(&unusable, Some("/c")), path("/c/.cache/orco"));
        assert_eq!(choice(&[], None), None);
        assert_eq!(choice(&[], Some("")), None);
    }

    #[test]
    fn second_installation_does_nothing() {
        let (_folder, cache) = empty();
        assert!(!cache.holds("x-1", REQUIRED));
        cache.install("x-1", REQUIRED, fill).unwrap();
        assert!(cache.holds("x-1", REQUIRED));
        assert_eq!(names(&cache), ["x-1"]);
        let unexpected = |_: &Path, _: &Path| panic!("filled twice");
        cache.install("x-1", REQUIRED, unexpected).unwrap();
    }

    #[test]
    fn half_finished_set_up_is_redone() {
        let (_folder, cache) = empty();
        // What a killed set-up leaves, and a folder in place that misses a file.
        fs::create_dir_all(cache.root.join(".x-1.partial-dead/kept/lib")).unwrap();
        fs::create_dir_all(cache.root.join("x-1/lib")).unwrap();
        fs::write(cache.root.join("x-1/lib/a"), "old").unwrap();
        assert!(!cache.holds("x-1", REQUIRED));
        cache.install("x-1", REQUIRED, fill).unwrap();
        assert_eq!(fs::read(cache.path("x-1").join("lib/a")).unwrap(), b"a");
        assert_eq!(names(&cache), ["x-1"]);
    }

    #[test]
    fn failure_leaves_nothing() {
        let (_folder, cache) = empty();
        let incomplete = |kept: &Path, _: &Path| {
            fs::write(kept.join("b"), "b").unwrap();
            Ok(())
        };
        let error = cache.install("x-1", REQUIRED, incomplete).unwrap_err();
        assert!(matches!(error, SetupCause::Missing { file: "lib/a" }));
        assert!(names(&cache).is_empty());
    }

    #[test]
    fn two_at_once_install_once() {
        let (_folder, cache) = empty();
        let fillings = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let slow = |kept: &Path, scratch: &Path| {
                        fillings.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(50));
                        fill(kept, scratch)
                    };
                    cache.install("x-1", REQUIRED, slow).unwrap();
                });
            }
        });
        assert_eq!(fillings.into_inner(), 1);
        assert_eq!(names(&cache), ["x-1"]);
    }
}
