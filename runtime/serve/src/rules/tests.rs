//! Rules act when they should, as often as they should, and what they call is told the truth.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use orco_runtime::bundle::Bundle;
use orco_runtime::clock::seconds_since_1970;
use orco_runtime::learner::{Learner, LearnerSettings, Shots};
use orco_runtime::state::Class;
use orco_runtime::store::Store;
use serde_json::Value;
use sha2::Sha256;
use tempfile::TempDir;

use super::{
    Action, ActionOutcomes, ActionQueue, DROP_LOG_INTERVAL, DueRule, MAX_WAITING_OCCURRENCES, MissingLabels,
    Occurrence, POLL_INTERVAL, Rule, RuleClock, Rules, Webhook, missing_labels_warning, shown_labels,
};
use crate::Service;
use crate::knowledge::Knowledge;
use crate::live::LiveSettings;
use crate::live_snapshot::ShownRegion;
use crate::metric::RuleActionMetric;
use crate::tests::{answer, showing};
use crate::thing_tracks::AnsweredThing;

/// The repository's folder.
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn rules(folder: &Path, text: &str) -> Result<Vec<Rule>, String> {
    let path = folder.join("rules.toml");
    fs::write(&path, text).unwrap();
    Rules::read(&path).map_err(|error| error.to_string())
}

#[test]
fn a_rule_acts_after_its_time_and_not_again_before_its_pause_is_over() {
    let folder = TempDir::new().unwrap();
    let text = "[[rule]]\nlabel = \"mug\"\nfor = 2\npause = 60\ncommand = [\"/bin/true\"]";
    let mut clock = RuleClock::of(&rules(folder.path(), text).unwrap()[0]);
    let start = Instant::now();
    let mut tick = |seconds: f64, is_shown| clock.tick(is_shown, start + Duration::from_secs_f64(seconds));
    assert!(!tick(0.0, true) && !tick(1.9, true));
    assert!(tick(2.0, true), "two seconds are over");
    assert!(!tick(2.1, true) && !tick(61.9, true));
    assert!(tick(62.0, true), "it is shown all the time");
    assert!(!tick(70.0, false) && !tick(130.0, true), "shown anew");
    assert!(!tick(130.3, false) && !tick(130.6, true), "a flicker");
    assert!(tick(132.0, true), "counted over the flicker");
    assert!(!tick(200.0, false) && !tick(200.6, true) && !tick(202.0, true));
}

/// A rule without a pause is due twenty times a second: the log would hold nothing else.
#[test]
fn what_is_dropped_is_said_once_a_minute() {
    let (sender, queue) = mpsc::sync_channel(MAX_WAITING_OCCURRENCES);
    let outcomes = ActionOutcomes::default();
    let mut actions = ActionQueue { queue: sender, last_logged: None, outcomes: outcomes.clone() };
    let start = Instant::now();
    let mut push = |seconds| {
        let occurrence = Occurrence { label: "mug".into(), probability: None, time: 0, picture: None };
        actions.push(DueRule { number: 0, occurrence }, start + Duration::from_secs(seconds))
    };
    assert!((0..MAX_WAITING_OCCURRENCES).all(|_| !push(0)), "there is room");
    assert!(push(1) && !push(1) && !push(2));
    queue.recv().unwrap();
    assert!(!push(3) && !push(3), "one was taken, and the next one is dropped");
    assert!(push(1 + DROP_LOG_INTERVAL.as_secs()) && !push(2 + DROP_LOG_INTERVAL.as_secs()));
    assert_eq!(outcomes.0.get_or_create(&RuleActionMetric { outcome: "dropped" }).get(), 6, "each is counted");
}

#[test]
fn rules_that_cannot_be_used_are_refused_with_a_reason() {
    let folder = TempDir::new().unwrap();
    let refused = |rule: &str, reason: &str| {
        let said = rules(folder.path(), rule).unwrap_err();
        assert!(said.contains(reason), "{said}");
    };
    let mug = |rest: &str| format!("[[rule]]\nlabel = \"mug\"\n{rest}");
    refused("", "no table [[rule]]");
    refused("[[rule]]", "label");
    refused(&mug(""), "it does nothing");
    refused("[[rule]]\nlabel = \" \"\ncommand = [\"/bin/true\"]", "its label is empty");
    refused(&mug("command = []"), "names no program");
    refused(&mug("command = [\"true\"]"), "full path");
    refused(&mug("for = -1\ncommand = [\"/bin/true\"]"), "no number of seconds");
    refused(&mug("for = nan\ncommand = [\"/bin/true\"]"), "no number of seconds");
    refused(&mug("after = 1\ncommand = [\"/bin/true\"]"), "unknown field `after`");
    refused(&mug("webhook = { url = \"ftp://x\" }"), "does not begin with http");
    refused(&mug("webhook = { url = \"ftp://me:geheim@x\" }"), "\"ftp://me:***@x\" does not begin");
    refused(&mug("webhook = { url = \"http://me:ge heim@x\" }"), "\"http://me:***@x\" is no web address");
    for port in ["80801", "0", "x"] {
        let webhook = format!("webhook = {{ url = \"http://me:1@x:{port}/\" }}");
        refused(&mug(&webhook), "has no port from 1 to 65535");
    }
    for host in ["me:99999@x", "[::1]", "[::1]:8080"] {
        let webhook = format!("webhook = {{ url = \"http://{host}/\" }}");
        assert_eq!(rules(folder.path(), &mug(&webhook)).unwrap().len(), 1, "{host}");
    }
    refused(&mug("webhook = { url = \"http://x/\", secret-file = \"none\" }"), "cannot read");
    let signed = mug("webhook = { url = \"http://x/\", secret-file = \"secret\" }");
    let secret = folder.path().join("secret");
    fs::write(&secret, "geheim").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
        refused(&signed, "chmod 600");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert_eq!(rules(folder.path(), &signed).unwrap().len(), 1);
}

/// The errors of a service stand in the log.
#[test]
fn a_file_that_holds_no_rules_is_refused_without_its_passwords() {
    let folder = TempDir::new().unwrap();
    for (webhook, reason) in [
        ("{ url = \"http://me:geheim@x/ }", "line 3: "),
        ("{ url = \"http://me:geheim@x/\", picture = 1 }", "line 3: invalid type: integer `1`, expected a boolean"),
        ("\"http://me:geheim@x/\"", "line 3: invalid type: string \"http://me:***@x/\", expected { url = \"...\" }"),
    ] {
        let said = rules(folder.path(), &format!("[[rule]]\nlabel = \"mug\"\nwebhook = {webhook}")).unwrap_err();
        assert!(said.contains(reason) && !said.contains("geheim") && !said.contains('\n'), "{said}");
    }
}

#[test]
fn labels_that_no_class_has_are_named() {
    let folder = TempDir::new().unwrap();
    let about = |labels: &[&str]| {
        let rule = |label: &&str| format!("[[rule]]\nlabel = \"{label}\"\ncommand = [\"/bin/true\"]\n");
        rules(folder.path(), &labels.iter().map(rule).collect::<String>()).unwrap()
    };
    let class = |label: &str| Class { label: label.into(), target: 0, session: 1 };
    let known = Knowledge { classes: vec![class("mug"), class("fuse_box")], ..Knowledge::default() };
    assert_eq!(missing_labels_warning(&about(&["mug", "unknown", "empty"]), &known), None);
    let warning = missing_labels_warning(&about(&["Mug", "mug", "cup", "Mug"]), &known).unwrap();
    assert!(warning.starts_with("no class is called \"Mug\" (one is called \"mug\") or \"cup\":"), "{warning}");
    // As the page shows it.
    let warning = missing_labels_warning(&about(&["fuse box"]), &known).unwrap();
    assert!(warning.starts_with("no class is called \"fuse box\" (one is called \"fuse_box\"):"), "{warning}");
}

/// A rule whose class gets another label acts no more, as long as the service runs.
#[test]
fn labels_that_are_lost_by_a_change_are_named_once() {
    let folder = TempDir::new().unwrap();
    let rules = rules(folder.path(), "[[rule]]\nlabel = \"mug\"\ncommand = [\"/bin/true\"]").unwrap();
    let mut missing = MissingLabels::default();
    let mut news = |version, label: &str| {
        let class = Class { label: label.into(), target: 0, session: 1 };
        missing.new_warning(&rules, &Knowledge { version, classes: vec![class], ..Knowledge::default() }).is_some()
    };
    assert!(!news(1, "mug"));
    assert!(news(2, "cup"), "it was renamed");
    assert!(!news(2, "cup") && !news(3, "cup"), "it is said already");
    assert!(!news(4, "mug") && news(5, "jug"), "it was there again");
}

#[test]
fn what_is_shown_is_told_in_the_words_of_rules() {
    let thing = |known| AnsweredThing { id: 1, shares: [0.0; 4], answer: answer("mug", 0.5, known) };
    let labels = |region: ShownRegion| -> Vec<String> {
        shown_labels(&showing(vec![region])).into_iter().map(|(label, _)| label).collect()
    };
    let things = vec![thing(true), thing(false)];
    assert_eq!(labels(ShownRegion { things, ..ShownRegion::default() }), ["mug", "unknown"]);
    assert_eq!(labels(ShownRegion { empty: true, ..ShownRegion::default() }), ["empty"]);
}

#[test]
fn programs_are_told_what_was_seen_and_failures_are_said() {
    let folder = TempDir::new().unwrap();
    let told = folder.path().join("told");
    let script = format!("echo \"$ORCO_LABEL $ORCO_PROBABILITY\" > {}", told.display());
    let actions = [
        format!("command = [\"/bin/sh\", \"-c\", '{script}']"),
        "command = [\"/bin/false\"]".to_owned(),
        "gpio = { chip = \"/dev/none\", line = 1 }".to_owned(),
    ];
    let text = actions.map(|action| format!("[[rule]]\nlabel = \"mug\"\n{action}\n")).concat();
    let rules = rules(folder.path(), &text).unwrap();
    let occurrence = Occurrence { label: "mug; rm -rf /".into(), probability: Some(0.5), time: 1, picture: None };
    let perform = |rule: usize| rules[rule].actions[0].perform(&occurrence, &|| false);
    perform(0).unwrap();
    assert_eq!(fs::read_to_string(told).unwrap(), "mug; rm -rf / 0.500\n");
    assert!(perform(1).unwrap_err().contains("ended with"));
    assert!(!perform(2).unwrap_err().is_empty(), "there is no such chip");
}

/// Head and body of a request, which is answered so.
fn request(listener: &TcpListener, answer: &str) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let end = loop {
        let count = stream.read(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..count]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let length: usize = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
    while bytes.len() < end + length {
        let count = stream.read(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..count]);
    }
    write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    (head, bytes.split_off(end))
}

/// The time in the head of a request, which the signature beside it covers.
fn signed_time(head: &str, body: &[u8], secret: &[u8]) -> u64 {
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    let time = header("x-orco-time: ");
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(format!("{time}.").as_bytes());
    mac.update(body);
    let signature: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(header("x-orco-signature: "), format!("sha256={signature}"));
    time.parse().unwrap()
}

#[test]
fn a_call_that_had_to_wait_is_signed_with_the_time_of_the_call() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/seen", listener.local_addr().unwrap());
    let action = Action::Webhook(Webhook::new(url, Some(b"geheim".to_vec()), false));
    let before = seconds_since_1970();
    let call = thread::spawn(move || {
        let long_ago = Occurrence { label: "mug".into(), probability: None, time: before - 600, picture: None };
        action.perform(&long_ago, &|| false)
    });
    let (head, body) = request(&listener, "204 No Content");
    call.join().unwrap().unwrap();
    assert!(signed_time(&head, &body, b"geheim") >= before, "{head}");
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["time"], before - 600, "that of what was seen");
}

/// As with a camera's address, a password that holds an `@` stands there percent-encoded.
#[test]
fn a_password_in_a_web_address_is_sent_as_it_is_meant_and_not_shown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://me:pa%40ss@{}/seen", listener.local_addr().unwrap());
    let action = Action::Webhook(Webhook::new(url, None, false));
    let shown = format!("{action} {action:?}");
    assert!(shown.matches("http://me:***@127.0.0.1").count() == 2 && !shown.contains("pa%40ss"), "{shown}");
    let call = thread::spawn(move || {
        let occurrence = Occurrence { label: "mug".into(), probability: None, time: 0, picture: None };
        action.perform(&occurrence, &|| false)
    });
    let (head, _) = request(&listener, "204 No Content");
    call.join().unwrap().unwrap();
    // "me:pa@ss", in small letters like the rest of the head.
    assert!(head.contains("authorization: basic bwu6cgfac3m=\r\n"), "{head}");
    assert_eq!(head.matches("authorization: ").count(), 1, "{head}");
}

#[test]
fn a_picture_of_a_folder_is_shown_for_two_polls() {
    let shown = Duration::from_secs_f32(1.0 / LiveSettings::default().per_second);
    assert!(2 * POLL_INTERVAL <= shown, "{shown:?}");
}

/// A folder is the camera and shows a duck again and again. The web address fails at first.
#[test]
fn a_web_address_is_told_what_the_camera_shows_until_it_takes_it() {
    let folder = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "geheim\n").unwrap();
    #[cfg(unix)]
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let url = format!("http://{}/seen", listener.local_addr().unwrap());
    let webhook = format!("webhook = {{ url = \"{url}\", secret-file = \"secret\", picture = true }}");
    let text = format!("[[rule]]\nlabel = \"duck\"\nfor = 0.3\npause = 3600\n{webhook}");
    let rules = rules(folder.path(), &text).unwrap();

    let bundle = || Bundle::open(Path::new(WORKSPACE).join("models/cifar100-edge")).unwrap();
    let store = || Store::new(folder.path().join("state"));
    let mut learner = Learner::new(bundle(), store(), LearnerSettings::default()).unwrap();
    let shots = Path::new(WORKSPACE).join("examples/shots/learn/rubber-duck");
    learner.learn("duck", Shots::folder(&shots).unwrap()).unwrap().durable().unwrap();
    let pictures = folder.path().join("pictures");
    fs::create_dir(&pictures).unwrap();
    let service = Service::open(bundle(), store(), LearnerSettings::default()).unwrap();
    let source = format!("folder:{}", pictures.display()).parse().unwrap();
    service.watch_camera(source, LiveSettings { agreement_frames: 1, per_second: 20.0 }).unwrap();
    let following = Rules::start(&service, rules).unwrap();
    let camera = thread::spawn(move || {
        for number in 0.. {
            let duck = shots.join(format!("{}.jpg", 1 + number % 5));
            if fs::copy(duck, pictures.join(format!("{number:06}.jpg"))).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
    });

    let (first_head, first) = request(&listener, "503 Service Unavailable");
    let (head, second) = request(&listener, "204 No Content");
    assert_eq!(first, second, "it is told again");
    let message: Value = serde_json::from_slice(&second).unwrap();
    assert_eq!(message["label"], "duck", "{message}");
    assert!(message["picture"].as_str().is_some_and(|picture| picture.starts_with("/9j/")), "a JPEG");
    let [first_call, second_call] = [&first_head, &head].map(|head| signed_time(head, &second, b"geheim"));
    assert!(message["time"].as_u64().unwrap() <= first_call && first_call < second_call, "{first_head}\n{head}");
    listener.set_nonblocking(true).unwrap();
    thread::sleep(Duration::from_secs(1));
    assert!(listener.accept().is_err(), "the pause is not over");
    drop((following, service, folder));
    camera.join().unwrap();
}
