//! Home Assistant's own MQTT integration finds the device and follows it: its core runs on a real mosquitto, and holds
//! what is published against its components' schemas.
//!
//! ORCO_HOME_ASSISTANT names a Python with the packages `homeassistant` and `paho-mqtt`; without it, that is said.

#![cfg(all(target_os = "linux", feature = "mqtt"))]

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use orco_trials::{skipped, until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::broker::{Broker, is_here};
use crate::support::reporting::Reporting;

/// Home Assistant, until it is dropped.
struct HomeAssistant {
    process: Child,
    told: Arc<Mutex<Vec<Value>>>,
}

impl HomeAssistant {
    fn start(broker: &Broker) -> Option<Self> {
        let Some(python) = env::var_os("ORCO_HOME_ASSISTANT") else {
            skipped(
                "Home Assistant: ORCO_HOME_ASSISTANT names no Python with the packages homeassistant and paho-mqtt",
            );
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support/home_assistant.py");
        let mut command = Command::new(python);
        command.arg(script).arg(broker.port.to_string()).env("PYTHONUTF8", "1");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let told: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (lines, theirs) = (BufReader::new(process.stdout.take().unwrap()).lines(), Arc::clone(&told));
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                theirs.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        let mut started = Self { process, told };
        until("Home Assistant has reached the broker", || {
            assert!(started.process.try_wait().unwrap().is_none(), "it ended: {:?}", started.told());
            started.told().iter().any(|line| line["ready"] == true)
        });
        Some(started)
    }

    /// All lines that it has told.
    fn told(&self) -> Vec<Value> {
        self.told.lock().unwrap().clone()
    }

    /// Waits until it shows an entity as `expected`; returns the line.
    fn shows(&self, entity: &str, expected: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut newest = None;
        until(&format!("{entity} is {expected}"), || {
            self.flawless();
            newest = self.told().into_iter().rev().find(|line| line["entity"] == entity);
            newest.as_ref().is_some_and(&is)
        });
        newest.unwrap()
    }

    /// Waits until it shows an entity in this state; returns the line.
    fn says(&self, entity: &str, state: &str) -> Value {
        self.shows(entity, state, |line| line["state"] == state)
    }

    /// Fails where it objects to anything.
    fn flawless(&self) {
        let flaws: Vec<Value> = self.told().into_iter().filter(|line| line.get("flaw").is_some()).collect();
        assert!(flaws.is_empty(), "{flaws:#?}");
    }
}

impl Drop for HomeAssistant {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn home_assistant_shows_what_the_device_sees_and_learns() {
    if !is_here("Home Assistant") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let broker = Broker::start(folder.path(), "allow_anonymous true");
    let Some(home) = HomeAssistant::start(&broker) else { return };
    let reporting = Reporting::start(folder.path(), &broker.url(), &["--mqtt-name", "Front door", "--mqtt-pictures"]);
    // Found by itself, as one device; nothing was seen yet.
    for (entity, state) in [
        ("sensor.front_door_label", "unknown"),
        ("sensor.front_door_confidence", "unknown"),
        ("binary_sensor.front_door_known", "unknown"),
        ("binary_sensor.front_door_empty", "unknown"),
        ("binary_sensor.front_door_camera", "off"),
        ("sensor.front_door_learned_classes", "0"),
        ("event.front_door_learned_or_corrected", "unknown"),
    ] {
        assert_eq!(home.says(entity, state)["device"], "Front door");
    }
    reporting.teach("beaker", "mug");
    home.says("sensor.front_door_learned_classes", "1");
    home.says("binary_sensor.front_door_beaker", "unknown");
    let change =
        home.shows("event.front_door_learned_or_corrected", "done", |line| line["attributes"]["event_type"] == "done");
    assert_eq!(
        (&change["attributes"]["change"], &change["attributes"]["label"]),
        (&"learn".into(), &"beaker".into()),
        "{change:#}"
    );
    let listener = broker.listen(&[]);
    reporting.show("mug", "beaker", &listener);
    let label = home.says("sensor.front_door_label", "beaker");
    home.says("binary_sensor.front_door_known", "on");
    home.says("binary_sensor.front_door_empty", "off");
    let presence = home.says("binary_sensor.front_door_beaker", "on");
    assert_eq!(presence["attributes"]["device_class"], "occupancy");
    home.shows("image.front_door_picture", "a picture", |line| {
        line["state"].as_str().is_some_and(|state| state.starts_with("20"))
    });
    home.says("binary_sensor.front_door_camera", "on");
    let is_percentage = |line: &Value| {
        let state = line["state"].as_str().and_then(|state| state.parse::<f64>().ok());
        state.is_some_and(|percent| (1.0..=100.0).contains(&percent))
    };
    let confidence = home.shows("sensor.front_door_confidence", "a percentage", is_percentage);
    assert_eq!(confidence["attributes"]["unit_of_measurement"], "%");
    assert_eq!(label["attributes"]["provisional"], false, "{label:#}");
    // A label of 300 letters, which is longer than a state may be there.
    reporting.service.json("PATCH", "/api/v1/classes/beaker", &json!({ "label": "b".repeat(300) }));
    reporting.show("mug", &"b".repeat(300), &listener);
    home.says("sensor.front_door_label", &"b".repeat(255));
    // Killed as by a power cut.
    drop(reporting);
    for entity in ["sensor.front_door_label", "binary_sensor.front_door_camera", "sensor.front_door_learned_classes"] {
        home.says(entity, "unavailable");
    }
    home.flawless();
}
