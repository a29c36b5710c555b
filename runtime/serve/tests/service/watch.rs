//! What other programs do to the state of a running service: it is noticed, taken up, and told; what cannot be used is
//! said.

use std::fs;
use std::io::BufRead;
use std::path::Path;
use std::time::Duration;

use crate::support::{Running, sample, workspace};
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::{Learner, LearnerSettings, Shots};
use orco_runtime::state::Balance;
use orco_runtime::store::Store;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Another program on the same state.
fn other(bundle: &str, state: &Path) -> Learner {
    let bundle = Bundle::open(workspace().join("models").join(bundle)).unwrap();
    Learner::new(bundle, Store::new(state), LearnerSettings::default()).unwrap()
}

/// The status, once it is so.
fn once(service: &Running, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    service.until("/api/v1/status", what, is)
}

/// Asserts that the service says what is wrong, wherever it is asked, and changes nothing.
fn assert_says(service: &Running, said: &str) {
    once(service, said, |status| status["problem"].as_str().is_some_and(|problem| problem.contains(said)));
    for path in ["/v2/health/ready", "/v2/models/cifar100-edge/ready"] {
        let ready = service.ask("GET", path, &[], b"");
        assert_eq!((ready.status, ready.error().contains("/api/v1/status says why")), (503, true), "{path}");
    }
    assert_eq!(service.ask("GET", "/v2/health/live", &[], b"").status, 200);
    let job = service.finished(&service.json("POST", "/api/v1/balance", &json!({ "balance": "favour-new" })));
    assert_eq!(job["state"], "failed", "{job}");
    assert!(job["error"].as_str().unwrap().contains(said), "{job}");
}

fn assert_well(service: &Running) {
    once(service, "all is well", |status| status["problem"].is_null());
    assert_eq!(service.ask("GET", "/v2/health/ready", &[], b"").status, 200);
}

#[test]
fn what_another_program_learns_and_removes_is_noticed_and_told() {
    let parent = TempDir::new().unwrap();
    let state = parent.path().join("state");
    let service = Running::start(&state);
    let mut lines = service.stream("/api/v1/events").lines();
    assert!(lines.next().unwrap().unwrap().contains("200"));
    let shots = workspace().join("examples/shots/learn/rubber-duck");
    other("cifar100-edge", &state).learn("duck", Shots::folder(shots).unwrap()).unwrap().durable().unwrap();
    once(&service, "the class is known", |status| status["classes"] == 61);
    let told = |line: &String| line.starts_with("data: ") && line.contains("\"job\":null");
    assert!(lines.map(Result::unwrap).any(|line| told(&line)));
    assert_eq!(service.label(&sample("learn", "rubber-duck", 2)), "duck");
    assert_well(&service);

    // What the service had in memory goes on answering, and nothing begins anew behind its back.
    let aside = parent.path().join("aside");
    fs::rename(&state, &aside).unwrap();
    assert_says(&service, "is gone: its files were removed");
    assert_eq!(service.label(&sample("learn", "rubber-duck", 2)), "duck");
    assert!(!state.exists());
    fs::rename(&aside, &state).unwrap();
    assert_well(&service);
    let job = service.finished(&service.json("PATCH", "/api/v1/classes/duck", &json!({ "label": "bird" })));
    assert_eq!(job["state"], "done", "{job}");
}

/// Whoever counts by these events would wait for shots that are gone.
#[test]
fn listeners_are_told_that_shots_are_learned() {
    let (_state, service) = Running::fresh();
    let mut lines = service.stream("/api/v1/events").lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("200"));
    service.teach("duck", "rubber-duck");
    let is_last = |line: &String| line.contains("\"state\":\"done\"") || line.contains("\"shots\":0");
    assert_eq!(lines.find(is_last).as_deref(), Some("data: {\"label\":\"duck\",\"shots\":0}"));
}

#[test]
fn shots_are_added_to_what_another_program_taught_and_make_anew_what_it_forgot() {
    let (folder, service) = Running::fresh();
    // From then on the service's own learner knows a state.
    service.teach("beaker", "mug");
    let mut other = other("cifar100-edge", folder.path());
    // The service may hold the lock for a moment.
    other.settings_mut().wait = Duration::from_secs(60);
    let shots = workspace().join("examples/shots/learn/cactus");
    other.learn("duck", Shots::folder(shots).unwrap()).unwrap().durable().unwrap();
    once(&service, "the class is known", |status| status["classes"] == 62);
    let last_change =
        || service.get("/api/v1/history")["entries"].as_array().unwrap().last().unwrap()["change"].clone();
    service.teach("duck", "rubber-duck");
    assert_eq!(last_change(), "add");
    other.forget("duck", &mut ()).unwrap().durable().unwrap();
    once(&service, "the class is gone", |status| status["classes"] == 61);
    service.teach("duck", "traffic-cone");
    assert_eq!(last_change(), "learn");
}

#[test]
fn a_state_that_moves_to_another_bundle_is_said() {
    let parent = TempDir::new().unwrap();
    let [state, elsewhere] = ["state", "elsewhere"].map(|name| parent.path().join(name));
    other("cifar100-edge", &state).set_balance(Balance::KeepBase, &mut ()).unwrap().durable().unwrap();
    other("everyday", &elsewhere).set_balance(Balance::KeepBase, &mut ()).unwrap().durable().unwrap();
    let service = Running::start(&state);
    assert_well(&service);
    let slots = ["slot-a", "slot-b"];
    let before = slots.map(|slot| fs::read(state.join(slot)).unwrap());
    let put = |slot: &str, bytes: &[u8]| {
        fs::write(state.join("new"), bytes).unwrap();
        fs::rename(state.join("new"), state.join(slot)).unwrap();
    };
    slots.iter().for_each(|slot| put(slot, &fs::read(elsewhere.join(slot)).unwrap()));
    assert_says(&service, "was learned on another bundle");
    assert_eq!(service.get("/api/v1/status")["classes"], 60);
    assert!(!service.label(&sample("try", "mug", 1)).is_empty());
    slots.iter().zip(before).for_each(|(slot, bytes)| put(slot, &bytes));
    assert_well(&service);
}
