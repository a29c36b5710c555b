//! The empty place in front of the service's own camera.

use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use crate::camera::fake::FakeCamera;
use crate::camera::{once, watching};
use orco_runtime::image;
use orco_runtime::image_rs::imageops::{self, FilterType};
use orco_runtime::image_rs::{ImageFormat, Rgb, RgbImage};
use orco_serve::{ServerOptions, live};
use orco_trials::until;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::schemas::check;
use crate::support::{Running, sample};

const EVERY: Duration = Duration::from_millis(20);
const SIZE: [u32; 2] = [640, 360];
/// Pixels along each side of a thing.
const THING: u32 = 150;

fn looking_at(state: &Path, source: &str) -> Running {
    let settings = live::LiveSettings::default().per_second(1000.0);
    Running::serving(watching(state, source, settings), ServerOptions::default())
}

/// A frame of a place with sample pictures in it, whose left edges are given; noise and exposure are those of the
/// number.
fn frame(things: &[(&str, usize, u32)], number: u32) -> Vec<u8> {
    let wave = |place: u32, length: f32| 60.0 * (place as f32 / length).sin();
    let mut frame = RgbImage::from_fn(SIZE[0], SIZE[1], |x, y| {
        let light = [wave(x, 9.0) + wave(y, 23.0), wave(x + y, 17.0), wave(y, 8.0)];
        Rgb(light.map(|light| (115.0 + light / 2.0) as u8))
    });
    for (class, picture, left) in things {
        let thing = image::decode(&sample("try", class, *picture)).unwrap();
        let thing = imageops::resize(&thing, THING, THING, FilterType::Triangle);
        imageops::replace(&mut frame, &thing, i64::from(*left), 100);
    }
    let mut random = number.wrapping_mul(0x9e37_79b9) | 1;
    let gain = 0.96 + 0.02 * (number % 5) as f32;
    for value in frame.iter_mut() {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        *value = (f32::from(*value) * gain + (random % 9) as f32 - 4.0).clamp(0.0, 255.0) as u8;
    }
    let mut file = Cursor::new(Vec::new());
    frame.write_to(&mut file, ImageFormat::Jpeg).unwrap();
    file.into_inner()
}

fn frames(things: &[(&str, usize, u32)]) -> Vec<Vec<u8>> {
    (1..=6).map(|number| frame(things, number)).collect()
}

fn things(shown: &Value) -> usize {
    shown["things"].as_array().unwrap().len()
}

#[test]
fn things_are_told_from_the_empty_place_wherever_they_are() {
    let (state, fake) = (TempDir::new().unwrap(), FakeCamera::start(frames(&[]), EVERY));
    let service = looking_at(state.path(), &fake.url());
    let before = once(&service, "it shows something", |shown| shown["label"].is_string());
    assert_eq!((&before["empty"], &before["scene"]["state"]), (&json!(false), &json!("none")));
    assert_eq!(service.ask("DELETE", "/api/v1/scene", &[], b"").status, 404);
    let learned = service.json("POST", "/api/v1/scene", &json!({})).ok();
    assert_eq!(learned["state"], "shown");
    let empty = once(&service, "the place is empty", |shown| shown["empty"] == true);
    assert_eq!((&empty["label"], things(&empty)), (&Value::Null, 0), "{empty}");
    let refused = service.json("POST", "/api/v1/camera/shot", &json!({ "label": "duck" }));
    assert_eq!((refused.status, &*refused.error()), (409, "the place is empty: put the thing in view"));

    // Taught at the side of the frame, where the largest square does not reach.
    for (label, class) in [("duck", "rubber-duck"), ("cone", "traffic-cone")] {
        for picture in 1..=5 {
            fake.play(frames(&[(class, picture, 5)]));
            let sent = fake.sent() as u64 + 2;
            once(&service, "the thing is there", |shown| shown["frames"].as_u64() > Some(sent) && things(shown) == 1);
            let taken = service.json("POST", "/api/v1/camera/shot", &json!({ "label": label })).ok();
            assert_eq!(taken["accepted"], true, "{taken}");
        }
        let job = service.finished(&service.json("POST", "/api/v1/learn", &json!({ "label": label })));
        assert_eq!(job["state"], "done", "{job}");
    }
    fake.play(frames(&[("rubber-duck", 3, 10), ("traffic-cone", 3, 470)]));
    let label = |shown: &Value, thing: usize| shown["things"][thing]["label"].clone();
    let both = once(&service, "both are known", |shown| {
        let labels = [label(shown, 0), label(shown, 1)];
        things(shown) == 2 && labels.contains(&json!("duck")) && labels.contains(&json!("cone"))
    });
    let of = |label: &str| both["things"].as_array().unwrap().iter().find(|thing| thing["label"] == label).unwrap();
    let left = |label: &str| of(label)["box"][0].as_f64().unwrap();
    assert!(left("duck") < 0.1 && (0.7..0.77).contains(&left("cone")), "{both}");
    assert_eq!(both["label"], both["things"][0]["label"], "the first one answers for all");
    // A shot of the one that is pointed at.
    let shot = json!({ "label": "cone", "at": [0.85, 0.5], "anyway": true });
    let taken = service.json("POST", "/api/v1/camera/shot", &shot).ok();
    assert_eq!(taken["matches"][0]["label"], "cone", "{taken}");
    fake.play(frames(&[]));
    once(&service, "it is empty again", |shown| shown["empty"] == true && shown["label"].is_null());

    // It outlives the service.
    drop(service);
    let service = looking_at(state.path(), &fake.url());
    once(&service, "it is still known", |shown| shown["empty"] == true);
    assert_eq!(service.ask("DELETE", "/api/v1/scene", &[], b"").status, 204);
    let whole = once(&service, "frames count as a whole", |shown| shown["label"].is_string());
    assert_eq!((&whole["empty"], &whole["scene"]["state"], things(&whole)), (&json!(false), &json!("none"), 0));
}

#[test]
fn a_frame_that_was_decoded_before_the_place_was_shown_is_not_compared_with_it() {
    let (state, fake) = (TempDir::new().unwrap(), FakeCamera::start(frames(&[]), Duration::from_millis(3)));
    let service = looking_at(state.path(), &fake.url());
    for _ in 0..25 {
        let learned = service.json("POST", "/api/v1/scene", &json!({})).ok();
        assert_eq!((&learned["state"], &learned["problem"]), (&json!("shown"), &Value::Null));
        assert_eq!(service.ask("DELETE", "/api/v1/scene", &[], b"").status, 204);
        once(&service, "the place is forgotten", |shown| shown["scene"]["state"] == "none");
    }
}

#[test]
fn what_shows_no_empty_place_is_refused_and_the_earlier_one_stays() {
    let (state, fake) = (TempDir::new().unwrap(), FakeCamera::start(frames(&[]), EVERY));
    let service = looking_at(state.path(), &fake.url());
    once(&service, "it shows something", |shown| shown["label"].is_string());
    service.json("POST", "/api/v1/scene", &json!({})).ok();
    // A hand that comes and goes.
    fake.play((1..=6).map(|number| frame(if number % 2 == 0 { &[("mug", 1, 250)] } else { &[] }, number)).collect());
    let sent = fake.sent() as u64 + 2;
    once(&service, "it moves", |shown| shown["frames"].as_u64() > Some(sent));
    until("a thing is noticed", || {
        let refused = service.json("POST", "/api/v1/scene", &json!({}));
        // Three frames may happen to be without it, or with it.
        refused.status == 409 && refused.error().contains("does not look like the others")
    });
    let mut dark = Cursor::new(Vec::new());
    RgbImage::new(SIZE[0], SIZE[1]).write_to(&mut dark, ImageFormat::Jpeg).unwrap();
    fake.play(vec![dark.into_inner()]);
    until("black frames are refused", || {
        let refused = service.json("POST", "/api/v1/scene", &json!({}));
        refused.status == 409 && refused.error().contains("is black")
    });
    assert_eq!(service.get("/api/v1/scene")["frame"], json!(SIZE));
    assert_eq!(service.json("POST", "/api/v1/scene", &json!({ "views": 9 })).status, 400);
}

#[test]
fn each_region_answers_for_itself_and_is_kept() {
    let (state, fake) = (TempDir::new().unwrap(), FakeCamera::start(frames(&[]), EVERY));
    let service = looking_at(state.path(), &fake.url());
    once(&service, "it shows something", |shown| shown["label"].is_string());
    let regions = json!({ "regions": [
        { "name": "left", "box": [0.0, 0.2, 0.4, 0.6] }, { "name": "right", "box": [0.6, 0.2, 0.4, 0.6] },
    ] });
    let set = service.json("POST", "/api/v1/regions", &regions).ok();
    assert_eq!(set, regions);
    let wrong = json!({ "regions": [{ "name": "left", "box": [0.5, 0.0, 0.75, 1.0] }] });
    let refused = service.json("POST", "/api/v1/regions", &wrong);
    assert_eq!((refused.status, service.get("/api/v1/regions")), (400, regions.clone()), "{}", refused.text());
    let region = |shown: &Value, place: usize| shown["regions"][place].clone();
    // Without an empty place each is analysed as a whole.
    let whole = once(&service, "both answer", |shown| {
        region(shown, 0)["label"].is_string() && region(shown, 1)["label"].is_string()
    });
    assert_eq!([&whole["regions"][0]["name"], &whole["label"]], [&json!("left"), &whole["regions"][0]["label"]]);
    service.json("POST", "/api/v1/scene", &json!({})).ok();
    once(&service, "both are empty", |shown| region(shown, 0)["empty"] == true && region(shown, 1)["empty"] == true);
    for (label, class) in [("duck", "rubber-duck"), ("cone", "traffic-cone")] {
        for picture in 1..=5 {
            fake.play(frames(&[(class, picture, 440)]));
            let sent = fake.sent() as u64 + 2;
            once(&service, "it is at the right", |shown| {
                shown["frames"].as_u64() > Some(sent)
                    && region(shown, 0)["empty"] == true
                    && region(shown, 1)["things"].as_array().is_some_and(|things| things.len() == 1)
            });
            let nothing = service.json("POST", "/api/v1/camera/shot", &json!({ "label": label }));
            assert_eq!(nothing.status, 409, "the first region is empty: {}", nothing.text());
            let shot = json!({ "label": label, "region": "right" });
            let taken = service.json("POST", "/api/v1/camera/shot", &shot).ok();
            assert_eq!(taken["accepted"], true, "{taken}");
        }
        let job = service.finished(&service.json("POST", "/api/v1/learn", &json!({ "label": label })));
        assert_eq!(job["state"], "done", "{job}");
    }
    fake.play(frames(&[("rubber-duck", 3, 30), ("traffic-cone", 3, 440)]));
    let both = once(&service, "each knows its own", |shown| {
        region(shown, 0)["label"] == "duck" && region(shown, 1)["label"] == "cone"
    });
    assert_eq!(things(&both), 2, "{both}");
    assert_ne!(both["things"][0]["id"], both["things"][1]["id"]);
    let renaming = service.json("PATCH", "/api/v1/classes/cone", &json!({ "label": "pylon" }));
    assert_eq!(service.finished(&renaming)["state"], "done");
    let renamed = once(&service, "it has its new name", |shown| region(shown, 1)["label"] == "pylon");
    assert_eq!(renamed["things"][1]["id"], both["things"][1]["id"], "who chose it has it still");
    check("Live", &both);
    check("Status", &service.get("/api/v1/status"));
    let unknown = service.json("POST", "/api/v1/camera/shot", &json!({ "label": "duck", "region": "middle" }));
    assert_eq!((unknown.status, &*unknown.error()), (404, "there is no region \"middle\""));

    drop(service);
    let service = looking_at(state.path(), &fake.url());
    once(&service, "they outlive the service", |shown| region(shown, 1)["label"] == "pylon");
    service.json("POST", "/api/v1/regions", &json!({ "regions": [] })).ok();
    once(&service, "frames are analysed as a whole", |shown| shown["regions"] == json!([]) && things(shown) == 2);
}

#[test]
fn small_regions_of_a_large_frame_are_analysed_and_those_that_are_too_small_say_so() {
    let mut file = Cursor::new(Vec::new());
    let colour = |x: u32, y: u32| Rgb([(x / 8) as u8, (y / 5) as u8, (x / 60 % 2 * 90) as u8]);
    RgbImage::from_fn(1920, 1080, colour).write_to(&mut file, ImageFormat::Jpeg).unwrap();
    let (state, fake) = (TempDir::new().unwrap(), FakeCamera::start(vec![file.into_inner()], EVERY));
    let service = looking_at(state.path(), &fake.url());
    once(&service, "it shows something", |shown| shown["label"].is_string());
    let regions = json!({ "regions": [
        { "name": "lamp", "box": [0.5, 0.5, 0.04, 0.05] }, { "name": "dot", "box": [0.5, 0.5, 0.00390625, 0.00390625] },
    ] });
    service.json("POST", "/api/v1/regions", &regions).ok();
    let shown = once(&service, "the regions are analysed", |shown| shown["regions"].as_array().unwrap().len() == 2);
    let [lamp, dot] = [&shown["regions"][0], &shown["regions"][1]];
    assert_eq!((&lamp["name"], &dot["name"], &lamp["problem"]), (&json!("lamp"), &json!("dot"), &Value::Null));
    assert!(lamp["label"].is_string() && shown["label"] == lamp["label"], "{shown}");
    assert_eq!((&dot["label"], &dot["box"]), (&Value::Null, &json!([0.5, 0.5, 0.00390625, 0.00390625])));
    let problem = "is too small: at least 16 x 16 pixels are needed";
    assert!(dot["problem"].as_str().unwrap().ends_with(problem), "{dot}");
    let refused = service.json("POST", "/api/v1/camera/shot", &json!({ "label": "duck", "region": "dot" }));
    assert_eq!(refused.status, 409);
    assert!(refused.error().ends_with(problem), "{}", refused.error());
}
