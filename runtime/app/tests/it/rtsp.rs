//! A camera on the network: `orco serve` names what GStreamer's own RTSP server plays, real photographs beside a
//! microphone, loses it, and finds it again.
//!
//! Debian: gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad
//! gstreamer1.0-libav gir1.2-gst-rtsp-server-1.0 python3-gi. `cargo xtask test --install` sees to them; where they are
//! not there, these tests are left out and say so.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use orco_trials::missing;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::service::Service;
use crate::support::{orco, shipped, shots, text};

/// How long a test waits for what must come; none depends on how soon it does.
const TIMEOUT: Duration = Duration::from_secs(240);

/// A camera that speaks RTSP, until it is dropped.
struct Camera {
    process: Child,
    port: String,
}

impl Camera {
    /// Plays the photographs of a class; why it cannot where something is missing.
    fn start(port: &str, encoding: &str, class: &str) -> Result<Self, String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support/rtsp.py");
        let photographs: Vec<PathBuf> =
            (1..=4).map(|number| shots("try", class).join(format!("{number}.jpg"))).collect();
        let mut command = Command::new(python().ok_or("no python3 has gi and GStreamer's RTSP server")?);
        command.arg(script).args([port, encoding]).args(photographs).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        if port.is_empty() {
            return Err(text(&process.wait_with_output().unwrap().stderr).trim().to_owned());
        }
        Ok(Self { process, port: port.trim().to_owned() })
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Debian's packages for Python are in its own Python alone, which need not be the first on the path.
fn python() -> Option<&'static str> {
    let asks = "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer";
    let has_all =
        |program: &&str| Command::new(program).args(["-c", asks]).output().is_ok_and(|output| output.status.success());
    ["/usr/bin/python3", "python3"].into_iter().find(has_all)
}

/// Waits until what the service says of its camera is so.
fn live(service: &Service, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    loop {
        let live = service.json("GET", "/api/v1/live", &Value::Null);
        if is(&live) {
            return live;
        }
        assert!(start.elapsed() < TIMEOUT, "not so after {TIMEOUT:?}: {what}: {live:#}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn is_named_on_the_network(encoding: &str) {
    let missing = |reason: &str| missing("ORCO_RTSP", &format!("a camera that speaks RTSP, {encoding}"), reason);
    let camera = match Camera::start("0", encoding, "mug") {
        Ok(camera) => camera,
        Err(reason) => return missing(&reason),
    };
    if Command::new("gst-launch-1.0").arg("--version").output().is_err() {
        return missing("gst-launch-1.0 is not installed (Debian: gstreamer1.0-tools)");
    }
    let folder = TempDir::new().unwrap();
    let source = format!("rtsp://127.0.0.1:{}/1", camera.port);
    let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0", "--camera", &source];
    let service = Service::of(orco(&shipped(), &folder.path().join("state"), &arguments));
    service.teach("beaker", "mug");
    let seen = live(&service, "the photographs are named", |live| live["label"] == "beaker" && live["known"] == true);
    assert_eq!(seen["state"], "running", "{seen:#}");
    let (status, frame) = service.ask("GET", "/api/v1/camera.jpg", "", b"");
    assert!(status == 200 && frame.starts_with(b"\xff\xd8"), "{status}");
    // Switched off, and on again with another thing before it.
    let port = camera.port.clone();
    drop(camera);
    live(&service, "it is away", |live| live["state"] == "away" && live["label"].is_null());
    service.teach("duck", "rubber-duck");
    let start = Instant::now();
    let _camera = loop {
        match Camera::start(&port, encoding, "rubber-duck") {
            Ok(camera) => break camera,
            Err(reason) => assert!(start.elapsed() < TIMEOUT, "it does not start again: {reason}"),
        }
        thread::sleep(Duration::from_millis(200));
    };
    live(&service, "it is back", |live| live["state"] == "running" && live["label"] == "duck");
}

#[test]
fn a_camera_that_sends_jpeg_over_rtsp_is_named_lost_and_found() {
    is_named_on_the_network("jpeg");
}

#[test]
fn a_camera_that_sends_h264_over_rtsp_is_named_lost_and_found() {
    is_named_on_the_network("h264");
}
