//! What `orco serve` tells an MQTT broker, a real one: Home Assistant finds the device, its state follows what the
//! camera sees, and it is known to be gone when it is.

#![cfg(all(target_os = "linux", feature = "mqtt"))]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orco_trials::until;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::broker::{Broker, Listener, Message, is_here};
use crate::support::reporting::Reporting;
use crate::support::{Device, assert_refused, shots, text};

/// Keys that an entity's discovery message may have, by Home Assistant's documentation of MQTT discovery and of the
/// four components. Those that every component takes come first.
const SHARED: &str = "availability availability_mode availability_template availability_topic default_entity_id \
    device enabled_by_default encoding entity_category entity_picture icon json_attributes_template \
    json_attributes_topic name origin payload_available payload_not_available platform qos state_topic unique_id \
    value_template";
const SENSOR: &str = "device_class expire_after force_update last_reset_value_template options state_class \
    suggested_display_precision unit_of_measurement";
const BINARY_SENSOR: &str = "device_class expire_after force_update off_delay payload_off payload_on";
const EVENT: &str = "device_class event_types";
const IMAGE: &str = "content_type image_encoding image_topic url_template url_topic";
const DEVICE: &str = "configuration_url connections hw_version identifiers manufacturer model model_id name \
    serial_number suggested_area sw_version via_device";

/// All that is wrong with a discovery message.
fn flaws(topic: &str, config: &Value) -> Vec<String> {
    let mut flaws = Vec::new();
    let parts: Vec<&str> = topic.split('/').collect();
    let ["homeassistant", component, node, object, "config"] = parts[..] else {
        return vec![format!("{topic} is no topic of discovery")];
    };
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !is_plain(node) || !is_plain(object) {
        flaws.push(format!("{topic}: identifiers hold other characters than a-z, A-Z, 0-9, _ and -"));
    }
    let own = match component {
        "sensor" => SENSOR,
        "binary_sensor" => BINARY_SENSOR,
        "event" => EVENT,
        "image" => IMAGE,
        _ => return vec![format!("{component} is no component that we tell of")],
    };
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let known: Vec<&str> = SHARED.split_whitespace().chain(own.split_whitespace()).collect();
    flaws.extend(keys(config).into_iter().filter(|key| !known.contains(&key.as_str())));
    flaws
        .extend(keys(&config["device"]).into_iter().filter(|key| !DEVICE.split_whitespace().any(|known| known == key)));
    let told_at = if component == "image" { "image_topic" } else { "state_topic" };
    for needed in ["unique_id", told_at, "availability_topic"] {
        if config[needed].as_str().is_none_or(str::is_empty) {
            flaws.push(format!("{needed} is missing"));
        }
    }
    if config["device"]["identifiers"].as_array().is_none_or(Vec::is_empty) || !config["origin"]["name"].is_string() {
        flaws.push("a device needs identifiers, an origin its name".into());
    }
    if component == "event" && config["event_types"].as_array().is_none_or(Vec::is_empty) {
        flaws.push("an event needs its types".into());
    }
    if component == "sensor" && config["unit_of_measurement"].is_string() && config["state_class"] != "measurement" {
        flaws.push("a unit belongs to a measurement".into());
    }
    if !matches!(config["entity_category"].as_str(), None | Some("diagnostic" | "config")) {
        flaws.push("there is no such category".into());
    }
    flaws
}

/// The discovery messages that a listener heard, by topic.
fn discovered(listener: &Listener) -> BTreeMap<String, Value> {
    let heard = listener.heard().into_iter();
    // An empty message takes an entity away.
    let found = heard.filter(|message| message.topic.starts_with("homeassistant/") && !message.text.is_empty());
    found.map(|message| (message.topic.clone(), message.json())).collect()
}

#[test]
fn home_assistant_finds_the_device_follows_it_and_sees_it_go() {
    if !is_here("MQTT") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let broker = Broker::start(folder.path(), "allow_anonymous true");
    let arguments = ["--mqtt-name", "Front door", "--mqtt-pictures"];
    let reporting = Reporting::start(folder.path(), &broker.url(), &arguments);
    let listener = broker.listen(&[]);
    listener.once("orco/door3/availability", "it is online", |message| message.text == "online");
    let late = broker.listen(&[]);
    until("eight entities were found by one who came late", || discovered(&late).len() == 8);
    assert!(late.heard().iter().all(|message| message.retained), "all that comes first was kept by the broker");
    let found = discovered(&late);
    for (topic, config) in &found {
        assert_eq!(flaws(topic, config), Vec::<String>::new(), "{topic} {config:#}");
        assert_eq!(config["device"]["name"], "Front door");
        assert_eq!(config["availability_topic"], "orco/door3/availability");
    }
    let classes = |learned: u64| {
        let classes = |message: &Message| message.json()["learned"] == learned;
        listener.once("orco/door3/classes", "so many are learned", classes).json()
    };
    assert_eq!(classes(0)["base"], classes(0)["classes"]);
    // A change, its result, and what is seen before and after it.
    reporting.teach("beaker", "mug");
    let change = listener.once("orco/door3/change", "a result", |_| true);
    assert!(!change.retained);
    let change = change.json();
    assert_eq!(
        (&change["event_type"], &change["change"], &change["label"]),
        (&"done".into(), &"learn".into(), &"beaker".into())
    );
    assert!(change["report"]["new"].is_array(), "{change:#}");
    let types = found["homeassistant/event/orco_door3/change/config"]["event_types"].as_array().unwrap();
    assert!(types.contains(&change["event_type"]));
    assert_eq!(classes(1)["classes"], classes(1)["base"].as_u64().unwrap() + 1);
    reporting.teach("duck", "rubber-duck");
    classes(2);
    for (class, label) in [("mug", "beaker"), ("rubber-duck", "duck"), ("mug", "beaker")] {
        reporting.show(class, label, &listener);
        // The last frames may still be on their way.
        listener.once("orco/door3/state", "the broker knows what the service shows", |message| {
            let (state, live) = (message.json(), reporting.service.json("GET", "/api/v1/live", &Value::Null));
            let apart = state["probability"].as_f64().unwrap() - live["probability"].as_f64().unwrap();
            let same = ["label", "known", "empty", "provisional"].iter().all(|key| state[key] == live[key]);
            same && apart.abs() < 0.011 && state["camera"] == "running" && state["in_view"] == json!([label])
        });
    }
    let picture = broker.bytes("orco/door3/picture");
    assert_eq!(orco_runtime::image_rs::guess_format(&picture).ok(), Some(orco_runtime::image_rs::ImageFormat::Jpeg));
    // Every learned thing has a presence sensor, as long as it is known.
    let presence = |label: &str| format!("homeassistant/binary_sensor/orco_door3/thing_{label}/config");
    let found = discovered(&listener);
    for topic in found.keys() {
        let described = listener.heard().iter().filter(|message| message.topic == *topic).count();
        assert_eq!(described, 1, "a change describes what is new alone: {topic}");
    }
    for label in ["beaker", "duck"] {
        let config = &found[&presence(label)];
        assert_eq!((flaws(&presence(label), config), &config["name"]), (Vec::new(), &json!(label)), "{config:#}");
    }
    reporting.service.json("DELETE", "/api/v1/classes/duck", &Value::Null);
    listener.once(&presence("duck"), "its sensor is taken away", |message| message.text.is_empty());
    let region = json!({ "regions": [{ "name": "shelf", "box": [0, 0, 1, 1] }] });
    reporting.service.json("POST", "/api/v1/regions", &region);
    let shelf = "homeassistant/sensor/orco_door3/region_shelf_label/config";
    listener.once(shelf, "the region has a sensor", |message| !message.text.is_empty());
    // Killed as by a power cut: the broker says so in its place.
    drop(reporting);
    listener.once("orco/door3/availability", "the broker says that it is gone", |message| message.text == "offline");
    // What goes while nobody can tell.
    fs::remove_file(folder.path().join("state").join("regions")).unwrap();
    // Ended in order: it says so itself, and nothing of it is lost. Pictures are not asked for any more.
    let reporting = Reporting::start(folder.path(), &broker.url(), &[]);
    listener.once("orco/door3/availability", "it is back", |message| message.text == "online");
    let heard = listener.heard();
    let gone = heard.iter().rposition(|message| message.text == "offline").unwrap();
    let next = |topic: &str| gone + 1 + heard[gone + 1..].iter().position(|message| message.topic == topic).unwrap();
    let [state, online] = ["orco/door3/state", "orco/door3/availability"].map(next);
    assert!(state < online, "what the earlier run saw is replaced first");
    let picture = "homeassistant/image/orco_door3/picture/config";
    listener.once(picture, "the picture's entity is taken away", |message| message.text.is_empty());
    listener.once(shelf, "the region's sensor is taken away", |message| message.text.is_empty());
    assert!(!listener.once(&presence("beaker"), "a thing stays", |_| true).text.is_empty());
    kill(Pid::from_raw(i32::try_from(reporting.service.id()).unwrap()), Signal::SIGTERM).unwrap();
    let log = folder.path().join("log");
    reporting.service.wait();
    listener.once("orco/door3/availability", "it says that it goes", |message| message.text == "offline");
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("connected to mqtt://127.0.0.1") && !log.contains("is not there"), "{log}");
}

#[test]
fn a_broker_that_comes_back_is_told_everything_again() {
    if !is_here("MQTT, a broker that goes away") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut broker = Broker::start(folder.path(), "allow_anonymous true");
    let reporting = Reporting::start(folder.path(), &broker.url(), &[]);
    reporting.teach("beaker", "mug");
    let listener = broker.listen(&[]);
    reporting.show("mug", "beaker", &listener);
    assert_eq!((reporting.metric("orco_mqtt_connected"), reporting.metric("orco_mqtt_connections_total")), (1, 1));
    assert!(reporting.metric("orco_mqtt_messages_total") > 8);
    broker.stop();
    drop(listener);
    until("it is seen that the broker is gone", || reporting.metric("orco_mqtt_connected") == 0);
    until("that is said", || reporting.log().contains("is not there, trying again in"));
    // Meanwhile all goes on.
    reporting.service.json("POST", "/api/v1/undo", &json!({}));
    let picture = fs::read(shots("try", "mug").join("2.jpg")).unwrap();
    assert_eq!(reporting.service.ask("POST", "/api/v1/classify", "image/jpeg", &picture).0, 200);
    until("it is undone", || reporting.metric("orco_changes_queued") == 0);
    let listener = broker_again(&mut broker);
    listener.once("orco/door3/availability", "it is online again", |message| message.text == "online");
    // As loud as the warning that it is not there; the first time nobody waits for that.
    let log = reporting.log();
    let connected: Vec<&str> = log.lines().filter(|line| line.contains("MQTT: connected to")).collect();
    assert!(matches!(connected[..], [first, again] if first.contains("INFO") && again.contains("WARN")), "{log}");
    until("it is found again", || discovered(&listener).len() == 7);
    let change = listener.once("orco/door3/change", "the result of what happened meanwhile", |_| true).json();
    assert_eq!((&change["change"], &change["event_type"]), (&"undo".into(), &"done".into()));
    listener.once("orco/door3/classes", "nothing is learned", |message| message.json()["learned"] == 0);
    listener.once("orco/door3/state", "the camera runs", |message| message.json()["camera"] == "running");
    assert_eq!((reporting.metric("orco_mqtt_connected"), reporting.metric("orco_mqtt_connections_total")), (1, 2));
    assert_eq!(reporting.metric("orco_mqtt_dropped_total"), 0);
}

/// Starts the broker again, and somebody who listens as soon as it is there.
fn broker_again(broker: &mut Broker<'_>) -> Listener {
    broker.start_again();
    broker.listen(&[])
}

#[test]
fn a_wrong_password_is_said_and_the_service_goes_on() {
    if !is_here("MQTT, passwords") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let secret = |name: &str, word: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("{word}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (secret("right", "open-sesame"), secret("wrong", "abracadabra"));
    let users = folder.path().join("users");
    let made = Command::new("mosquitto_passwd").args(["-b", "-c"]).arg(&users).args(["anna", "open-sesame"]).output();
    assert!(made.unwrap().status.success());
    let configuration = format!("allow_anonymous false\npassword_file {}", users.display());
    let broker = Broker::start(folder.path(), &configuration);
    let listener = broker.listen(&["-u", "anna", "-P", "open-sesame"]);
    let reporting =
        Reporting::start(folder.path(), &broker.url(), &["--mqtt-user", "anna", "--mqtt-password-file", &wrong]);
    until("it is said", || reporting.log().contains("it refuses user or password: check both"));
    assert!(!reporting.log().contains("abracadabra"), "{}", reporting.log());
    let picture = fs::read(shots("try", "mug").join("2.jpg")).unwrap();
    assert_eq!(reporting.service.ask("POST", "/api/v1/classify", "image/jpeg", &picture).0, 200);
    assert_eq!((reporting.metric("orco_mqtt_connected"), reporting.metric("orco_mqtt_connections_total")), (0, 0));
    assert!(listener.heard().is_empty(), "{:?}", listener.heard());
    drop(reporting);
    let reporting =
        Reporting::start(folder.path(), &broker.url(), &["--mqtt-user", "anna", "--mqtt-password-file", &right]);
    listener.once("orco/door3/availability", "with the right one it is online", |message| message.text == "online");
    assert!(!reporting.log().contains("open-sesame"), "{}", reporting.log());
}

#[test]
fn a_broker_with_tls_must_show_a_certificate_that_is_trusted() {
    if !is_here("MQTT over TLS") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("broker.pem"), folder.path().join("broker.key"));
    fs::write(&certificate, own.cert.pem()).unwrap();
    fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    let files = format!("certfile {}\nkeyfile {}", certificate.display(), key.display());
    let broker = Broker::start(folder.path(), &format!("allow_anonymous true\n{files}"));
    let url = format!("mqtts://localhost:{}", broker.port);
    let unknown = Reporting::start(folder.path(), &url, &[]);
    until("it is said", || unknown.log().contains("invalid peer certificate"));
    assert_eq!(unknown.metric("orco_mqtt_connections_total"), 0);
    drop(unknown);
    let trusted = certificate.to_str().unwrap();
    let reporting = Reporting::start(folder.path(), &url, &["--mqtt-ca-file", trusted]);
    let listener = broker.listen(&["--cafile", trusted, "--insecure"]);
    listener.once("orco/door3/availability", "it is online", |message| message.text == "online");
    assert_eq!(reporting.metric("orco_mqtt_connected"), 1);
}

#[test]
fn what_cannot_be_used_is_refused_when_it_starts() {
    let device = Device::new();
    let open = device.folder.path().join("open");
    fs::write(&open, "geheim\n").unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
    let (open, broker) = (open.to_str().unwrap(), ["--mqtt-broker", "mqtt://localhost"]);
    let anna = ["--mqtt-user", "anna"];
    let cases: [(&[&str], &str); 8] = [
        (&["--mqtt-broker", "localhost"], "does not begin with mqtt://"),
        (&["--mqtt-broker", "mqtt://anna:geheim@localhost"], "--mqtt-password-file FILE"),
        (&anna, "do that with --mqtt-broker URL"),
        (&[broker[0], broker[1], "--mqtt-password-file", open], "--mqtt-user NAME"),
        (&[broker[0], broker[1], anna[0], anna[1], "--mqtt-password-file", open], "chmod 600"),
        (&[broker[0], broker[1], "--mqtt-id", "door 3"], "--mqtt-id ID"),
        (&[broker[0], broker[1], "--mqtt-topic", "a/#"], "cannot begin an MQTT topic"),
        (&[broker[0], broker[1], "--mqtt-ca-file", "ca.pem"], "mqtts://"),
    ];
    for (arguments, expected) in cases {
        let output = device.command(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat()).output().unwrap();
        assert_refused(&output, expected);
        assert!(!text(&output.stderr).contains("geheim"), "{}", text(&output.stderr));
        let output = device.command(&[&["doctor", "--listen", "127.0.0.1:0"], arguments].concat()).output().unwrap();
        assert!(!output.status.success() && text(&output.stdout).contains(expected), "{}", text(&output.stdout));
    }
}
