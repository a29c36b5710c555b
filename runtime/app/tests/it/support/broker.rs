//! A real MQTT broker, mosquitto, and a listener of its own client.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use orco_trials::{missing, until};
use serde_json::Value;

/// Whether mosquitto is here; where not, says what was left out, unless ORCO_MOSQUITTO says that it must be.
pub fn is_here(what: &str) -> bool {
    let starts = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    let here = starts(Broker::program()) && starts("mosquitto_sub");
    if !here {
        missing("ORCO_MOSQUITTO", what, "mosquitto is not installed (Debian: mosquitto, mosquitto-clients)");
    }
    here
}

/// mosquitto, until it is dropped. It keeps nothing on disk.
pub struct Broker<'a> {
    pub port: u16,
    folder: &'a Path,
    process: Child,
}

impl<'a> Broker<'a> {
    /// Debian keeps it where only root looks for programs.
    fn program() -> &'static str {
        let debian = "/usr/sbin/mosquitto";
        if Path::new(debian).exists() { debian } else { "mosquitto" }
    }

    /// With lines of configuration beside those that name its address.
    pub fn start(folder: &'a Path, configuration: &str) -> Self {
        // A port that is free now may be taken when the broker comes.
        (0..20)
            .find_map(|_| {
                let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
                // As root it would become a user that cannot read the test's files.
                let text = format!("listener {port} 127.0.0.1\nuser root\n{configuration}\n");
                fs::write(folder.join("mosquitto.conf"), text).unwrap();
                let process = Self::run(folder, port)?;
                Some(Self { port, folder, process })
            })
            .expect("mosquitto starts")
    }

    fn run(folder: &Path, port: u16) -> Option<Child> {
        let log = fs::File::create(folder.join("mosquitto.log")).unwrap();
        let mut command = Command::new(Self::program());
        command.arg("-c").arg(folder.join("mosquitto.conf")).stdout(Stdio::null()).stderr(log);
        let mut process = command.spawn().unwrap();
        loop {
            if process.try_wait().unwrap().is_some() {
                return None;
            }
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(process);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it; everybody loses their connection.
    pub fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again, with all forgotten.
    pub fn start_again(&mut self) {
        until("mosquitto starts again", || match Self::run(self.folder, self.port) {
            Some(process) => {
                self.process = process;
                true
            }
            None => false,
        });
    }

    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// The bytes that the broker keeps of a topic, or the next ones.
    pub fn bytes(&self, topic: &str) -> Vec<u8> {
        let mut command = Command::new("mosquitto_sub");
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-t", topic, "-N", "-C", "1", "-W", "60"]);
        command.output().unwrap().stdout
    }

    /// Hears all messages but pictures from now on, retained ones first.
    pub fn listen(&self, arguments: &[&str]) -> Listener {
        let mut command = Command::new("mosquitto_sub");
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-t", "#", "-q", "1", "-F", "%r\t%t\t%p"]);
        command.args(["-T", "+/+/picture"]);
        let mut process = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let heard: Arc<Mutex<Vec<Message>>> = Arc::default();
        let (lines, theirs) = (BufReader::new(process.stdout.take().unwrap()).lines(), Arc::clone(&heard));
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut parts = line.splitn(3, '\t').map(str::to_owned);
                let mut next = || parts.next().unwrap();
                let message = Message { retained: next() == "1", topic: next(), text: next() };
                theirs.lock().unwrap().push(message);
            }
        });
        Listener { process, heard }
    }
}

impl Drop for Broker<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A message as it was heard.
#[derive(Clone, Debug)]
pub struct Message {
    /// Whether the broker had kept it.
    pub retained: bool,
    pub topic: String,
    pub text: String,
}

impl Message {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Hears what the broker hands on, until it is dropped.
pub struct Listener {
    process: Child,
    heard: Arc<Mutex<Vec<Message>>>,
}

impl Listener {
    /// Everything that was heard.
    pub fn heard(&self) -> Vec<Message> {
        self.heard.lock().unwrap().clone()
    }

    /// The newest message of a topic, once it is such a one.
    pub fn once(&self, topic: &str, what: &str, is: impl Fn(&Message) -> bool) -> Message {
        let mut newest = None;
        until(what, || {
            newest = self.heard().into_iter().rev().find(|message| message.topic == topic);
            newest.as_ref().is_some_and(&is)
        });
        newest.unwrap()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
