//! Backups and packs that leave the service and come to it.

use std::io::{Seek, Write};
use std::thread;
use std::time::Duration;

use crate::support::{Running, sample, workspace};
use orco_runtime::backup::{self, RestoreOptions};
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::{AlignmentTime, Learner, LearnerSettings, Shots};
use orco_runtime::ndarray::Array3;
use orco_runtime::pack;
use orco_runtime::signature::SecretKey;
use orco_runtime::store::Store;
use orco_serve::admission::UNCOUNTED_BYTES;
use orco_serve::transfer::{MAX_BACKUPS, MAX_PACK};
use orco_serve::{ServerOptions, Service};
use serde_json::{Value, json};
use tempfile::TempDir;

const OURS: &[(&str, &str)] = &[("Content-Type", "application/octet-stream")];

fn bundle() -> Bundle {
    Bundle::open(workspace().join("models/cifar100-edge")).unwrap()
}

fn labels(service: &Running) -> Vec<String> {
    let classes = service.get("/api/v1/classes");
    let learned = classes["classes"].as_array().unwrap().iter().filter(|class| class["learned"] == true);
    learned.map(|class| class["label"].as_str().unwrap().to_owned()).collect()
}

/// A store that a backup was restored into.
fn restored(bytes: &[u8], place: &TempDir) -> Store {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    let store = Store::new(place.path().join("state"));
    let options = RestoreOptions::default();
    let outcome = backup::restore(&bundle(), &store, &LearnerSettings::default(), &mut file, &options).unwrap();
    outcome.durable().unwrap();
    store
}

fn answer(service: &Running) -> Value {
    service.picture("/api/v1/classify?top=70", &sample("try", "rubber-duck", 1)).ok()["matches"].clone()
}

#[test]
fn a_backup_is_restored_and_answers_as_the_device_did() {
    let (_state, service) = Running::fresh();
    let refused = service.ask("GET", "/api/v1/backup", &[], b"");
    assert_eq!((refused.status, &*refused.error()), (409, "nothing was learned, so there is nothing to back up"));
    service.teach("duck", "rubber-duck");
    service.teach("mug", "mug");
    let backup = service.ask("GET", "/api/v1/backup", &[], b"");
    assert!(backup.head.contains("content-disposition: attachment; filename=\"cifar100-edge-20"), "{}", backup.head);
    assert!(backup.head.contains(&format!("content-length: {}", backup.body.len())), "{}", backup.head);

    let place = TempDir::new().unwrap();
    let restored = Service::open(bundle(), restored(&backup.body, &place), LearnerSettings::default()).unwrap();
    let restored = Running::serving(restored, ServerOptions::default());
    assert_eq!(labels(&restored), ["duck", "mug"]);
    assert_eq!(answer(&restored), answer(&service));
}

#[test]
fn backups_are_whole_while_classes_are_learned() {
    let (_state, service) = Running::fresh();
    service.teach("duck", "rubber-duck");
    let backups = thread::scope(|scope| {
        let teaching = scope.spawn(|| service.teach("mug", "mug"));
        let mut backups = Vec::new();
        while !teaching.is_finished() {
            // The settings wait for nobody, but each waits for its turn: no backup fails, and no change does.
            let backup = service.ask("GET", "/api/v1/backup", &[], b"");
            assert_eq!(backup.status, 200, "{}", backup.text());
            backups.push(backup.body);
        }
        teaching.join().unwrap();
        backups
    });
    assert!(!backups.is_empty());
    for bytes in backups.iter().take(3) {
        let place = TempDir::new().unwrap();
        let learner = Learner::new(bundle(), restored(bytes, &place), LearnerSettings::default()).unwrap();
        assert!(learner.classes().any(|class| class.label == "duck"));
    }
    assert_eq!(labels(&service), ["duck", "mug"]);
}

#[test]
fn a_head_that_is_aligned_later_keeps_no_backup_waiting_and_is_aligned_after_it() {
    let state = TempDir::new().unwrap();
    let settings = LearnerSettings::default().alignment(AlignmentTime::Later);
    let service = Running::serving(
        Service::open(bundle(), Store::new(state.path()), settings).unwrap(),
        ServerOptions::default(),
    );
    service.teach("duck", "rubber-duck");
    for _ in 0..5 {
        let backup = service.ask("GET", "/api/v1/backup", &[], b"");
        assert_eq!(backup.status, 200, "{}", backup.text());
    }
    service.until("/api/v1/status", "the head is aligned", |status| status["improving"] == false);
}

#[test]
fn no_more_backups_lie_on_the_disk_than_are_bounded() {
    let state = TempDir::new().unwrap();
    let service = Service::open(bundle(), Store::new(state.path()), LearnerSettings::default()).unwrap();
    let transfer = service.transfer.clone();
    let service = Running::serving(service, ServerOptions::default());
    service.teach("duck", "rubber-duck");
    let held: Vec<_> = (0..MAX_BACKUPS).map(|_| transfer.backup().unwrap()).collect();
    let refused = service.ask("GET", "/api/v1/backup", &[], b"");
    assert_eq!(refused.status, 429);
    assert!(refused.error().contains("are being sent already"), "{}", refused.error());
    drop(held);
    // Each gives its place back, also one of which the head alone is asked for.
    for method in ["HEAD", "GET", "HEAD", "GET"] {
        let place = || {
            let answer = service.ask(method, "/api/v1/backup", &[], b"");
            (answer.status != 429).then_some(answer.status)
        };
        // That of the last one is free a moment after its last byte has arrived.
        let status = (0..100).find_map(|_| {
            place().or_else(|| {
                thread::sleep(Duration::from_millis(50));
                None
            })
        });
        assert_eq!(status, Some(200), "{method}");
    }
}

#[test]
fn packs_that_nobody_reads_take_room_that_is_counted() {
    let state = TempDir::new().unwrap();
    let settings = LearnerSettings::default().alignment(AlignmentTime::Never);
    let mut learner = Learner::new(bundle(), Store::new(state.path()), settings.clone()).unwrap();
    let (inputs, views) = (learner.base_model().head.inputs, learner.base_model().config.views);
    let number = |(shot, _, index): (usize, usize, usize)| ((31 * shot + 7 * index) % 997) as f32 / 250.0;
    let features = Array3::from_shape_fn((200, views, inputs), number);
    learner.learn("duck", Shots::Features(features.view())).unwrap().durable().unwrap();
    let service = Service::open(bundle(), Store::new(state.path()), settings).unwrap();
    let mut others = service.admission.body();
    let service = Running::serving(service, ServerOptions::default());
    let pack = || service.ask("GET", "/api/v1/classes/duck/pack", &[], b"");
    others.grow_to(others.max_bytes()).unwrap();
    let refused = pack();
    assert_eq!((refused.status, refused.code().as_str()), (429, "too_many_requests"));
    drop(others);
    let taken = pack();
    assert!(taken.status == 200 && taken.body.len() > UNCOUNTED_BYTES, "{}, {} bytes", taken.status, taken.body.len());
}

#[test]
fn a_class_goes_to_another_device_and_is_undone_there() {
    let ((_giver, giver), (_taker, taker)) = (Running::fresh(), Running::fresh());
    giver.teach("duck", "rubber-duck");
    let label = json!({ "label": "duck / \"Ente\"" });
    giver.finished(&giver.json("PATCH", "/api/v1/classes/duck", &label));
    let path = "/api/v1/classes/duck%20%2F%20%22Ente%22/pack";
    let pack = giver.ask("GET", path, &[], b"");
    let names = "filename=\"duck%20%2f%20%22ente%22.orcopack\"; filename*=utf-8''duck%20%2f%20%22ente%22.orcopack\r\n";
    assert!(pack.head.contains(names), "{}", pack.head);
    let job = taker.finished(&taker.ask("POST", "/api/v1/import", OURS, &pack.body));
    assert_eq!((&job["change"], &job["state"]), (&json!("import"), &json!("done")), "{job}");
    assert_eq!(labels(&taker), ["duck / \"Ente\""]);
    assert_eq!(answer(&taker), answer(&giver));
    let known = taker.ask("POST", "/api/v1/import", OURS, &pack.body);
    assert_eq!((known.status, known.code().as_str()), (409, "label_taken"));
    assert_eq!(known.value()["values"], label);
    let renamed = taker.finished(&taker.ask("POST", "/api/v1/import?label=bird", OURS, &pack.body));
    assert_eq!(renamed["state"], "done", "{renamed}");
    assert_eq!(taker.get("/api/v1/history")["entries"].as_array().unwrap().last().unwrap()["change"], "import");
    taker.finished(&taker.json("POST", "/api/v1/undo", &json!({})));
    assert_eq!(labels(&taker), ["duck / \"Ente\""]);
}

#[test]
fn what_is_no_pack_of_this_bundle_is_refused_in_a_sentence() {
    let (_state, service) = Running::fresh();
    service.teach("duck", "rubber-duck");
    let pack = service.ask("GET", "/api/v1/classes/duck/pack", &[], b"").body;
    let refused = |bytes: &[u8]| {
        let answer = service.ask("POST", "/api/v1/import?label=bird", OURS, bytes);
        (answer.status, answer.code(), answer.error())
    };
    let mut damaged = pack.clone();
    damaged[pack.len() / 2] ^= 1;
    for bytes in [&b""[..], b"no pack", &pack[..pack.len() - 1], &damaged] {
        let (status, code, sentence) = refused(bytes);
        assert_eq!((status, code.as_str()), (400, "pack_damaged"));
        assert!(sentence.starts_with("the pack cannot be imported: "), "{sentence}");
    }
    assert_eq!(refused(&vec![0; MAX_PACK + 1]).0, 413);
    let other = TempDir::new().unwrap();
    let small = Bundle::open(workspace().join("models/cifar100-small")).unwrap();
    let small = Service::open(small, Store::new(other.path()), LearnerSettings::default()).unwrap();
    let small = Running::serving(small, ServerOptions::default());
    small.teach("duck", "rubber-duck");
    let of_small = small.ask("GET", "/api/v1/classes/duck/pack", &[], b"").body;
    let (status, code, sentence) = refused(&of_small);
    assert_eq!((status, code.as_str()), (409, "other_bundle"));
    assert!(sentence.contains("another bundle"), "{sentence}");
    for (path, expected) in [("nothing", 404), ("apple", 409)] {
        assert_eq!(service.ask("GET", &format!("/api/v1/classes/{path}/pack"), &[], b"").status, expected, "{path}");
    }
    let typed = service.ask("POST", "/api/v1/import", &[("Content-Type", "image/png")], &pack);
    assert_eq!(typed.status, 415);
    assert_eq!(labels(&service), ["duck"]);
}

#[test]
fn the_same_class_is_not_imported_twice_at_a_time() {
    let ((_giver, giver), (_taker, taker)) = (Running::fresh(), Running::fresh());
    giver.teach("duck", "rubber-duck");
    let pack = giver.ask("GET", "/api/v1/classes/duck/pack", &[], b"").body;
    let [first, second] = [(); 2].map(|()| taker.ask("POST", "/api/v1/import", OURS, &pack));
    assert_eq!(second.status, 409, "{}", second.text());
    assert_eq!(taker.finished(&first)["state"], "done");
    assert_eq!(labels(&taker), ["duck"]);
}

#[test]
fn with_a_public_key_only_packs_signed_with_its_secret_key_are_taken() {
    let (_giver, giver) = Running::fresh();
    giver.teach("duck", "rubber-duck");
    let unsigned = giver.ask("GET", "/api/v1/classes/duck/pack", &[], b"").body;
    let pack = pack::open(&unsigned, None).unwrap();
    let bytes = pack.to_be_signed();
    let [ours, other] = [(); 2].map(|()| SecretKey::generate().unwrap());
    let signed = |key: &SecretKey| pack::seal(&bytes, &key.sign(&bytes, &pack.comment()).unwrap());
    let state = TempDir::new().unwrap();
    let service = Service::open(bundle(), Store::new(state.path()), LearnerSettings::default()).unwrap();
    service.transfer.require_signatures(ours.public);
    let service = Running::serving(service, ServerOptions::default());
    for (pack, why) in [(&unsigned, "it is not signed"), (&signed(&other.secret), "another key")] {
        let refused = service.ask("POST", "/api/v1/import", OURS, pack);
        assert_eq!(refused.status, 403);
        assert!(refused.error().contains(why), "{}", refused.error());
    }
    let job = service.finished(&service.ask("POST", "/api/v1/import", OURS, &signed(&ours.secret)));
    assert_eq!(job["state"], "done", "{job}");
    assert_eq!(labels(&service), ["duck"]);
}
