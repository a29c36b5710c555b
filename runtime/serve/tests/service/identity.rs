//! What is named once stays what it is: over restarts, in a state that was begun anew; and what was purged is named no
//! more.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::sync::mpsc;

use crate::support::{Running, sample, workspace};
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::store::Store;
use orco_serve::{ServerOptions, Service};
use serde_json::{Value, json};
use tempfile::TempDir;

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no string: {value}")).to_owned()
}

#[test]
fn ids_of_an_earlier_run_are_refused_and_never_given_again() {
    let mut trial = orco_trials::trial!(25, "identifiers of an earlier run");
    let state = TempDir::new().unwrap();
    let run = |service: &Running| {
        let taken = service.picture("/api/v1/shots/mug", &sample("learn", "mug", 1)).ok();
        let offered = (1..=8).find_map(|number| {
            let looked = service.picture("/api/v1/classify?inbox=true", &sample("try", "rubber-duck", number)).ok();
            looked["inbox"].as_str().map(str::to_owned)
        });
        let job = service.finished(&service.json("POST", "/api/v1/balance", &json!({ "balance": "favour-new" })));
        [text(&taken["id"]), offered.expect("no base class is a duck"), text(&job["id"])]
    };
    let service = Running::start(state.path());
    let before = run(&service);
    drop(service);
    let service = Running::start(state.path());
    let [shot, frame, job] = &before;
    for path in [format!("shots/mug/{shot}"), format!("inbox/{frame}"), format!("jobs/{job}")] {
        let answer = service.ask("GET", &format!("/api/v1/{path}"), &[], b"");
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    let after = run(&service);
    let all: BTreeSet<&String> = before.iter().chain(&after).collect();
    assert_eq!(all.len(), 6, "{before:?} {after:?}");
    // Something is there under the new ones, and nothing under the old ones.
    assert_eq!(service.ask("DELETE", &format!("/api/v1/shots/mug/{shot}"), &[], b"").status, 404);
    let mixed = json!({ "ids": [after[1], frame], "label": "duck" });
    assert_eq!(service.json("POST", "/api/v1/inbox/label", &mixed).status, 404);
    assert_eq!(service.json("POST", "/api/v1/inbox/dismiss", &json!({ "ids": [frame] })).status, 204);
    assert_eq!(service.get("/api/v1/status")["inbox"], 1, "it was another frame's id");
    let by_number = service.json("POST", "/api/v1/inbox/dismiss", &json!({ "ids": [1] }));
    assert!(by_number.status == 400 && by_number.error().contains("expected an id as it was given"));
    trial.count(before.len());
}

#[test]
fn an_entry_of_another_history_is_not_taken_back() {
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let entry = |service: &Running, balance: &str| {
        let job = service.finished(&service.json("POST", "/api/v1/balance", &json!({ "balance": balance })));
        assert_eq!(job["state"], "done", "{job}");
        service.get("/api/v1/history")["entries"][1].clone()
    };
    let other = entry(&Running::start(first.path()), "keep-base");
    let service = Running::start(second.path());
    let own = entry(&service, "favour-new");
    assert_eq!((&own["entry"], &other["entry"]), (&json!(1), &json!(1)));
    assert_ne!(own["id"], other["id"]);
    let job = service.finished(&service.json("POST", "/api/v1/undo", &json!({ "last": other["id"] })));
    assert!(text(&job["error"]).contains("entry 1 of the history is not the one that was shown any more"), "{job}");
    assert_eq!(service.json("POST", "/api/v1/undo", &json!({ "entry": other["id"] })).status, 404);
    let job = service.finished(&service.json("POST", "/api/v1/undo", &json!({ "last": own["id"] })));
    assert_eq!(job["state"], "done", "{job}");
}

#[test]
fn a_purge_hands_all_labels_of_its_class_on_and_reports_where_one_is_left() {
    let state = TempDir::new().unwrap();
    let bundle = Bundle::open(workspace().join("models/cifar100-edge")).unwrap();
    let service = Service::open(bundle, Store::new(state.path()), LearnerSettings::default()).unwrap();
    let (told, heard) = mpsc::channel();
    service.on_purge(move |labels| {
        told.send(labels.clone()).unwrap();
        Err("a file cannot be written".into())
    });
    let service = Running::serving(service, ServerOptions::default());
    service.teach("quackerjack", "rubber-duck");
    service.finished(&service.json("PATCH", "/api/v1/classes/quackerjack", &json!({ "label": "bathbird" })));
    assert!(heard.try_recv().is_err(), "nothing was purged yet");
    let purged = service.finished(&service.ask("DELETE", "/api/v1/classes/bathbird?purge=true", &[], b""));
    assert_eq!(heard.try_recv().unwrap(), ["bathbird", "quackerjack"].map(str::to_owned).into());
    assert!(purged.to_string().contains("still names it: a file cannot be written"), "{purged}");
}

#[test]
fn a_class_that_was_purged_is_named_nowhere_any_more() {
    let (state, service) = Running::fresh();
    let mut told = service.stream("/api/v1/events").lines().map(Result::unwrap);
    let base = service.ask("DELETE", "/api/v1/classes/bear?purge=true", &[], b"");
    assert_eq!((base.status, base.error().contains("came with the bundle")), (409, true));
    let mut jobs = vec![service.teach("quackerjack", "rubber-duck"), service.teach("cone", "traffic-cone")];
    let change = |method: &str, path: &str, body: &Value| service.finished(&service.json(method, path, body));
    jobs.push(change("PATCH", "/api/v1/classes/quackerjack", &json!({ "label": "bathbird" })));
    // Shots that wait, and an answer that keeps the label in the inbox.
    service.picture("/api/v1/shots/bathbird", &sample("try", "rubber-duck", 1)).ok();
    for number in 1..=8 {
        service.picture("/api/v1/classify?inbox=true", &sample("try", "toy-brick", number)).ok();
    }
    jobs.push(service.finished(&service.ask("DELETE", "/api/v1/classes/bathbird?purge=true", &[], b"")));
    let purge = jobs.last().unwrap();
    assert_eq!((&purge["state"], &purge["change"], &purge["label"]), (&json!("done"), &json!("purge"), &Value::Null));
    // A sentence that names it, and a class that is in the history alone.
    jobs.push(service.teach("plastron", "mug"));
    jobs.push(service.finished(&service.ask("DELETE", "/api/v1/classes/plastron", &[], b"")));
    jobs.push(service.finished(&service.ask("DELETE", "/api/v1/classes/plastron?purge=true", &[], b"")));
    assert_eq!((&jobs[6]["state"], &jobs[6]["report"]), (&json!("done"), &Value::Null), "{}", jobs[6]);
    let names = |text: &str| ["quackerjack", "bathbird", "plastron"].iter().any(|label| text.contains(label));
    let ids: Vec<String> = jobs.iter().map(|job| text(&job["id"])).collect();
    for id in &ids {
        let job = service.get(&format!("/api/v1/jobs/{id}")).to_string();
        assert!(!names(&job), "{job}");
    }
    for path in ["status", "classes", "history", "shots", "inbox", "jobs"] {
        let shown = service.get(&format!("/api/v1/{path}")).to_string();
        assert!(!names(&shown), "{path}: {shown}");
    }
    assert!(!names(&service.ask("GET", "/metrics", &[], b"").text()));
    let store = Store::new(state.path());
    assert!(["quackerjack", "bathbird", "plastron"].iter().all(|label| !store.mentions(label).unwrap()));
    // What was told before cannot be untold, but whoever keeps it hears what to let go.
    let purged = told.find(|line| line.starts_with("data: {\"jobs\":")).unwrap();
    assert!([&ids[0], &ids[2]].iter().all(|id| purged.contains(id.as_str())) && !names(&purged), "{purged}");
    assert!(told.take_while(|line| !line.contains("plastron")).all(|line| !names(&line)));

    let nobody = service.finished(&service.ask("DELETE", "/api/v1/classes/nobody?purge=true", &[], b""));
    assert_eq!(nobody["error"], "no class has or had the label \"nobody\"");
    assert_eq!((&nobody["code"], &nobody["values"]), (&json!("unknown_class"), &json!({ "label": "nobody" })));
    // What is undone is the class no more.
    let entries = service.get("/api/v1/history")["entries"].as_array().unwrap().clone();
    assert!(entries.iter().all(|entry| !names(&entry.to_string())), "{entries:?}");
}
