//! A device is taught over HTTP, forgets nothing when it is started anew, and says what is wrong with bad shots.

use std::io::{BufRead, Cursor};
use std::time::{Duration, Instant};

use crate::support::{Running, sample, workspace};
use orco_runtime::bundle::Bundle;
use orco_runtime::image_rs::imageops;
use orco_runtime::image_rs::{ImageFormat, RgbImage};
use orco_runtime::learner::{AlignmentTime, Learner, LearnerSettings, Shots};
use orco_runtime::method::config::MethodConfig;
use orco_runtime::store::Store;
use orco_runtime::{image, ndarray};
use orco_serve::{ServerOptions, Service};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How many of the pictures to try are recognised.
fn recognised(service: &Running, label: &str, class: &str) -> usize {
    (1..=8).filter(|number| service.label(&sample("try", class, *number)) == label).count()
}

fn jpeg(picture: &RgbImage) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Jpeg).unwrap();
    bytes.into_inner()
}

fn kinds(taken: &Value) -> Vec<&str> {
    taken["warnings"].as_array().unwrap().iter().map(|warning| warning["kind"].as_str().unwrap()).collect()
}

/// Two pages show the same last change, and both take it back: the second one is refused.
fn undo_from_two_pages(service: &Running) {
    let entries = service.get("/api/v1/history")["entries"].as_array().unwrap().clone();
    let last = json!({ "last": entries[3]["id"] });
    let [undone, late] = [(); 2].map(|()| service.json("POST", "/api/v1/undo", &last));
    let [undone, late] = [service.finished(&undone), service.finished(&late)];
    assert_eq!(undone["state"], "done", "{undone}");
    assert_eq!(late["error"], "the last change is entry 4, not entry 3; nothing was changed");
    assert_eq!((&late["code"], &late["values"]), (&json!("history_changed"), &json!({ "entry": 3, "last": 4 })));
    assert_eq!(
        service.json("POST", "/api/v1/undo", &json!({ "entry": entries[1]["id"], "last": entries[3]["id"] })).status,
        400
    );
    for old in [json!({ "last": 4 }), json!({ "entry": 1 }), json!({ "entry": "1" })] {
        let refused = service.json("POST", "/api/v1/undo", &old);
        assert_eq!(refused.status, 400, "{old}");
        assert!(refused.error().contains("send the \"id\" that GET /api/v1/history gives"), "{}", refused.error());
        assert!(refused.error().contains(" is no id of an entry at line 1 column "), "{}", refused.error());
    }
}

/// Undoing again goes further back, and redoing comes all the way forth.
fn undo_and_redo_all(service: &Running) {
    let steps = |verb: &str, count: usize| {
        for _ in 0..count {
            let job = service.finished(&service.json("POST", &format!("/api/v1/{verb}"), &json!({})));
            assert_eq!((&job["state"], &job["change"]), (&json!("done"), &json!(verb)), "{job}");
        }
        let status = service.get("/api/v1/status");
        (status["changes"].as_u64().unwrap(), status["undone"].as_u64().unwrap())
    };
    assert_eq!(steps("undo", 2), (0, 3));
    assert_eq!(service.get("/api/v1/status")["classes"], 60);
    assert_eq!(service.json("POST", "/api/v1/undo", &json!({})).error(), "there is nothing to undo");
    assert_eq!(steps("redo", 3), (3, 0));
    assert_eq!(service.json("POST", "/api/v1/redo", &json!({})).error(), "nothing was undone since the last change");
    assert_eq!(service.label(&sample("try", "traffic-cone", 1)), "Kegel rot");
    assert_eq!(steps("undo", 1), (2, 1));
    let history = service.get("/api/v1/history");
    assert_eq!((&history["present"], &history["later"]), (&json!(2), &json!([3])));
}

/// What every balance would recognise, and what is expected of the one in use.
fn check_estimates(service: &Running) {
    let estimates = service.get("/api/v1/balance");
    let choices = estimates["choices"].as_array().unwrap();
    let of = |key: &'static str| choices.iter().map(move |choice| choice[key].as_u64().unwrap());
    assert_eq!((&estimates["balance"], choices.len()), (&json!("balanced"), 3), "{estimates}");
    assert!(of("shots").all(|shots| shots == 10) && of("recognised").is_sorted(), "{estimates}");
    assert!(of("base_samples").all(|samples| samples > 0) && of("taken_for_learned").is_sorted(), "{estimates}");
    let expected = |scope: &str| estimates[scope]["learned"].as_f64().unwrap();
    assert!(expected("expected_learned_only") >= expected("expected"), "{estimates}");
}

#[test]
fn two_classes_are_taught_recognised_undone_and_still_there_after_a_restart() {
    let (state, service) = Running::fresh();
    let status = service.get("/api/v1/status");
    assert_eq!((&status["bundle"], &status["free_targets"]), (&json!("cifar100-edge"), &json!(40)));
    assert_eq!(service.teach("duck", "rubber-duck")["report"]["new"][0]["label"], "duck");
    let job = service.teach("cone", "traffic-cone");
    assert_eq!(job["report"]["free_targets"], 38);
    for (label, class) in [("duck", "rubber-duck"), ("cone", "traffic-cone")] {
        assert!(recognised(&service, label, class) >= 6, "{label}");
        assert_eq!(service.get(&format!("/api/v1/shots/{label}"))["shots"], json!([]), "learned shots are removed");
    }
    let renamed = service.finished(&service.json("PATCH", "/api/v1/classes/cone", &json!({ "label": "Kegel rot" })));
    assert_eq!((&renamed["state"], &renamed["to_label"]), (&json!("done"), &json!("Kegel rot")), "{renamed}");
    undo_from_two_pages(&service);
    assert_eq!(service.label(&sample("try", "traffic-cone", 1)), "cone");
    undo_and_redo_all(&service);
    drop(service);

    let service = Running::start(state.path());
    assert!(recognised(&service, "duck", "rubber-duck") >= 6);
    let learned = |service: &Running| -> Vec<Value> {
        let classes = service.get("/api/v1/classes")["classes"].as_array().unwrap().clone();
        classes.into_iter().filter(|class| class["learned"] == true).collect()
    };
    let duck = &learned(&service)[0];
    assert_eq!((&duck["label"], &duck["session"], &duck["shots"]), (&json!("duck"), &json!(1), &json!(5)));
    let stored = duck["stored"].as_array().unwrap();
    assert!(stored.iter().all(|shot| shot["thumbnail"] == true && shot["id"].as_str().unwrap().len() == 64));
    assert!(stored.iter().map(|shot| shot["number"].as_u64().unwrap()).eq(1..=5));
    check_estimates(&service);
    let balanced = service.finished(&service.json("POST", "/api/v1/balance", &json!({ "balance": "favour-new" })));
    assert_eq!(balanced["state"], "done", "{balanced}");
    assert_eq!(service.get("/api/v1/status")["balance"], "favour-new");
    let forgotten = service.finished(&service.ask("DELETE", "/api/v1/classes/duck", &[], b""));
    assert_eq!(forgotten["state"], "done", "{forgotten}");
    assert_eq!(recognised(&service, "duck", "rubber-duck"), 0);
    let entries = service.get("/api/v1/history")["entries"].as_array().unwrap().clone();
    let verbs: Vec<&str> = entries.iter().map(|entry| entry["change"].as_str().unwrap()).collect();
    let undone = ["undo"; 7];
    assert_eq!(verbs, [&["start", "learn", "learn", "rename"][..], &undone, &["balance", "forget"]].concat());
    let back = service.finished(&service.json("POST", "/api/v1/undo", &json!({ "entry": entries[2]["id"] })));
    assert_eq!(back["state"], "done", "{back}");
    assert_eq!(learned(&service).len(), 2);
}

#[test]
fn a_change_answers_at_once_and_its_head_is_aligned_in_the_background() {
    let state = TempDir::new().unwrap();
    let mut bundle = Bundle::open(workspace().join("models/cifar100-edge")).unwrap();
    bundle.base_model.config = MethodConfig::combined();
    let settings = LearnerSettings::default().alignment(AlignmentTime::Later);
    let open = || Service::open(bundle.clone(), Store::new(state.path()), settings.clone()).unwrap();
    let service = Running::serving(open(), ServerOptions::default());
    assert_eq!(service.get("/api/v1/status")["improving"], false, "nothing was learned yet");
    service.teach("cone", "traffic-cone");
    assert!(recognised(&service, "cone", "traffic-cone") >= 6, "whether the head is aligned by now or not");
    service.teach("duck", "rubber-duck");
    // Two changes, each of which is aligned as soon as nothing waits; the first one may have been passed over.
    let saved = || Learner::new(bundle.clone(), Store::new(state.path()), settings.clone()).unwrap();
    let started = Instant::now();
    while service.get("/api/v1/status")["improving"] == true {
        assert!(started.elapsed() < Duration::from_secs(120), "the head is not aligned");
        std::thread::sleep(Duration::from_millis(50));
    }
    let aligned = saved();
    assert!(aligned.state().head.is_some() && !aligned.awaits_alignment());
    assert_eq!(service.get("/api/v1/history")["entries"].as_array().unwrap().len(), 3, "no entry of its own");
    assert!(recognised(&service, "duck", "rubber-duck") >= 6);
    // The same as on a device that aligns before it says that it is done.
    let now = TempDir::new().unwrap();
    let mut learner = Learner::new(bundle.clone(), Store::new(now.path()), LearnerSettings::default()).unwrap();
    for (label, class) in [("cone", "traffic-cone"), ("duck", "rubber-duck")] {
        let shots = Shots::folder(workspace().join("examples/shots/learn").join(class)).unwrap();
        learner.learn(label, shots).unwrap().durable().unwrap();
    }
    assert_eq!(learner.state(), aligned.state());
    // A service that was stopped before it came to that makes up for it.
    drop(service);
    let mut later = saved();
    later
        .learn("mug", Shots::folder(workspace().join("examples/shots/learn/mug")).unwrap())
        .unwrap()
        .durable()
        .unwrap();
    assert!(later.awaits_alignment());
    let service = Running::serving(open(), ServerOptions::default());
    while service.get("/api/v1/status")["improving"] == true {
        assert!(started.elapsed() < Duration::from_secs(240), "the head is not aligned");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(saved().state().head.is_some());
}

#[test]
fn shots_get_another_label_before_they_are_learned() {
    let (_state, service) = Running::fresh();
    for number in 1..=2 {
        service.picture("/api/v1/shots/mgu", &sample("learn", "mug", number)).ok();
    }
    service.picture("/api/v1/shots/mug", &sample("learn", "mug", 3)).ok();
    let relabel =
        |from: &str, to: &str| service.json("PATCH", &format!("/api/v1/shots/{from}"), &json!({ "label": to }));
    assert_eq!(relabel("mgu", "mug").status, 204);
    assert_eq!(service.get("/api/v1/shots")["labels"], json!([{ "label": "mug", "shots": 3 }]));
    assert_eq!(relabel("mgu", "mug").status, 404, "there are none any more");
    assert_eq!(relabel("mug", "a=b").status, 400);
    let job = service.finished(&service.json("POST", "/api/v1/learn", &json!({ "label": "mug" })));
    assert_eq!(job["report"]["new"][0]["label"], "mug", "{job}");
}

#[test]
fn bad_shots_are_refused_and_taken_anyway_where_asked() {
    let (_state, service) = Running::fresh();
    let good = sample("learn", "mug", 1);
    let picture = image::decode(&good).unwrap();
    let taken = service.picture("/api/v1/shots/mug", &good).ok();
    assert_eq!((&taken["accepted"], &taken["shots"]), (&json!(true), &json!(1)));
    let mut dark = image::decode(&sample("learn", "mug", 2)).unwrap();
    dark.pixels_mut().for_each(|pixel| pixel.0 = pixel.0.map(|value| value / 12));
    let mut bright = dark.clone();
    bright.pixels_mut().for_each(|pixel| pixel.0 = [255; 3]);
    let blurred = imageops::blur(&image::decode(&sample("learn", "mug", 3)).unwrap(), 3.0);
    for (bad, kind) in [(&dark, "too-dark"), (&bright, "too-bright"), (&blurred, "blurred"), (&picture, "repeated")] {
        let taken = service.picture("/api/v1/shots/mug", &jpeg(bad)).ok();
        assert_eq!((&taken["accepted"], &taken["id"]), (&json!(false), &Value::Null), "{kind}: {taken}");
        assert!(kinds(&taken).contains(&kind), "{kind}: {taken}");
    }
    let elsewhere = service.picture("/api/v1/shots/cup", &good).ok();
    assert_eq!((&elsewhere["accepted"], &elsewhere["warnings"][0]["label"]), (&json!(false), &json!("mug")));
    let anyway = service.picture("/api/v1/shots/mug?anyway=true", &jpeg(&dark)).ok();
    assert_eq!((&anyway["accepted"], kinds(&anyway)[0]), (&json!(true), "too-dark"));
    let shots = service.get("/api/v1/shots/mug")["shots"].as_array().unwrap().clone();
    assert_eq!(shots.len(), 2);
    let place = format!("/api/v1/shots/mug/{}", shots[1]["id"].as_str().unwrap());
    let thumbnail = service.ask("GET", &place, &[], b"");
    assert!(thumbnail.head.contains("image/jpeg"));
    assert!(image::decode(&thumbnail.body).unwrap().width() <= 160);
    assert_eq!(service.ask("DELETE", &place, &[], b"").status, 204);
    assert_eq!(service.ask("DELETE", &place, &[], b"").status, 404);
    assert_eq!(service.picture("/api/v1/shots/mug", b"\xff\xd8\xff no picture").status, 400);
    // So large that it is reduced while it is decoded.
    let mut large = Cursor::new(Vec::new());
    RgbImage::new(5000, 4000).write_to(&mut large, ImageFormat::Png).unwrap();
    let large = service.ask("POST", "/api/v1/classify", &[("Content-Type", "image/png")], large.get_ref()).ok();
    assert_eq!((&large["width"], &large["height"]), (&json!(5000), &json!(4000)));
    let none = service.json("POST", "/api/v1/learn", &json!({ "label": "nobody" }));
    let said = "there are no shots of \"nobody\": take some first";
    let refusal = json!({ "error": said, "code": "nothing_to_learn", "values": { "label": "nobody" } });
    assert_eq!((none.status, none.value()), (409, refusal));
    assert_eq!(service.picture("/api/v1/shots/a%3Db", &good).status, 400);
}

#[test]
fn a_class_answers_while_it_is_learned_and_shots_that_look_like_it_are_named() {
    let (_state, service) = Running::fresh();
    let mut lines = service.stream("/api/v1/events").lines();
    assert!(lines.next().unwrap().unwrap().contains("200"));
    // Some of the body comes at once: Firefox hands a page no answer before.
    let asked = Instant::now();
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line.starts_with(':')));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    for number in 1..=5 {
        service.picture("/api/v1/shots/duck", &sample("learn", "rubber-duck", number)).ok();
    }
    let queued = service.json("POST", "/api/v1/learn", &json!({ "label": "duck" }));
    assert_eq!(queued.status, 202);
    let again = service.json("POST", "/api/v1/learn", &json!({ "label": "duck" }));
    let (mut provisional, mut answered) = (false, 0);
    let picture = sample("learn", "rubber-duck", 1);
    while service.get("/api/v1/jobs")["jobs"] != json!([]) {
        let answer = service.picture("/api/v1/classify?top=100", &picture).ok();
        let matches = answer["matches"].as_array().unwrap();
        provisional |= matches.iter().any(|found| found["label"] == "duck" && found["provisional"] == true);
        answered += 1;
    }
    // A change that ends before the first answer leaves nothing to be seen.
    assert!(provisional || answered <= 1, "{answered} answers");
    // It is being learned, or its shots were learned and removed.
    assert_eq!(again.status, 409, "{}", again.text());
    assert_eq!(service.finished(&queued)["state"], "done");
    let done =
        lines.map(Result::unwrap).filter(|line| line.starts_with("data: ")).find(|line| line.contains("\"done\""));
    assert!(done.unwrap().contains("\"report\""));
    let taken = service.picture("/api/v1/shots/goose", &sample("try", "rubber-duck", 1)).ok();
    assert_eq!((&taken["accepted"], &taken["warnings"][0]["label"]), (&json!(true), &json!("duck")), "{taken}");
    let metrics = service.ask("GET", "/metrics", &[], b"").text();
    for line in ["orco_classes 61", "orco_free_targets 39", "orco_shots_waiting 1", "orco_changes_queued 0"] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    assert!(metrics.contains("orco_changes_total{change=\"learn\",outcome=\"done\"} 1"), "{metrics}");
}

#[test]
fn the_open_inference_protocol_takes_base64_binary_and_features() {
    let (_state, service) = Running::fresh();
    assert_eq!(service.ask("GET", "/v2/health/live", &[], b"").status, 200);
    assert_eq!(service.ask("GET", "/v2/health/ready", &[], b"").status, 200);
    let model = service.get("/v2/models/cifar100-edge");
    assert_eq!((&model["name"], &model["inputs"][0]["name"]), (&json!("cifar100-edge"), &json!("image")));
    assert_eq!(service.ask("GET", "/v2/models/other", &[], b"").status, 404);
    let infer = "/v2/models/cifar100-edge/infer";
    let picture = sample("try", "cactus", 1);
    use base64::Engine;
    let data = base64::engine::general_purpose::STANDARD.encode(&picture);
    let input = json!({ "name": "image", "datatype": "BYTES", "shape": [1], "data": [data] });
    let by_base64 = service.json("POST", infer, &json!({ "id": "7", "inputs": [input] })).ok();
    assert_eq!((&by_base64["id"], &by_base64["outputs"][2]["shape"]), (&json!("7"), &json!([1, 60])));
    assert_eq!(by_base64["outputs"][0]["data"][0], service.label(&picture));
    let no_picture = base64::engine::general_purpose::STANDARD.encode("text");
    for (files, begins) in [
        (vec![&data, &no_picture], "picture 2 of 2: the picture is neither"),
        (vec![&no_picture], "the picture is neither"),
    ] {
        let input = json!({ "name": "image", "datatype": "BYTES", "shape": [files.len()], "data": files });
        let refused = service.json("POST", infer, &json!({ "inputs": [input] }));
        assert!(refused.status == 400 && refused.error().starts_with(begins), "{}", refused.text());
    }
    // The probabilities stand in the order of the classes.
    let probabilities: Vec<f64> =
        by_base64["outputs"][2]["data"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    let best = (0..60).max_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b])).unwrap();
    assert_eq!(service.get("/api/v1/classes")["classes"][best]["label"], by_base64["outputs"][0]["data"][0]);
    let is_known = json!({ "name": "known", "datatype": "BOOL", "shape": [1], "data": [
        service.picture("/api/v1/classify", &picture).ok()["known"],
    ] });
    assert_eq!(by_base64["outputs"][3], is_known);
    let described: Vec<&Value> = model["outputs"].as_array().unwrap().iter().map(|output| &output["name"]).collect();
    let answered = by_base64["outputs"].as_array().unwrap().iter().map(|output| &output["name"]);
    assert_eq!(described, answered.collect::<Vec<_>>());
    let sum: f64 =
        by_base64["outputs"][2]["data"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-3, "{sum}");

    let size = picture.len() + 4;
    let head = json!({ "inputs": [{
        "name": "image", "datatype": "BYTES", "shape": [1], "parameters": { "binary_data_size": size },
    }] });
    let head = head.to_string();
    let body = [head.as_bytes(), &(picture.len() as u32).to_le_bytes(), &picture].concat();
    let length = head.len().to_string();
    let headers = [("Content-Type", "application/octet-stream"), ("Inference-Header-Content-Length", length.as_str())];
    assert_eq!(service.ask("POST", infer, &headers, &body).ok()["outputs"], by_base64["outputs"]);
    assert_eq!(service.ask("POST", infer, &headers, &body[..body.len() - 1]).status, 400);

    let features = model["inputs"][1]["shape"][1].as_u64().unwrap() as usize;
    let rows = ndarray::Array2::from_shape_fn((2, features), |(row, column)| ((row + column) % 7) as f32);
    let data: Vec<f32> = rows.iter().copied().collect();
    let input = |width: usize| json!({ "name": "features", "datatype": "FP32", "shape": [2, width], "data": data });
    let answer = service.json("POST", infer, &json!({ "inputs": [input(features)] })).ok();
    assert_eq!((&answer["outputs"][0]["shape"], &answer["outputs"][3]["shape"]), (&json!([2]), &json!([2])));
    for wrong in [json!({}), json!({ "inputs": [] }), json!({ "inputs": [input(features + 1)] })] {
        assert_eq!(service.json("POST", infer, &wrong).status, 400, "{wrong}");
    }
}

#[test]
fn a_picture_of_many_megabytes_is_taken_as_a_small_one_is() {
    let (_state, service) = Running::fresh();
    let small = sample("try", "mug", 1);
    // A JPEG file with comments of 65,533 bytes after its first marker.
    let mut large = small[..2].to_vec();
    while large.len() < 20 << 20 {
        large.extend([0xff, 0xfe, 0xff, 0xff]);
        large.resize(large.len() + 0xfffd, b' ');
    }
    large.extend(&small[2..]);
    let ask = |path: &str, picture: &[u8]| {
        let answer = service.ask("POST", path, &[("Content-Type", "image/jpeg")], picture);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.value()
    };
    assert_eq!(ask("/api/v1/classify", &large), ask("/api/v1/classify", &small));
    assert_eq!(ask("/api/v1/shots/cup", &large)["accepted"], true);
}
