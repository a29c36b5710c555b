//! Every thread panics in turn: it comes back or the service ends, jobs end by what is true, and whoever asks
//! whether the service is ready is told.

#[path = "../../tests/service/support.rs"]
mod support;

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use orco_runtime::bundle::Bundle;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::store::Store;
use orco_trials::until;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::support::{Running, sample, workspace};
use crate::error::ServeError;
use crate::{Server, ServerOptions, Service, live};

/// Often enough for a thread to be down for a while, and not for good.
const SOME: usize = 4;

fn open(state: &TempDir) -> Arc<Service> {
    let bundle = Bundle::open(workspace().join("models/cifar100-edge")).unwrap();
    Service::open(bundle, Store::new(state.path()), LearnerSettings::default()).unwrap()
}

/// A service, seen from within and over HTTP.
fn serve() -> (TempDir, Arc<Service>, Running) {
    let state = TempDir::new().unwrap();
    let service = open(&state);
    let running = Running::serving(Arc::clone(&service), ServerOptions::default());
    (state, service, running)
}

/// The same with a folder for a camera, which comes second.
fn serve_folder() -> (TempDir, TempDir, Arc<Service>, Running) {
    let (state, camera) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let service = open(&state);
    let source = format!("folder:{}", camera.path().display()).parse().unwrap();
    service.watch_camera(source, live::LiveSettings { per_second: 100.0, ..live::LiveSettings::default() }).unwrap();
    let running = Running::serving(Arc::clone(&service), ServerOptions::default());
    (state, camera, service, running)
}

/// Waits until the service says that a thread is down, wherever it is asked, and then until it is well again.
fn assert_is_down_and_comes_back(running: &Running, thread: &str) {
    let named =
        format!("the thread \"{thread}\" is down: it stopped because of a fault in the program: a test made it panic");
    let mut said = false;
    until(thread, || {
        let ready = running.ask("GET", "/v2/health/ready", &[], b"");
        let problems = running.get("/api/v1/status")["problems"].to_string().replace('\\', "");
        said |= ready.status == 503 && problems.contains(&named);
        said
    });
    // It is up for a moment before each of its faults too: well is what both say.
    until("well again", || {
        let ready = running.ask("GET", "/v2/health/ready", &[], b"");
        ready.status == 200 && running.get("/api/v1/status")["problems"] == json!([])
    });
}

fn shoot(running: &Running, label: &str, class: &str) {
    for number in 1..=3 {
        running.picture(&format!("/api/v1/shots/{label}"), &sample("learn", class, number)).ok();
    }
}

fn learn(running: &Running, label: &str) -> Value {
    running.finished(&running.json("POST", "/api/v1/learn", &json!({ "label": label })))
}

#[test]
fn a_change_that_panics_ends_by_what_is_on_the_disk() {
    let (_state, service, running) = serve();
    shoot(&running, "duck", "rubber-duck");
    service.health.break_at("changes: making", 1);
    let job = learn(&running, "duck");
    assert_eq!((&job["state"], &job["changed"]), (&json!("failed"), &json!(false)), "{job}");
    assert!(job["error"].as_str().unwrap().contains("failed before the change was saved"), "{job}");
    assert_eq!(running.get("/api/v1/status")["sessions"], 0);

    // The shots are there still, and the next change is made by the thread that came back.
    service.health.break_at("changes: made", 1);
    let job = learn(&running, "duck");
    assert_eq!(job["state"], "done", "{job}");
    assert!(job["warning"].as_str().unwrap().contains("is saved, as entry 1 of the history"), "{job}");
    assert_eq!(running.get("/api/v1/shots/duck")["shots"], json!([]), "they are learned");
    assert_eq!(running.get("/api/v1/history")["entries"].as_array().unwrap().len(), 2);
    assert_eq!(running.label(&sample("learn", "rubber-duck", 1)), "duck");
    for verb in [json!({ "label": "bird" }), json!({ "label": "duck" })] {
        let from = if verb["label"] == "bird" { "duck" } else { "bird" };
        let job = running.finished(&running.json("PATCH", &format!("/api/v1/classes/{from}"), &verb));
        assert_eq!((&job["state"], &job["warning"]), (&json!("done"), &json!(null)), "{job}");
    }
    let metrics = running.ask("GET", "/metrics", &[], b"").text();
    assert!(metrics.contains("orco_changes_queued 0"), "{metrics}");
    assert!(running.get("/api/v1/jobs")["jobs"].as_array().unwrap().is_empty());
}

#[test]
fn a_change_of_which_nothing_can_be_told_says_so() {
    let (state, service, running) = serve();
    shoot(&running, "duck", "rubber-duck");
    assert_eq!(learn(&running, "duck")["state"], "done");
    // The thread panics after it has saved, and what it saved cannot be read.
    service.health.break_at("changes: made", 1);
    let elsewhere = TempDir::new().unwrap();
    let other = Bundle::open(workspace().join("models/everyday")).unwrap();
    let mut other =
        orco_runtime::learner::Learner::new(other, Store::new(elsewhere.path()), LearnerSettings::default()).unwrap();
    other.set_balance(orco_runtime::state::Balance::KeepBase, &mut ()).unwrap().durable().unwrap();
    let slots = ["slot-a", "slot-b"];
    let put = |slot: &str, bytes: &[u8]| {
        fs::write(state.path().join("new"), bytes).unwrap();
        fs::rename(state.path().join("new"), state.path().join(slot)).unwrap();
    };
    let before = slots.map(|slot| fs::read(state.path().join(slot)).unwrap());
    let theirs = slots.map(|slot| fs::read(elsewhere.path().join(slot)).unwrap());
    // The change is refused for the other bundle, and its thread panics after that.
    slots.iter().zip(&theirs).for_each(|(slot, bytes)| put(slot, bytes));
    let job = running.finished(&running.json("PATCH", "/api/v1/classes/duck", &json!({ "label": "bird" })));
    assert_eq!((&job["state"], &job["changed"]), (&json!("failed"), &json!(null)), "{job}");
    assert!(job["error"].as_str().unwrap().contains("was saved cannot be told: "), "{job}");
    // While it cannot begin again, what is asked is refused and does not wait for ever.
    let job = running.finished(&running.json("PATCH", "/api/v1/classes/duck", &json!({ "label": "bird" })));
    assert_eq!((&job["state"], &job["changed"]), (&json!("failed"), &json!(false)), "{job}");
    slots.iter().zip(&before).for_each(|(slot, bytes)| put(slot, bytes));
    until("ready", || running.ask("GET", "/v2/health/ready", &[], b"").status == 200);
    let job = running.finished(&running.json("PATCH", "/api/v1/classes/duck", &json!({ "label": "bird" })));
    assert_eq!(job["state"], "done", "{job}");
}

#[test]
fn the_thread_that_changes_comes_back_and_ready_tells() {
    orco_trials::trial!(23, "broken threads").count(1);
    let (_state, service, running) = serve();
    service.health.break_at("changes: opening", SOME);
    service.health.break_at("changes: making", 1);
    let balance = || running.json("POST", "/api/v1/balance", &json!({ "balance": "favour-new" }));
    let job = balance();
    assert_is_down_and_comes_back(&running, "changes");
    assert_eq!(running.finished(&job)["state"], "failed");
    assert_eq!(running.finished(&balance())["state"], "done");
}

#[test]
fn the_thread_that_answers_comes_back_and_ready_tells() {
    orco_trials::trial!(23, "broken threads").count(1);
    let (_state, service, running) = serve();
    shoot(&running, "duck", "rubber-duck");
    assert_eq!(learn(&running, "duck")["state"], "done");
    let picture = sample("learn", "rubber-duck", 1);
    service.health.break_at("answers: opening", SOME);
    service.health.break_at("answers: asked", 1);
    let lost = running.picture("/api/v1/classify", &picture);
    assert_eq!((lost.status, lost.error().contains("the answer was lost")), (503, true), "{}", lost.text());
    // Asked while it is down: refused, and not left waiting.
    assert_eq!(running.picture("/api/v1/classify", &picture).status, 503);
    assert_is_down_and_comes_back(&running, "answers");
    assert_eq!(running.label(&picture), "duck");
}

#[test]
fn the_thread_that_looks_comes_back_and_ready_tells() {
    orco_trials::trial!(23, "broken threads").count(1);
    let (_state, camera, service, running) = serve_folder();
    service.health.break_at("live: looking", SOME);
    assert_is_down_and_comes_back(&running, "live");
    fs::write(camera.path().join("1.jpg"), sample("try", "mug", 1)).unwrap();
    until("it shows something", || running.get("/api/v1/live")["label"].is_string());
}

#[test]
fn a_frame_on_which_the_thread_panics_is_not_taken_again() {
    let (_state, camera, service, running) = serve_folder();
    const MANY: usize = 100;
    service.health.break_at("live: frame", MANY);
    fs::write(camera.path().join("1.jpg"), sample("try", "mug", 1)).unwrap();
    until("it panics", || service.health.faults_left("live: frame") < MANY);
    until("ready", || running.ask("GET", "/v2/health/ready", &[], b"").status == 200);
    // The frame is still the newest one, and would be taken within these pauses.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(service.health.faults_left("live: frame"), MANY - 1);
    service.health.break_at("live: frame", 0);
    fs::write(camera.path().join("2.jpg"), sample("try", "mug", 2)).unwrap();
    until("it shows the next one", || running.get("/api/v1/live")["label"].is_string());
}

#[test]
fn frames_that_need_too_much_memory_are_told_of() {
    let (state, camera) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let bundle = Bundle::open(workspace().join("models/cifar100-edge")).unwrap();
    let retention = crate::RetentionOptions { memory: 32 << 20, ..crate::RetentionOptions::default() };
    let service = Service::open_with(bundle, Store::new(state.path()), LearnerSettings::default(), retention).unwrap();
    let source = format!("folder:{}", camera.path().display()).parse().unwrap();
    service.watch_camera(source, live::LiveSettings::default()).unwrap();
    let running = Running::serving(Arc::clone(&service), ServerOptions::default());
    assert_eq!(running.get("/api/v1/live")["problem"], json!(null));
    let large = orco_runtime::image_rs::RgbImage::new(4000, 3000);
    large.save(camera.path().join("large.png")).unwrap();
    let problem = || running.get("/api/v1/live")["problem"].clone();
    until("it says why", || problem().as_str().is_some_and(|problem| problem.contains("the picture is too large")));
    let status = running.get("/api/v1/status");
    assert!(status["camera"]["problem"].as_str().unwrap().contains("--picture-memory"), "{status}");
    let shown = running.ask("GET", "/api/v1/camera.jpg?after=0", &[], b"");
    assert!(shown.status == 503 && shown.error().contains("too large"), "{}", shown.text());
    fs::write(camera.path().join("small.jpg"), sample("try", "mug", 1)).unwrap();
    until("it shows a smaller one", || running.get("/api/v1/live")["label"].is_string());
    assert_eq!(problem(), json!(null));
}

#[test]
fn frames_of_the_inbox_are_judged_by_what_is_found_after_a_restart() {
    let (state, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let bundle = || Bundle::open(workspace().join("models/cifar100-edge")).unwrap();
    let mut other =
        orco_runtime::learner::Learner::new(bundle(), Store::new(elsewhere.path()), LearnerSettings::default())
            .unwrap();
    let shots = workspace().join("examples/shots/learn/rubber-duck");
    let shots = orco_runtime::learner::Shots::folder(shots).unwrap();
    other.learn("duck", shots).unwrap().durable().unwrap();
    let service = open(&state);
    let running = Running::serving(Arc::clone(&service), ServerOptions::default());
    for number in 1..=5 {
        running.picture("/api/v1/classify?inbox=true", &sample("learn", "rubber-duck", number)).ok();
    }
    let before = service.inbox.len();
    assert!(before > 0, "no base class is a duck");
    service.health.break_at("answers: opening", SOME);
    service.health.break_at("answers: asked", 1);
    running.picture("/api/v1/classify", &sample("learn", "mug", 1));
    until("it is down", || service.health.reason_down("answers").is_some());
    for slot in ["slot-a", "slot-b"] {
        if let Ok(bytes) = fs::read(elsewhere.path().join(slot)) {
            fs::create_dir_all(state.path()).unwrap();
            fs::write(state.path().join("new"), bytes).unwrap();
            fs::rename(state.path().join("new"), state.path().join(slot)).unwrap();
        }
    }
    until("ducks are recognised", || service.inbox.len() < before);
    assert_eq!(service.answers.knowledge().classes.len(), 61);
}

#[test]
fn a_purge_that_panics_after_it_was_saved_leaves_nothing_behind() {
    let (_state, service, running) = serve();
    shoot(&running, "duck", "rubber-duck");
    let learned = learn(&running, "duck");
    assert_eq!(learned["state"], "done");
    // A shot that waits, and a job that names the class.
    running.picture("/api/v1/shots/duck", &sample("try", "rubber-duck", 1)).ok();
    service.health.break_at("changes: made", 1);
    let job = running.finished(&running.ask("DELETE", "/api/v1/classes/duck?purge=true", &[], b""));
    assert_eq!((&job["state"], &job["label"]), (&json!("done"), &json!(null)), "{job}");
    assert!(job["warning"].as_str().unwrap().contains("is saved, as entry"), "{job}");
    assert_eq!(running.get("/api/v1/shots/duck")["shots"], json!([]));
    let job = running.get(&format!("/api/v1/jobs/{}", learned["id"].as_str().unwrap()));
    assert!(!job.to_string().contains("duck"), "{job}");
}

#[cfg(feature = "mqtt")]
#[test]
fn the_thread_that_reports_comes_back_and_ready_tells() {
    orco_trials::trial!(23, "broken threads").count(1);
    let (_state, service, running) = serve();
    service.health.break_at("mqtt: reporting", SOME);
    let device =
        crate::mqtt::MqttSettings { id: Some("door3".into()), ..crate::mqtt::MqttSettings::new("mqtt://127.0.0.1:9") };
    let mqtt = crate::mqtt::Mqtt::start(&service, device.check().unwrap(), None).unwrap();
    assert_is_down_and_comes_back(&running, "mqtt");
    drop(mqtt);
}

#[cfg(feature = "mqtt")]
#[test]
fn a_thread_that_reports_does_not_say_that_it_works_before_it_does() {
    let state = TempDir::new().unwrap();
    let service = open(&state);
    service.health.break_at("mqtt: connecting", 1);
    let device = crate::mqtt::MqttSettings::new("mqtt://127.0.0.1:9");
    let device = crate::mqtt::MqttSettings { id: Some("door3".into()), ..device }.check().unwrap();
    let refused = crate::mqtt::Mqtt::start(&service, device, None).map(drop).unwrap_err();
    assert!(matches!(refused, ServeError::Panicked { thread: "mqtt", .. }), "{refused}");
}

#[test]
fn a_thread_that_panics_again_and_again_ends_the_service_with_an_error() {
    orco_trials::trial!(23, "broken threads").count(1);
    let state = TempDir::new().unwrap();
    let service = open(&state);
    service.health.break_at("changes: opening", usize::MAX);
    service.health.break_at("changes: making", 1);
    let server = Server::bind(
        Arc::clone(&service),
        ServerOptions { listen: ([127, 0, 0, 1], 0).into(), ..ServerOptions::default() },
    );
    let server = server.unwrap();
    let ended = thread::spawn(move || server.run_until(std::future::pending()));
    let change = |label: &str| crate::changes::ChangeRequest::Forget { label: label.into() };
    let jobs = ["duck", "goose"].map(|label| service.changes().request(change(label)).unwrap().id);
    let ended = ended.join().unwrap();
    let Err(ServeError::Broken(why)) = ended else { panic!("{ended:?}") };
    assert!(why.contains("\"changes\" cannot be kept up: it failed 6 times in a row"), "{why}");
    for job in jobs {
        let job = service.changes().job(job).unwrap();
        assert!(job.has_ended(), "nobody waits for it: {job:?}");
    }
    let refused = service.changes().request(change("swan")).unwrap_err();
    assert_eq!(refused.status(), 503);
}

#[test]
fn a_thread_that_panics_while_it_is_started_is_an_error() {
    struct Breaking;
    impl super::Worker for Breaking {
        const NAME: &'static str = "breaking";
        fn run(&mut self, _: &mut dyn FnMut()) -> Result<(), ServeError> {
            panic!("at once")
        }
        fn is_stopping(&self) -> bool {
            unreachable!("it never lived")
        }
    }
    let health = crate::health::Health::new(".".as_ref(), crate::event::Events::default());
    let refused = super::start(Breaking, &health).map(drop).unwrap_err();
    assert_eq!(refused.to_string(), "the thread \"breaking\" failed while it was started: at once");
}
