//! What the service's own camera saw, and when.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::camera::fake::FakeCamera;
use crate::camera::{once, watching};
use crate::support::{Running, sample};
use orco_runtime::image;
use orco_serve::sighting_recorder::SightingRecorder;
use orco_serve::{ServerOptions, Service, live};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A service that looks at a camera and keeps what it sees in a folder.
fn recording(state: &TempDir, source: &str, folder: &Path) -> (Arc<Service>, SightingRecorder, Running) {
    let service = watching(state.path(), source, live::LiveSettings::default().per_second(100.0));
    let recorder = SightingRecorder::start(&service, folder).unwrap();
    let running = Running::serving(Arc::clone(&service), ServerOptions::default());
    (service, recorder, running)
}

fn sightings(listed: &Value) -> Vec<(String, bool)> {
    let sighting = |one: &Value| (one["label"].as_str().unwrap().to_owned(), one["seconds"].is_null());
    listed["sightings"].as_array().unwrap().iter().map(sighting).collect()
}

#[test]
fn what_came_and_left_is_listed_with_a_picture_and_is_there_after_a_restart() {
    let [state, place] = [(); 2].map(|()| TempDir::new().unwrap());
    let folder = place.path().join("seen");
    let camera = FakeCamera::start(vec![sample("learn", "traffic-cone", 1)], Duration::from_millis(20));
    let (service, recorder, running) = recording(&state, &camera.url(), &folder);
    assert_eq!(running.get("/api/v1/status")["sightings"], true);
    running.teach("cone", "traffic-cone");
    running.teach("duck", "rubber-duck");
    once(&running, "the cone is shown", |shown| shown["label"] == "cone" && shown["known"] == true);
    let is_there = |listed: &Value| sightings(listed) == [("cone".to_owned(), true)];
    let listed = running.until("/api/v1/sightings", "the cone is there", is_there);
    let id = listed["sightings"][0]["id"].as_str().unwrap();
    let picture = running.ask("GET", &format!("/api/v1/sightings/{id}.jpg"), &[], b"");
    assert!(picture.head.contains("image/jpeg"), "{}", picture.text());
    assert!(image::decode(&picture.body).unwrap().width() <= 320);

    camera.play(vec![sample("learn", "rubber-duck", 1)]);
    let both = [("duck".to_owned(), true), ("cone".to_owned(), false)];
    running.until("/api/v1/sightings", "the cone has left", |listed| sightings(listed) == both);
    drop((running, service));
    drop(recorder);

    let (_service, _recorder, running) = recording(&state, &format!("folder:{}", state.path().display()), &folder);
    let listed = running.get("/api/v1/sightings");
    assert_eq!(sightings(&listed), [("duck".to_owned(), false), ("cone".to_owned(), false)], "{listed}");
    let kept = running.ask("GET", &format!("/api/v1/sightings/{id}.jpg"), &[], b"");
    assert_eq!(kept.body, picture.body);
    let csv = running.ask("GET", "/api/v1/sightings/sightings.csv", &[], b"");
    assert!(csv.head.contains("text/csv") && csv.text().lines().count() == 3, "{}", csv.text());

    // A purge leaves no trace of the class, and what is removed is gone from the disk.
    let purged = running.finished(&running.ask("DELETE", "/api/v1/classes/cone?purge=true", &[], b""));
    assert_eq!(purged["state"], "done", "{purged}");
    assert_eq!(sightings(&running.get("/api/v1/sightings")), [("duck".to_owned(), false)]);
    assert_eq!(running.ask("GET", &format!("/api/v1/sightings/{id}.jpg"), &[], b"").status, 404);
    // Where the file cannot be written, they stay listed, and whoever asked is told.
    let file = folder.join("sightings.csv");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let purged = running.finished(&running.ask("DELETE", "/api/v1/classes/duck?purge=true", &[], b""));
    assert_eq!(purged["state"], "done", "{purged}");
    assert!(purged["warning"].as_str().is_some_and(|warning| warning.contains("its sightings are left")), "{purged}");
    for _ in 0..2 {
        assert_eq!(running.ask("DELETE", "/api/v1/sightings", &[], b"").status, 500);
        let listed = running.get("/api/v1/sightings");
        assert_eq!(sightings(&listed), [("duck".to_owned(), false)]);
        assert!(listed["problem"].is_string(), "{listed}");
    }
    fs::remove_dir(&file).unwrap();
    assert_eq!(running.ask("DELETE", "/api/v1/sightings", &[], b"").status, 204);
    assert_eq!(running.get("/api/v1/sightings")["sightings"], json!([]));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "the empty list");
}

#[test]
fn without_a_folder_nothing_is_kept() {
    let (_state, running) = Running::fresh();
    assert_eq!(running.get("/api/v1/sightings"), json!({ "kept": false, "most": 0, "problem": null, "sightings": [] }));
    let file = running.ask("GET", "/api/v1/sightings/sightings.csv", &[], b"");
    assert_eq!(file.status, 404);
    assert!(file.error().contains("--sightings FOLDER"), "{}", file.error());
}
