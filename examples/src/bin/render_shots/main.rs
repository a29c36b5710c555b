//! Renders sample pictures of household objects: five shots of each class to learn from, eight others to try.
//!
//! A picture's way: [`random`] chooses, [`object`] shapes the thing as a signed-distance field out of [`distance`],
//! [`floor`], [`backdrop`] and [`light`] set the stage, [`camera`] frames it, [`scene`] marches rays, and
//! [`photograph`] exposes, adds grain and encodes a JPEG. Transcendental functions come from `libm`, so that
//! the same seed gives the same bytes on every machine.

mod backdrop;
mod camera;
mod colour;
mod distance;
mod floor;
mod light;
mod noise;
mod object;
mod photograph;
mod random;
mod scene;
mod surface;
mod vector;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Parser;

use object::Class;
use photograph::Photograph;
use random::Random;

/// Folders of the set and how many pictures of each class they hold.
const FOLDERS: [(&str, usize); 2] = [("learn", 5), ("try", 8)];
/// Pixels along each side of a picture.
const SIDE: usize = 128;

/// Render sample pictures of household objects: five to learn each class from, eight others to try.
#[derive(Debug, Parser)]
struct Arguments {
    /// Folder that receives learn/CLASS/1.jpg .. 5.jpg and try/CLASS/1.jpg .. 8.jpg
    #[arg(default_value = "examples/shots")]
    out_dir: PathBuf,
    /// The same seed gives the same pictures
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let (mut files, mut bytes) = (0, 0);
    for class in Class::ALL {
        for (folder, count) in FOLDERS {
            let written = render_folder(class, folder, count, &arguments)?;
            files += count;
            bytes += written;
        }
    }
    println!("wrote {files} pictures, {} KiB, to {}", bytes / 1024, arguments.out_dir.display());
    Ok(())
}

/// Renders one class's pictures of one folder; returns the bytes written.
fn render_folder(class: Class, folder: &str, count: usize, arguments: &Arguments) -> anyhow::Result<usize> {
    let name = format!("{folder}/{}", class.name());
    let directory = arguments.out_dir.join(&name);
    fs::create_dir_all(&directory).with_context(|| format!("cannot create the folder {}", directory.display()))?;
    let mut bytes = 0;
    for index in 0..count {
        let mut random = Random::new(arguments.seed, &name, index);
        let jpeg = Photograph::taken(class, SIDE, &mut random).jpeg()?;
        write(&directory.join(format!("{}.jpg", index + 1)), &jpeg)?;
        bytes += jpeg.len();
    }
    Ok(bytes)
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
