//! The service with an MQTT broker, and photographs before its camera.

use std::cell::Cell;
use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::Duration;

use orco_trials::until;

use crate::support::broker::Listener;
use crate::support::service::Service;
use crate::support::{orco, shipped, shots, text};

/// The service with a broker, a folder for its camera, and its log.
pub struct Reporting<'a> {
    folder: &'a Path,
    pub service: Service,
    /// Photographs that the camera has seen.
    shown: Cell<usize>,
}

impl<'a> Reporting<'a> {
    pub fn start(folder: &'a Path, broker: &str, more: &[&str]) -> Self {
        let camera = folder.join("camera");
        fs::create_dir_all(&camera).unwrap();
        let source = format!("folder:{}", camera.display());
        let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0", "--camera", &source];
        let arguments = [&arguments[..], &["--mqtt-broker", broker, "--mqtt-id", "door3"], more].concat();
        let mut command = orco(&shipped(), &folder.join("state"), &arguments);
        command.env("RUST_LOG", "info").stderr(File::create(folder.join("log")).unwrap());
        Self { folder, service: Service::of(command), shown: Cell::new(0) }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// Teaches a class of the sample pictures.
    pub fn teach(&self, label: &str, class: &str) {
        self.service.teach(label, class);
    }

    /// Puts photographs of a class before the camera, one after another, until one is answered with `label`, and
    /// the broker was told.
    pub fn show(&self, class: &str, label: &str, listener: &Listener) {
        until("the label is told", || {
            let shown = self.shown.replace(self.shown.get() + 1);
            let number = shown % 4 + 1;
            let photograph = shots("try", class).join(format!("{number}.jpg"));
            fs::copy(photograph, self.folder.join("camera").join(format!("{shown:04}.jpg"))).unwrap();
            thread::sleep(Duration::from_millis(500));
            let heard = listener.heard().into_iter().rev().find(|message| message.topic == "orco/door3/state");
            heard.is_some_and(|message| message.json()["label"] == label)
        });
    }

    pub fn metric(&self, name: &str) -> u64 {
        let (status, metrics) = self.service.ask("GET", "/metrics", "", b"");
        assert_eq!(status, 200);
        let metrics = text(&metrics);
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    }
}
