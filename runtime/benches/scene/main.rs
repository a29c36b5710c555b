//! Frames a second with an empty view and without, on one core: decoded as far as the backbone of `everyday` needs,
//! compared with the empty place, the thing cut out, classified.
//!
//! ```sh
//! cargo bench -p orco-runtime --bench scene
//! ```

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use jpeg_encoder::{ColorType, Encoder};
use orco_core::random::Random;
use orco_runtime::encoder::engine_choice::EngineChoice;
use orco_runtime::image;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::image_rs::imageops::{self, FilterType};
use orco_runtime::learner::{Learner, LearnerSettings};
use orco_runtime::prelude::{Bundle, Store};
use orco_runtime::scene::{Background, Viewfinder};
use orco_runtime::threads;
use orco_trials::benchmark::{Unit, record};

/// Sizes of the frames.
const SIZES: [[u32; 2]; 3] = [[640, 480], [1920, 1080], [4608, 2592]];
/// How long each rate is measured, and the rounds in turn.
const TIME: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;

/// A shelf of sample photographs, with a sensor's noise, and a duck before it where that is wanted.
fn frame(size: [u32; 2], has_thing: bool, seed: u64) -> RgbImage {
    let shots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shots/learn");
    let open = |name: &str| image::open(shots.join(name).join("1.jpg")).unwrap();
    let side = size[1] / 4;
    let tiles =
        ["cactus", "mug", "toy-brick"].map(|name| imageops::resize(&open(name), side, side, FilterType::Triangle));
    let mut frame = RgbImage::new(size[0], size[1]);
    let places =
        (0..size[1]).step_by(side as usize).flat_map(|y| (0..size[0]).step_by(side as usize).map(move |x| (x, y)));
    for (number, (x, y)) in places.enumerate() {
        imageops::replace(&mut frame, &tiles[number % 3], i64::from(x), i64::from(y));
    }
    if has_thing {
        let thing = imageops::resize(&open("rubber-duck"), size[1] / 2, size[1] / 2, FilterType::Triangle);
        imageops::replace(&mut frame, &thing, i64::from(size[0] / 3), i64::from(size[1] / 3));
    }
    let mut random = Random::new(seed, "sensor");
    let mut bits = 0u64;
    for (place, value) in frame.iter_mut().enumerate() {
        if place % 16 == 0 {
            bits = random.bits();
        }
        *value = value.saturating_add((bits & 7) as u8);
        bits >>= 4;
    }
    frame
}

fn jpeg(frame: &RgbImage) -> Vec<u8> {
    let mut file = Vec::new();
    let encoder = Encoder::new(&mut file, 85);
    encoder.encode(frame.as_raw(), frame.width() as u16, frame.height() as u16, ColorType::Rgb).unwrap();
    file
}

/// How long this program has had processors, so that others who use the machine do not count; elsewhere than on Linux
/// the time that passed. The kernel counts in hundredths of a second.
fn busy(start: Instant) -> f64 {
    let line = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name in brackets, which may hold anything, user and system time are the 12th and the 13th.
    let numbers: Vec<&str> = line.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| numbers.get(place).and_then(|number| number.parse::<f64>().ok());
    ticks(11).zip(ticks(12)).map_or(start.elapsed().as_secs_f64(), |(user, system)| (user + system) / 100.0)
}

/// Frames a second.
fn rate(work: &mut dyn FnMut()) -> f64 {
    let (start, mut frames) = (Instant::now(), 0);
    let before = busy(start);
    while frames < 3 || start.elapsed() < TIME {
        work();
        frames += 1;
    }
    f64::from(frames) / (busy(start) - before)
}

fn main() {
    // One core, so that the time of this thread is all of it.
    threads::set_limit(1).unwrap();
    let bundle = Bundle::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/everyday")).unwrap();
    let input = bundle.manifest.preprocessing;
    let state = tempfile::tempdir().unwrap();
    let settings = LearnerSettings::default().engine(EngineChoice::Rten);
    let mut learner = Learner::new(bundle, Store::new(state.path()), settings).unwrap();
    println!("{:<12} {:>14} {:>19} {:>7} {:>12}", "frame", "whole, fps", "empty view, fps", "share", "of it, ms");
    for size in SIZES {
        let views = [1, 2, 3].map(|seed| image::decode(&jpeg(&frame(size, false, seed))).unwrap());
        let background = Background::learn(&views).unwrap();
        let viewfinder = Viewfinder::new(&input, Some(background), Vec::new());
        let file = jpeg(&frame(size, true, 4));
        let decode = || image::decode_reduced(&file, input.width).unwrap();
        let things = viewfinder.views(&decode()).unwrap().remove(0).things;
        assert_eq!(things.len(), 1, "one thing is there");
        let (mut whole, mut cut) = (0.0, 0.0);
        for _ in 0..ROUNDS {
            whole += rate(&mut || drop(black_box(learner.classify(&decode()).unwrap()))) / ROUNDS as f64;
            cut += rate(&mut || {
                let things = viewfinder.views(&decode()).unwrap().remove(0).things;
                drop(black_box(learner.classify(&things[0].picture).unwrap()));
            }) / ROUNDS as f64;
        }
        let picture = decode();
        let alone = rate(&mut || drop(black_box(viewfinder.views(&picture).unwrap())));
        let name = format!("{} x {}", size[0], size[1]);
        println!("{name:<12} {whole:>14.1} {cut:>19.1} {:>6.0}% {:>12.1}", 100.0 * cut / whole, 1e3 / alone);
        record(format!("{name}, whole"), whole, Unit::PerSecond);
        record(format!("{name}, empty view"), cut, Unit::PerSecond);
    }
}
