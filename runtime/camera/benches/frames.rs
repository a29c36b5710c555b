//! Frames a second of a camera's full sensor, 4608 x 2592 pixels in JPEG: read and cut out of a multipart stream,
//! decoded whole, and decoded as far reduced as a classifier of 224 pixels needs. `cargo bench -p orco-camera`

use std::hint::black_box;
use std::io::Cursor;
use std::path::Path;
use std::time::{Duration, Instant};

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use orco_camera::Multipart;
use orco_runtime::image;
use orco_runtime::image_rs::imageops::{self, FilterType};
use orco_runtime::image_rs::{RgbImage, imageops::overlay};
use orco_trials::benchmark::{Unit, record};

const WIDTH: u32 = 4608;
const HEIGHT: u32 = 2592;

/// Pixels a side of a photograph in it.
const TILE: u32 = 256;

/// A sensor's picture: the sample photographs side by side, twice as large, with a sensor's noise.
fn sensor() -> RgbImage {
    let shots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shots/learn");
    let mut folders: Vec<_> = std::fs::read_dir(shots).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let photographs: Vec<RgbImage> = folders.iter().map(|folder| image::open(folder.join("1.jpg")).unwrap()).collect();
    let large = |photograph| imageops::resize(photograph, TILE, TILE, FilterType::CatmullRom);
    let photographs: Vec<RgbImage> = photographs.iter().map(large).collect();
    let mut picture = RgbImage::new(WIDTH, HEIGHT);
    let places =
        (0..HEIGHT).step_by(TILE as usize).flat_map(|y| (0..WIDTH).step_by(TILE as usize).map(move |x| (x, y)));
    for ((x, y), photograph) in places.zip(photographs.iter().cycle()) {
        overlay(&mut picture, photograph, i64::from(x), i64::from(y));
    }
    let mut random = 1u32;
    for value in picture.iter_mut() {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        *value = value.saturating_add((random % 7) as u8);
    }
    picture
}

/// How long this thread has had a processor, so that others who use the machine do not count; elsewhere than on Linux
/// the time that passed.
fn busy(start: Instant) -> f64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = line.split(' ').next().and_then(|busy| busy.parse::<f64>().ok());
    nanoseconds.map_or(start.elapsed().as_secs_f64(), |busy| busy / 1e9)
}

/// Prints the mean of at least ten rounds on a file of that quality, for one core.
fn rate(quality: u8, name: &str, mut work: impl FnMut()) {
    work();
    let (start, mut rounds) = (Instant::now(), 0);
    let before = busy(start);
    while rounds < 10 || start.elapsed() < Duration::from_secs(3) {
        work();
        rounds += 1;
    }
    let rate = f64::from(rounds) / (busy(start) - before);
    println!("  {name}: {rate:.1} frames/s");
    record(format!("quality {quality}, {name}"), rate, Unit::PerSecond);
}

fn main() {
    let picture = sensor();
    for quality in [75, 90] {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, quality);
        encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
        encoder.encode(picture.as_raw(), WIDTH as u16, HEIGHT as u16, ColorType::Rgb).unwrap();
        println!("{WIDTH} x {HEIGHT}, quality {quality}: {:.1} MB", file.len() as f64 / 1e6);
        let head = format!("--b\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\n\r\n", file.len());
        let part = [head.as_bytes(), &file, b"\r\n"].concat();
        let without = [&b"--b\r\nContent-Type: image/jpeg\r\n\r\n"[..], &file, b"\r\n--b\r\n"].concat();
        rate(quality, "cut out of a stream with lengths", || {
            black_box(Multipart::new(Cursor::new(&part), "b").next().unwrap());
        });
        rate(quality, "cut out of a stream without", || {
            black_box(Multipart::new(Cursor::new(&without), "b").next().unwrap());
        });
        rate(quality, "decoded whole", || drop(black_box(image::decode(&file).unwrap())));
        for side in [500, 224] {
            let [width, height] =
                image::decode_reduced(&file, side).map(|small| [small.width(), small.height()]).unwrap();
            rate(quality, &format!("decoded to {width} x {height}"), || {
                drop(black_box(image::decode_reduced(&file, side).unwrap()));
            });
        }
    }
}
