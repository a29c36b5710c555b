//! Pipelines of GStreamer's, run by its own program: nothing is linked, and what crashes there does not crash here.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::deadline::{DeadlineReader, PICTURE_TIME, SILENCE};
use crate::error::{CameraError, StreamError};
use crate::frame::CameraPicture;
use crate::motion_jpeg::completed;
use crate::multipart::Multipart;
use crate::source::OpenSource;
use crate::stop::Stop;

const PROGRAM: &str = "gst-launch-1.0";
const BOUNDARY: &str = "orco";
/// How long a pipeline may take until its first picture is there.
const START_TIME: Duration = Duration::from_secs(20);
/// Elements that give JPEG, beside encoders, whose names end in `jpegenc` (`vajpegenc`, `nvjpegenc`).
const JPEG_ELEMENTS: [&str; 4] = ["jpegparse", "rtpjpegdepay", "multipartdemux", "avenc_mjpeg"];
/// Elements that pass on what they get.
const PASSING_ELEMENTS: [&str; 3] = ["queue", "identity", "videorate"];
/// Most bytes of a line of GStreamer's that are held.
const MAX_MESSAGE: u64 = 512;

/// A pipeline that runs, and the pictures that it gives.
pub(crate) struct GstreamerSource {
    pictures: Multipart<DeadlineReader<Pipe>>,
    child: Arc<Mutex<Child>>,
    /// What GStreamer says is wrong, as [`listen`] keeps it.
    message: Arc<Mutex<String>>,
    /// How long the next picture may take.
    picture_time: Duration,
}

/// The words of a pipeline that shows what an address sends.
pub(crate) fn pipeline_for_url(url: &str) -> Vec<String> {
    ["uridecodebin", &format!("uri={url}")].map(str::to_owned).to_vec()
}

/// The words of a pipeline.
pub(crate) fn parse_pipeline(pipeline: &str) -> Result<Vec<String>, CameraError> {
    shlex::split(pipeline).ok_or_else(|| CameraError::Pipeline("a quotation mark is left open in it".into()))
}

/// A pipeline with what makes a stream of JPEG pictures of it. Where it is slower than the camera, frames are left out.
fn complete_pipeline(mut words: Vec<String>) -> Vec<String> {
    let mut elements = words.rsplit(|word| word == "!").map(|element| element.first().map_or("", String::as_str));
    let last = elements.find(|element| !PASSING_ELEMENTS.contains(element));
    let gives_jpeg =
        |word: &str| word.ends_with("jpegenc") || JPEG_ELEMENTS.contains(&word) || word.starts_with("image/jpeg");
    let is_jpeg = last.is_some_and(gives_jpeg);
    let latest = "! queue leaky=downstream max-size-buffers=1 max-size-bytes=0 max-size-time=0";
    let encoded = if is_jpeg { "" } else { "! videoconvert ! jpegenc quality=90" };
    let end = format!("{latest} {encoded} ! multipartmux boundary={BOUNDARY} ! fdsink fd=1");
    words.extend(end.split_whitespace().map(str::to_owned));
    words
}

/// GStreamer's program with a pipeline. It speaks English whatever the machine's language: [`listen`] knows its errors
/// by their first word.
fn command_for(words: Vec<String>) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("-q").args(complete_pipeline(words)).env("LANGUAGE", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl GstreamerSource {
    pub fn open(words: Vec<String>, stop: &Stop) -> Result<Self, CameraError> {
        let child = command_for(words).spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CameraError::NoGstreamer,
            _ => error.into(),
        })?;
        Self::from_child(child, stop)
    }

    /// Reads what a child writes, whose output and errors are pipes.
    fn from_child(mut child: Child, stop: &Stop) -> Result<Self, CameraError> {
        let missing = || io::Error::other("the pipeline has no output");
        let (output, errors) = (child.stdout.take().ok_or_else(missing)?, child.stderr.take().ok_or_else(missing)?);
        let child = Arc::new(Mutex::new(child));
        let killed = Arc::clone(&child);
        stop.on_set(move || kill(&killed));
        let message = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&message);
        // It ends with the child, whose pipe it reads.
        thread::Builder::new().name("gstreamer".into()).spawn(move || listen(errors, &kept))?;
        let pictures = Multipart::new(DeadlineReader::new(Pipe { output, silence: START_TIME }, START_TIME), BOUNDARY);
        Ok(Self { pictures, child, message, picture_time: START_TIME })
    }

    /// Ends the pipeline, and says why it gives no more pictures.
    fn end(&self) -> CameraError {
        kill(&self.child);
        // The thread that listens may need a moment for the last line.
        thread::sleep(Duration::from_millis(50));
        let message = self.message.lock().expect("nothing panics while it holds the line").clone();
        CameraError::Pipeline(explained(message))
    }
}

/// What GStreamer said. Where it names elements that [`complete_pipeline`] added, which nobody would recognise, says
/// what to do.
fn explained(message: String) -> String {
    if message.is_empty() {
        "GStreamer does not say why".into()
    } else if message.contains("could not link queue") && message.contains(" to videoconvert") {
        format!("its last element must give raw video or JPEG, as a decoder or jpegparse does ({message})")
    } else {
        message
    }
}

/// Ends a pipeline, which may have ended by itself.
fn kill(child: &Mutex<Child>) {
    let mut child = child.lock().expect("nothing panics while it holds the child");
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for GstreamerSource {
    fn drop(&mut self) {
        kill(&self.child);
    }
}

/// Keeps what GStreamer says is wrong: its first error, from which later ones follow, or else its last line.
fn listen(errors: impl Read, message: &Mutex<String>) {
    let mut lines = BufReader::new(errors);
    let (mut line, mut error_seen) = (Vec::new(), false);
    while let Ok(1..) = lines.by_ref().take(MAX_MESSAGE).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        line.clear();
        let is_error = text.contains("erroneous pipeline") || text.starts_with("ERROR");
        if !text.is_empty() && !error_seen {
            error_seen |= is_error;
            *message.lock().expect("nothing panics while it holds the line") = text;
        }
    }
}

impl OpenSource for GstreamerSource {
    fn next_picture(&mut self) -> Result<Option<CameraPicture>, CameraError> {
        self.pictures.stream_mut().restart(self.picture_time);
        match self.pictures.next() {
            Ok(picture) => {
                self.picture_time = PICTURE_TIME;
                self.pictures.stream_mut().reader_mut().silence = SILENCE;
                Ok(Some(CameraPicture::File(completed(&picture).into_owned())))
            }
            Err(StreamError::Ended) => Err(self.end()),
            Err(broken) => Err(broken.into()),
        }
    }
}

/// What a child writes, waited for no longer than `silence`.
struct Pipe {
    output: ChildStdout,
    silence: Duration,
}

impl Read for Pipe {
    #[cfg(unix)]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        crate::wait::for_input(&self.output, self.silence)?;
        self.output.read(buffer)
    }

    #[cfg(not(unix))]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.output.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_end_in_parts_of_jpeg() {
        let line = |text: &str| complete_pipeline(parse_pipeline(text).unwrap()).join(" ");
        let end = format!("multipartmux boundary={BOUNDARY} ! fdsink fd=1");
        let encoded = line("videotestsrc ! 'video/x-raw, width=64'");
        assert!(encoded.starts_with("videotestsrc ! video/x-raw, width=64 ! queue"), "{encoded}");
        assert!(encoded.ends_with(&format!("videoconvert ! jpegenc quality=90 ! {end}")), "{encoded}");
        for jpeg in [
            "v4l2src ! image/jpeg,width=640",
            "videotestsrc ! jpegenc quality=50",
            "videotestsrc ! vajpegenc",
            "videotestsrc ! nvjpegenc quality=50",
            "videotestsrc ! avenc_mjpeg",
            "v4l2src ! jpegparse",
            "rtspsrc location=rtsp://door/1 ! rtpjpegdepay",
            "souphttpsrc location=http://door/stream ! multipartdemux",
            "videotestsrc ! jpegenc ! queue leaky=downstream ! identity sleep-time=9",
            "v4l2src ! image/jpeg ! videorate max-rate=5",
        ] {
            assert!(!line(jpeg).contains("videoconvert") && line(jpeg).ends_with(&end), "{jpeg}");
        }
        for raw in
            ["v4l2src ! jpegparse ! jpegdec ! queue", "queue", "jpegenc ! videoconvert", "videotestsrc name=jpegenc"]
        {
            assert!(line(raw).contains("! videoconvert ! jpegenc quality=90"), "{raw}");
        }
        assert!(parse_pipeline("videotestsrc ! 'open").is_err());
        assert_eq!(pipeline_for_url("rtsp://door/1 2"), ["uridecodebin", "uri=rtsp://door/1 2"]);
    }

    #[test]
    fn gstreamer_speaks_english_on_a_german_machine() {
        // With it, gettext translates nothing, whatever LANG and LC_ALL say.
        let command = command_for(vec!["videotestsrc".into()]);
        assert!(command.get_envs().any(|(name, value)| name == "LANGUAGE" && value == Some(std::ffi::OsStr::new("C"))));
    }

    #[test]
    fn the_first_error_is_the_message() {
        let message = Mutex::default();
        listen(&b"WARNING: erroneous pipeline: no element \"x\"\nmore\nERROR: no preroll\n"[..], &message);
        assert_eq!(message.into_inner().unwrap(), "WARNING: erroneous pipeline: no element \"x\"");
    }

    #[test]
    fn a_pipeline_that_ends_in_no_pictures_is_told_so() {
        let told = |message: &str| explained(message.into());
        let unlinked = "WARNING: erroneous pipeline: could not link queue0 to videoconvert1";
        assert!(told(unlinked).starts_with("its last element must give raw video or JPEG, as"), "{}", told(unlinked));
        assert!(told(unlinked).contains(unlinked));
        assert_eq!(told("ERROR: no preroll"), "ERROR: no preroll");
    }

    #[cfg(unix)]
    #[test]
    fn a_pipeline_that_stalls_after_its_first_picture_is_given_up_soon() {
        let sends_one = format!("printf -- '--{BOUNDARY}\\r\\nContent-Length: 3\\r\\n\\r\\nabc\\r\\n'; exec sleep 240");
        let mut command = Command::new("sh");
        command.args(["-c", &sends_one]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut source = GstreamerSource::from_child(command.spawn().unwrap(), &Stop::default()).unwrap();
        assert_eq!(source.next_picture().unwrap(), Some(CameraPicture::File(b"abc".to_vec())));
        // The sentence names the limit that was kept.
        let why = source.next_picture().unwrap_err().to_string();
        assert_eq!(why, format!("nothing came for {} s", SILENCE.as_secs()));
    }
}
