//! What requests cost in memory: however many come at a time and whatever they hold, the service takes no more than it
//! says, answers small ones meanwhile, and gives the memory back.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Cursor, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use image::{ImageFormat, Rgb, RgbImage};
use orco_trials::heavy;
use tempfile::TempDir;

use crate::support::service::Service;
use crate::support::{orco, shots, text, workspace};

/// `--picture-memory`, in MiB.
const PICTURES: usize = 192;
/// What the service takes at most beside its pictures and what it takes when idle, in MiB, as the option's help says.
const BESIDES: usize = 192;

/// A service that may take [`PICTURES`], and what it holds when idle, in MiB.
fn start(folder: &TempDir) -> (Service, usize) {
    let bundle = workspace().join("models/cifar100-edge");
    let memory = PICTURES.to_string();
    let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0", "--picture-memory", &memory];
    let service = Service::of(orco(&bundle, &folder.path().join("state"), &arguments));
    let small = small();
    for _ in 0..10 {
        assert_eq!(service.ask("POST", "/api/v1/classify?inbox=true", "image/jpeg", &small).0, 200);
    }
    let (idle, _) = service.memory();
    (service, idle)
}

fn small() -> Vec<u8> {
    fs::read(shots("try", "mug").join("1.jpg")).unwrap()
}

fn written(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let pixel = |x, y| {
        if format == ImageFormat::Png { Rgb([0; 3]) } else { Rgb([(x / 7) as u8, (y / 5) as u8, (x ^ y) as u8]) }
    };
    let mut bytes = Vec::new();
    RgbImage::from_fn(width, height, pixel).write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    bytes
}

/// Sends all at once, and small ones meanwhile; returns how many were answered, and how many told to come again.
fn flood(service: &Service, path: &str, kind: &str, body: &[u8], count: usize) -> (usize, usize) {
    let over = AtomicBool::new(false);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let others = scope.spawn(|| {
            let (small, mut asked) = (small(), 0);
            while !over.load(Ordering::SeqCst) || asked == 0 {
                assert_eq!(service.ask("GET", "/v2/health/live", "", b"").0, 200);
                let (status, answer) = service.ask("POST", "/api/v1/classify", "image/jpeg", &small);
                assert_eq!(status, 200, "a small picture among large ones: {}", text(&answer));
                asked += 1;
            }
        });
        let ask = || service.ask("POST", path, kind, body).0;
        let asking: Vec<_> = (0..count).map(|_| scope.spawn(ask)).collect();
        let statuses = asking.into_iter().map(|one| one.join().unwrap()).collect();
        over.store(true, Ordering::SeqCst);
        others.join().unwrap();
        statuses
    });
    let of = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!(of(200) + of(429), count, "{path}: {statuses:?}");
    (of(200), of(429))
}

/// Fails unless memory stayed within what is stated, and falls back to what it was.
fn check(service: &Service, idle: usize, after: &str) {
    let (_, most) = service.memory();
    assert!(most < idle + PICTURES + BESIDES, "after {after}: {most} MiB at most, {idle} when idle");
    let started = Instant::now();
    while service.memory().0 > idle + 64 {
        let (now, _) = service.memory();
        assert!(started.elapsed() < Duration::from_secs(60), "after {after}: {now} MiB stay, {idle} when idle");
        thread::sleep(Duration::from_millis(100));
    }
    println!("{after}: {idle} MiB when idle, {most} at most, {} now", service.memory().0);
}

#[test]
fn many_large_pictures_at_a_time_take_no_more_memory_than_is_stated() {
    let mut trial = orco_trials::trial!(22, "large pictures at once");
    let folder = TempDir::new().unwrap();
    let (service, idle) = start(&folder);
    let photograph = written(4000, 3000, ImageFormat::Jpeg);
    let bomb = written(4500, 4500, ImageFormat::Png);
    assert!(bomb.len() < 1 << 20, "{} bytes", bomb.len());
    let rounds = if heavy() { 10 } else { 1 };
    for _ in 0..rounds {
        let (answered, told) = flood(&service, "/api/v1/classify?inbox=true", "image/jpeg", &photograph, 32);
        assert!(answered >= 2, "{answered} answered, {told} told to come again");
        check(&service, idle, "32 photographs of 12 megapixels");
        let (answered, told) = flood(&service, "/api/v1/shots/mug?anyway=true", "image/png", &bomb, 60);
        assert!(answered >= 1 && told >= 1, "{answered} answered, {told} told to come again");
        check(&service, idle, "60 PNG bombs");
        trial.count(32 + 60);
        service.ask("DELETE", "/api/v1/shots/mug", "", b"");
    }
    // Those that hang up while their pictures are decoded hold nothing afterwards.
    for _ in 0..32 {
        let mut stream = service.connect();
        let head = format!(
            "POST /api/v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: {}\r\n\r\n",
            bomb.len()
        );
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&bomb));
    }
    let started = Instant::now();
    while service.ask("POST", "/api/v1/classify", "image/png", &bomb).0 == 429 {
        assert!(started.elapsed() < Duration::from_secs(120), "what was hung up on still holds memory");
        thread::sleep(Duration::from_millis(100));
    }
    check(&service, idle, "32 hung up on");
}

#[test]
fn a_request_of_json_takes_no_more_than_its_share() {
    let folder = TempDir::new().unwrap();
    let (service, idle) = start(&folder);
    let infer = "/v2/models/cifar100-edge/infer";
    // 80 MiB are not even read.
    let mut stream = service.connect();
    let head = "POST /v2/models/cifar100-edge/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Type: application/json\r\nContent-Length: 83886080\r\n\r\n[";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", text(&answer));
    let (status, answer) = service.ask("POST", infer, "application/octet-stream", &vec![b'['; 20 << 20]);
    assert_eq!(status, 413, "JSON under another name: {}", text(&answer));
    // As much as is read, in the forms that would take most memory as a tree of values.
    let most = 16 << 20;
    let filled = |head: &str, unit: &str, tail: &str| {
        let count = (most - head.len() - tail.len()) / unit.len();
        [head, &unit.repeat(count), tail].concat().into_bytes()
    };
    let head = r#"{"inputs":[{"name":"features","datatype":"FP32","shape":[1,64],"data":["#;
    let bodies = [
        filled(head, "0,", "0]}]}"),
        filled(head, "[],", "[]]}]}"),
        filled(head, "[0],", "0]}]}"),
        filled(r#"{"inputs":["#, r#"{"name":"a"},"#, "{}]}"),
        filled(r#"{"inputs":[{"shape":["#, "1,", "1]}]}"),
        filled(r#"{"more":["#, "{},", "{}]}"),
        filled(r#"{"id":""#, "a", r#"","inputs":[]}"#),
    ];
    thread::scope(|scope| {
        let service = &service;
        for body in &bodies {
            let asking = scope.spawn(move || service.ask("POST", infer, "application/json", body));
            while !asking.is_finished() {
                assert_eq!(service.ask("GET", "/v2/health/live", "", b"").0, 200);
            }
            let (status, answer) = asking.join().unwrap();
            assert!([400, 413].contains(&status), "{}: {status} {}", text(&body[..40]), text(&answer));
        }
    });
    check(&service, idle, "JSON of 16 MiB");
    let body = &bodies[0];
    let statuses: Vec<u16> = thread::scope(|scope| {
        let ask = || service.ask("POST", infer, "application/json", body).0;
        let asking: Vec<_> = (0..if heavy() { 64 } else { 12 }).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| [400, 429].contains(status)), "{statuses:?}");
    check(&service, idle, "many of them at a time");
}

#[test]
fn features_that_are_too_great_are_refused_and_no_answer_holds_what_is_no_number() {
    let folder = TempDir::new().unwrap();
    let (service, _) = start(&folder);
    let model = service.json("GET", "/v2/models/cifar100-edge", &serde_json::Value::Null);
    let width = model["inputs"][1]["shape"][1].as_u64().unwrap() as usize;
    let mut refused = 0;
    for exponent in [0, 10, 17, 18, 19, 20, 30, 38] {
        for signs in [1.0, -1.0] {
            let data: Vec<f64> =
                (0..width).map(|index| signs * 3.0 * 10f64.powi(exponent) / (1 + index % 3) as f64).collect();
            let input =
                serde_json::json!({ "name": "features", "datatype": "FP32", "shape": [1, width], "data": data });
            let body = serde_json::json!({ "inputs": [input] }).to_string();
            let (status, answer) =
                service.ask("POST", "/v2/models/cifar100-edge/infer", "application/json", body.as_bytes());
            assert!([200, 400].contains(&status), "1e{exponent}: {status} {}", text(&answer));
            assert!(!text(&answer).contains("null"), "1e{exponent}: {}", text(&answer));
            refused += usize::from(status == 400);
            let wrong = if exponent == 0 { 400 } else { 200 };
            assert!(status != wrong || (1..=19).contains(&exponent), "1e{exponent}: {status}");
        }
    }
    assert!(refused >= 6);
}
