//! Posts JSON about an occurrence to a web address, signed if there is a secret, and tries again where that fails.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use orco_camera::{basic_authorization, mask_address};
use orco_runtime::clock::seconds_since_1970;
use orco_runtime::manifest::hexadecimal;
use orco_runtime::state::sentence::counted;
use serde_json::json;
use sha2::Sha256;

use super::{ACTION_TIMEOUT, Occurrence};
use crate::worker;

/// How often a web address is called until it takes what it is told.
const TRIES: u32 = 4;
/// Pause before it is called again; twice as long before every further time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

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

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook({})", mask_address(&self.url))
    }
}

impl Webhook {
    /// An address, what messages to it are signed with, and whether a small picture goes with them.
    pub fn new(url: String, secret: Option<Vec<u8>>, picture: bool) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(ACTION_TIMEOUT)).max_redirects(0);
        Self { url, secret, picture, agent: config.build().new_agent() }
    }

    /// Ends a call that waits for its answer; later ones fail at once.
    pub(super) fn interrupt(&self) {
        self.agent.clone().shutdown();
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

    pub(super) fn call(&self, occurrence: &Occurrence, is_stopping: &dyn Fn() -> bool) -> Result<(), String> {
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
                // A redirect: another call would be answered alike.
                Ok(response) => {
                    return Err(format!(
                        "it answered {}, but redirects are not followed: name the address that it leads to",
                        response.status()
                    ));
                }
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Instant;

    use super::super::Action;
    use super::*;

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

    /// All other actions would wait for its further calls.
    #[test]
    fn a_web_address_that_redirects_is_called_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let webhook = Webhook::new(format!("http://{}/seen", listener.local_addr().unwrap()), None, false);
        let occurrence = Occurrence { label: "mug".into(), probability: None, time: 0, picture: None };
        let why = std::thread::scope(|scope| {
            let call = scope.spawn(|| webhook.call(&occurrence, &|| false));
            let (mut caller, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                let mut part = [0; 1024];
                let read = caller.read(&mut part).unwrap();
                assert_ne!(read, 0, "the request is cut off");
                request.extend_from_slice(&part[..read]);
            }
            let answer = "HTTP/1.1 308 Permanent Redirect\r\nLocation: /seen/\r\nContent-Length: 0\r\n\r\n";
            caller.write_all(answer.as_bytes()).unwrap();
            call.join().unwrap().unwrap_err()
        });
        assert!(why.contains("308") && why.contains("redirects are not followed"), "{why}");
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
