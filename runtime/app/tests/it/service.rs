//! The service under load, and among clients that mean no good.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orco_trials::{heavy, until};
use serde_json::json;
use tempfile::TempDir;

use crate::support::service::Service;
use crate::support::{self, orco, shipped, shots, text};

#[test]
fn other_machines_are_not_served_without_a_token_and_two_services_do_not_share_a_port() {
    let folder = TempDir::new().unwrap();
    let refused = |listen: &str| {
        let mut command: Command = orco(&shipped(), &folder.path().join("state"), &["serve", "--listen", listen]);
        let output = command.output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{listen}");
        text(&output.stderr)
    };
    let said = refused("0.0.0.0:0");
    assert!(said.contains("--token-file"), "{said}");
    let service = Service::start("cifar100-edge", folder.path());
    let address = service.url.trim_start_matches("http://").trim_end_matches('/').replace("localhost", "127.0.0.1");
    let said = refused(&address);
    assert_eq!(said.matches("in use").count(), 1, "{said}");
    let nowhere = orco(&shipped(), Path::new("/proc/orco/state"), &["serve", "--listen", &address]).output().unwrap();
    let said = text(&nowhere.stderr);
    assert!(said.starts_with("warning: nothing can be learned: "), "{said}");
    let state = folder.path().join("state");
    let file = folder.path().join("file");
    fs::write(&file, b"x").unwrap();
    let camera = format!("folder:{}", file.display());
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--camera", &camera];
    let output = orco(&shipped(), &state, &arguments).output().unwrap();
    support::assert_refused(&output, "is no folder: name the folder into which pictures are put");
}

#[test]
fn a_service_whose_output_nobody_can_take_serves_all_the_same() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut command: Command = orco(&shipped(), &folder.path().join("state"), &["serve", "--listen", &address]);
    command.args(["--engine", "rten"]).stdout(File::options().write(true).open("/dev/full").unwrap());
    command.stderr(File::create(&log).unwrap());
    let service = Service::listening(command, &address);
    assert_eq!(service.ask("GET", "/v2/health/live", "", b"").0, 200);
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.starts_with("warning: cannot write to standard output: No space left on device"), "{said}");
}

#[test]
fn a_log_that_nobody_reads_holds_up_no_answer() {
    let folder = TempDir::new().unwrap();
    let [state, away] = ["state", "away"].map(|name| folder.path().join(name));
    let shots_of_duck = shots("learn", "rubber-duck");
    let duck = support::argument("duck", &shots_of_duck);
    let learned = orco(&shipped(), &state, &["--engine", "rten", "learn", &duck]).output().unwrap();
    assert!(learned.status.success(), "{}", text(&learned.stderr));
    let (_reader, log) = std::io::pipe().unwrap();
    let mut filler = log.try_clone().unwrap();
    // Ends with the test, when nobody can read any more.
    thread::spawn(move || filler.write_all(&vec![b'\n'; 1 << 21]));
    let mut command = orco(&shipped(), &state, &["--engine", "rten", "serve", "--listen", "127.0.0.1:0"]);
    command.stderr(log);
    let service = Service::of(command);
    fs::rename(&state, &away).unwrap();
    // The log would say that the state is gone.
    until("it is not ready", || service.ask("GET", "/v2/health/ready", "", b"").0 == 503);
    let picture = fs::read(shots_of_duck.join("1.jpg")).unwrap();
    assert_eq!(service.ask("POST", "/api/v1/classify", "image/jpeg", &picture).0, 200);
}

/// With the log as it is where nobody sets its level.
#[test]
fn the_log_says_that_something_works_again_where_it_said_that_it_broke() {
    let folder = TempDir::new().unwrap();
    let [state, away, camera, log] = ["state", "away", "camera", "log"].map(|name| folder.path().join(name));
    let duck = support::argument("duck", &shots("learn", "rubber-duck"));
    let learned = orco(&shipped(), &state, &["--engine", "rten", "learn", &duck]).output().unwrap();
    assert!(learned.status.success(), "{}", text(&learned.stderr));
    let source = format!("folder:{}", camera.display());
    let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0", "--camera", &source];
    let mut command = orco(&shipped(), &state, &arguments);
    command.stderr(File::create(&log).unwrap());
    let _service = Service::of(command);
    let said = |what: &str| until(what, || fs::read_to_string(&log).unwrap().contains(what));
    said("is not there, trying again");
    fs::create_dir(&camera).unwrap();
    said(&format!("camera: {source} is open"));
    fs::rename(&state, &away).unwrap();
    said("nothing can be changed");
    fs::rename(&away, &state).unwrap();
    said("the state can be used again");
}

/// As where a file of containers hands on what nobody has set. What cannot be seen is written out, as in the names of
/// files that a camera puts into its folder.
#[test]
fn the_log_says_what_breaks_where_its_level_is_set_to_nothing() {
    let folder = TempDir::new().unwrap();
    let [state, camera, log] = ["state", "camera\u{202e}", "log"].map(|name| folder.path().join(name));
    let source = format!("folder:{}", camera.display());
    let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0", "--camera", &source];
    let mut command = orco(&shipped(), &state, &arguments);
    command.env("RUST_LOG", "").stderr(File::create(&log).unwrap());
    let _service = Service::of(command);
    until("it says so", || fs::read_to_string(&log).unwrap().contains("camera\\u{202e} is not there, trying again"));
}

/// At these levels the client of HTTP writes whole addresses.
#[test]
fn the_log_of_all_levels_holds_no_password_of_a_camera() {
    let folder = TempDir::new().unwrap();
    let [state, log] = ["state", "log"].map(|name| folder.path().join(name));
    let camera = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = format!("http://{}/?password=geheim", camera.local_addr().unwrap());
    let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0", "--camera", &source];
    let mut command = orco(&shipped(), &state, &arguments);
    command.env("RUST_LOG", "trace").stderr(File::create(&log).unwrap());
    let _service = Service::of(command);
    camera.set_nonblocking(true).unwrap();
    let mut accepted = None;
    until("the camera is asked", || {
        accepted = camera.accept().ok();
        accepted.is_some()
    });
    let (mut caller, _) = accepted.unwrap();
    caller.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut request = [0; 1024];
    let length = caller.read(&mut request).unwrap();
    assert!(text(&request[..length]).starts_with("GET /?password=geheim "));
    drop(caller);
    let logged = || text(&fs::read(&log).unwrap());
    until("it asks again", || logged().contains("/?password=*** is not there, trying again"));
    assert!(!logged().contains("geheim"), "{}", logged());
}

/// A pipeline whose camera is silent writes nothing, so that it never notices that nobody reads it any more.
#[test]
fn a_pipeline_that_gives_no_picture_ends_with_the_service() {
    let folder = TempDir::new().unwrap();
    let [state, program, number] = ["state", "gst-launch-1.0", "number"].map(|name| folder.path().join(name));
    fs::write(&program, format!("#!/bin/sh\necho $$ > '{}'\nexec sleep 600\n", number.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0", "--camera", "gst:videotestsrc"];
    let mut command = orco(&shipped(), &state, &arguments);
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()));
    let service = Service::of(command);
    let written = || fs::read_to_string(&number).unwrap_or_default();
    until("the pipeline runs", || written().ends_with('\n'));
    kill(Pid::from_raw(service.id().cast_signed()), Signal::SIGTERM).unwrap();
    service.wait();
    let process = Path::new("/proc").join(written().trim());
    assert!(!process.exists(), "{} outlives the service", process.display());
}

#[test]
fn hostile_clients_keep_nobody_else_waiting() {
    let mut trial = orco_trials::trial!(9, "hostile connections");
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    // As many as this process may have; in the short trial, several times as many as the service takes.
    let wanted = if heavy() { 10_000 } else { 3000 };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let count = hard.saturating_sub(500).min(wanted) as usize;
    let picture = fs::read(shots("try", "mug").join("1.jpg")).unwrap();
    let served = |after: &str| {
        let (status, answer) = service.ask("POST", "/api/v1/classify", "image/jpeg", &picture);
        assert_eq!(status, 200, "after {after}: {}", text(&answer));
    };
    let heads = [
        ("", "silent connections"),
        ("POST /api/v1/classify HTTP/1.1\r\nHost: local", "unfinished heads"),
        (
            "POST /api/v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: 60000000\r\n\r\nx",
            "slow bodies",
        ),
    ];
    let mut held: Vec<TcpStream> = Vec::with_capacity(count);
    for number in 0..count {
        let (head, what) = heads[number * heads.len() / count];
        let mut stream = service.connect();
        // Those that are in too many are closed.
        let _ = stream.write_all(head.as_bytes());
        held.push(stream);
        if number % 500 == 499 {
            served(what);
        }
    }
    trial.count(held.len());
    drop(held);
    for path in ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/%00", "/api/v1/classes/%ff"] {
        let (status, answer) = service.ask("GET", path, "", b"");
        assert!((400..500).contains(&status), "{path}: {status} {}", text(&answer));
    }
    // A PNG file of 65,000 x 65,000 pixels, as far as its head says.
    let mut bomb = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\xfd\xe8\0\0\xfd\xe8\x08\x02\0\0\0".to_vec();
    bomb.extend([0; 64]);
    for bytes in [&bomb[..], b"", b"\xff\xd8\xff", &vec![0; 63 << 20]] {
        let (status, _) = service.ask("POST", "/api/v1/classify", "image/png", bytes);
        assert!((400..500).contains(&status), "{status} for {} bytes", bytes.len());
    }
    served("everything");
    let (_, most) = service.memory();
    assert!(most < 600, "{most} MiB at most");
    assert!(!folder.path().join("state/etc").exists());
}

/// An hour of a camera that is read twice a second, in the full tier; five minutes else. ORCO_LOAD_BUNDLE names
/// another bundle of `models`.
#[test]
fn every_frame_is_answered_while_sessions_are_learned_and_memory_stays() {
    let folder = TempDir::new().unwrap();
    let bundle = std::env::var("ORCO_LOAD_BUNDLE").unwrap_or_else(|_| "cifar100-edge".into());
    let service = Service::start(&bundle, folder.path());
    let frames = if heavy() { 7200 } else { 600 };
    let film: Vec<Vec<u8>> = ["cactus", "mug", "rubber-duck", "traffic-cone"]
        .iter()
        .flat_map(|class| (1..=8).map(|number| fs::read(shots("try", class).join(format!("{number}.jpg"))).unwrap()))
        .collect();
    let look = |number: usize| {
        let started = Instant::now();
        let (status, answer) = service.ask("POST", "/api/v1/classify", "image/jpeg", &film[number % film.len()]);
        assert_eq!(status, 200, "frame {number}: {}", text(&answer));
        started.elapsed()
    };
    for number in 0..100 {
        look(number);
    }
    let (before, _) = service.memory();
    let mut times: Vec<Duration> = thread::scope(|scope| {
        let taught = scope.spawn(|| {
            for session in 0..10 {
                let part = if session < 6 { "learn" } else { "try" };
                let class = ["cactus", "dumbbell", "mug", "rubber-duck", "toy-brick", "traffic-cone"][session % 6];
                let label = format!("{class} {session}");
                let shots =
                    fs::read_dir(shots(part, class)).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
                for shot in shots.take(5) {
                    let place = format!("/api/v1/shots/{}?anyway=true", label.replace(' ', "%20"));
                    assert_eq!(service.ask("POST", &place, "image/jpeg", &shot).0, 200);
                }
                let job = service.learn(&label);
                assert_eq!(job["state"], "done", "{job}");
            }
        });
        // As long as it learns, and as many as an hour has.
        (0..).take_while(|number| *number < frames || !taught.is_finished()).map(look).collect()
    });
    times.sort_unstable();
    let at = |share: f64| times[(share * (times.len() - 1) as f64) as usize].as_secs_f64() * 1e3;
    let (after, most) = service.memory();
    println!(
        "{bundle}, {} frames: p50 {:.1} ms, p95 {:.1} ms, p99 {:.1} ms; memory {before} MiB before, {after} after, {most} at most",
        times.len(),
        at(0.5),
        at(0.95),
        at(0.99)
    );
    assert!(most < before + 200, "memory grew from {before} to {most} MiB");
    let classes = service.json("GET", "/api/v1/classes", &json!(null));
    let learned = classes["classes"].as_array().unwrap().iter().filter(|class| class["learned"] == true);
    assert_eq!(learned.count(), 10);
}
