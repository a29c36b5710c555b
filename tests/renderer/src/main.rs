//! Renders the sample pictures of `examples/shots`: six household objects, five shots of each to learn from, eight
//! other pictures to try.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use image::ImageResult;
use orco_render::{Class, Photograph, Random};

/// Folders of the set and how many pictures of each class they hold.
const FOLDERS: [(&str, usize); 2] = [("learn", 5), ("try", 8)];
/// Pixels along each side of a picture.
const SIDE: usize = 128;
/// Where the pictures lie.
const SHOTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shots");

fn main() -> Result<(), Box<dyn Error>> {
    for picture in pictures() {
        let path = picture.path();
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&path, picture.render()?)?;
    }
    println!("rendered examples/shots; `git status` shows what has changed");
    Ok(())
}

/// One picture of the set.
struct Picture {
    class: Class,
    /// Its folder below [`SHOTS`].
    folder: String,
    /// Its place in the folder, from 0.
    index: usize,
}

impl Picture {
    fn path(&self) -> PathBuf {
        Path::new(SHOTS).join(&self.folder).join(format!("{}.jpg", self.index + 1))
    }

    /// The bytes of its file.
    fn render(&self) -> ImageResult<Vec<u8>> {
        Photograph::taken(self.class, SIDE, &mut Random::new(&self.folder, self.index)).jpeg()
    }
}

/// All pictures of the set.
fn pictures() -> impl Iterator<Item = Picture> {
    Class::ALL.into_iter().flat_map(|class| {
        FOLDERS.into_iter().flat_map(move |(name, count)| {
            let folder = format!("{name}/{}", class.name());
            (0..count).map(move |index| Picture { class, folder: folder.clone(), index })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One picture of each folder; all where the long trials are made in full.
    #[test]
    fn pictures_are_the_files_to_the_byte() {
        let heavy = orco_trials::heavy();
        assert_eq!(pictures().count(), 78);
        let all: Vec<Picture> = pictures().filter(|picture| heavy || picture.index == 0).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for share in all.chunks(all.len().div_ceil(threads)) {
                scope.spawn(move || {
                    for picture in share {
                        let file = fs::read(picture.path()).unwrap();
                        // Kilobytes of differing bytes would hide the name.
                        assert!(picture.render().unwrap() == file, "{} differs", picture.path().display());
                    }
                });
            }
        });
    }
}
