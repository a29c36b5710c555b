//! Limits of the system: too few threads or open files, a limit of file sizes, a disk that cannot be written.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orco_trials::skipped;
use orco_trials::tmpfs::TmpfsMount;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::service::Service;
use crate::support::user::User;
use crate::support::{Device, argument, assert_refused, copied_bundle, orco, shipped, shots, text};

/// How long anything may take that does not hang.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Has a command run under a limit.
fn limited(command: &mut Command, resource: Resource, limit: u64) {
    let set = move || Ok(setrlimit(resource, limit, limit)?);
    // SAFETY: setrlimit(2) is safe between fork and exec, and nothing else is called.
    unsafe { command.pre_exec(set) };
}

/// `orco serve`, which may end, serve, or hang.
struct LimitedService {
    process: Child,
    log: PathBuf,
    url: mpsc::Receiver<String>,
}

impl LimitedService {
    fn start(mut command: Command, log: PathBuf) -> Self {
        command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
        let mut process = command.spawn().unwrap();
        let (said, url) = mpsc::channel();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let url = line.split_whitespace().find(|word| word.starts_with("http://"));
                url.into_iter().for_each(|url| drop(said.send(url.to_owned())));
            }
        });
        Self { process, log, url }
    }

    /// Where it serves, or `None` if it has ended, with exit code 1 and one sentence.
    fn outcome(&mut self, what: &str) -> Option<Service> {
        if let Ok(url) = self.url.recv_timeout(TIMEOUT) {
            return Some(Service::at(url));
        }
        let code = self.ended(what);
        let output = Output { status: code, stdout: Vec::new(), stderr: fs::read(&self.log).unwrap() };
        assert_refused(&output, "");
        None
    }

    fn ended(&mut self, what: &str) -> std::process::ExitStatus {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "{what}: it hangs: {}", text(&fs::read(&self.log).unwrap()));
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as systemd does.
    fn stop(mut self, what: &str) {
        kill(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGTERM).unwrap();
        let status = self.ended(what);
        assert!(status.success(), "{what}: {status}: {}", text(&fs::read(&self.log).unwrap()));
    }
}

impl Drop for LimitedService {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn picture() -> Vec<u8> {
    fs::read(shots("try", "mug").join("1.jpg")).unwrap()
}

/// Teaches a class; returns the job as it ended.
fn teach(service: &Service) -> Value {
    service.shoot("mug", "mug", 3);
    service.learn("mug")
}

/// Threads that a user has.
fn threads_of(user: u32) -> u64 {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("task"));
    let own = processes.filter(|tasks| fs::metadata(tasks).is_ok_and(|facts| facts.uid() == user));
    own.map(|tasks| fs::read_dir(tasks).map_or(0, |tasks| tasks.count() as u64)).sum()
}

#[test]
fn with_too_few_threads_the_service_ends_with_a_sentence_and_else_it_serves_and_stops() {
    let user = User::new(copied_bundle);
    let state = user.folder.path().join("state");
    fs::create_dir(&state).unwrap();
    user.give(&state);
    let (mut refused, mut served) = (0, 0);
    for more in 1..=14 {
        let what = format!("with {more} threads more");
        let mut command = user.command(&state);
        command.args(["--engine", "rten", "serve", "--listen", "127.0.0.1:0"]).env_remove("RUST_LOG");
        command.env("ORCO_CONFIG", "").env("RUST_BACKTRACE", "0").current_dir(&state);
        limited(&mut command, Resource::RLIMIT_NPROC, threads_of(user.id()) + more);
        let mut tried = LimitedService::start(command, user.folder.path().join("log"));
        match tried.outcome(&what) {
            None => {
                let said = text(&fs::read(&tried.log).unwrap());
                assert!(said.contains("cannot start the service's threads"), "{what}: {said}");
                assert!(said.contains("ulimit -u"), "{what}: {said}");
                refused += 1;
            }
            Some(service) => {
                for _ in 0..3 {
                    let (status, answer) = service.ask("POST", "/api/v1/classify", "image/jpeg", &picture());
                    assert_eq!(status, 200, "{what}: {}", text(&answer));
                }
                assert_eq!(service.ask("GET", "/v2/health/ready", "", b"").0, 200, "{what}");
                tried.stop(&what);
                served += 1;
            }
        }
    }
    assert_eq!(refused + served, 14);
    println!("{refused} ended with a sentence, {served} served and stopped");
    if user.is_root {
        assert!(refused > 0 && served > 0, "{refused} {served}");
    }
}

#[test]
fn with_few_open_files_silent_listeners_keep_nobody_out() {
    let mut served = 0;
    for limit in [10, 14, 18, 20, 24, 40] {
        let folder = TempDir::new().unwrap();
        let what = format!("with {limit} open files");
        let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0"];
        let mut command = orco(&shipped(), &folder.path().join("state"), &arguments);
        limited(&mut command, Resource::RLIMIT_NOFILE, limit);
        let mut tried = LimitedService::start(command, folder.path().join("log"));
        let Some(service) = tried.outcome(&what) else {
            assert!(limit < 20, "{what}: {}", text(&fs::read(&tried.log).unwrap()));
            continue;
        };
        let listen = |_| {
            let mut stream = service.connect();
            write!(stream, "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        };
        let held: Vec<TcpStream> = (0..60).map(listen).collect();
        let (status, answer) = service.ask("POST", "/api/v1/classify", "image/jpeg", &picture());
        assert_eq!(status, 200, "{what}: {}", text(&answer));
        let job = teach(&service);
        assert_eq!(job["state"], "done", "{what}: {job}");
        let said = text(&fs::read(&tried.log).unwrap());
        assert!(limit < 40 || !said.contains("cannot accept"), "{what}, of which some are the state's: {said}");
        drop(held);
        tried.stop(&what);
        served += 1;
    }
    assert!(served >= 3);
}

#[test]
fn open_files_are_allowed_as_far_as_it_goes() {
    let folder = TempDir::new().unwrap();
    let mut command = orco(&shipped(), &folder.path().join("state"), &["serve", "--listen", "127.0.0.1:0"]);
    let set = || Ok(setrlimit(Resource::RLIMIT_NOFILE, 40, 900)?);
    // SAFETY: as in `limited`.
    unsafe { command.pre_exec(set) };
    let service = Service::of(command);
    let limits = fs::read_to_string(format!("/proc/{}/limits", service.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().nth(3), Some("900"), "{files}");
}

#[test]
fn a_limit_of_file_sizes_is_reported_as_a_full_disk_is() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let mug = argument("mug", &shots("learn", "mug"));
    let mut command = orco(&shipped(), &state, &["learn", &mug]);
    limited(&mut command, Resource::RLIMIT_FSIZE, 512);
    let output = command.output().unwrap();
    assert_refused(&output, "File too large");
    assert_refused(&output, "what was known before is unchanged");
    // A service refuses the change, and goes on.
    let mut command = orco(&shipped(), &state, &["--engine", "rten", "serve", "--listen", "127.0.0.1:0"]);
    limited(&mut command, Resource::RLIMIT_FSIZE, 512);
    let service = Service::of(command);
    for _ in 0..2 {
        let job = teach(&service);
        assert_eq!((&job["state"], &job["changed"]), (&json!("failed"), &json!(false)), "{job}");
        assert!(job["error"].as_str().unwrap().contains("File too large"), "{job}");
        assert_eq!(service.ask("DELETE", "/api/v1/shots/mug", "", b"").0, 204);
    }
    assert_eq!(service.ask("GET", "/v2/health/ready", "", b"").0, 200);
}

/// As on a full disk: what was set aside gets its names back, so that nobody takes the device for a new one.
#[test]
fn a_backup_that_has_no_room_leaves_a_lost_state_as_it_was() {
    let device = Device::new();
    device.learn(&[("mug", &shots("learn", "mug"))]);
    let backup = device.folder.path().join("backup");
    let backup = backup.to_str().unwrap();
    device.json(&["backup", backup]);
    let slots = ["slot-a", "slot-b"].map(|slot| device.state().join(slot));
    slots.iter().for_each(|slot| fs::write(slot, b"rotten").unwrap());
    let before = device.state_files();
    let mut command = device.command(&["restore", "--force", backup]);
    limited(&mut command, Resource::RLIMIT_FSIZE, 512);
    assert_refused(&command.output().unwrap(), "File too large");
    assert_eq!(device.state_files(), before);
    device.refused(&["list"], "no copy of the state can be used");
    device.json(&["restore", "--force", backup]);
    assert_eq!(device.saved().state.classes.len(), 1);
}

#[test]
fn ready_tells_of_a_disk_that_is_read_only_or_full() {
    let Some(mounted) = TmpfsMount::new("size=16m") else {
        skipped("a service on full and read-only disks (mounting needs root)");
        return;
    };
    let service = Service::start("cifar100-edge", mounted.path());
    let until = |status: u16, said: &str| {
        let end = Instant::now() + TIMEOUT;
        loop {
            let (is, _) = service.ask("GET", "/v2/health/ready", "", b"");
            let problems = service.json("GET", "/api/v1/status", &Value::Null)["problems"].to_string();
            if is == status && problems.contains(said) {
                return;
            }
            assert!(Instant::now() < end, "never {status}, \"{said}\": {is} {problems}");
            thread::sleep(Duration::from_millis(100));
        }
    };
    until(200, "[]");
    mounted.remount("ro");
    until(503, "is on a disk that is read-only");
    let (status, answer) = service.ask("POST", "/api/v1/classify", "image/jpeg", &picture());
    assert_eq!(status, 200, "it goes on answering: {}", text(&answer));
    mounted.remount("rw");
    until(200, "[]");
    mounted.fill();
    until(503, " is full");
    fs::remove_file(mounted.path().join("ballast")).unwrap();
    until(200, "[]");
}

#[test]
fn a_service_backs_up_a_device_whose_disk_takes_no_file() {
    let Some(mounted) = TmpfsMount::new("size=16m") else {
        skipped("backups over HTTP of full and read-only disks (mounting needs root)");
        return;
    };
    let state = mounted.path().join("state");
    let mug = argument("mug", &shots("learn", "mug"));
    let learned = orco(&shipped(), &state, &["learn", "--align", "never", &mug]).output().unwrap();
    assert!(learned.status.success(), "{}", text(&learned.stderr));
    let serve = || orco(&shipped(), &state, &["--engine", "rten", "serve", "--listen", "127.0.0.1:0"]);
    let service = Service::of(serve());
    let nowhere = Service::of({
        let mut command = serve();
        command.env("TMPDIR", "/nowhere");
        command
    });
    let tried = || {
        let (status, backup) = service.ask("GET", "/api/v1/backup", "", b"");
        assert!(status == 200 && backup.len() > 1000, "{status}: {}", text(&backup));
        let (status, refused) = nowhere.ask("GET", "/api/v1/backup", "", b"");
        assert_eq!(status, 500);
        assert!(text(&refused).contains("`orco backup FILE` writes one on another disk"), "{}", text(&refused));
    };
    mounted.fill();
    tried();
    fs::remove_file(mounted.path().join("ballast")).unwrap();
    mounted.remount("ro");
    tried();
}
