//! A camera on a socket that plays the sample photographs, and can misbehave.

#![allow(dead_code, reason = "no test program uses all of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the camera does with the next picture, and with who asks next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Photographs, with their lengths.
    Good,
    /// Photographs, without their lengths.
    Unmeasured,
    /// One picture, and the end.
    Single,
    /// Half a picture, then the connection is closed; nobody is answered afterwards.
    Away,
    /// Parts that hold no pictures.
    Garbage,
    /// A stream without any boundary.
    Noise,
    /// A page instead.
    Page,
    /// Nothing at all after the head.
    Silent,
    /// Names the other address that was set; what it serves at `/moved` is good.
    Moved,
    /// Answers with the refusal that was set.
    Refused,
}

struct FakeCameraState {
    mode: Mutex<Mode>,
    photographs: Mutex<Vec<Vec<u8>>>,
    every: Duration,
    asked: AtomicUsize,
    sent: AtomicUsize,
    heads: Mutex<Vec<String>>,
    location: Mutex<String>,
    /// Status and headers of a refusal.
    refusal: Mutex<String>,
    /// The content type instead of the right one; empty for none.
    content_type: Mutex<Option<String>>,
    stop: AtomicBool,
}

pub struct FakeCamera {
    pub address: SocketAddr,
    state: Arc<FakeCameraState>,
}

/// A WebP file's bytes.
pub fn webp_picture() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/image/samples/lossy.webp")).unwrap()
}

/// A sample picture's bytes, `part` being `learn` or `try`.
pub fn photograph(part: &str, class: &str, number: usize) -> Vec<u8> {
    let shots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shots");
    std::fs::read(shots.join(part).join(class).join(format!("{number}.jpg"))).unwrap()
}

impl FakeCamera {
    /// Plays photographs over and over.
    pub fn start(photographs: Vec<Vec<u8>>, every: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(FakeCameraState {
            mode: Mode::Good.into(),
            photographs: photographs.into(),
            every,
            asked: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
            heads: Mutex::default(),
            location: Mutex::default(),
            refusal: Mutex::default(),
            content_type: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if theirs.stop.load(Ordering::SeqCst) {
                    break;
                }
                let state = Arc::clone(&theirs);
                // Who asks may hang up at any moment.
                thread::spawn(move || drop(stream.and_then(|stream| answer(stream, &state))));
            }
        });
        Self { address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}/stream", self.address)
    }

    pub fn set(&self, mode: Mode) {
        *self.state.mode.lock().unwrap() = mode;
    }

    /// From now on every address but `/moved` sends on to this one.
    pub fn send_on(&self, location: &str) {
        *self.state.location.lock().unwrap() = location.to_owned();
        self.set(Mode::Moved);
    }

    /// From now on answers with a status, and with a challenge if that is not empty.
    pub fn refuse(&self, status: u16, challenge: &str) {
        let challenge = if challenge.is_empty() { String::new() } else { format!("WWW-Authenticate: {challenge}\r\n") };
        *self.state.refusal.lock().unwrap() = format!("{status} No\r\n{challenge}");
        self.set(Mode::Refused);
    }

    /// From now on names its content so, or not at all if that is empty.
    pub fn set_content_type(&self, kind: &str) {
        *self.state.content_type.lock().unwrap() = Some(kind.to_owned());
    }

    pub fn play(&self, photographs: Vec<Vec<u8>>) {
        *self.state.photographs.lock().unwrap() = photographs;
    }

    /// How many times it was asked.
    pub fn asked(&self) -> usize {
        self.state.asked.load(Ordering::SeqCst)
    }

    /// How many pictures it has sent. A picture that is being sent when other photographs are chosen is one of those
    /// before.
    pub fn sent(&self) -> usize {
        self.state.sent.load(Ordering::SeqCst)
    }

    /// The heads of all requests.
    pub fn heads(&self) -> Vec<String> {
        self.state.heads.lock().unwrap().clone()
    }
}

impl Drop for FakeCamera {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// The head of a request, up to its blank line.
fn request_head(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 && stream.read(&mut byte)? > 0 {
        head.push(byte[0]);
    }
    Ok(head)
}

fn answer(mut stream: TcpStream, state: &FakeCameraState) -> std::io::Result<()> {
    state.asked.fetch_add(1, Ordering::SeqCst);
    let head = request_head(&mut stream)?;
    state.heads.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
    let mode = || *state.mode.lock().unwrap();
    if mode() == Mode::Moved && !head.starts_with(b"GET /moved") {
        let location = state.location.lock().unwrap();
        return write!(stream, "HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: {location}\r\n\r\n");
    }
    if mode() == Mode::Refused {
        let refusal = state.refusal.lock().unwrap();
        return write!(stream, "HTTP/1.1 {refusal}Connection: close\r\nContent-Length: 0\r\n\r\n");
    }
    let kind = match mode() {
        Mode::Away => return Ok(()),
        Mode::Page => "text/html",
        Mode::Single if state.photographs.lock().unwrap()[0].starts_with(b"RIFF") => "image/webp",
        Mode::Single => "image/jpeg",
        _ => "multipart/x-mixed-replace; boundary=--frame",
    };
    let kind = state.content_type.lock().unwrap().clone().unwrap_or_else(|| kind.to_owned());
    let content_type = if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
    write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n{content_type}\r\n")?;
    send_pictures(stream, state)
}

/// Sends a picture at a time, as the mode at that moment has it, until the camera stops or the mode ends the answer.
fn send_pictures(mut stream: TcpStream, state: &FakeCameraState) -> std::io::Result<()> {
    let mode = || *state.mode.lock().unwrap();
    for turn in 0.. {
        if state.stop.load(Ordering::SeqCst) {
            break;
        }
        let photographs = state.photographs.lock().unwrap().clone();
        let photograph = &photographs[turn % photographs.len()];
        let head = "--frame\r\nContent-Type: image/jpeg\r\n";
        match mode() {
            Mode::Good | Mode::Moved => {
                write!(stream, "{head}Content-Length: {}\r\n\r\n", photograph.len())?;
                stream.write_all(photograph)?;
                stream.write_all(b"\r\n")?;
            }
            Mode::Unmeasured => {
                write!(stream, "{head}\r\n")?;
                stream.write_all(photograph)?;
                stream.write_all(b"\r\n")?;
            }
            Mode::Single => return stream.write_all(photograph),
            Mode::Away => {
                write!(stream, "{head}Content-Length: {}\r\n\r\n", photograph.len())?;
                return stream.write_all(&photograph[..photograph.len() / 2]);
            }
            Mode::Garbage => write!(stream, "{head}Content-Length: 9\r\n\r\nnonsense{turn}\r\n")?,
            Mode::Noise => stream.write_all(&[b'x'; 1 << 16])?,
            Mode::Page => return stream.write_all(b"<p>Hello"),
            Mode::Silent | Mode::Refused => {}
        }
        stream.flush()?;
        state.sent.fetch_add(1, Ordering::SeqCst);
        if mode() != Mode::Noise {
            thread::sleep(state.every);
        }
    }
    Ok(())
}
