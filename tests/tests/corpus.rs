//! The fuzz targets on stable Rust: every file of the corpus in `tests/fuzzing/corpus`, and every truncation and every
//! flipped bit of small seeds, come back without a panic, within a bound of memory and of time.
//!
//! `ORCO_WRITE_CORPUS=1 cargo test --release --workspace --test corpus` writes the seeds into the corpus.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use ndarray::Array4;
use orco_benchmark::benchmark::Benchmark;
use orco_core::exemplar::ExemplarPrecision;
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::audit::bounds::Bounds;
use orco_runtime::encoder::rten::Rten;
use orco_runtime::image::MAX_MEMORY;
use orco_state::bank::Bank;
use orco_state::codec::{self, FileKind};
use orco_state::history::SavedState;
use orco_state::pack::{self, Pack, PackOrigin, Thumbnail};
use orco_tests::fuzz::{PICTURES, TARGETS, Target, base_model, slot, state};
use orco_trials::memory::{CountingAllocator, peak_of};
use serde::Serialize;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzzing/corpus")
}

/// Most memory that a target may take for so many bytes.
fn bound(target: &str, length: usize) -> usize {
    let fixed = if target == "image" { MAX_MEMORY as usize } else { 8 << 20 };
    fixed + 64 * length
}

/// Gives a model that passed to the pure-Rust engine, which may refuse it, but must come back, with as many numbers as
/// were inferred, and in as little memory.
fn load(model: &[u8]) {
    let bounds = Bounds::of(model, &PICTURES).expect("the target accepted it");
    let Ok(mut engine) = Rten::open(model, &PICTURES) else { return };
    let picture = Array4::from_elem((1, 3, 8, 8), 0.5);
    let (encoded, peak) = peak_of(|| engine.encode(picture.view()));
    let Ok(told) = bounds.infer(picture.shape()) else {
        assert!(encoded.is_err(), "what was refused ran");
        return;
    };
    assert!(peak <= 2 * told.live as usize + (2 << 20), "{peak} bytes, but {told:?}");
    if let Ok(rows) = encoded {
        assert_eq!(rows.len() as u64, told.outputs[0].iter().product::<u64>(), "{told:?}");
    }
}

/// Runs a target on bytes; whether they were accepted.
fn run(name: &str, target: Target, bytes: &[u8], what: &str) -> bool {
    let started = Instant::now();
    let (accepted, peak) = peak_of(|| target(bytes));
    let took = started.elapsed();
    assert!(peak <= bound(name, bytes.len()), "{name}: {what} took {peak} bytes of memory");
    assert!(took < Duration::from_secs(20), "{name}: {what} took {took:?}");
    if accepted && name == "onnx" {
        load(bytes);
    }
    accepted
}

#[test]
fn the_corpus_is_replayed() {
    let mut trial = orco_trials::trial!(4, "hostile files");
    let mut count = 0;
    for (name, target) in TARGETS {
        let folder = corpus().join(name);
        let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut here = 0;
        for file in files {
            let path = file.unwrap().path();
            run(name, target, &fs::read(&path).unwrap(), &path.display().to_string());
            here += 1;
        }
        assert!(here > 0, "the corpus of {name} is empty");
        count += here;
    }
    trial.count(count);
    println!("{count} files of the corpus were replayed");
}

#[test]
fn no_flipped_bit_and_no_truncation_of_a_seed_does_harm() {
    let mut trial = orco_trials::trial!(4, "hostile files");
    let mut tried = [0; 2];
    for (name, target) in TARGETS {
        for (index, seed) in seeds(name).into_iter().enumerate() {
            assert!(run(name, target, &seed, "a seed"), "seed {index} of {name} is not accepted");
            for length in 0..seed.len() {
                run(name, target, &seed[..length], &format!("seed {index} cut to {length}"));
            }
            let mut changed = seed.clone();
            for bit in 0..seed.len() * 8 {
                changed[bit / 8] ^= 1 << (bit % 8);
                let accepted = run(name, target, &changed, &format!("seed {index} with bit {bit} flipped"));
                assert!(!accepted || name != "codec", "seed {index} of {name}: flipped bit {bit} was not noticed");
                changed[bit / 8] ^= 1 << (bit % 8);
            }
            tried[0] += seed.len();
            tried[1] += seed.len() * 8;
        }
    }
    trial.count(tried[0] + tried[1]);
    println!("{} truncations and {} flipped bits were tried", tried[0], tried[1]);
}

#[test]
fn the_seeds_are_in_the_corpus() {
    for (name, _) in TARGETS {
        for (index, seed) in seeds(name).into_iter().enumerate() {
            let path = corpus().join(name).join(format!("seed-{index}"));
            if std::env::var_os("ORCO_WRITE_CORPUS").is_some() {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, &seed).unwrap();
            }
            assert!(path.is_file(), "{} is missing; ORCO_WRITE_CORPUS=1 writes it", path.display());
        }
    }
}

/// Inputs that a target accepts.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "codec" => vec![
            slot(&postcard::to_allocvec(&SavedState::without_history(state())).unwrap()),
            codec::encode(FileKind::Learner, &base_model()),
            codec::encode(FileKind::Benchmark, &benchmark()),
        ],
        "repaired" => {
            let saved = SavedState::without_history(state());
            let length = postcard::to_allocvec(&saved).unwrap().len();
            // Two runs of the body, and nothing added: the same body.
            let pieces: [(u32, usize, u32); 2] = [(0, 1, 0), (1, length - 1, 0)];
            vec![body(0, &saved), body(1, &base_model()), body(2, &benchmark()), body(3, &pieces)]
        }
        "manifest" => {
            let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/cifar100-edge/manifest.toml");
            vec![fs::read(shipped).unwrap()]
        }
        "pack" => {
            let signature = "untrusted comment: x\n\
                RURE8il2XC53KbSEvYuN4HLAJMEVJv3UcWIf2uD18ePjIxdFEPS6xL/r8BcAmnjx7YRCbwFxhDcShpkQ/vYQfoEi4lc8lms7BAI=\n\
                trusted comment: orco bundle x release 3\n\
                SiDO7aGqlWcmmdJShY4WWRfFWEVHPLYZMA7IvM0kNnQnRasc1pkXPCvDtLmQyC7buwIy/Maigo3cdreQNXChDg==\n";
            let whole = |signature| pack::seal(&pack().to_be_signed(), signature);
            vec![whole(""), whole(signature), pack().to_be_signed()[10..].to_vec()]
        }
        "image" => {
            let picture = RgbImage::from_fn(9, 7, |x, y| Rgb([x as u8 * 20, y as u8 * 30, 99]));
            let picture = DynamicImage::from(picture);
            let as_file = |picture: DynamicImage, format| {
                let mut bytes = Cursor::new(Vec::new());
                picture.write_to(&mut bytes, format).unwrap();
                bytes.into_inner()
            };
            vec![
                as_file(picture.clone(), ImageFormat::Jpeg),
                as_file(picture.to_luma8().into(), ImageFormat::Jpeg),
                as_file(picture.clone(), ImageFormat::Png),
                as_file(picture.to_rgba16().into(), ImageFormat::Png),
            ]
        }
        "onnx" => vec![model()],
        other => panic!("no seeds for {other}"),
    }
}

/// The body of a file of the newest version behind the number that the target tells kinds by.
fn body<T: Serialize>(number: u8, value: &T) -> Vec<u8> {
    [vec![number], postcard::to_allocvec(value).unwrap()].concat()
}

fn benchmark() -> Benchmark {
    let bank = |classes: &[u32], views: usize| {
        let mut bank = Bank::new(3, views, ExemplarPrecision::Int8);
        classes.iter().for_each(|&class| bank.push(class, &[0.5, class as f32, 1.0]));
        bank
    };
    Benchmark {
        source: "made up".into(),
        labels: vec!["three".into()],
        ways: vec![1],
        shots: 1,
        base_means: vec![0.5; 6],
        measured: bank(&[0, 1, 2], 1),
        measured_sources: vec![0, 1, 2],
        measured_on_test: true,
        candidates: bank(&[2, 2], 2),
        candidate_sources: vec![3, 4],
        fixed_draw: true,
    }
}

fn pack() -> Pack {
    let provenance = PackOrigin {
        bundle: "tiny".into(),
        program: "orco".into(),
        device: Some("door".into()),
        created: None,
        session: 1,
    };
    let mut pack = Pack::of(&base_model(), &state(), "three", provenance).unwrap();
    pack.thumbnails.push(Thumbnail(vec![0xff, 0xd8, 0xff]));
    pack
}

/// A model of one convolution, a ReLU and a flattening, field by field.
fn model() -> Vec<u8> {
    let bytes = |field: u8, content: &[u8]| [&[field << 3 | 2, content.len() as u8], content].concat();
    let number = |field: u8, value: u8| vec![field << 3, value];
    let dimension = |value: u8| bytes(1, &number(1, value));
    let value = |field: u8, name: &str, sides: &[u8]| {
        let shape: Vec<u8> = sides.iter().flat_map(|&side| dimension(side)).collect();
        let kind = bytes(2, &bytes(1, &[number(1, 1), bytes(2, &shape)].concat()));
        bytes(field, &[bytes(1, name.as_bytes()), kind].concat())
    };
    let node = |operator: &str, inputs: &[&str], output: &str| {
        let inputs: Vec<u8> = inputs.iter().flat_map(|input| bytes(1, input.as_bytes())).collect();
        bytes(1, &[inputs, bytes(2, output.as_bytes()), bytes(4, operator.as_bytes())].concat())
    };
    let weight = [[1, 3, 1, 1].map(|side| number(1, side)).concat(), number(2, 1), bytes(8, b"w"), bytes(9, &[0; 12])];
    let graph = [
        node("Conv", &["x", "w"], "c"),
        node("Relu", &["c"], "r"),
        node("Flatten", &["r"], "y"),
        bytes(5, &weight.concat()),
        value(11, "x", &[1, 3, 8, 8]),
        value(12, "y", &[1, 64]),
    ];
    // The graph takes more than 127 bytes: its length takes two.
    let graph = graph.concat();
    let length = [graph.len() as u8 | 0x80, (graph.len() >> 7) as u8];
    [number(1, 8), bytes(8, &number(2, 17)), vec![7 << 3 | 2], length.to_vec(), graph].concat()
}
