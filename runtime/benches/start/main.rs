//! How long each engine takes to start, and for a picture, with the shipped backbones; and from how many pictures
//! starting ONNX Runtime pays, which is the rule of `encoder/engine_choice.rs`:
//!
//! ```sh
//! cargo bench -p orco-runtime --bench start               # or some: -- everyday cifar100-edge
//! ```
//!
//! Every measurement is a program of its own, as `orco classify` is: it starts the engine, looks at the pictures one
//! after the other, and ends.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use ndarray::Array4;
use orco_runtime::encoder::engine_choice::{EngineChoice, ONNX_RUNTIME_FROM, Workload, open};
use orco_runtime::encoder::telemetry;
use orco_runtime::manifest::{BACKBONE, BACKBONE_INT8, MANIFEST, Manifest};
use orco_trials::benchmark::{Unit, record};

/// Times that each program runs; the fastest counts, since other work only adds.
const RUNS: usize = 5;

fn main() {
    let _ = telemetry::turn_off();
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.as_slice() {
        [child, backbone, engine, pictures] if child == "look" => look(backbone, engine, pictures.parse().unwrap()),
        named => compare(named),
    }
}

/// Looks at so many pictures with one engine.
fn look(backbone: &str, engine: &str, pictures: usize) {
    let folder = Path::new(backbone).parent().unwrap();
    let manifest = Manifest::parse(&fs::read_to_string(folder.join(MANIFEST)).unwrap()).unwrap();
    let input = manifest.preprocessing;
    let choice = if engine == "rten" { EngineChoice::Rten } else { EngineChoice::OnnxRuntime };
    let mut encoder = open(&fs::read(backbone).unwrap(), &input, choice, Workload::Shots).unwrap().encoder;
    let shape = (1, 3, input.height as usize, input.width as usize);
    let picture =
        Array4::from_shape_fn(shape, |(_, plane, y, x)| ((plane * 83 + y * 31 + x) % 251) as f32 / 251.0 - 0.5);
    for _ in 0..pictures {
        encoder.encode(picture.view()).unwrap();
    }
}

/// Prints a line for every backbone of the bundles that are named; of all that are shipped if none is.
fn compare(named: &[String]) {
    let named: Vec<&str> = named.iter().map(String::as_str).filter(|name| !name.starts_with("--")).collect();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    let entries = fs::read_dir(models).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.retain(|path| named.is_empty() || named.iter().any(|name| path.ends_with(name)));
    folders.sort();
    println!("rten for fewer than {ONNX_RUNTIME_FROM} pictures, ONNX Runtime from there on");
    println!("{:<44} {:>21} {:>23} {:>24}", "", "start, ms", "per picture, ms", "ONNX Runtime pays from");
    println!(
        "{:<44} {:>10} {:>10} {:>12} {:>10} {:>12} {:>11}",
        "backbone", "ONNX R.", "rten", "ONNX R.", "rten", "pictures", "mult.-adds"
    );
    for folder in folders {
        let manifest = Manifest::parse(&fs::read_to_string(folder.join(MANIFEST)).unwrap()).unwrap();
        let once = manifest.backbone.multiply_adds;
        // About a second's work.
        let pictures = (6_000_000_000 / once).clamp(8, 200) as usize;
        for name in [BACKBONE, BACKBONE_INT8] {
            let path = folder.join(name);
            if !path.exists() {
                continue;
            }
            let [ort, rten] = ["onnxruntime", "rten"].map(|engine| {
                let start = fastest(&path, engine, 0);
                (start, (fastest(&path, engine, pictures) - start) / pictures as f64)
            });
            let gained = rten.1 - ort.1;
            let even = ((ort.0 - rten.0) / gained).max(0.0);
            let (count, work) = if gained > 0.0 {
                (format!("{even:.0}"), format!("{:.2e}", even * once as f64))
            } else {
                ("never".to_owned(), String::new())
            };
            let name = format!("{}/{name}", manifest.name);
            println!(
                "{name:<44} {:>10.1} {:>10.1} {:>12.2} {:>10.2} {count:>12} {work:>11}",
                1e3 * ort.0,
                1e3 * rten.0,
                1e3 * ort.1,
                1e3 * rten.1
            );
            for (engine, (start, picture)) in [("ONNX Runtime", ort), ("rten", rten)] {
                record(format!("{name} starts in {engine}"), 1e3 * start, Unit::Milliseconds);
                record(format!("{name} for a picture in {engine}"), 1e3 * picture, Unit::Milliseconds);
            }
        }
    }
}

/// Seconds of the fastest run.
fn fastest(backbone: &Path, engine: &str, pictures: usize) -> f64 {
    let run = || {
        let mut command = Command::new(env::current_exe().unwrap());
        command.arg("look").arg(backbone).args([engine, &pictures.to_string()]).stdin(Stdio::null());
        let started = Instant::now();
        assert!(command.status().unwrap().success());
        started.elapsed().as_secs_f64()
    };
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}
