//! The service in use for a long time: a camera's frames, changes and callers at once, with flat memory.
//!
//! Ten seconds in the short form, five minutes with ORCO_HEAVY; ORCO_SOAK_SECONDS names any other time, such as an
//! hour. Memory, open descriptors and threads are sampled after a warm-up of a third of the time, ten minutes at most;
//! medians of the first and the last third of these samples must be alike ([`TOLERANCE`]).

#![cfg(target_os = "linux")]

mod clients;
mod meter;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use orco_trials::{heavy, until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::soak::clients::Stop;
use crate::soak::meter::Meter;
use crate::support::broker::{Broker, is_here};
use crate::support::service::Service;
use crate::support::{fast_bundle, orco};

/// How much a median may grow. Threads that wait for blocking work end after ten seconds without any; descriptors are
/// mostly connections, which come and go.
struct Tolerance {
    /// KiB: allocators keep what they had at the worst moment, which may come late.
    memory: u64,
    descriptors: u64,
    threads: u64,
}

const TOLERANCE: Tolerance = Tolerance { memory: 4 << 10, descriptors: 6, threads: 4 };
/// In ten seconds memory has hardly reached its level.
const SHORT: Tolerance = Tolerance { memory: 48 << 10, ..TOLERANCE };

/// Changes what the service knows, and knows itself what should be known.
struct Teacher<'a> {
    service: &'a Service,
    labels: Vec<String>,
    balance: &'static str,
    acknowledged: u64,
}

impl Teacher<'_> {
    /// Asks for a change, waits until it is acknowledged, and looks whether it is there.
    fn make(&mut self, method: &str, path: &str, body: &Value) {
        let job = self.service.json(method, path, body);
        let place = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
        until("a change has ended", || {
            let job = self.service.json("GET", &place, &Value::Null);
            assert_ne!(job["state"], "failed", "{job}");
            job["state"] == "done"
        });
        self.acknowledged += 1;
    }

    fn check(&self) {
        assert_eq!(learned(self.service), self.labels, "after {} changes", self.acknowledged);
    }

    fn learn(&mut self, label: &str, number: usize) {
        let class = ["cactus", "dumbbell", "mug", "rubber-duck", "toy-brick", "traffic-cone"][number % 6];
        self.service.shoot_anyway(label, class, 3);
        self.make("POST", "/api/v1/learn", &json!({ "label": label }));
        self.labels.push(label.to_owned());
        self.check();
    }

    /// Learns, renames, takes back, forgets, sets the balance: afterwards as many classes are known as before.
    fn round(&mut self, number: usize) {
        self.learn(&format!("new-{number}"), number);
        let (label, renamed) = (format!("/api/v1/classes/new-{number}"), format!("thing-{number}"));
        self.make("PATCH", &label, &json!({ "label": renamed }));
        *self.labels.last_mut().unwrap() = renamed;
        self.check();
        self.learn("passing", number + 1);
        self.make("POST", "/api/v1/undo", &json!({}));
        self.labels.pop();
        self.check();
        self.balance = ["keep-base", "favour-new"][number % 2];
        self.make("POST", "/api/v1/balance", &json!({ "balance": self.balance }));
        let oldest = self.labels.remove(0);
        self.make("DELETE", &format!("/api/v1/classes/{oldest}"), &Value::Null);
        self.check();
    }
}

/// Labels of the learned classes.
fn learned(service: &Service) -> Vec<String> {
    let classes = service.json("GET", "/api/v1/classes", &Value::Null);
    let learned = classes["classes"].as_array().unwrap().iter().filter(|class| class["learned"] == true);
    learned.map(|class| class["label"].as_str().unwrap().to_owned()).collect()
}

/// All that a restart must bring back.
fn known(service: &Service) -> [Value; 3] {
    let of = |path: &str| service.json("GET", path, &Value::Null);
    [of("/api/v1/classes"), of("/api/v1/history"), of("/api/v1/status")["balance"].clone()]
}

/// Number of the newest entry of the history.
fn newest([_, history, _]: &[Value; 3]) -> u64 {
    history["entries"].as_array().unwrap().last().unwrap()["entry"].as_u64().unwrap()
}

fn serving(bundle: &Path, folder: &Path, broker: Option<&Broker<'_>>) -> Command {
    let camera = format!("folder:{}", folder.join("camera").display());
    let mut arguments: Vec<String> =
        ["--engine", "rten", "serve", "--listen", "127.0.0.1:0", "--camera", &camera, "--inbox", "20"]
            .map(str::to_owned)
            .into();
    if let Some(broker) = broker {
        arguments.extend(["--mqtt-broker".to_owned(), broker.url()]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    orco(bundle, &folder.join("state"), &arguments)
}

fn seconds() -> u64 {
    let wanted = std::env::var("ORCO_SOAK_SECONDS").ok();
    wanted.map_or(if heavy() { 300 } else { 10 }, |seconds| seconds.parse().expect("ORCO_SOAK_SECONDS is a number"))
}

/// Has everybody call the service for so long; returns what was acknowledged.
fn use_up<'a>(service: &'a Service, camera: &Path, time: Duration, meter: &mut Meter) -> Teacher<'a> {
    let warm_up = (time / 3).min(Duration::from_secs(600));
    let (stop, start) = (&Stop::default(), Instant::now());
    let mut teacher = Teacher { service, labels: Vec::new(), balance: "balanced", acknowledged: 0 };
    ["one", "two", "three"].iter().enumerate().for_each(|(number, label)| teacher.learn(label, number));
    thread::scope(|scope| {
        let frames = scope.spawn(|| clients::show(camera, stop));
        let classified = scope.spawn(|| clients::classify(service, stop));
        let inferred = scope.spawn(|| clients::infer(service, stop));
        let heard = scope.spawn(|| clients::listen(service, stop));
        let seen = scope.spawn(|| clients::browse(service, stop));
        let broken = scope.spawn(|| clients::cut_off(service, stop));
        let taught = scope.spawn(|| {
            (0..).take_while(|_| !stop.is_set()).for_each(|number| teacher.round(number));
        });
        while start.elapsed() < time && !taught.is_finished() {
            thread::sleep((time / 100).min(Duration::from_secs(1)));
            if start.elapsed() > warm_up {
                meter.sample();
            }
        }
        stop.set();
        taught.join().unwrap();
        let (classified, inferred) = (classified.join().unwrap(), inferred.join().unwrap());
        say(&format!(
            "soak: {time:?}, {} frames, {} events, {} thumbnails, {} connections cut off\n\
             soak: {} pictures classified, {}; {} inferences, {}",
            frames.join().unwrap(),
            heard.join().unwrap(),
            seen.join().unwrap(),
            broken.join().unwrap(),
            classified.len(),
            classified.text(),
            inferred.len(),
            inferred.text(),
        ));
    });
    teacher
}

/// Past the test harness's capture.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

#[test]
fn a_service_in_use_keeps_every_change_and_grows_no_further() {
    let mut trial = orco_trials::trial!(2, "acknowledged changes");
    let folder = TempDir::new().unwrap();
    let bundle = fast_bundle(folder.path()).folder;
    let camera = folder.path().join("camera");
    fs::create_dir(&camera).unwrap();
    let broker = is_here("MQTT during the soak").then(|| Broker::start(folder.path(), "allow_anonymous true"));
    let service = Service::of(serving(&bundle, folder.path(), broker.as_ref()));
    let (mut meter, first) = (Meter::of(service.id()), newest(&known(&service)));
    let Teacher { labels, balance, acknowledged, .. } =
        use_up(&service, &camera, Duration::from_secs(seconds()), &mut meter);
    let (memory, descriptors, threads) = (meter.memory(), meter.descriptors(), meter.threads());
    say(&format!(
        "soak: {acknowledged} changes acknowledged; medians of the first and the last third: memory {} and {} KiB, \
         descriptors {} and {}, threads {} and {}",
        memory.first, memory.last, descriptors.first, descriptors.last, threads.first, threads.last
    ));
    let tolerance = if seconds() < 60 { SHORT } else { TOLERANCE };
    assert!(memory.is_flat(tolerance.memory), "memory grew: {memory:?} KiB");
    assert!(descriptors.is_flat(tolerance.descriptors), "descriptors were left open: {descriptors:?}");
    assert!(threads.is_flat(tolerance.threads), "threads were left: {threads:?}");
    let before = known(&service);
    // Every change has an entry of its own, though not all are remembered.
    assert_eq!(newest(&before), first + acknowledged);
    assert_eq!(before[2], balance);
    // Killed.
    drop(service);
    let service = Service::of(serving(&bundle, folder.path(), None));
    assert_eq!(known(&service), before);
    assert_eq!(learned(&service), labels);
    trial.count(acknowledged as usize);
}
