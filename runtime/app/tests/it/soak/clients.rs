//! Callers of a service, each in a loop of its own until the time is up.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::service::{Events, Service};
use crate::support::{shots, text};

/// Pictures of all sample classes.
pub fn film() -> Vec<Vec<u8>> {
    let classes = ["cactus", "mug", "rubber-duck", "traffic-cone"];
    let paths =
        classes.iter().flat_map(|class| (1..=4).map(|number| shots("try", class).join(format!("{number}.jpg"))));
    paths.map(|path| fs::read(path).unwrap()).collect()
}

/// Whether the time is up.
#[derive(Default)]
pub struct Stop(AtomicBool);

impl Stop {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Repeats something in this rhythm until the time is up, and counts how often.
    fn repeat(&self, every: Duration, mut call: impl FnMut(usize)) -> usize {
        let mut number = 0;
        while !self.is_set() {
            let next = Instant::now() + every;
            call(number);
            number += 1;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        number
    }
}

/// How long each answer took.
#[derive(Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    fn time(&mut self, call: impl FnOnce()) {
        let started = Instant::now();
        call();
        self.0.push(started.elapsed());
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Half of the answers, and nineteen of twenty, took at most so long.
    pub fn text(&self) -> String {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = |share: usize| sorted[share * (sorted.len() - 1) / 100].as_secs_f64() * 1e3;
        format!("p50 {:.1} ms, p95 {:.1} ms", at(50), at(95))
    }
}

/// Puts five pictures a second before the camera. The last hundred stay.
pub fn show(camera: &Path, stop: &Stop) -> usize {
    let film = film();
    stop.repeat(Duration::from_millis(200), |number| {
        let path = |number: usize| camera.join(format!("{number:08}.jpg"));
        let unfinished = camera.join("unfinished");
        fs::write(&unfinished, &film[number % film.len()]).unwrap();
        fs::rename(&unfinished, path(number)).unwrap();
        if let Some(oldest) = number.checked_sub(100) {
            fs::remove_file(path(oldest)).unwrap();
        }
    })
}

/// Asks what pictures show.
pub fn classify(service: &Service, stop: &Stop) -> Latencies {
    let (film, mut latencies) = (film(), Latencies::default());
    stop.repeat(Duration::from_millis(100), |number| {
        let path = ["/api/v1/classify", "/api/v1/classify?why=true", "/api/v1/classify?inbox=true"][number % 3];
        let picture = &film[number % film.len()];
        latencies.time(|| {
            let (status, answer) = service.ask("POST", path, "image/jpeg", picture);
            assert_eq!(status, 200, "{}", text(&answer));
        });
    });
    latencies
}

/// Speaks the Open Inference Protocol.
pub fn infer(service: &Service, stop: &Stop) -> Latencies {
    let model = service.json("GET", "/v2", &Value::Null);
    assert!(model["name"].is_string(), "{model}");
    let about = service.json("GET", "/v2/models/cifar100-edge", &Value::Null);
    let width = about["inputs"][1]["shape"][1].as_u64().unwrap() as usize;
    let rows: Vec<f32> = (0..2 * width).map(|number| (number % 7) as f32 / 7.0).collect();
    let input = json!({ "name": "features", "datatype": "FP32", "shape": [2, width], "data": rows });
    let (request, mut latencies) = (json!({ "inputs": [input] }), Latencies::default());
    stop.repeat(Duration::from_millis(100), |_| {
        latencies.time(|| {
            let answer = service.json("POST", "/v2/models/cifar100-edge/infer", &request);
            assert_eq!(answer["outputs"][0]["shape"], json!([2]));
        });
    });
    latencies
}

/// Listens to events, a second at a time.
pub fn listen(service: &Service, stop: &Stop) -> usize {
    let mut lines = 0;
    stop.repeat(Duration::ZERO, |_| {
        let (mut events, end) = (Events::of(service), Instant::now() + Duration::from_secs(1));
        // The camera has news all the time.
        while Instant::now() < end {
            lines += usize::from(events.line().starts_with("data: "));
        }
    });
    lines
}

/// Looks at what a page shows: classes, their pictures, figures, the camera.
pub fn browse(service: &Service, stop: &Stop) -> usize {
    let mut seen = 0;
    stop.repeat(Duration::from_millis(100), |number| {
        let classes = service.json("GET", "/api/v1/classes", &Value::Null);
        for class in classes["classes"].as_array().unwrap().iter().filter(|class| class["learned"] == true) {
            for shot in class["stored"].as_array().unwrap().iter().filter(|shot| shot["thumbnail"] == true) {
                let [label, shot] = [&class["label"], &shot["id"]].map(|text| text.as_str().unwrap());
                let place = format!("/api/v1/classes/{label}/shots/{shot}.jpg");
                let (status, _) = service.ask("GET", &place, "", b"");
                // Renamed or forgotten meanwhile.
                assert!(status == 200 || status == 404, "{place}: {status}");
                seen += usize::from(status == 200);
            }
        }
        let path =
            ["/", "/metrics", "/api/v1/status", "/api/v1/history", "/api/v1/inbox", "/api/v1/camera.jpg"][number % 6];
        let (status, answer) = service.ask("GET", path, "", b"");
        // There may be no frame yet.
        assert!(status == 200 || path.ends_with("camera.jpg"), "{path}: {status} {}", text(&answer));
    });
    seen
}

/// Closes connections in the middle of everything: of a head, a body, an answer, a film.
pub fn cut_off(service: &Service, stop: &Stop) -> usize {
    let head = "Host: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: 100000\r\n\r\n";
    let requests = [
        "POST /api/v1/classify HTT".to_owned(),
        format!("POST /api/v1/classify HTTP/1.1\r\n{head}\u{1}\u{2}"),
        "GET /app.js HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        "GET /api/v1/camera.mjpg HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
    ];
    let mut held = std::collections::VecDeque::new();
    stop.repeat(Duration::from_millis(50), |number| {
        let mut stream = service.connect();
        stream.write_all(requests[number % requests.len()].as_bytes()).unwrap();
        if number % requests.len() >= 2 {
            // Some of the answer comes.
            stream.read_exact(&mut [0; 100]).unwrap();
        }
        // Ten are silent for half a second.
        held.push_back(stream);
        if held.len() > 10 {
            held.pop_front();
        }
    })
}
