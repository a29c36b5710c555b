//! The service's own camera: what it shows, shots from it, and what is told when it goes away.

#[path = "../../../camera/tests/support/mod.rs"]
pub(crate) mod fake;

use std::io::{BufRead, Read};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Running, sample, workspace};
use fake::{FakeCamera, Mode};
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::store::Store;
use orco_runtime::{image, image_rs};
use orco_serve::{ServerOptions, Service, live};
use orco_trials::until;
use serde_json::{Value, json};
use tempfile::TempDir;

const EVERY: Duration = Duration::from_millis(20);

/// A service that watches a camera, and does not listen yet.
pub(crate) fn watching(state: &Path, source: &str, settings: live::LiveSettings) -> Arc<Service> {
    let bundle = Bundle::open(workspace().join("models/cifar100-edge")).unwrap();
    let service = Service::open(bundle, Store::new(state), LearnerSettings::default()).unwrap();
    service.watch_camera(source.parse().unwrap(), settings).unwrap();
    service
}

/// A service that looks at a camera.
fn looking_at(state: &TempDir, source: &str, options: ServerOptions) -> Running {
    looking_at_rate(state, source, live::LiveSettings::default().per_second(1000.0), options)
}

/// A service that looks at a camera as often as the settings say.
fn looking_at_rate(state: &TempDir, source: &str, settings: live::LiveSettings, options: ServerOptions) -> Running {
    Running::serving(watching(state.path(), source, settings), options)
}

/// What the camera shows, once that is so.
pub(crate) fn once(service: &Running, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    service.until("/api/v1/live", what, is)
}

fn tried(class: &str) -> Vec<Vec<u8>> {
    (1..=4).map(|number| sample("try", class, number)).collect()
}

#[test]
fn classes_are_taught_and_recognised_by_the_cameras_frames() {
    let (state, fake) = (TempDir::new().unwrap(), FakeCamera::start(vec![sample("learn", "mug", 1)], EVERY));
    let service = looking_at(&state, &fake.url(), ServerOptions::default());
    let events = service.stream("/api/v1/events");
    for (label, class) in [("cup", "mug"), ("duck", "rubber-duck")] {
        for number in 1..=5 {
            let photograph = sample("learn", class, number);
            fake.play(vec![photograph]);
            // Frames of the photograph before may still be on their way.
            let before = fake.sent() as u64 + 1;
            once(&service, "the next photograph is there", |shown| shown["frames"].as_u64() > Some(before));
            let taken = service.json("POST", "/api/v1/camera/shot", &json!({ "label": label })).ok();
            assert_eq!(taken["accepted"], true, "{class} {number}: {taken}");
            assert!(taken["frame"].as_u64() > Some(before), "{taken}");
        }
        assert_eq!(service.get(&format!("/api/v1/shots/{label}"))["shots"].as_array().unwrap().len(), 5);
        let job = service.finished(&service.json("POST", "/api/v1/learn", &json!({ "label": label })));
        assert_eq!(job["state"], "done", "{job}");
    }
    for (label, class) in [("cup", "mug"), ("duck", "rubber-duck"), ("cup", "mug")] {
        fake.play(tried(class));
        let is_shown = |shown: &Value| shown["label"] == label && shown["agreed"].as_u64() > Some(1);
        let shown = once(&service, label, is_shown);
        assert_eq!((&shown["state"], &shown["matches"][0]["label"]), (&json!("running"), &json!(label)));
        assert!(shown["probability"].as_f64().unwrap() > 0.0 && shown["age_seconds"].as_f64().unwrap() < 60.0);
        assert!(shown["frames_per_second"].as_f64().unwrap() > 0.0);
    }
    let told = events.lines().map(Result::unwrap).filter(|line| line.starts_with("data: "));
    let mut labels = told.filter_map(|line| serde_json::from_str::<Value>(&line["data: ".len()..]).ok());
    assert!(labels.any(|event| event["state"] == "running" && event["label"] == "duck"));
    let metrics = service.ask("GET", "/metrics", &[], b"").text();
    assert!(metrics.contains("orco_camera_running 1") && metrics.contains("orco_camera_opened_total 1"), "{metrics}");
    assert_eq!(service.get("/api/v1/status")["camera"]["state"], "running");
}

#[test]
fn a_camera_that_goes_away_is_told_and_comes_back() {
    let (state, fake) = (TempDir::new().unwrap(), FakeCamera::start(tried("mug"), EVERY));
    let service = looking_at(&state, &fake.url(), ServerOptions::default());
    let before = once(&service, "it shows something", |shown| shown["label"].is_string());
    fake.set(Mode::Away);
    let away = once(&service, "it is away", |shown| shown["state"] == "away");
    assert!(away["label"].is_null() && away["empty"] == false && away["things"] == json!([]), "{away}");
    assert!(!away["reason"].as_str().unwrap().is_empty() && away["frame"].is_null(), "{away}");
    let picture = service.ask("GET", "/api/v1/camera.jpg", &[], b"");
    assert_eq!(picture.status, 503);
    assert!(picture.error().starts_with("the camera is not there, trying again: "), "{}", picture.error());
    let shot = service.json("POST", "/api/v1/camera/shot", &json!({ "label": "mug" }));
    assert_eq!(shot.status, 503, "{}", shot.text());
    // Others are served meanwhile.
    assert!(!service.label(&sample("try", "mug", 1)).is_empty());
    until("the metrics say so", || service.ask("GET", "/metrics", &[], b"").text().contains("orco_camera_running 0"));
    fake.set(Mode::Garbage);
    let garbage = once(&service, "garbage is told", |shown| shown["unreadable"].as_u64() > Some(0));
    assert!(garbage["unreadable_reason"].as_str().unwrap().contains("neither a JPEG nor a PNG"), "{garbage}");
    fake.set(Mode::Good);
    let after = once(&service, "it is back", |shown| shown["state"] == "running" && shown["label"].is_string());
    assert!(after["frame"].as_u64() > before["frame"].as_u64());
}

#[test]
fn a_slow_camera_that_sends_only_unreadable_pictures_shows_no_old_label() {
    // It is opened again after 20 such pictures, long after the label must be gone.
    let (state, fake) = (TempDir::new().unwrap(), FakeCamera::start(tried("mug"), Duration::from_secs(1)));
    let service = looking_at(&state, &fake.url(), ServerOptions::default());
    once(&service, "it shows something", |shown| shown["label"].is_string());
    fake.set(Mode::Garbage);
    let shown = once(&service, "the label is gone", |shown| shown["label"].is_null());
    assert_eq!((&shown["state"], &shown["known"]), (&json!("running"), &json!(false)), "{shown}");
    assert!(shown["unreadable"].as_u64() > Some(0), "{shown}");
    fake.set(Mode::Good);
    once(&service, "it shows something again", |shown| shown["label"].is_string());
}

#[test]
fn a_class_that_is_purged_is_shown_no_more_though_no_frame_comes() {
    let (state, place) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let service = looking_at(&state, &format!("folder:{}", place.path().display()), ServerOptions::default());
    service.teach("quackerjack", "rubber-duck");
    std::fs::write(place.path().join("1.jpg"), sample("learn", "rubber-duck", 1)).unwrap();
    once(&service, "it is shown", |shown| shown["label"] == "quackerjack");
    let purged = service.finished(&service.ask("DELETE", "/api/v1/classes/quackerjack?purge=true", &[], b""));
    assert_eq!(purged["state"], "done", "{purged}");
    once(&service, "it is shown no more", |shown| !shown.to_string().contains("quackerjack"));
    assert!(!service.get("/api/v1/status").to_string().contains("quackerjack"));
}

#[test]
fn each_picture_of_a_folder_decides_alone_and_an_unreadable_one_takes_the_label_away() {
    let (state, place) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let service = looking_at(&state, &format!("folder:{}", place.path().display()), ServerOptions::default());
    service.teach("cup", "mug");
    service.teach("duck", "rubber-duck");
    let events = service.stream("/api/v1/events");
    let put = |name: &str, bytes: &[u8]| std::fs::write(place.path().join(name), bytes).unwrap();
    // Together: the later one is shown within seconds of the one before.
    let duck = sample("learn", "rubber-duck", 1);
    put("1.jpg", &sample("learn", "mug", 1));
    std::thread::sleep(Duration::from_millis(20));
    put("2.jpg", &duck);
    let shown = once(&service, "the second is shown", |shown| shown["frame"] == 2 && shown["label"].is_string());
    assert_eq!((&shown["label"], &shown["agreed"]), (&json!("duck"), &json!(1)), "{shown}");
    // The same picture once more gets the same answer, whatever came before it.
    put("3.jpg", &duck);
    let again = once(&service, "the third is shown", |shown| shown["frame"] == 3 && shown["label"].is_string());
    assert_eq!((&again["probability"], &again["agreed"]), (&shown["probability"], &json!(1)), "{again}");
    put("4.jpg", b"no picture");
    once(&service, "the label is gone", |shown| shown["unreadable"] == 1 && shown["label"].is_null());
    let told = events.lines().map(Result::unwrap).filter(|line| line.starts_with("data: "));
    let mut told = told.filter_map(|line| serde_json::from_str::<Value>(&line["data: ".len()..]).ok());
    let first = told.find(|event| event["frame"] == 1 && event["label"].is_string()).unwrap();
    assert_eq!(first["agreed"], json!(1), "{first}");
    assert_ne!(first["probability"], shown["probability"], "{first}");
}

#[test]
fn shots_are_checked_and_the_refused_one_is_taken_anyway() {
    let (state, place) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let service = looking_at(&state, &format!("folder:{}", place.path().display()), ServerOptions::default());
    assert_eq!(service.ask("GET", "/api/v1/camera.jpg", &[], b"").status, 503);
    // Wider than what is analysed, as a sensor's picture is.
    let large = |picture: &image_rs::RgbImage| {
        let large = image_rs::imageops::resize(picture, 1024, 1024, image_rs::imageops::FilterType::CatmullRom);
        let mut bytes = std::io::Cursor::new(Vec::new());
        large.write_to(&mut bytes, image_rs::ImageFormat::Jpeg).unwrap();
        bytes.into_inner()
    };
    let mut dark = image::decode(&sample("learn", "mug", 1)).unwrap();
    dark.pixels_mut().for_each(|pixel| pixel.0 = pixel.0.map(|value| value / 12));
    std::fs::write(place.path().join("dark.jpg"), large(&dark)).unwrap();
    until("it is seen", || service.ask("GET", "/api/v1/camera.jpg", &[], b"").status == 200);
    let picture = service.ask("GET", "/api/v1/camera.jpg", &[], b"");
    assert!(picture.head.contains("image/jpeg") && picture.head.contains("orco-frame: 1"), "{}", picture.head);
    assert_eq!(image::decode(&picture.body).unwrap().width().min(640), image::decode(&picture.body).unwrap().width());
    let refused = service.json("POST", "/api/v1/camera/shot", &json!({ "label": "mug" })).ok();
    assert_eq!((&refused["accepted"], &refused["warnings"][0]["kind"]), (&json!(false), &json!("too-dark")));
    let bright = image::decode(&sample("learn", "mug", 2)).unwrap();
    std::fs::write(place.path().join("bright.jpg"), large(&bright)).unwrap();
    let next = service.ask("GET", "/api/v1/camera.jpg?after=1", &[], b"");
    assert!(next.head.contains("orco-frame: 2"), "{}", next.head);
    let after = |number: u32| service.ask("GET", &format!("/api/v1/camera.jpg?after={number}"), &[], b"");
    // 1000 comes from a client that saw as many frames before the service was started anew. Both wait.
    let (none, newest) = thread::scope(|scope| {
        let newest = scope.spawn(|| after(1000));
        (after(2), newest.join().unwrap())
    });
    assert_eq!((none.status, none.body.len()), (204, 0), "{}", none.head);
    assert!(newest.status == 200 && newest.head.contains("orco-frame: 2"), "{}", newest.head);
    let anyway = json!({ "label": "mug", "anyway": true, "frame": refused["frame"] });
    let taken = service.json("POST", "/api/v1/camera/shot", &anyway).ok();
    assert_eq!((&taken["accepted"], &taken["frame"]), (&json!(true), &refused["frame"]));
    // It was taken, so it is removed.
    assert_eq!(service.json("POST", "/api/v1/camera/shot", &anyway).status, 404);
    let good = service.json("POST", "/api/v1/camera/shot", &json!({ "label": "mug" })).ok();
    assert_eq!((&good["accepted"], &good["shots"], &good["frame"]), (&json!(true), &json!(2), &json!(2)), "{good}");
    // Pixels are no shares of the frame's sides.
    let in_pixels = json!({ "label": "mug", "at": [320, 240] });
    for wrong in [json!({}), json!({ "label": "a=b" }), json!({ "label": "mug", "other": 1 }), in_pixels] {
        assert_eq!(service.json("POST", "/api/v1/camera/shot", &wrong).status, 400, "{wrong}");
    }
}

/// A camera may give many frames for each that is processed.
#[test]
fn the_frame_that_programs_are_told_of_can_be_taken_though_newer_ones_came() {
    let (state, fake) = (TempDir::new().unwrap(), FakeCamera::start(tried("mug"), EVERY));
    let settings = live::LiveSettings::default().per_second(0.1);
    let service = looking_at_rate(&state, &fake.url(), settings, ServerOptions::default());
    let shown = once(&service, "a frame was processed", |shown| shown["frame"].is_u64());
    let number = shown["frame"].as_u64().unwrap();
    once(&service, "newer ones came", |shown| shown["frames"].as_u64() > Some(number + 5));
    let shot = json!({ "label": "mug", "anyway": true, "frame": number });
    let taken = service.json("POST", "/api/v1/camera/shot", &shot).ok();
    assert_eq!((&taken["accepted"], &taken["frame"]), (&json!(true), &json!(number)), "{taken}");
}

#[test]
fn the_live_stream_needs_the_token_and_plays_on() {
    let (state, fake) = (TempDir::new().unwrap(), FakeCamera::start(tried("cactus"), EVERY));
    let token = state.path().join("token");
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let options = ServerOptions::default().listen(listen).token_file(Some(token.clone()));
    let mut service = looking_at(&state, &fake.url().replace("//", "//me:secret@"), options);
    for path in ["/api/v1/live", "/api/v1/camera.jpg", "/api/v1/camera.mjpg"] {
        assert_eq!(service.ask("GET", path, &[], b"").status, 401, "{path}");
    }
    let token = std::fs::read_to_string(token).unwrap().trim().to_owned();
    service.token = Some(token);
    let shown = once(&service, "it shows something", |shown| shown["label"].is_string());
    assert!(!shown.to_string().contains("secret"), "{shown}");
    let mut parts = service.stream("/api/v1/camera.mjpg");
    for _ in 0..3 {
        assert!(image::decode(&next_picture(&mut parts)).unwrap().width() <= 640);
    }
}

/// The next picture of a stream.
fn next_picture(parts: &mut impl BufRead) -> Vec<u8> {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(parts.read_line(&mut line).unwrap() > 0);
        if let Some(length) = line.to_lowercase().strip_prefix("content-length: ") {
            parts.read_line(&mut line).unwrap();
            let mut picture = vec![0; length.trim().parse().unwrap()];
            parts.read_exact(&mut picture).unwrap();
            return picture;
        }
    }
}

/// A browser shows the only picture of a folder once another part begins, and nginx ends what is silent for a minute.
#[test]
fn the_live_stream_shows_a_picture_again_that_no_other_one_follows() {
    let (state, place) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let service = looking_at(&state, &format!("folder:{}", place.path().display()), ServerOptions::default());
    assert_eq!(service.ask("GET", "/api/v1/camera.jpg", &[], b"").status, 503);
    std::fs::write(place.path().join("mug.jpg"), sample("learn", "mug", 1)).unwrap();
    until("it is seen", || service.ask("GET", "/api/v1/camera.jpg", &[], b"").status == 200);
    let mut parts = service.stream("/api/v1/camera.mjpg");
    assert_eq!(next_picture(&mut parts), next_picture(&mut parts));
}

#[test]
fn streams_ask_proxies_to_pass_them_on_as_they_come() {
    let (state, fake) = (TempDir::new().unwrap(), FakeCamera::start(tried("cactus"), EVERY));
    let service = looking_at(&state, &fake.url(), ServerOptions::default());
    for path in ["/api/v1/events", "/api/v1/camera.mjpg"] {
        let lines = service.stream(path).lines().map(Result::unwrap);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).map(|line| line.to_lowercase()).collect();
        assert!(head.contains(&"x-accel-buffering: no".to_owned()), "{path}: {head:?}");
        assert!(head.iter().any(|line| line.starts_with("cache-control: no-")), "{path}: {head:?}");
    }
}

/// Whoever stops the service waits for no listener: streams end, in order and long before answers are cut off.
#[test]
fn streams_end_when_the_service_stops() {
    let (state, place) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let service = looking_at(&state, &format!("folder:{}", place.path().display()), ServerOptions::default());
    std::fs::write(place.path().join("mug.jpg"), sample("learn", "mug", 1)).unwrap();
    until("it is seen", || service.ask("GET", "/api/v1/camera.jpg", &[], b"").status == 200);
    let streams = ["/api/v1/events", "/api/v1/camera.mjpg"].map(|path| {
        let mut stream = service.stream(path);
        stream.fill_buf().unwrap();
        (path, stream)
    });
    let started = Instant::now();
    drop(service);
    let took = started.elapsed();
    for (path, mut stream) in streams {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.ends_with(b"0\r\n\r\n"), "{path} was cut off");
    }
    assert!(took < Duration::from_millis(1500), "it took {took:?}");
}

#[test]
fn a_service_without_a_camera_says_so() {
    let (_state, service) = Running::fresh();
    for path in ["/api/v1/live", "/api/v1/camera.jpg", "/api/v1/camera.mjpg"] {
        let answer = service.ask("GET", path, &[], b"");
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.error().contains("--camera SOURCE"), "{path}: {}", answer.error());
    }
    assert_eq!(service.json("POST", "/api/v1/camera/shot", &json!({ "label": "mug" })).status, 404);
    assert_eq!(service.get("/api/v1/status")["camera"], Value::Null);
}
