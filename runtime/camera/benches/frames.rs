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

const WIDTH: u32 = 4608;
const HEIGHT: u32 = 2592;

/// A sensor's picture: the sample photographs side by side, enlarged, with a sensor's noise.
fn sensor() -> RgbImage {
    let shots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shots/learn");
    let mut folders: Vec<_> = std::fs::read_dir(shots).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let mut picture = RgbImage::new(WIDTH, HEIGHT);
    let side = HEIGHT / 2;
    for place in 0..8u32 {
        let folder = &folders[place as usize % folders.len()];
        let photograph = image::open(&folder.join("1.jpg")).unwrap();
        let large = imageops::resize(&photograph, side, side, FilterType::CatmullRom);
        overlay(&mut picture, &large, i64::from(place % 4 * side), i64::from(place / 4 * side));
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

fn rate(name: &str, mut work: impl FnMut()) {
    work();
    let (start, mut times) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(4) {
        work();
        times += 1;
    }
    println!("{name}: {:.1} frames/s", f64::from(times) / start.elapsed().as_secs_f64());
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
        rate("  cut out of a stream with lengths", || {
            black_box(Multipart::new(Cursor::new(&part), "b").next().unwrap());
        });
        rate("  cut out of a stream without", || {
            black_box(Multipart::new(Cursor::new(&without), "b").next().unwrap());
        });
        rate("  decoded whole", || drop(black_box(image::decode(&file).unwrap())));
        for side in [1000, 500, 224] {
            let [width, height] =
                image::decode_reduced(&file, side).map(|small| [small.width(), small.height()]).unwrap();
            rate(&format!("  decoded to {width} x {height}"), || {
                drop(black_box(image::decode_reduced(&file, side).unwrap()));
            });
        }
    }
}
