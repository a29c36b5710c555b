//! What a hub answers to strangers, and what a device does with answers that are not the hub's.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use orco_hub::client::{HttpTransport, SyncError, SyncOutcome, SyncStep, Transport, WireAnswer, WireRequest};
use orco_hub::merge::SameLabel;
use orco_hub::protocol::{EnrolmentCode, ObjectDigest, PACKS_PATH, SIGNATURE_HEADER, SigningKey};
use orco_hub::rollout::DEFAULT_CHANNEL;
use orco_hub::server::{HubOptions, HubServer};
use orco_hub::store::HubStore;
use orco_runtime::files;
use orco_serve::Tls;
use orco_trials::until;

use crate::support::{Changing, DeviceFiles, Fleet, KillableHub, code, refusal, release, release_mug};

#[test]
fn strangers_learn_nothing() {
    let fleet = Fleet::new();
    let device = fleet.device("door 3");
    device.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    let mut network = fleet.network();
    let empty = WireAnswer { status: 404, signature: None, body: Vec::new() };
    let asked = [
        ("GET", "/"),
        ("GET", "/metrics"),
        ("GET", "/admin/v1/fleet"),
        ("POST", "/admin/v1/releases/x/stage"),
        ("POST", "/admin/v1/releases/%FF/withdraw"),
        ("POST", "/v1/report"),
        ("GET", "/v1/objects/x"),
    ];
    for (method, path) in asked {
        let request = WireRequest { method, path: path.into(), headers: Vec::new(), body: Vec::new() };
        assert_eq!(network.exchange(&request).unwrap(), empty, "{path}");
    }
    // A signature by another key, and a body that was changed on the way.
    let forged = SigningKey::generate().unwrap().sign(b"").to_string();
    let forge = |request: &mut WireRequest, _: Option<&mut WireAnswer>| {
        for (name, value) in &mut request.headers {
            if *name == SIGNATURE_HEADER {
                *value = forged.clone();
            }
        }
    };
    let refused = device.device().sync(&mut Changing(fleet.network(), forge), &mut ()).unwrap_err();
    assert!(matches!(refused, SyncError::Unknown), "{refused}");
    let change = |request: &mut WireRequest, _: Option<&mut WireAnswer>| request.body.push(b' ');
    let refused = device.device().sync(&mut Changing(fleet.network(), change), &mut ()).unwrap_err();
    assert!(matches!(refused, SyncError::Unknown), "{refused}");
    device.sync(&mut fleet.network());
}

#[test]
fn administrators_are_told_whose_fault_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let hub = KillableHub::for_administrators(folder.path().join("hub"));
    let (store, mut network) = (hub.store(), hub.network());
    let device = DeviceFiles::new(folder.path(), "door 3");
    device.enrol(&mut network, &store, DEFAULT_CHANNEL);
    device.teach("mug", 1);
    device.sync(&mut network);
    let pack = store.packs().unwrap()[0].digest;
    let headers = hub.authorization();
    let mut ask = |path: &str, body: String| {
        let path = format!("/admin/v1/{path}");
        let request = WireRequest { method: "POST", path, headers: headers.clone(), body: body.into() };
        network.exchange(&request).unwrap()
    };
    for (hours, expected) in [("0", 422), ("8785", 422), ("99999", 422), ("1", 200), ("8784", 200)] {
        let answer = ask("codes", format!(r#"{{"hours":{hours}}}"#));
        assert_eq!(answer.status, expected, "{hours}");
        let said = String::from_utf8(answer.body).unwrap();
        assert_eq!(said.contains("must be from 1 to 8784"), expected == 422, "{said}");
    }
    for body in ["", "[]", "null", r#"["stable", 24]"#] {
        let said = String::from_utf8(ask("codes", body.into()).body).unwrap();
        assert!(said.contains("must be a JSON object"), "{body}: {said}");
    }
    for body in ["{}", r#"{"channel":null,"hours":null}"#, "\u{feff}{}"] {
        assert_eq!(ask("codes", body.into()).status, 200, "{body}");
    }
    let mut status = |path: &str, body: String| ask(&format!("releases{path}"), body).status;
    assert_eq!(status("", r#"{"packs":[]}"#.into()), 422, "nothing would be released");
    let packs = |digest: &str| format!(r#"{{"packs":["{digest}","{digest}"]}}"#);
    let wider = || r#"{"percent":25}"#.to_owned();
    let left_out = format!(r#"{{"packs":["{}"],"channel":null,"percent":null,"same_label":null}}"#, "5".repeat(64));
    assert_eq!(status("", left_out), 404, "what may be left out may be null");
    assert_eq!(status("", packs(&"5".repeat(64))), 404);
    assert_eq!(status("", packs(&pack.to_string())), 200, "each counts once");
    assert_eq!(status("/1/stage", wider()), 200);
    assert_eq!(status("/9/stage", wider()), 404);
    assert_eq!(status("/x/stage", wider()), 404);
    assert_eq!(status("/1/withdraw", String::new()), 200);
    assert_eq!(status("/1/stage", wider()), 422, "it was taken back");
    std::fs::remove_file(store.objects().path(&pack)).unwrap();
    let lost = ask("releases", packs(&pack.to_string()));
    let said = String::from_utf8(lost.body).unwrap();
    assert!(lost.status == 500 && said.contains("pushes it again in its next round"), "{said}");
}

/// Browsers send the administrators' password wherever another site's page embeds the hub's.
#[test]
fn other_sites_may_not_embed_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let hub = KillableHub::for_administrators(folder.path().join("hub"));
    let (headers, port) = (hub.authorization(), hub.port.load(Ordering::SeqCst));
    let (name, value) = &headers[0];
    let mut browser = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{name}: {value}\r\n\r\n");
    browser.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    browser.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    for header in
        ["frame-ancestors 'none'", "cross-origin-resource-policy: same-origin", "x-content-type-options: nosniff"]
    {
        assert!(answer.contains(header), "{answer}");
    }
}

/// Status and body of what a hub answers.
fn get(network: &mut HttpTransport, path: &str, headers: Vec<(&'static str, String)>) -> (u16, String) {
    let request = WireRequest { method: "GET", path: path.into(), headers, body: Vec::new() };
    let answer = network.exchange(&request).unwrap();
    (answer.status, String::from_utf8(answer.body).unwrap())
}

/// Without the token a probe learns whether the hub is well, and nothing of the fleet.
#[test]
fn probes_are_told_of_health_and_administrators_of_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let hub = KillableHub::for_administrators(folder.path().join("hub"));
    let (store, mut network) = (hub.store(), hub.network());
    let device = DeviceFiles::new(folder.path(), "door 3");
    device.enrol(&mut network, &store, DEFAULT_CHANNEL);
    device.sync(&mut network);
    let mut get = |path: &str, headers| get(&mut network, path, headers);
    assert_eq!(get("/v2/health/live", Vec::new()), (200, r#"{"live":true,"hub":true}"#.into()));
    assert_eq!(get("/v2/health/ready", Vec::new()), (200, r#"{"live":true,"ready":true}"#.into()));
    let nothing = (404, String::new());
    assert_eq!(get("/metrics", Vec::new()), nothing);
    assert_eq!(get("/v1/objects/x", Vec::new()), nothing);
    assert_eq!(get("/elsewhere", Vec::new()), nothing);
    let (status, metrics) = get("/metrics", hub.authorization());
    let expected = [
        "orco_ready 1",
        r#"orco_hub_devices{health="ok"} 1"#,
        r#"orco_requests_total{route="/v1/enrol",status="200"} 1"#,
        r#"orco_requests_total{route="/v2/health/ready",status="200"} 1"#,
        r#"orco_requests_total{route="/v1/objects/{digest}",status="404"} 1"#,
        r#"orco_requests_total{route="none",status="404"} 1"#,
    ];
    for line in expected {
        assert!(status == 200 && metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
}

#[test]
fn a_hub_that_cannot_read_its_database_is_not_ready_until_it_can_again() {
    let folder = tempfile::tempdir().unwrap();
    let hub = KillableHub::for_administrators(folder.path().join("hub"));
    let mut network = hub.network();
    let mut get = |path: &str, headers| get(&mut network, path, headers);
    let database = rusqlite::Connection::open(hub.folder.join("hub.sqlite")).unwrap();
    database.execute_batch("ALTER TABLE device RENAME TO lost").unwrap();
    assert_eq!(get("/v2/health/ready", Vec::new()), (503, String::new()));
    assert_eq!(get("/v2/health/live", Vec::new()).0, 200);
    let (status, metrics) = get("/metrics", hub.authorization());
    assert!(status == 200 && metrics.lines().any(|line| line == "orco_ready 0"), "{metrics}");
    assert!(!metrics.contains("orco_hub_"), "{metrics}");
    database.execute_batch("ALTER TABLE lost RENAME TO device").unwrap();
    // A check holds for a few seconds.
    until("the hub is ready again", || get("/v2/health/ready", Vec::new()).0 == 200);
}

#[test]
fn an_answer_that_the_hub_did_not_sign_counts_for_nothing() {
    let fleet = Fleet::new();
    let device = fleet.device("door 3");
    device.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    let change = |_: &mut WireRequest, answer: Option<&mut WireAnswer>| {
        if let Some(answer) = answer {
            answer.body = br#"{"bundle":null,"packs":[],"more":1}"#.to_vec();
        }
    };
    let refused = device.device().sync(&mut Changing(fleet.network(), change), &mut ()).unwrap_err();
    assert!(matches!(refused, SyncError::Unreachable { .. }), "{refused}");
    // An answer of before, to another request.
    let mut first = None;
    let replay = |_: &mut WireRequest, answer: Option<&mut WireAnswer>| {
        if let Some(answer) = answer {
            *answer = first.get_or_insert_with(|| answer.clone()).clone();
        }
    };
    let mut network = Changing(fleet.network(), replay);
    device.device().sync(&mut network, &mut ()).unwrap();
    let refused = device.device().sync(&mut network, &mut ()).unwrap_err();
    assert!(matches!(refused, SyncError::Unreachable { .. }), "{refused}");
    // The page of a network that wants a login, a hub whose disk is full, a proxy that takes shorter bodies, and one
    // that speaks TLS alone.
    let failures = [
        (200, "the network may want somebody to log in, or the hub's address begins with https://"),
        (302, "the network may want somebody to log in, or the hub's address begins with https://"),
        (511, "the network may want somebody to log in, or the hub's address begins with https://"),
        (503, "failed with status 503; its log says why"),
        (413, "with status 413: have it pass bodies of 8 MiB"),
        (400, "begins with https://"),
    ];
    for (status, expected) in failures {
        let fail = |_: &mut WireRequest, answer: Option<&mut WireAnswer>| {
            if let Some(answer) = answer {
                *answer = WireAnswer { status, signature: None, body: Vec::new() };
            }
        };
        let said = device.device().sync(&mut Changing(fleet.network(), fail), &mut ()).unwrap_err().to_string();
        assert!(said.ends_with(expected), "{said}");
    }
}

#[test]
fn a_code_counts_once_and_for_its_hub() {
    let fleet = Fleet::new();
    let (device, thief) = (fleet.device("door 3"), fleet.device("thief"));
    let code = code(&fleet.hub.store(), DEFAULT_CHANNEL);
    let enrol = |device: &DeviceFiles, code: &EnrolmentCode| {
        device.device().enrol(&mut fleet.network(), code, &device.name, &mut ())
    };
    assert_eq!(enrol(&device, &code).unwrap(), DEFAULT_CHANNEL);
    assert_eq!(enrol(&device, &code).unwrap(), DEFAULT_CHANNEL, "its answer may have been lost");
    assert!(matches!(enrol(&thief, &code), Err(SyncError::Unknown)));
    let wrong = EnrolmentCode::generate(code.fingerprint).unwrap();
    assert!(matches!(enrol(&thief, &wrong), Err(SyncError::Unknown)));
    let other = EnrolmentCode::generate(SigningKey::generate().unwrap().verifying_key().fingerprint()).unwrap();
    assert!(matches!(enrol(&device, &other), Err(SyncError::OtherHub { .. })));
    let mistaken = fleet.device("door 7");
    assert!(matches!(enrol(&mistaken, &other), Err(SyncError::Unknown)));
    mistaken.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    assert!(matches!(thief.device().sync(&mut fleet.network(), &mut ()), Err(SyncError::NotEnrolled)));
}

/// As where the image of a card was taken after its device enrolled.
#[test]
fn two_devices_with_one_key_are_told_of_and_a_restored_backup_is_not() {
    let fleet = Fleet::new();
    let [device, copy] = ["door 3", "door 7"].map(|name| fleet.device(name));
    device.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    std::fs::create_dir_all(copy.fleet().path()).unwrap();
    for name in ["identity.json", "sequence.json"] {
        std::fs::copy(device.fleet().path().join(name), copy.fleet().path().join(name)).unwrap();
    }
    let warned_after = |device: &DeviceFiles| {
        device.sync(&mut fleet.network());
        let report = fleet.hub.store().devices().unwrap()[0].report.clone().unwrap();
        // The state may need the bundles that lie beside what is to be removed.
        let says_what_to_remove = |warning: &str| warning.contains("remove identity.json and progress.json in");
        let mut warnings = report.health.warnings.iter();
        warnings.any(|warning| warning.contains("two devices may use the same key") && says_what_to_remove(warning))
    };
    assert!(!warned_after(&device) && !warned_after(&device));
    assert!(!warned_after(&copy), "the first may be a restored backup");
    assert!(!warned_after(&copy), "it went on as one");
    assert!(!warned_after(&device) && !warned_after(&copy));
    assert!(warned_after(&device) && warned_after(&copy));
    // Only one goes on.
    assert!(warned_after(&device) && !warned_after(&device));
}

#[test]
fn a_name_that_is_blank_or_can_be_no_part_of_a_label_is_refused_on_the_device() {
    let fleet = Fleet::new();
    let device = fleet.device("door 3");
    let code = code(&fleet.hub.store(), DEFAULT_CHANNEL);
    for name in ["cam=1", "", " "] {
        let refused = device.device().enrol(&mut fleet.network(), &code, name, &mut ()).unwrap_err();
        assert!(matches!(refused, SyncError::Name { .. }), "{refused}");
    }
    assert!(!device.fleet().is_enrolled().unwrap());
}

#[test]
fn a_class_that_was_taught_here_is_not_replaced_in_silence() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    let store = release_mug(&fleet, &giver, [&taker]);
    taker.teach("mug", 2);
    let outcome = taker.sync(&mut fleet.network());
    assert!(outcome.outcomes[0].refused.as_ref().is_some_and(|reason| reason.contains("taught another")));
    // The operator merges both: now the device learns the merged one in its place.
    let packs: Vec<_> = store.packs().unwrap().iter().map(|pack| pack.digest).collect();
    release(&store, DEFAULT_CHANNEL, &packs, SameLabel::Merge);
    for device in [&giver, &taker] {
        assert_eq!(device.sync(&mut fleet.network()).outcomes[0].refused, None);
        assert_eq!(device.labels().len(), 1);
        let learner = device.learner();
        let class = learner.base_model().classes.len() as u32;
        assert_eq!(learner.state().exemplars.of_class(class).len(), 10, "the shots of both");
    }
    // Taken back, it goes from both.
    let newest = store.releases().unwrap()[0].id;
    store.releases().unwrap().iter().for_each(|release| store.withdraw(release.id).unwrap());
    assert!(newest.0 > 1);
    assert_eq!(taker.sync(&mut fleet.network()).forgotten.len(), 1);
    assert!(taker.labels().is_empty());
}

#[test]
fn a_round_keeps_what_a_device_did_to_the_class_that_it_pushed() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    release_mug(&fleet, &giver, [&taker]);
    taker.sync(&mut fleet.network());
    let held = || {
        let outcome = giver.sync(&mut fleet.network());
        assert_eq!(refusal(&outcome, 0), "");
        assert!(outcome.imported.is_empty() && outcome.forgotten.is_empty(), "{outcome:?}");
    };
    giver.add_shot("mug");
    held();
    assert_eq!(giver.shots("mug"), 6);
    giver.learner().rename("mug", "tankard").unwrap().durable().unwrap();
    held();
    assert_eq!(giver.labels(), ["tankard"], "one look has one label");
    giver.learner().forget("tankard", &mut ()).unwrap().durable().unwrap();
    held();
    assert!(giver.labels().is_empty());
    assert_eq!(taker.labels(), ["mug"], "the others keep it");
}

/// A merged class goes whole, with what the device had pushed itself.
#[test]
fn a_class_that_its_channel_took_comes_back_with_the_next_release() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    let store = release_mug(&fleet, &giver, [&taker]);
    taker.teach("mug", 2);
    taker.sync(&mut fleet.network());
    let packs = store.packs().unwrap();
    let digests: Vec<_> = packs.iter().map(|pack| pack.digest).collect();
    release(&store, DEFAULT_CHANNEL, &digests, SameLabel::Merge);
    giver.sync(&mut fleet.network());
    assert_eq!(giver.shots("mug"), 10);
    store.releases().unwrap().iter().for_each(|release| store.withdraw(release.id).unwrap());
    assert_eq!(giver.sync(&mut fleet.network()).forgotten, ["mug"]);
    let own = packs.iter().find(|pack| pack.device_name == "giver").unwrap().digest;
    release(&store, DEFAULT_CHANNEL, &[own], SameLabel::Refuse);
    assert_eq!(giver.sync(&mut fleet.network()).imported, ["mug"]);
}

/// On the device that pushed it, whose channel gives it to all, alone and merged with another device's.
#[test]
fn a_purged_class_is_not_learned_again() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    let store = release_mug(&fleet, &giver, [&taker]);
    giver.learner().purge("mug", &mut ()).unwrap().durable().unwrap();
    let locked = giver.fleet().lock_out_rounds(Duration::ZERO).unwrap().unwrap();
    locked.forget_labels(&BTreeSet::from(["mug".to_owned()])).unwrap();
    drop(locked);
    assert!(giver.sync(&mut fleet.network()).imported.is_empty());
    taker.teach("mug", 2);
    taker.sync(&mut fleet.network());
    let packs: Vec<_> = store.packs().unwrap().iter().map(|pack| pack.digest).collect();
    release(&store, DEFAULT_CHANNEL, &packs, SameLabel::Merge);
    assert!(giver.sync(&mut fleet.network()).imported.is_empty());
    assert!(giver.labels().is_empty());
    assert_eq!(taker.sync(&mut fleet.network()).imported, ["mug"]);
}

/// As where its key leaked: to the hub it is another device.
#[test]
fn a_device_with_a_new_key_goes_on_with_what_it_knows() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    let store = release_mug(&fleet, &giver, [&taker]);
    assert_eq!(taker.sync(&mut fleet.network()).imported, ["mug"]);
    for device in [&giver, &taker] {
        let known = store.devices().unwrap().into_iter().find(|known| known.name == device.name).unwrap();
        store.remove_device(&known.id).unwrap();
        std::fs::remove_file(device.fleet().path().join("identity.json")).unwrap();
        device.enrol(&mut fleet.network(), &store, DEFAULT_CHANNEL);
        let done = device.sync(&mut fleet.network());
        assert!(done.imported.is_empty() && refusal(&done, 0).is_empty(), "{done:?}");
        // What the other device pushed becomes its own.
        assert_eq!(done.pushed, if device.name == giver.name { vec!["mug"] } else { Vec::new() });
        assert!(device.sync(&mut fleet.network()).pushed.is_empty());
    }
    assert_eq!(store.packs().unwrap()[0].device, store.devices().unwrap()[0].id);
    store.withdraw(store.releases().unwrap()[0].id).unwrap();
    assert_eq!(taker.sync(&mut fleet.network()).forgotten, ["mug"]);
    giver.sync(&mut fleet.network());
    assert_eq!(giver.labels(), ["mug"]);
}

/// As where `--fleet` names a folder of other things.
#[test]
fn a_round_removes_no_file_of_others() {
    let fleet = Fleet::new();
    let device = fleet.device("door 3");
    device.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    let objects = device.fleet().path().join("objects");
    std::fs::create_dir(&objects).unwrap();
    let part = format!("{}.part", ObjectDigest::of(b"pack"));
    let [theirs, ours] = ["teapot.obj", &part].map(|name| objects.join(name));
    [&theirs, &ours].into_iter().for_each(|path| std::fs::write(path, "x").unwrap());
    device.sync(&mut fleet.network());
    assert!(theirs.exists() && !ours.exists());
}

/// A hub that lies could make a device read far more into its memory than a pack ever has.
#[test]
fn a_pack_that_is_larger_than_packs_may_be_is_not_fetched() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    release_mug(&fleet, &giver, [&taker]);
    let database = rusqlite::Connection::open(fleet.hub.folder.join("hub.sqlite")).unwrap();
    database.execute("UPDATE release_file SET size = ?1", [(64_i64 << 20) + 1]).unwrap();
    let done = taker.sync(&mut fleet.network());
    assert!(refusal(&done, 0).contains("67108865 bytes"), "{done:?}");
}

#[test]
fn a_device_whose_number_got_lost_catches_up() {
    let fleet = Fleet::new();
    let device = fleet.device("door 3");
    device.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    (0..3).for_each(|_| drop(device.sync(&mut fleet.network())));
    // As after a restored backup.
    std::fs::write(device.fleet().path().join("sequence.json"), "1").unwrap();
    device.sync(&mut fleet.network());
    device.sync(&mut fleet.network());
}

#[test]
fn two_rounds_at_once_keep_out_of_each_others_way() {
    let fleet = Fleet::new();
    let device = fleet.device("door 3");
    device.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    let (mut steps, mut busy) = (0, 0);
    let mut second = |_: SyncStep| {
        let refused = device.device().sync(&mut fleet.network(), &mut ());
        steps += 1;
        busy += usize::from(matches!(refused, Err(SyncError::Busy { .. })));
        ControlFlow::Continue(())
    };
    device.device().sync(&mut fleet.network(), &mut second).unwrap();
    assert!(steps > 0 && busy == steps, "{busy} of {steps}");
    device.sync(&mut fleet.network());
}

/// Strangers may send enrolments, whose bodies are read before anything is known of who asks, and whose heads may name
/// any device.
#[test]
fn strangers_who_send_half_an_enrolment_keep_no_device_out() {
    let fleet = Fleet::new();
    let device = fleet.device("door 3");
    device.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    let (nobody, own) = ("5".repeat(32), fleet.hub.store().devices().unwrap()[0].id.to_string());
    let head = |device: &str| {
        format!(
            "POST /v1/enrol HTTP/1.1\r\nhost: hub\r\norco-device: {device}\r\norco-sequence: 1\r\norco-body: {0}{0}\r\n\
             orco-signature: {0}{0}{0}{0}\r\ncontent-length: 100\r\n\r\n{{",
            "5".repeat(32)
        )
    };
    let port = fleet.proxy.port.load(Ordering::SeqCst);
    let stalled: Vec<TcpStream> = (0..64)
        .map(|number| {
            let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let head = head(if number % 2 == 0 { &nobody } else { &own });
            stranger.write_all(head.as_bytes()).unwrap();
            stranger
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let started = std::time::Instant::now();
    device.sync(&mut fleet.network());
    fleet.device("door 4").enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
    drop(stalled);
}

/// Without TLS others hear the heads of requests, and can send them again with any length.
#[test]
fn requests_that_were_overheard_and_come_again_without_their_bodies_keep_no_device_out() {
    let fleet = Fleet::new();
    let device = fleet.device("door 3");
    device.enrol(&mut fleet.network(), &fleet.hub.store(), DEFAULT_CHANNEL);
    device.teach("mug", 1);
    let mut overheard = Vec::new();
    let listen = |request: &mut WireRequest, answer: Option<&mut WireAnswer>| {
        if answer.is_none() {
            overheard.push(request.clone());
        }
    };
    device.sync(&mut Changing(fleet.network(), listen));
    let port = fleet.proxy.port.load(Ordering::SeqCst);
    let posts = overheard.iter().filter(|request| request.method == "POST");
    let stalled: Vec<TcpStream> = posts.cycle().take(40).map(|request| without_body(port, request)).collect();
    std::thread::sleep(Duration::from_millis(300));
    let started = std::time::Instant::now();
    device.sync(&mut fleet.network());
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    drop(stalled);
}

#[test]
fn parts_of_objects_that_others_ask_for_again_keep_no_device_out() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    release_mug(&fleet, &giver, [&taker]);
    let port = fleet.proxy.port.load(Ordering::SeqCst);
    let mut stalled = Vec::new();
    let repeat = |request: &mut WireRequest, answer: Option<&mut WireAnswer>| {
        if answer.is_some_and(|answer| answer.status == 206) {
            stalled.extend((0..8).map(|_| without_body(port, request)));
            std::thread::sleep(Duration::from_millis(300));
        }
    };
    assert_eq!(taker.sync(&mut Changing(fleet.network(), repeat)).imported, ["mug"]);
    assert!(!stalled.is_empty());
}

/// Sends the head of a request again with a length, and nothing of a body.
fn without_body(port: u16, request: &WireRequest) -> TcpStream {
    let WireRequest { method, path, headers, .. } = request;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: hub\r\ncontent-length: 1000000\r\n");
    headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stranger.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stranger
}

/// A newer pack takes the place of an older one on devices whose power fails at each step in turn; what was not synced
/// by then is lost.
#[test]
fn at_whatever_step_the_power_fails_the_next_round_goes_on() {
    let mut trial = orco_trials::trial!(27, "power cuts on devices");
    let fleet = Fleet::new();
    let (giver, takers) = (fleet.device("giver"), takers(&fleet));
    let store = release_mug(&fleet, &giver, &takers);
    takers.iter().for_each(|taker| assert_eq!(taker.sync(&mut fleet.network()).imported, ["mug"]));
    giver.learner().forget("mug", &mut ()).unwrap().durable().unwrap();
    giver.teach("mug", 2);
    giver.sync(&mut fleet.network());
    let newest = store.packs().unwrap().into_iter().map(|pack| pack.digest).find(|pack| {
        store.releases().unwrap().iter().all(|release| !store.origins(release.id).unwrap().contains(pack))
    });
    release(&store, DEFAULT_CHANNEL, &[newest.unwrap()], SameLabel::Refuse);
    let expected = giver.learner().state().exemplars.clean().to_vec();
    let mut cut = 0;
    for (steps, taker) in takers.iter().enumerate() {
        let stopped = taker.device().sync(&mut fleet.network(), &mut power_for(steps));
        cut += usize::from(stopped.is_err());
        trial.count(usize::from(stopped.is_err()));
        lose_unsynced(taker);
        let outcome = taker.sync(&mut fleet.network());
        if !refusal(&outcome, 0).is_empty() {
            assert!(refusal(&outcome, 0).contains("came damaged"), "step {steps}: {outcome:?}");
            taker.sync(&mut fleet.network());
        }
        assert_eq!(taker.labels(), ["mug"], "step {steps}");
        assert_eq!(taker.learner().state().exemplars.clean(), expected, "step {steps}");
        let outcome = taker.sync(&mut fleet.network());
        assert!(outcome.imported.is_empty() && outcome.forgotten.is_empty(), "step {steps}: {outcome:?}");
        // With more power it is the same.
        if stopped.is_ok() {
            break;
        }
    }
    assert!((10..STEPS).contains(&cut), "a round has {cut} steps");
}

/// The power fails at each step of a round that learns a pack, and then the channel holds a newer one, or none.
#[test]
fn at_whatever_step_the_power_fails_the_class_is_the_channels() {
    for is_withdrawn in [false, true] {
        let fleet = Fleet::new();
        let (giver, takers) = (fleet.device("giver"), takers(&fleet));
        let store = release_mug(&fleet, &giver, &takers);
        let mut rounds = 0;
        for (steps, taker) in takers.iter().enumerate() {
            let round = taker.device().sync(&mut fleet.network(), &mut power_for(steps));
            lose_unsynced(taker);
            rounds = steps + 1;
            if round.is_ok() {
                break;
            }
        }
        assert!((2..STEPS).contains(&rounds), "a round has {rounds} steps");
        let expected = if is_withdrawn {
            store.releases().unwrap().iter().for_each(|release| store.withdraw(release.id).unwrap());
            Vec::new()
        } else {
            giver.add_shot("mug");
            giver.sync(&mut fleet.network());
            let newest = store.packs().unwrap().into_iter().find(|pack| pack.shots == 6).unwrap().digest;
            release(&store, DEFAULT_CHANNEL, &[newest], SameLabel::Refuse);
            giver.learner().state().exemplars.clean().to_vec()
        };
        for (steps, taker) in takers.iter().take(rounds).enumerate() {
            let outcome = taker.sync(&mut fleet.network());
            assert!(outcome.pushed.is_empty(), "step {steps}: {outcome:?}");
            taker.sync(&mut fleet.network());
            assert_eq!(taker.learner().state().exemplars.clean(), expected, "step {steps}, withdrawn: {is_withdrawn}");
        }
    }
}

/// Power for `left` steps.
fn power_for(mut left: usize) -> impl FnMut(SyncStep) -> ControlFlow<()> {
    move |_| match left.checked_sub(1) {
        Some(rest) => {
            left = rest;
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    }
}

/// More steps than a round with one pack has.
const STEPS: usize = 40;

/// A device for each of them.
fn takers(fleet: &Fleet) -> Vec<DeviceFiles> {
    (0..STEPS).map(|step| fleet.device(&format!("taker {step}"))).collect()
}

/// Parts of objects are the only files that are not synced: after a power cut their ends may be anything.
fn lose_unsynced(device: &DeviceFiles) {
    let Ok(objects) = std::fs::read_dir(device.fleet().path().join("objects")) else { return };
    for part in objects.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some()) {
        let length = std::fs::metadata(&part).unwrap().len();
        std::fs::write(&part, vec![0; length as usize]).unwrap();
    }
}

/// The round stops directly after it learned a pack: what was done is known all the same.
#[test]
fn a_round_that_has_to_stop_says_what_it_did() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    release_mug(&fleet, &giver, [&taker]);
    let mut has_imported = false;
    let mut stopping = |step: SyncStep| {
        if has_imported {
            return ControlFlow::Break(());
        }
        has_imported = matches!(step, SyncStep::Import(_));
        ControlFlow::Continue(())
    };
    let mut done = SyncOutcome::default();
    let stopped = taker.device().sync_noting(&mut fleet.network(), &mut stopping, &mut done).unwrap_err();
    assert!(matches!(stopped, SyncError::Stopped), "{stopped}");
    assert_eq!(done.imported, ["mug"]);
    assert_eq!(taker.labels(), ["mug"]);
}

/// A class that cannot be pushed, as over a link that is too slow, hides nothing of what became of releases.
#[test]
fn what_became_of_releases_is_said_before_classes_are_pushed() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    let store = release_mug(&fleet, &giver, [&taker]);
    taker.teach("gadget", 2);
    let lose = |request: &mut WireRequest, answer: Option<&mut WireAnswer>| {
        if let Some(answer) = answer.filter(|_| request.path == PACKS_PATH) {
            answer.signature = None;
        }
    };
    let stopped = taker.device().sync(&mut Changing(fleet.network(), lose), &mut ()).unwrap_err();
    assert!(matches!(stopped, SyncError::Unreachable { .. }), "{stopped}");
    let known = store.devices().unwrap().into_iter().find(|known| known.name == "taker").unwrap().report.unwrap();
    assert_eq!(known.outcomes.iter().map(|outcome| &outcome.refused).collect::<Vec<_>>(), [&None]);
    assert_eq!(known.classes.len(), 2);
}

/// Somebody gives the class a further shot at the step before the round forgets it.
fn teaching_before_it_is_forgotten(device: &DeviceFiles) -> impl FnMut(SyncStep) -> ControlFlow<()> {
    move |step| {
        if step == SyncStep::Forget("mug".into()) {
            device.add_shot("mug");
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn a_class_that_is_taught_while_its_pack_is_withdrawn_stays() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    let store = release_mug(&fleet, &giver, [&taker]);
    assert_eq!(taker.sync(&mut fleet.network()).imported, ["mug"]);
    store.releases().unwrap().iter().for_each(|release| store.withdraw(release.id).unwrap());
    let mut teaching = teaching_before_it_is_forgotten(&taker);
    let outcome = taker.device().sync(&mut fleet.network(), &mut teaching).unwrap();
    assert!(outcome.forgotten.is_empty(), "{outcome:?}");
    assert_eq!(taker.shots("mug"), 6);
    taker.sync(&mut fleet.network());
    assert_eq!(taker.shots("mug"), 6, "it is the device's own by now");
}

#[test]
fn a_class_that_is_taught_while_a_newer_pack_comes_stays() {
    let fleet = Fleet::new();
    let (giver, taker) = (fleet.device("giver"), fleet.device("taker"));
    let store = release_mug(&fleet, &giver, [&taker]);
    assert_eq!(taker.sync(&mut fleet.network()).imported, ["mug"]);
    let old: Vec<_> = store.packs().unwrap().iter().map(|pack| pack.digest).collect();
    giver.add_shot("mug");
    giver.sync(&mut fleet.network());
    let packs: Vec<_> =
        store.packs().unwrap().iter().map(|pack| pack.digest).filter(|pack| !old.contains(pack)).collect();
    release(&store, DEFAULT_CHANNEL, &packs, SameLabel::Refuse);
    let mut teaching = teaching_before_it_is_forgotten(&taker);
    let outcome = taker.device().sync(&mut fleet.network(), &mut teaching).unwrap();
    assert!(outcome.imported.is_empty() && outcome.forgotten.is_empty(), "{outcome:?}");
    assert!(outcome.outcomes.iter().any(|outcome| outcome.refused.is_some()), "{outcome:?}");
    assert_eq!(taker.shots("mug"), 6);
}

/// With a certificate of one's own, which the device trusts by its file.
#[test]
fn a_device_syncs_by_https() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    files::replace(&certificate, made.cert.pem().as_bytes()).unwrap();
    files::replace(&key, made.signing_key.serialize_pem().as_bytes()).unwrap();
    let tls = Some(Tls { certificate: certificate.clone(), key });
    let store = || HubStore::open(folder.path().join("hub")).unwrap();
    let options = HubOptions::new(([127, 0, 0, 1], 0)).tls(tls);
    let server = HubServer::bind(store(), &options).unwrap();
    let url = format!("https://localhost:{}", server.address().port());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = std::thread::spawn(move || server.run_until(async { drop(stopped.await) }).unwrap());
    let device = DeviceFiles::new(folder.path(), "door 3");
    let mut network = HttpTransport::with_certificates(&url, &certificate).unwrap();
    device.enrol(&mut network, &store(), DEFAULT_CHANNEL);
    device.sync(&mut network);
    let refused = device.device().sync(&mut HttpTransport::new(&url), &mut ()).unwrap_err();
    assert!(matches!(refused, SyncError::Unreachable { .. }), "{refused}");
    let mut plain = HttpTransport::new(&url.replace("https://", "http://"));
    let refused = device.device().sync(&mut plain, &mut ()).unwrap_err();
    assert!(refused.to_string().contains("begins with https://"), "{refused}");
    // A browser whose address lacks the https is sent there.
    let mut browser = TcpStream::connect(url.trim_start_matches("https://")).unwrap();
    browser.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    browser.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 307 ") && answer.contains("location: https://localhost/"), "{answer}");
    let none = HttpTransport::with_certificates(&url, &folder.path().join("key.pem")).unwrap_err();
    assert!(matches!(none, SyncError::File { .. }), "{none}");
    stop.send(()).unwrap();
    serving.join().unwrap();
}
