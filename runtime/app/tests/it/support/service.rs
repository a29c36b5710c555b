//! `orco serve`, as a user starts it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{orco, shots, text, workspace};

/// The program, until it is dropped: then it is killed, as by a power cut.
pub struct Service {
    pub url: String,
    /// Unless somebody else started it.
    process: Option<Child>,
}

impl Service {
    /// Serves a bundle of `models`, with its state in `folder`.
    pub fn start(bundle: &str, folder: &Path) -> Self {
        let bundle = workspace().join("models").join(bundle);
        let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0"];
        Self::of(orco(&bundle, &folder.join("state"), &arguments))
    }

    /// Runs a command that serves.
    pub fn of(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = process.stdout.take().unwrap();
        let mut service = Self::started(output);
        service.process = Some(process);
        service
    }

    /// Runs a command that serves at an address, whatever becomes of what it prints.
    #[cfg(target_os = "linux")]
    pub fn listening(mut command: Command, address: &str) -> Self {
        let process = command.spawn().unwrap();
        let mut service = Self { url: format!("http://{address}"), process: Some(process) };
        while TcpStream::connect(address).is_err() {
            let ended = service.process.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "it does not serve: {ended:?}");
            thread::sleep(Duration::from_millis(20));
        }
        service
    }

    /// One that somebody else has started and will end, by what it prints.
    pub fn started(output: ChildStdout) -> Self {
        let mut lines = BufReader::new(output).lines();
        let line = lines.find_map(|line| Some(line.unwrap()).filter(|line| line.contains("http://")));
        let line = line.expect("it says where it listens");
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
        Self::at(url)
    }

    /// One that somebody else has started and will end, by its address.
    pub fn at(url: String) -> Self {
        Self { url, process: None }
    }

    pub fn connect(&self) -> TcpStream {
        let port = self.url.rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        stream
    }

    /// Status and body of an answer.
    pub fn ask(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = self.connect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        // What is refused unread breaks the connection off.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("{method} {path}: no answer"));
        let status = answer[9..12].iter().fold(0, |status, digit| 10 * status + u16::from(digit - b'0'));
        (status, answer.split_off(end + 4))
    }

    /// The JSON of an answer that is no refusal.
    pub fn json(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = self.ask(method, path, "application/json", body.as_bytes());
        assert!((200..300).contains(&status), "{method} {path}: {status} {}", text(&answer));
        serde_json::from_slice(&answer).unwrap()
    }

    /// Sends the first sample pictures of a class as shots of a label.
    pub fn shoot(&self, label: &str, class: &str, count: usize) {
        self.send_shots(&format!("/api/v1/shots/{label}"), class, count);
    }

    /// Sends the first sample pictures of a class as shots of a label, even where one is unfit or was a shot before.
    pub fn shoot_anyway(&self, label: &str, class: &str, count: usize) {
        self.send_shots(&format!("/api/v1/shots/{label}?anyway=true"), class, count);
    }

    fn send_shots(&self, path: &str, class: &str, count: usize) {
        for number in 1..=count {
            let shot = fs::read(shots("learn", class).join(format!("{number}.jpg"))).unwrap();
            let (status, answer) = self.ask("POST", path, "image/jpeg", &shot);
            assert_eq!(status, 200, "{}", text(&answer));
        }
    }

    /// Learns a label from the shots that were sent; returns the job as it ended.
    pub fn learn(&self, label: &str) -> Value {
        let job = self.json("POST", "/api/v1/learn", &json!({ "label": label }));
        let path = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
        loop {
            let job = self.json("GET", &path, &Value::Null);
            if job["state"] == "done" || job["state"] == "failed" {
                return job;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Teaches a label five sample pictures of a class.
    pub fn teach(&self, label: &str, class: &str) {
        self.shoot(label, class, 5);
        let job = self.learn(label);
        assert_eq!(job["state"], "done", "{job}");
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("it was started here").id()
    }

    /// Waits until the process has ended.
    pub fn wait(mut self) {
        assert!(self.process.take().unwrap().wait().unwrap().success());
    }

    /// Memory of the process in MiB: what it holds now, and at most.
    #[cfg(target_os = "linux")]
    pub fn memory(&self) -> (usize, usize) {
        let of = |name: &str| (orco_trials::system::status(self.id(), name) / 1024) as usize;
        (of("VmRSS"), of("VmHWM"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// What a service tells as it happens.
pub struct Events(BufReader<TcpStream>);

impl Events {
    /// From now on.
    pub fn of(service: &Service) -> Self {
        let mut stream = service.connect();
        stream.write_all(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut events = Self(BufReader::new(stream));
        // Nothing is missed once the head has come.
        while events.line() != "\r\n" {}
        events
    }

    /// The next line, of whatever kind.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the events have ended");
        line
    }

    /// Waits until a change has ended and returns its last event.
    pub fn wait_for(&mut self, job: &Value) -> Value {
        loop {
            let line = self.line();
            let Some(event) = line.strip_prefix("data: ").and_then(|data| serde_json::from_str::<Value>(data).ok())
            else {
                continue;
            };
            if event["id"] == job["id"] && (event["state"] == "done" || event["state"] == "failed") {
                return event;
            }
        }
    }
}
