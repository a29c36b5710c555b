//! The service under systemd: what it tells, and that its unit shuts it in.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orco_runtime::encoder::library;
use orco_trials::skipped;
use serde_json::Value;

use crate::support::service::Service;
use crate::support::{Device, argument, shipped, shots, text};

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/orco.service");
/// Most that `systemd-analyze security` may give: 0 is shut in, 10 is wide open.
const EXPOSURE: f64 = 2.0;
/// Serves at a port that is free, with the engine that needs no other file.
const SERVE: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--engine", "rten"];

struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What listens in the place of systemd.
struct Systemd {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Systemd {
    /// Listens in the folder of a device.
    fn of(device: &Device) -> Self {
        let path = device.folder.path().join("systemd");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        Self { socket, path }
    }

    /// Waits until it hears something; returns all that it heard until then.
    fn hears(&self, what: &str) -> Vec<String> {
        let mut heard = Vec::new();
        let mut bytes = [0; 4096];
        while !heard.iter().any(|line| line == what) {
            let length = self.socket.recv(&mut bytes).unwrap_or_else(|error| panic!("{error}: no {what} in {heard:?}"));
            heard.extend(String::from_utf8_lossy(&bytes[..length]).lines().map(str::to_owned));
        }
        heard
    }

    /// Starts the service by another program, and waits until it listens.
    fn serve(&self, device: &Device, starter: &[&str]) -> Running {
        let command = device.command(&SERVE);
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut started = Command::new(starter[0]);
        started.args(&starter[1..]).args(words).envs(variables).env("NOTIFY_SOCKET", &self.path).stdout(Stdio::null());
        let service = Running(started.spawn().unwrap());
        self.hears("READY=1");
        service
    }
}

#[test]
fn systemd_hears_when_it_listens_lives_and_stops() {
    let device = Device::new();
    let systemd = Systemd::of(&device);
    let mut command = device.command(&SERVE);
    command.env("NOTIFY_SOCKET", &systemd.path).env("WATCHDOG_USEC", "300000").stdout(Stdio::piped());
    let mut service = Running(command.spawn().unwrap());
    let heard = systemd.hears("READY=1");
    assert!(!heard.iter().any(|line| line == "WATCHDOG=1"), "{heard:?}");
    // It listens when it says so.
    let mut said = [0; 200];
    let length = service.0.stdout.as_mut().unwrap().read(&mut said).unwrap();
    let port =
        text(&said[..length]).split(':').nth(2).and_then(|rest| rest.split(' ').next()?.parse::<u16>().ok()).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET /v2/health/live HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    for _ in 0..3 {
        systemd.hears("WATCHDOG=1");
    }
    service.signal(Signal::SIGTERM);
    systemd.hears("STOPPING=1");
    assert!(service.0.wait().unwrap().success());
}

#[test]
fn a_terminal_that_is_closed_ends_the_service_in_order_unless_it_shall_outlive_it() {
    let device = Device::new();
    let systemd = Systemd::of(&device);
    // Whoever runs these tests may outlive a terminal, too (`nohup`, a runner of CI), and a child would inherit that.
    let mut service = systemd.serve(&device, &["env", "--default-signal=HUP"]);
    service.signal(Signal::SIGHUP);
    systemd.hears("STOPPING=1");
    // As bash and the kernel both do.
    service.signal(Signal::SIGHUP);
    assert!(service.0.wait().unwrap().success());

    let mut service = systemd.serve(&device, &["sh", "-c", "trap '' HUP; exec \"$@\"", "sh"]);
    service.signal(Signal::SIGHUP);
    thread::sleep(Duration::from_millis(500));
    assert!(service.0.try_wait().unwrap().is_none(), "it was to outlive its terminal");
    service.signal(Signal::SIGTERM);
    systemd.hears("STOPPING=1");
    assert!(service.0.wait().unwrap().success());
}

/// A service whose state moved to another bundle than the one that its link leads to: in a round with a fleet's hub
/// the link comes last.
struct MovedService {
    running: Running,
    said: Lines<BufReader<ChildStdout>>,
    before: Service,
    systemd: Systemd,
    device: Device,
}

impl MovedService {
    fn new() -> Self {
        let mut device = Device::with_earlier_bundle();
        device.json(&["learn", "--align", "never", &argument("mug", &shots("learn", "mug"))]);
        let link = device.folder.path().join("current");
        symlink(&device.bundle, &link).unwrap();
        device.bundle = link;
        let systemd = Systemd::of(&device);
        let mut command = device.command(&SERVE);
        command.env("NOTIFY_SOCKET", &systemd.path).stdout(Stdio::piped());
        let mut running = Running(command.spawn().unwrap());
        let mut said = BufReader::new(running.0.stdout.take().unwrap()).lines();
        let before = said_service(&mut said);
        systemd.hears("READY=1");
        assert_eq!(status(&before)["bundle"], "earlier");

        device.bundle = shipped();
        device.json(&["upgrade", "--give-up-unkept"]);
        while status(&before)["problem"].is_null() {
            thread::sleep(Duration::from_millis(50));
        }
        Self { running, said, before, systemd, device }
    }

    fn switch_link(&self) {
        let link = self.device.folder.path().join("current");
        fs::remove_file(&link).unwrap();
        symlink(shipped(), &link).unwrap();
    }
}

/// The service that says next where it listens.
fn said_service(said: &mut Lines<BufReader<ChildStdout>>) -> Service {
    let line = said.next().unwrap().unwrap();
    Service::at(line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned())
}

fn status(service: &Service) -> Value {
    service.json("GET", "/api/v1/status", &Value::Null)
}

#[test]
fn the_service_goes_on_with_the_bundle_that_its_state_went_over_to() {
    let mut moved = MovedService::new();
    moved.switch_link();
    let heard = moved.systemd.hears("READY=1");
    assert!(!heard.iter().any(|line| line == "STOPPING=1"), "systemd would end what does not stop: {heard:?}");
    let after = status(&said_service(&mut moved.said));
    assert_eq!((&after["bundle"], &after["problem"]), (&"cifar100-edge".into(), &Value::Null));
    assert!(moved.running.0.try_wait().unwrap().is_none(), "it is another process");
    moved.running.signal(Signal::SIGTERM);
    moved.systemd.hears("STOPPING=1");
    assert!(moved.running.0.wait().unwrap().success());
}

/// As `systemctl stop` at that moment: systemd does not send the signal again, but kills after a minute and a half.
#[test]
fn a_service_that_is_told_to_stop_does_not_go_on_with_another_bundle() {
    let mut moved = MovedService::new();
    // A request that is under way is given two seconds.
    let mut slow = moved.before.connect();
    let head = "POST /api/v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/jpeg\r\nContent-Length: 9\r\n\
                Expect: 100-continue\r\n\r\n";
    slow.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 13];
    slow.read_exact(&mut answer).unwrap();
    assert_eq!(text(&answer), "HTTP/1.1 100 ");
    moved.switch_link();
    while TcpStream::connect(slow.peer_addr().unwrap()).is_ok() {
        thread::sleep(Duration::from_millis(20));
    }
    moved.running.signal(Signal::SIGTERM);
    assert!(moved.said.next().is_none(), "it serves anew");
    assert!(moved.running.0.wait().unwrap().success());
}

/// A signal ends the service in order, which is no failure: a camera must not stay dark for it.
#[test]
fn the_unit_starts_a_service_again_that_a_signal_ended() {
    assert_eq!(unit_values("Restart"), ["always"]);
    assert_eq!(unit_values("RestartPreventExitStatus"), ["2"]);
}

/// Without these, tests would say nothing of a unit that was loosened.
#[test]
fn systemd_rates_the_unit_as_little_exposed() {
    let analyze = Command::new("systemd-analyze").args(["security", "--offline=true", "--no-pager", UNIT]).output();
    let Ok(output) = analyze else {
        return skipped("measuring how far the unit is shut in: systemd-analyze is not installed");
    };
    let said = text(&output.stdout);
    if !output.status.success() && said.is_empty() {
        return skipped("measuring how far the unit is shut in: this systemd-analyze cannot do it offline");
    }
    let level = said.lines().find_map(|line| line.split("Overall exposure level for orco.service: ").nth(1));
    let level = level.and_then(|level| level.split_whitespace().next()?.parse::<f64>().ok());
    assert!(level.is_some_and(|level| level <= EXPOSURE), "{said}");
}

/// All values of a setting of the unit.
fn unit_values(name: &str) -> Vec<String> {
    let unit = fs::read_to_string(UNIT).unwrap();
    let values =
        unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).flat_map(str::split_whitespace);
    values.map(str::to_owned).collect()
}

/// Classes of devices, as `/proc/devices` names them, that the guides promise.
#[test]
fn the_unit_allows_every_device_that_the_guides_name() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/guides");
    let guides = fs::read_dir(book).unwrap().map(|guide| fs::read_to_string(guide.unwrap().path()).unwrap());
    let guides: String = guides.collect();
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    let mut named: BTreeSet<&str> = guides
        .split("/dev/")
        .skip(1)
        .map(|rest| rest.split(|letter| !is_of_name(letter)).next().unwrap().trim_end_matches(char::is_numeric))
        .collect();
    named.extend(guides.contains("libcamerasrc").then_some("libcamerasrc"));
    let classes = |name: &str| match name {
        "video" | "v4l" => &["char-video4linux"][..],
        "gpiochip" => &["char-gpiochip"],
        "dma_heap" => &["char-dma_heap"],
        // Every unit has it.
        "null" => &[],
        "libcamerasrc" => &["char-video4linux", "char-media", "char-dma_heap"],
        other => panic!("which devices are /dev/{other}?"),
    };
    let allowed = unit_values("DeviceAllow");
    assert!(named.len() >= 4, "{named:?}");
    for class in named.into_iter().flat_map(classes) {
        assert!(allowed.iter().any(|allowed| allowed == class), "{class} is not among {allowed:?}");
    }
}

/// `sudo -u orco orco doctor` judges cameras by what that user may open.
#[test]
fn the_packages_user_is_in_the_groups_of_the_service() {
    let postinst = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/debian/postinst")).unwrap();
    let groups = unit_values("SupplementaryGroups");
    assert!(!groups.is_empty());
    for group in groups {
        assert!(postinst.contains(&format!("adduser --quiet orco {group}\n")), "{group} is missing in {postinst}");
    }
}

/// `getifaddrs` asks for addresses through netlink; without it `phone = true` ends the service.
#[test]
fn the_unit_lets_the_service_list_the_machines_addresses() {
    let families = unit_values("RestrictAddressFamilies");
    for family in ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"] {
        assert!(families.iter().any(|allowed| allowed == family), "{family} is not among {families:?}");
    }
}

/// `MemoryDenyWriteExecute`, as the kernel does it: neither engine makes code while it runs.
#[test]
fn both_engines_work_where_no_memory_may_become_code() {
    /// `PR_SET_MDWE` and `PR_MDWE_REFUSE_EXEC_GAIN` of linux/prctl.h, from Linux 6.3 on.
    const SET: [libc::c_int; 2] = [65, 1];
    let shut = |command: &mut Command| {
        let forbid = || {
            // SAFETY: it only makes a system call, between fork and exec; all of its arguments are words.
            let done = unsafe {
                libc::prctl(
                    SET[0],
                    libc::c_ulong::from(1_u8),
                    0 as libc::c_ulong,
                    0 as libc::c_ulong,
                    0 as libc::c_ulong,
                )
            };
            if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        };
        // SAFETY: see above.
        unsafe { command.pre_exec(forbid) };
    };
    let mut probe = Command::new("true");
    shut(&mut probe);
    if probe.status().is_err() {
        return skipped("working where no memory may become code: this kernel cannot forbid it");
    }
    let library = library::locate().and_then(|path| library::check(&path).ok());
    if library.is_none() {
        skipped("ONNX Runtime where no memory may become code, of which no library was found");
    }
    let engines = library.iter().map(|_| "onnxruntime").chain(["rten"]);
    for engine in engines {
        let device = Device::new();
        let duck = argument("duck", &shots("learn", "rubber-duck"));
        let picture = shots("try", "rubber-duck").join("1.jpg");
        for arguments in [&["learn", &*duck], &["classify", picture.to_str().unwrap()]] {
            let mut command = device.command(&[arguments, &["--engine", engine][..]].concat());
            command.env("ORT_DYLIB_PATH", library.as_deref().unwrap_or(Path::new("/nowhere")));
            shut(&mut command);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{engine} {arguments:?}: {}", text(&output.stderr));
        }
    }
}
