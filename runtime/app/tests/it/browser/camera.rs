//! What Chromium's fake camera plays: photographs, half a second each, over and over.

use std::fs;
use std::path::{Path, PathBuf};

/// Frames of a photograph; the fake camera plays 30 in a second.
const FRAMES: usize = 15;

/// A Motion JPEG file: JPEG files one behind the other.
pub struct Film(pub PathBuf);

impl Film {
    /// Plays the photographs of a folder, in the order of their names.
    pub fn of(photographs: &Path, scratch: &Path) -> Self {
        let mut names: Vec<PathBuf> = fs::read_dir(photographs).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let frames = names.iter().flat_map(|name| fs::read(name).unwrap().repeat(FRAMES)).collect::<Vec<u8>>();
        let part = photographs.parent().unwrap().file_name().unwrap().to_string_lossy();
        let path = scratch.join(format!("{part}-{}.mjpeg", photographs.file_name().unwrap().to_string_lossy()));
        fs::write(&path, frames).unwrap();
        Self(path)
    }
}
