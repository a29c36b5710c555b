//! A service on a socket, and a client that can misbehave.

#![allow(dead_code, reason = "no test program uses all of it")]

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use orco_runtime::bundle::Bundle;
use orco_runtime::learner::LearnerSettings;
use orco_runtime::store::Store;
use orco_serve::refusal::ErrorCode;
use orco_serve::{Server, ServerOptions, Service};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A sample picture's bytes, `part` being `learn` or `try`.
pub fn sample(part: &str, class: &str, number: usize) -> Vec<u8> {
    let path = workspace().join("examples/shots").join(part).join(class).join(format!("{number}.jpg"));
    std::fs::read(path).unwrap()
}

/// How long a test waits for what must come; none depends on how soon it does.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A service that runs until it is dropped.
pub struct Running {
    pub address: SocketAddr,
    pub url: String,
    /// What every request gets in its head.
    pub token: Option<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// On this machine alone, at a port that is free.
    pub fn start(state: &Path) -> Self {
        Self::with(state, ServerOptions::default())
    }

    pub fn with(state: &Path, options: ServerOptions) -> Self {
        let bundle = Bundle::open(workspace().join("models/cifar100-edge")).unwrap();
        Self::serving(Service::open(bundle, Store::new(state), LearnerSettings::default()).unwrap(), options)
    }

    /// A service that was opened.
    pub fn serving(service: Arc<Service>, options: ServerOptions) -> Self {
        let mut listen = options.listen;
        listen.set_port(0);
        let server = Server::bind(service, options.listen(listen)).unwrap();
        let (address, url) = (server.address(), server.url());
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            server.run_until(async { drop(stopped.await) }).unwrap();
        });
        Self { address, url, token: None, stop: Some(stop), thread: Some(thread) }
    }

    /// A state folder, and a service on it.
    pub fn fresh() -> (TempDir, Self) {
        let folder = TempDir::new().unwrap();
        let running = Self::start(folder.path());
        (folder, running)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// An answer that goes on until the service ends it: its head, then its body.
    pub fn stream(&self, path: &str) -> BufReader<TcpStream> {
        let mut stream = self.connect();
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{token}\r\n").unwrap();
        BufReader::new(stream)
    }

    /// A request with headers of one's own beside `Host` (unless it is among them), `Authorization` and the length.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: localhost:{}\r\n", self.address.port());
        }
        if let Some(token) = self.token.as_ref().filter(|_| !headers.iter().any(|(name, _)| *name == "Authorization")) {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        // A body that is refused unread breaks the connection off.
        let _ = stream.write_all(body);
        Answer::read(stream)
    }

    pub fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &[], b"").ok()
    }

    /// What a path answers, once it is so.
    pub fn until(&self, path: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let answer = self.get(path);
            if is(&answer) {
                return answer;
            }
            assert!(started.elapsed() < TIMEOUT, "it never came: {what}; {answer}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn json(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.ask(method, path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
    }

    pub fn picture(&self, path: &str, bytes: &[u8]) -> Answer {
        self.ask("POST", path, &[("Content-Type", "image/jpeg")], bytes)
    }

    /// The label of what a picture shows.
    pub fn label(&self, picture: &[u8]) -> String {
        let answer = self.picture("/api/v1/classify", picture).ok();
        answer["matches"][0]["label"].as_str().unwrap().to_owned()
    }

    /// Waits for a job to end and returns it.
    pub fn finished(&self, queued: &Answer) -> Value {
        assert_eq!(queued.status, 202, "{}", queued.text());
        let id = queued.value()["id"].as_str().unwrap().to_owned();
        loop {
            let job = self.get(&format!("/api/v1/jobs/{id}"));
            if job["state"] == "failed" {
                check_code(&job);
            }
            if job["state"] == "done" || job["state"] == "failed" {
                return job;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Shoots a class and learns it.
    pub fn teach(&self, label: &str, class: &str) -> Value {
        for number in 1..=5 {
            let taken = self.picture(&format!("/api/v1/shots/{label}"), &sample("learn", class, number)).ok();
            assert_eq!(taken["accepted"], true, "{class} {number}: {taken}");
        }
        let job = self.finished(&self.json("POST", "/api/v1/learn", &json!({ "label": label })));
        assert_eq!(job["state"], "done", "{job}");
        job
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || thread::panicking());
    }
}

/// Checks that a refusal, or a job that failed, has a code and all the values that go with it.
pub fn check_code(refusal: &Value) -> ErrorCode {
    let code = ErrorCode::ALL.iter().find(|code| refusal["code"] == json!(code));
    let code = *code.unwrap_or_else(|| panic!("no such code: {refusal}"));
    let mut given: Vec<&String> = refusal["values"].as_object().into_iter().flat_map(|values| values.keys()).collect();
    let mut expected = code.values().to_vec();
    given.sort_unstable();
    expected.sort_unstable();
    assert_eq!(given, expected, "{refusal}");
    code
}

/// What came back.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn read(mut stream: impl Read) -> Self {
        let mut bytes = Vec::new();
        // A connection that was reset after the answer is as good as one that was closed.
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(&bytes)));
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        let answer = Self { status, head: head.to_lowercase(), body: bytes[end + 4..].to_vec() };
        if let Some(refusal) = answer.refusal() {
            assert_eq!(check_code(&refusal).status(), status, "{refusal}");
        }
        answer
    }

    /// What the service says where it refuses a request; answers to `HEAD` say nothing.
    fn refusal(&self) -> Option<Value> {
        let refusal: Option<Value> = serde_json::from_slice(&self.body).ok();
        refusal.filter(|refusal| self.status >= 400 && refusal["error"].is_string())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The JSON of an answer that is no refusal.
    pub fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text());
        self.value()
    }

    pub fn error(&self) -> String {
        self.value()["error"].as_str().unwrap_or_default().to_owned()
    }

    pub fn code(&self) -> String {
        self.value()["code"].as_str().unwrap_or_default().to_owned()
    }
}
