//! `orco scene`.

use std::io::Cursor;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use image::ImageFormat;
use orco_runtime::files;
use orco_runtime::scene::{Background, BackgroundFile, NamedRegion};
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};
use crate::scene_options::{NO_EMPTY_PLACE, learn_background};

/// Arguments of `orco scene`.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: SceneCommand,
}

#[derive(Debug, Subcommand)]
enum SceneCommand {
    /// Keeps what the empty place looks like, in the place of an earlier one.
    Learn {
        /// Pictures of the empty place by the device's camera, or a folder of them; three are a good number.
        #[arg(required = true, value_name = "PICTURE")]
        pictures: Vec<PathBuf>,
        /// A part of the pictures that will be used; may be given again. Outside such parts the pictures may differ: a
        /// screen there does not matter.
        #[arg(long = "region", value_name = "[NAME=]X,Y,WIDTH,HEIGHT")]
        regions: Vec<NamedRegion>,
    },
    /// Says what is kept.
    Show {
        /// Writes it as a small picture, PNG, into a new file.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Forgets the empty place; pictures are then used as a whole.
    Forget,
}

/// Keeps, shows or forgets the empty place.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let bundle = options.open_bundle()?;
    let kept = BackgroundFile::of(device::store(options, &bundle)?.folder());
    match &arguments.command {
        SceneCommand::Learn { pictures, regions } => learn(output, &kept, pictures, regions),
        SceneCommand::Show { output: file } => show(options, output, &kept, file.as_ref()),
        SceneCommand::Forget => forget(output, &kept),
    }
}

fn learn(output: &Output, kept: &BackgroundFile, pictures: &[PathBuf], regions: &[NamedRegion]) -> Result<Value> {
    let background = learn_background(pictures, regions, output)?;
    kept.keep(&background)?;
    output.mark_changed();
    let [width, height] = background.frame_size();
    say!(output, "kept the empty place, for pictures of {width} x {height} pixels")?;
    Ok(to_json(&background))
}

fn show(options: &Options, output: &Output, kept: &BackgroundFile, file: Option<&PathBuf>) -> Result<Value> {
    let Some(background) = kept.read()? else {
        say!(output, "{NO_EMPTY_PLACE}")?;
        return Ok(json!({ "frame": null }));
    };
    let [width, height] = background.frame_size();
    say!(output, "an empty place is kept, for pictures of {width} x {height} pixels")?;
    if let Some(path) = file {
        options.check_destination(path)?;
        let mut png = Cursor::new(Vec::new());
        background.picture().write_to(&mut png, ImageFormat::Png)?;
        files::create(path, png.get_ref()).with_context(|| format!("{} cannot be written", path.display()))?;
        say!(output, "{} shows it", path.display())?;
    }
    Ok(to_json(&background))
}

fn forget(output: &Output, kept: &BackgroundFile) -> Result<Value> {
    let forgotten = kept.forget()?;
    if forgotten {
        output.mark_changed();
    }
    say!(output, "{}", if forgotten { "forgot the empty place" } else { "no empty place was kept" })?;
    Ok(json!({ "forgotten": forgotten }))
}

fn to_json(background: &Background) -> Value {
    json!({ "frame": background.frame_size() })
}
