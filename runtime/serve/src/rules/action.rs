//! The actions of rules: a web address, a program, a GPIO line.

use std::fmt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use orco_camera::{basic_authorization, mask_address};
use orco_runtime::clock::seconds_since_1970;
use orco_runtime::manifest::hexadecimal;
use orco_runtime::state::sentence::counted;
use serde_json::json;
use sha2::Sha256;

use super::Occurrence;
use crate::worker;

/// How often a web address is called until it takes what it is told.
const TRIES: u32 = 4;
/// Pause before it is called again; twice as long before every further time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How long a call, or a program, may take.
const ACTION_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether a program has ended.
const TICK: Duration = Duration::from_millis(20);

/// What a rule does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Action {
    /// Posts JSON to a web address.
    Webhook(Webhook),
    /// Starts a program, with these arguments.
    Command(Vec<String>),
    /// Switches a line.
    Gpio(Gpio),
}

/// A web address that is told.
#[derive(Clone)]
pub struct Webhook {
    /// The address. A name and a password, percent-encoded, may stand in it.
    pub url: String,
    /// What the message is signed with.
    pub secret: Option<Vec<u8>>,
    /// Whether a small picture goes with it.
    pub picture: bool,
    agent: ureq::Agent,
}

/// A line of a GPIO chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpio {
    /// The chip's character device.
    pub chip: PathBuf,
    /// The line's number on the chip.
    pub line: u32,
    /// How long it is active.
    pub pulse: Duration,
    /// Whether active is low.
    pub active_low: bool,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook({})", mask_address(&self.url))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Webhook(webhook) => write!(f, "webhook {}", mask_address(&webhook.url)),
            Self::Command(command) => write!(f, "command {}", command[0]),
            Self::Gpio(gpio) => write!(f, "line {} of {}", gpio.line, gpio.chip.display()),
        }
    }
}

impl Action {
    /// Does it; gives up when it is told to stop.
    ///
    /// # Errors
    /// What went wrong.
    pub fn perform(&self, occurrence: &Occurrence, is_stopping: &dyn Fn() -> bool) -> Result<(), String> {
        match self {
            Self::Webhook(webhook) => webhook.call(occurrence, is_stopping),
            Self::Command(command) => run(command, occurrence, is_stopping),
            Self::Gpio(gpio) => gpio.pulse(is_stopping),
        }
    }

    /// Ends a call that waits for its answer; later ones fail at once. [`Action::perform`], told to stop, ends all else.
    pub fn interrupt(&self) {
        if let Self::Webhook(webhook) = self {
            webhook.agent.clone().shutdown();
        }
    }
}

impl Webhook {
    /// An address, what messages to it are signed with, and whether a small picture goes with them.
    pub fn new(url: String, secret: Option<Vec<u8>>, picture: bool) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(ACTION_TIMEOUT)).max_redirects(0);
        Self { url, secret, picture, agent: config.build().new_agent() }
    }

    /// The message.
    fn body(&self, occurrence: &Occurrence) -> Vec<u8> {
        let mut body =
            json!({ "label": occurrence.label, "probability": occurrence.probability, "time": occurrence.time });
        if let Some(picture) = occurrence.picture.as_ref().filter(|_| self.picture) {
            body["picture"] = STANDARD.encode(picture).into();
        }
        body.to_string().into_bytes()
    }

    /// HMAC-SHA256 over the time of the call, a point, and the message, in hexadecimal digits. A receiver that compares
    /// the time with its own is not told the same thing twice by somebody who listens.
    fn signature(&self, time: u64, body: &[u8]) -> Option<String> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_ref()?).ok()?;
        mac.update(format!("{time}.").as_bytes());
        mac.update(body);
        Some(hexadecimal(&mac.finalize().into_bytes()))
    }

    fn call(&self, occurrence: &Occurrence, is_stopping: &dyn Fn() -> bool) -> Result<(), String> {
        let body = self.body(occurrence);
        let (mut failure, mut calls) = (String::new(), 0);
        while calls < TRIES {
            if calls > 0 && worker::sleep(FIRST_PAUSE * 2_u32.pow(calls - 1), is_stopping) {
                break;
            }
            calls += 1;
            // That of this call: actions wait for each other, and receivers refuse an old signature.
            let time = seconds_since_1970();
            let mut request = self
                .agent
                .post(&self.url)
                .header("Content-Type", "application/json")
                // One that is kept may be dead by the next occurrence.
                .header("Connection", "close")
                .header("X-OrCo-Time", time.to_string());
            // ureq would send name and password as they stand in the address, still encoded.
            if let Some(authorization) = basic_authorization(&self.url) {
                request = request.header("Authorization", authorization);
            }
            if let Some(signature) = self.signature(time, &body) {
                request = request.header("X-OrCo-Signature", format!("sha256={signature}"));
            }
            match request.send(&body[..]) {
                Ok(response) if response.status().is_success() => return Ok(()),
                Ok(response) => failure = format!("it answered {}", response.status()),
                Err(error) => {
                    failure = failure_of(&error);
                    // Another call would be answered alike.
                    if matches!(error, ureq::Error::StatusCode(status @ 400..500) if status != 429) {
                        return Err(failure);
                    }
                }
            }
        }
        Err(format!("{failure}; it was called {}", counted(calls as usize, "time")))
    }
}

/// Why a call failed.
fn failure_of(error: &ureq::Error) -> String {
    match error {
        ureq::Error::StatusCode(status) => format!("it answered {status}"),
        ureq::Error::Timeout(_) => format!("it did not answer within {} s", ACTION_TIMEOUT.as_secs()),
        other => other.to_string(),
    }
}

/// Starts a program without a shell; label and probability are in its environment.
fn run(command: &[String], occurrence: &Occurrence, is_stopping: &dyn Fn() -> bool) -> Result<(), String> {
    let mut program = Command::new(&command[0]);
    // The program leads its own process group, so that `end` also reaches the processes that it starts.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut program, 0);
    let mut process = program
        .args(&command[1..])
        .env("ORCO_LABEL", &occurrence.label)
        .env("ORCO_PROBABILITY", occurrence.probability.map(|value| format!("{value:.3}")).unwrap_or_default())
        .env("ORCO_TIME", occurrence.time.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let deadline = Instant::now() + ACTION_TIMEOUT;
    loop {
        match process.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("it ended with {status}")),
            None if Instant::now() < deadline && !is_stopping() => std::thread::sleep(TICK),
            None => {
                end(&mut process);
                return Err(match is_stopping() {
                    true => "it was ended with the service".to_owned(),
                    false => format!("it was ended after {} s", ACTION_TIMEOUT.as_secs()),
                });
            }
        }
    }
}

/// Ends a program, and what it has started: a script leaves most of its work to others.
fn end(process: &mut Child) {
    // Each of them may have ended by itself.
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process_group};
        let _ = kill_process_group(Pid::from_child(process), Signal::KILL);
    }
    let _ = process.kill();
    let _ = process.wait();
}

impl Gpio {
    /// Makes the line active for a while.
    #[cfg(target_os = "linux")]
    fn pulse(&self, is_stopping: &dyn Fn() -> bool) -> Result<(), String> {
        use gpiocdev::line::Value;

        let mut request = gpiocdev::Request::builder();
        request.on_chip(&self.chip).with_consumer("orco").with_line(self.line).as_output(Value::Inactive);
        if self.active_low {
            request.as_active_low();
        }
        let line = request.request().map_err(|error| error.to_string())?;
        let switch = |value| line.set_value(self.line, value).map_err(|error| error.to_string());
        switch(Value::Active)?;
        worker::sleep(self.pulse, is_stopping);
        switch(Value::Inactive)
    }

    #[cfg(not(target_os = "linux"))]
    fn pulse(&self, _: &dyn Fn() -> bool) -> Result<(), String> {
        Err("this system has no lines that can be switched".into())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_program_that_ends_with_the_service_is_not_said_to_have_taken_too_long() {
        let command = ["/bin/sleep", "60"].map(str::to_owned);
        let occurrence = Occurrence { label: "mug".into(), probability: None, time: 0, picture: None };
        let why = run(&command, &occurrence, &|| true).unwrap_err();
        assert_eq!(why, "it was ended with the service");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_program_has_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let number = folder.path().join("number");
        let script = format!("sleep 600 & echo $! > '{}'; wait", number.display());
        let command = ["/bin/sh".to_owned(), "-c".to_owned(), script];
        let occurrence = Occurrence { label: "mug".into(), probability: None, time: 0, picture: None };
        let written = || std::fs::read_to_string(&number).unwrap_or_default();
        run(&command, &occurrence, &|| written().ends_with('\n')).unwrap_err();
        let facts = format!("/proc/{}/stat", written().trim());
        // It stays as a zombie where the machine's first process collects none.
        let is_gone = || std::fs::read_to_string(&facts).map_or(true, |facts| facts.contains(") Z "));
        let end = Instant::now() + Duration::from_secs(60);
        while !is_gone() {
            assert!(Instant::now() < end, "it goes on");
            std::thread::sleep(TICK);
        }
    }

    #[test]
    fn a_call_that_failed_is_told_in_words() {
        assert_eq!(failure_of(&ureq::Error::Timeout(ureq::Timeout::Global)), "it did not answer within 10 s");
        assert_eq!(failure_of(&ureq::Error::StatusCode(503)), "it answered 503");
    }

    /// Whoever stops the service would wait ten seconds for it, and a container's would be killed by then.
    #[test]
    fn a_web_address_that_does_not_answer_does_not_keep_the_service_from_stopping() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/seen", listener.local_addr().unwrap());
        let action = Action::Webhook(Webhook::new(url, None, false));
        let occurrence = Occurrence { label: "mug".into(), probability: None, time: 0, picture: None };
        let started = Instant::now();
        std::thread::scope(|scope| {
            let call = scope.spawn(|| action.perform(&occurrence, &|| true));
            let _silent = listener.accept().unwrap();
            action.interrupt();
            let why = call.join().unwrap().unwrap_err();
            assert!(why.ends_with("it was called 1 time"), "{why}");
        });
        assert!(started.elapsed() < ACTION_TIMEOUT, "it was waited for");
    }

    #[test]
    fn a_message_is_signed_over_its_time_and_its_body() {
        let webhook = Webhook::new(String::new(), Some(b"Jefe".to_vec()), false);
        let signature = webhook.signature(0, b"what do ya want for nothing?").unwrap();
        // By Python's hmac.
        let expected = "37f471929915ccd2cbbe79feb84ffcff4f2bb25e15fc41c2506687331ae179cc";
        assert_eq!(signature, expected);
        assert_ne!(webhook.signature(1, b"what do ya want for nothing?").unwrap(), expected, "the time counts");
    }
}
