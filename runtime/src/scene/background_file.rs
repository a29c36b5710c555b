//! A background in a file of its own beside a device's state.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use orco_state::codec::{self, DecodeError, FileKind};
use serde::{Deserialize, Serialize};

use super::background::{Background, KeptGrey, NOISE};
use super::small_frame::small_size;
use crate::files::{self, FileStamp};

/// The file's name.
const NAME: &str = "background";
/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 4 << 20;
/// Steps of a stored colour or deviation for one step of brightness.
const STEPS: f32 = 256.0;
/// Largest width and height of a frame.
const MAX_SIDE: u32 = crate::image::MAX_SIDE;

/// Why a background that was kept cannot be read, or one cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackgroundFileError {
    /// The file cannot be read or written.
    #[error("the empty place in {} cannot be read or written", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is damaged, or of another version.
    #[error("the empty place in {} cannot be used: {reason}; show it again (`orco scene learn`)", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: DecodeError,
    },
}

/// The file `background` in a device's state folder, readable by its owner alone. It is replaced as a whole, so that a
/// power cut leaves the old or the new one. A state is as good without it.
#[derive(Clone, Debug)]
pub struct BackgroundFile {
    path: PathBuf,
}

/// What the file holds, as postcard.
#[derive(Serialize, Deserialize)]
struct StoredBackground {
    frame: [u32; 2],
    noise: f32,
    /// Mean brightness when the place was shown: after any number of restarts it bounds how far the light is followed.
    brightness: f32,
    /// Red, green, blue and deviation of each pixel, row by row, in 1/256 steps.
    pixels: Vec<[u16; 4]>,
}

impl BackgroundFile {
    /// The file of a state's folder, which need not be there yet.
    pub fn of(folder: impl AsRef<Path>) -> Self {
        Self { path: folder.as_ref().join(NAME) }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the background; `None` if none is kept.
    ///
    /// # Errors
    /// [`BackgroundFileError`] if the file cannot be read or is damaged.
    pub fn read(&self) -> Result<Option<Background>, BackgroundFileError> {
        let read = files::read_own_if_there(&self.path, MAX_FILE).map_err(|source| self.failed(source))?;
        let Some(bytes) = read else { return Ok(None) };
        let damaged = |reason| BackgroundFileError::Damaged { path: self.path.clone(), reason };
        Background::decode(&bytes).map(Some).map_err(damaged)
    }

    /// Which file is there now, another one once a background was kept again; `None` if none is kept.
    ///
    /// # Errors
    /// If the system does not tell, or the state's folder is not there: it may come back.
    pub fn version(&self) -> io::Result<Option<FileStamp>> {
        match fs::symlink_metadata(&self.path) {
            Ok(facts) => Ok(Some(FileStamp::of(&facts))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.path.parent().is_some_and(Path::is_dir) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps a background in the place of an earlier one; the folder is made if it is not there.
    ///
    /// # Errors
    /// [`BackgroundFileError`] if it cannot be written; the earlier one is still there then.
    pub fn keep(&self, background: &Background) -> Result<(), BackgroundFileError> {
        files::replace_in_own_folder(&self.path, &background.encode()).map_err(|source| self.failed(source))
    }

    /// Removes the file for good, damaged or not; says whether there was one.
    ///
    /// # Errors
    /// [`BackgroundFileError`] if it cannot be removed.
    pub fn forget(&self) -> Result<bool, BackgroundFileError> {
        files::remove_durably(&self.path).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> BackgroundFileError {
        BackgroundFileError::File { path: self.path.clone(), source }
    }
}

impl Background {
    /// The bytes of its file: an envelope of our files ([`orco_state::codec`]).
    pub fn encode(&self) -> Vec<u8> {
        let stored = |value: f32| (value * STEPS).round().clamp(0.0, f32::from(u16::MAX)) as u16;
        let pixel = |(colour, variance): (&[f32; 3], &f32)| {
            let [red, green, blue] = colour.map(stored);
            [red, green, blue, stored(libm::sqrtf(*variance))]
        };
        let pixels = self.colours.iter().zip(&self.variances).map(pixel).collect();
        let stored =
            StoredBackground { frame: self.frame_size, noise: self.noise, brightness: self.brightness, pixels };
        codec::encode(FileKind::Background, &stored)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// [`DecodeError`] if they are no such file, damaged, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let stored: StoredBackground = codec::decode(FileKind::Background, bytes)?;
        stored.to_background().ok_or(DecodeError::Body)
    }
}

impl StoredBackground {
    /// The background, if all of it makes sense.
    fn to_background(&self) -> Option<Background> {
        let [width, height] = self.frame;
        let has_brightness = (0.0..=255.0).contains(&self.brightness);
        let is_sized = self.frame.iter().all(|side| (1..=MAX_SIDE).contains(side));
        let small = small_size(width, height);
        if !is_sized
            || !has_brightness
            || small[0] * small[1] != self.pixels.len()
            || !(NOISE[0]..=NOISE[1]).contains(&self.noise)
        {
            return None;
        }
        let read = |value: u16| f32::from(value) / STEPS;
        let colours = self.pixels.iter().map(|[red, green, blue, _]| [*red, *green, *blue].map(read)).collect();
        let [least, most] = NOISE.map(|noise| noise * noise);
        let variance = |pixel: &[u16; 4]| (read(pixel[3]) * read(pixel[3])).clamp(least, most);
        let variances = self.pixels.iter().map(variance).collect();
        let slopes = Vec::new();
        let background = Background {
            frame_size: self.frame,
            width: small[0],
            colours,
            variances,
            noise: self.noise,
            brightness: self.brightness,
            slopes,
            shown: None,
            grey: KeptGrey::default(),
        };
        Some(background.with_slopes())
    }
}
