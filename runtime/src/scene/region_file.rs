//! Regions of a camera in a file of their own beside a device's state.

use std::io;
use std::path::{Path, PathBuf};

use super::region::{NamedRegion, RegionError};
use crate::files;

/// The file's name.
const NAME: &str = "regions";
/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 64 << 10;

/// Why regions that were kept cannot be read, or some cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionFileError {
    /// The file cannot be read or written.
    #[error("the regions in {} cannot be read or written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line is no region.
    #[error("the regions in {} cannot be used: {reason}; draw them again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: RegionError,
    },
}

/// The file `regions` in a device's state folder: those of its camera, one a line as `name=x,y,width,height`. It is
/// readable by its owner alone, and replaced as a whole.
#[derive(Clone, Debug)]
pub struct RegionFile {
    path: PathBuf,
}

impl RegionFile {
    /// The file of a state's folder, which need not be there yet.
    pub fn of(folder: impl AsRef<Path>) -> Self {
        Self { path: folder.as_ref().join(NAME) }
    }

    /// Reads the regions; none if none are kept.
    ///
    /// # Errors
    /// [`RegionFileError`] if the file cannot be read, or holds something else.
    pub fn read(&self) -> Result<Vec<NamedRegion>, RegionFileError> {
        let read = files::read_own_if_there(&self.path, MAX_FILE).map_err(|source| self.failed(source))?;
        let Some(bytes) = read else { return Ok(Vec::new()) };
        let region =
            |line: &str| line.parse().map_err(|reason| RegionFileError::Damaged { path: self.path.clone(), reason });
        String::from_utf8_lossy(&bytes).lines().filter(|line| !line.is_empty()).map(region).collect()
    }

    /// Keeps regions in the place of earlier ones; the folder is made if it is not there.
    ///
    /// # Errors
    /// [`RegionFileError`] if they cannot be written; the earlier ones are still there then.
    pub fn keep(&self, regions: &[NamedRegion]) -> Result<(), RegionFileError> {
        if regions.is_empty() {
            return files::remove_durably(&self.path).map(drop).map_err(|source| self.failed(source));
        }
        let text: String = regions.iter().map(|region| format!("{region}\n")).collect();
        files::replace_in_own_folder(&self.path, text.as_bytes()).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> RegionFileError {
        RegionFileError::File { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use orco_state::sentence::with_causes;

    use super::*;

    #[test]
    fn regions_come_back_and_what_is_none_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let kept = RegionFile::of(folder.path());
        assert_eq!(kept.read().unwrap(), []);
        let regions: Vec<NamedRegion> = ["upper shelf=0,0,1,0.5", "table 2=0.25,0.5,0.5,0.5", "centre square"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        kept.keep(&regions).unwrap();
        assert_eq!(kept.read().unwrap(), regions);
        kept.keep(&[]).unwrap();
        assert_eq!(kept.read().unwrap(), []);
        fs::write(folder.path().join(NAME), "shelf=0,0,2.5\n").unwrap();
        assert!(kept.read().unwrap_err().to_string().contains("draw them again"));
        fs::remove_file(folder.path().join(NAME)).unwrap();
        fs::create_dir(folder.path().join(NAME)).unwrap();
        let said = with_causes(&kept.read().unwrap_err());
        assert_eq!(said.split(" cannot be read or written: ").count(), 2, "{said}");
        assert_eq!(said.matches(": ").count(), 1, "the cause is told once: {said}");
    }
}
