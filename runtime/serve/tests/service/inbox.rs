//! Pictures that are not recognised wait for a name; answers say why; shots say whether they are enough.

use std::thread;

use crate::support::{Answer, Running, sample};
use orco_runtime::image;
use orco_runtime::image_rs::{ImageFormat, RgbImage};
use serde_json::{Value, json};
use tempfile::TempDir;

fn ids(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|shot| shot["id"].as_str().unwrap().to_owned()).collect()
}

/// A picture of noise, which is like nothing known.
fn noise(seed: u32) -> Vec<u8> {
    let value = |x: u32, y: u32, channel: u32| {
        let mixed = (x / 8 + 64 * (y / 8) + 4096 * channel + 65_537 * seed).wrapping_mul(2_654_435_761);
        (mixed >> 24) as u8
    };
    let picture = RgbImage::from_fn(96, 96, |x, y| [0, 1, 2].map(|channel| value(x, y, channel)).into());
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

#[test]
fn pictures_that_are_not_recognised_wait_and_are_labelled_together() {
    let (_state, service) = Running::fresh();
    let ask = |bytes: &[u8], query: &str| {
        service.ask("POST", &format!("/api/v1/classify{query}"), &[("Content-Type", "image/png")], bytes).ok()
    };
    assert_eq!(ask(&noise(1), "").get("inbox"), None, "nothing is kept that nobody asked to keep");
    let mut kept = Vec::new();
    for (class, number) in ["rubber-duck", "traffic-cone", "toy-brick"]
        .into_iter()
        .flat_map(|class| (1..=8).map(move |number| (class, number)))
    {
        let bytes = sample("try", class, number);
        let answer = service.picture("/api/v1/classify?inbox=true", &bytes).ok();
        assert!(answer["known"].is_boolean());
        kept.extend(answer["inbox"].as_str().map(|id| (id.to_owned(), bytes)));
    }
    kept.dedup_by(|(one, _), (other, _)| one == other);
    assert!(kept.len() >= 4, "{}: no base class is any of these", kept.len());
    let (first, bytes) = kept.swap_remove(0);
    let seen = service.get("/api/v1/inbox").to_string();
    let again = service.picture("/api/v1/classify?inbox=true", &bytes).ok();
    assert_eq!(again["inbox"].as_str(), Some(first.as_str()), "the same picture is counted, not kept twice: {seen}");
    let inbox = service.get("/api/v1/inbox");
    let frames: Vec<Value> = inbox["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["frames"].as_array().unwrap().clone())
        .collect();
    assert_eq!(service.get("/api/v1/status")["inbox"], frames.len());
    assert!(frames.iter().all(|frame| frame["typical"].is_boolean()), "{inbox}");
    assert!(frames.iter().any(|frame| frame["id"] == first.as_str() && frame["seen"].as_u64() >= Some(2)), "{inbox}");
    let picture = service.ask("GET", &format!("/api/v1/inbox/{first}"), &[], b"");
    assert!(picture.head.contains("image/jpeg") && image::decode(&picture.body).unwrap().width() <= 640);

    let chosen: Vec<&str> = frames.iter().take(4).map(|frame| frame["id"].as_str().unwrap()).collect();
    // Pressed twice at once, each is one shot.
    let label = || service.json("POST", "/api/v1/inbox/label", &json!({ "ids": chosen, "label": "duck" }));
    let both = thread::scope(|scope| [scope.spawn(label), scope.spawn(label)].map(|asked| asked.join().unwrap()));
    let taken = |answer: &Answer| if answer.status == 200 { answer.ok()["taken"].as_u64().unwrap() } else { 0 };
    assert_eq!(both.iter().map(taken).sum::<u64>(), 4);
    assert_eq!(service.get("/api/v1/shots/duck")["shots"].as_array().unwrap().len(), 4);
    let gone = label();
    assert_eq!((gone.status, gone.error()), (404, format!("the inbox has no frame {}", chosen[0])));
    let job = service.finished(&service.json("POST", "/api/v1/learn", &json!({ "label": "duck" })));
    assert_eq!(job["state"], "done", "{job}");
    let (kept, all) = (ask(&noise(2), "?inbox=true"), service.get("/api/v1/inbox"));
    if let Some(id) = kept["inbox"].as_str() {
        assert!(all.to_string().contains(&format!("\"id\":\"{id}\",")), "{all}");
        assert_eq!(service.json("POST", "/api/v1/inbox/dismiss", &json!({ "ids": [id] })).status, 204);
        assert_eq!(service.ask("GET", &format!("/api/v1/inbox/{id}"), &[], b"").status, 404);
    }
    assert_eq!(service.ask("DELETE", "/api/v1/inbox", &[], b"").status, 204);
    assert_eq!(service.get("/api/v1/inbox")["groups"], json!([]));
}

#[test]
fn what_is_recognised_after_a_change_leaves_the_inbox() {
    let (_state, service) = Running::fresh();
    let mut kept: Vec<(String, Vec<u8>)> = Vec::new();
    for class in ["rubber-duck", "traffic-cone"] {
        for number in 1..=8 {
            let bytes = sample("try", class, number);
            let id = service.picture("/api/v1/classify?inbox=true", &bytes).ok()["inbox"].as_str().map(str::to_owned);
            kept.extend(id.filter(|id| kept.iter().all(|(other, _)| other != id)).map(|id| (id, bytes)));
        }
    }
    service.teach("duck", "rubber-duck");
    let mut left = 0;
    for (id, bytes) in &kept {
        let answer = service.picture("/api/v1/classify", bytes).ok();
        let is_sure = answer["known"] == true && answer["matches"][0]["probability"].as_f64() >= Some(0.5);
        let frame = service.ask("GET", &format!("/api/v1/inbox/{id}"), &[], b"");
        assert_eq!(frame.status, if is_sure { 404 } else { 200 }, "{id}: {answer}");
        left += usize::from(is_sure);
    }
    assert!(left > 0 && left < kept.len(), "{left} of {} left", kept.len());
    let shown = service.get("/api/v1/inbox")["groups"].to_string();
    assert!(shown.contains("\"label\":\"duck\"") || !shown.contains("duck"), "{shown}");
    assert_eq!(service.get("/api/v1/status")["inbox"], kept.len() - left);
}

/// A service that knows a duck and a cone.
fn duck_and_cone() -> (TempDir, Running) {
    let (state, service) = Running::fresh();
    service.teach("duck", "rubber-duck");
    service.teach("cone", "traffic-cone");
    (state, service)
}

/// The class with this label, as `GET classes` lists it.
fn class(service: &Running, label: &str) -> Value {
    let classes = service.get("/api/v1/classes")["classes"].as_array().unwrap().clone();
    classes.into_iter().find(|class| class["label"] == label).unwrap()
}

#[test]
fn answers_name_the_shots_that_the_picture_is_like() {
    let (_state, service) = duck_and_cone();
    let answer = service.picture("/api/v1/classify?why=true", &sample("learn", "rubber-duck", 2)).ok();
    let best = &answer["why"][0];
    assert_eq!((best["label"].as_str(), answer["why"].as_array().unwrap().len()), (Some("duck"), 6));
    assert!(best["similarity"].as_f64().unwrap() > 0.99, "the very picture that was learned: {answer}");
    let ducks = ids(&class(&service, "duck")["stored"]);
    assert_eq!(best["shot"], ducks[1].as_str(), "the shot that it is like");
    // Whatever else is alike, the class that is named comes first.
    for (class, number) in
        ["mug", "cactus", "dumbbell", "toy-brick"].into_iter().flat_map(|class| [1, 2, 3].map(|n| (class, n)))
    {
        let answer = service.picture("/api/v1/classify?why=true", &sample("try", class, number)).ok();
        assert_eq!(answer["why"][0]["label"], answer["matches"][0]["label"], "{class} {number}: {answer}");
        assert_eq!(answer["why"].as_array().unwrap().len(), 6);
    }
    let thumbnail = service.ask("GET", best["thumbnail"].as_str().unwrap(), &[], b"");
    let shown = image::decode(&thumbnail.body).unwrap();
    let learned = image::decode(&sample("learn", "rubber-duck", 2)).unwrap();
    assert!(thumbnail.head.contains("image/jpeg") && shown.width() <= 160);
    let mean = |picture: &RgbImage| -> Vec<f64> {
        let sum = |channel: usize| picture.pixels().map(|pixel| f64::from(pixel.0[channel])).sum::<f64>();
        (0..3).map(|channel| sum(channel) / picture.pixels().len() as f64).collect()
    };
    let apart = mean(&shown).iter().zip(mean(&learned)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 6.0, "the thumbnail shows another shot: {apart}");
    let of_none = format!("/api/v1/classes/duck/shots/{}.jpg", "0".repeat(64));
    assert_eq!(service.ask("GET", &of_none, &[], b"").status, 404);
    assert_eq!(service.ask("GET", "/api/v1/classes/duck/shots/secret", &[], b"").status, 400);
}

#[test]
fn shots_move_between_classes_and_leave_with_their_pictures() {
    let (state, service) = duck_and_cone();
    let by_number = service.json("PATCH", "/api/v1/classes/duck/shots/1", &json!({ "label": "cone" }));
    let said = by_number.error();
    assert!(by_number.status == 400 && said.contains("send the \"id\" that GET /api/v1/classes gives"), "{said}");

    let class = |label: &str| class(&service, label);
    let pictured = |label: &str| {
        let stored = class(label)["stored"].as_array().unwrap().clone();
        stored.iter().filter(|shot| shot["thumbnail"] == true).count()
    };
    let ducks = ids(&class("duck")["stored"]);
    let to_cone =
        |id: &str| service.json("PATCH", &format!("/api/v1/classes/duck/shots/{id}"), &json!({ "label": "cone" }));
    let moved = to_cone(&ducks[0]);
    let job = service.finished(&moved);
    assert_eq!((&job["state"], &job["change"]), (&json!("done"), &json!("move")), "{job}");
    assert_eq!((&class("duck")["shots"], &class("cone")["shots"]), (&json!(4), &json!(6)));
    assert_eq!((pictured("duck"), pictured("cone")), (4, 6));
    let refused = to_cone(&ducks[0]);
    assert_eq!(refused.status, 404, "{}", refused.text());
    assert!(refused.error().contains("not one of \"duck\" any more"), "{}", refused.error());
    let undone = service.finished(&service.json("POST", "/api/v1/undo", &json!({})));
    assert_eq!(undone["state"], "done", "{undone}");
    assert_eq!((&class("duck")["shots"], pictured("duck")), (&json!(5), 5));

    // A shot that belongs to no class goes, with its picture, and comes back with it.
    let place = format!("/api/v1/classes/duck/shots/{}", ducks[2]);
    let removed = service.finished(&service.ask("DELETE", &place, &[], b""));
    assert_eq!((&removed["state"], &removed["change"]), (&json!("done"), &json!("remove")), "{removed}");
    assert_eq!((&class("duck")["shots"], pictured("duck")), (&json!(4), 4));
    assert_eq!(service.ask("DELETE", &place, &[], b"").status, 404);
    service.finished(&service.json("POST", "/api/v1/undo", &json!({})));
    assert_eq!((&class("duck")["shots"], pictured("duck")), (&json!(5), 5));

    // Two pages show the same shots. One undoes the last change, and the other moves what it shows: the move is
    // queued before the first is made, and moves nothing else.
    service.finished(&to_cone(&ducks[3]));
    let undo = service.json("POST", "/api/v1/undo", &json!({}));
    let late = service.json("PATCH", &format!("/api/v1/classes/cone/shots/{}", ducks[3]), &json!({ "label": "bear" }));
    service.finished(&undo);
    if late.status == 202 {
        let late = service.finished(&late);
        assert_eq!((&late["state"], &late["changed"]), (&json!("failed"), &json!(false)), "{late}");
        assert!(late["error"].as_str().unwrap().contains("the shot is not one of \"cone\" any more"), "{late}");
    }
    assert_eq!((&class("cone")["shots"], &class("duck")["shots"]), (&json!(5), &json!(5)));

    // A class that is forgotten keeps its pictures as long as the history can bring it back.
    let pictures = || std::fs::read_dir(state.path().join("thumbnails")).unwrap().count();
    service.finished(&service.ask("DELETE", "/api/v1/classes/cone", &[], b""));
    assert_eq!(pictures(), 10);
}

#[test]
fn shots_are_left_out_in_turn_and_more_of_them_promise_no_less() {
    let (_state, service) = Running::fresh();
    assert_eq!(service.ask("GET", "/api/v1/shots/duck/sufficiency", &[], b"").status, 404);
    let mut before = None;
    for number in 1..=5 {
        service.picture("/api/v1/shots/duck", &sample("learn", "rubber-duck", number)).ok();
        let enough = service.get("/api/v1/shots/duck/sufficiency");
        assert_eq!(enough["shots"], number);
        let expected = |key: &str| enough["expected"][key].as_f64().unwrap();
        assert!(expected("now") <= expected("two_more"), "{enough}");
        if number > 1 {
            let left_out = enough["left_out"].as_array().unwrap();
            let recognised = left_out.iter().filter(|shot| shot["taken_for"].is_null()).count();
            assert_eq!((left_out.len(), json!(recognised)), (number, enough["recognised"].clone()));
        }
        before = Some(enough);
    }
    let before = before.unwrap();
    assert!(before["recognised"].as_u64().unwrap() >= 3, "{before}");
    // A shot of something else is not recognised by the others.
    service.picture("/api/v1/shots/duck?anyway=true", &sample("learn", "traffic-cone", 1)).ok();
    let mixed = service.get("/api/v1/shots/duck/sufficiency");
    assert!(mixed["left_out"][5]["taken_for"].is_string(), "{mixed}");
    // One shot alone is compared with what is known, where its class is.
    service.ask("DELETE", "/api/v1/shots/duck", &[], b"");
    service.teach("cone", "traffic-cone");
    service.teach("brick", "toy-brick");
    for (class, number, taken_for) in [("toy-brick", 2, json!("brick")), ("traffic-cone", 3, Value::Null)] {
        service.picture("/api/v1/shots/cone?anyway=true", &sample("learn", class, number)).ok();
        let alone = service.get("/api/v1/shots/cone/sufficiency");
        assert_eq!((&alone["shots"], &alone["left_out"][0]["taken_for"]), (&json!(1), &taken_for), "{alone}");
        service.ask("DELETE", "/api/v1/shots/cone", &[], b"");
    }
    assert!(mixed["expected"]["now"].as_f64() < before["expected"]["now"].as_f64(), "{mixed}");
}
