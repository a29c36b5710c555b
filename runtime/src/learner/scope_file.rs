//! Which classes are answered, in a file of its own beside a device's state.

use std::io;
use std::path::{Path, PathBuf};

use super::settings::AnswerScope;
use crate::files;

/// The file's name.
const NAME: &str = "answers";
/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 64;

/// The file `answers` in a device's state folder: the name of its [`AnswerScope`], once somebody has chosen one there.
/// It is readable by its owner alone, and replaced as a whole.
#[derive(Clone, Debug)]
pub struct ScopeFile {
    path: PathBuf,
}

/// Why a choice that was kept cannot be read, or one cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("the choice of answers in {} cannot be read or written", path.display())]
#[non_exhaustive]
pub struct ScopeFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub source: io::Error,
}

impl ScopeFile {
    /// The file of a state's folder, which need not be there yet.
    pub fn of(folder: impl AsRef<Path>) -> Self {
        Self { path: folder.as_ref().join(NAME) }
    }

    /// Reads the choice; none if nobody has chosen.
    ///
    /// # Errors
    /// [`ScopeFileError`] if the file cannot be read, or names no scope.
    pub fn read(&self) -> Result<Option<AnswerScope>, ScopeFileError> {
        let read = files::read_own_if_there(&self.path, MAX_FILE).map_err(|source| self.failed(source))?;
        let Some(bytes) = read else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let names = || AnswerScope::CHOICES.map(AnswerScope::name).join(", ");
        let none = || io::Error::new(io::ErrorKind::InvalidData, format!("it names none of {}", names()));
        AnswerScope::named(text.trim()).map(Some).ok_or_else(|| self.failed(none()))
    }

    /// Keeps a choice in the place of an earlier one; the folder is made if it is not there.
    ///
    /// # Errors
    /// [`ScopeFileError`] if it cannot be written; the earlier one is still there then.
    pub fn keep(&self, scope: AnswerScope) -> Result<(), ScopeFileError> {
        files::replace_in_own_folder(&self.path, format!("{}\n", scope.name()).as_bytes())
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> ScopeFileError {
        ScopeFileError { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use orco_state::sentence::with_causes;

    use super::*;

    #[test]
    fn the_last_choice_is_read_and_what_is_none_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let kept = ScopeFile::of(folder.path().join("state"));
        assert_eq!(kept.read().unwrap(), None);
        for scope in AnswerScope::CHOICES {
            kept.keep(scope).unwrap();
            assert_eq!(kept.read().unwrap(), Some(scope));
        }
        fs::write(folder.path().join("state").join(NAME), "everything").unwrap();
        let refused = with_causes(&kept.read().unwrap_err());
        assert!(refused.contains("it names none of auto, learned, all"), "{refused}");
    }
}
