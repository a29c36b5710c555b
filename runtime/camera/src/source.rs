//! Where pictures come from: the address that people write, and what every open source can do.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{CameraError, SourceError};
use crate::frame::CameraPicture;
use crate::password::{mask_address, mask_text};

/// Unreadable pictures one after another, after which a camera is opened anew.
pub const MAX_UNREADABLE: u32 = 20;

/// A camera's address.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CameraSource {
    /// A V4L2 device, `/dev/video0` or `v4l2:/dev/video0`; Linux only.
    V4l2(PathBuf),
    /// Motion JPEG over HTTP, or a picture that is fetched again and again; a name and a password, percent-encoded, may
    /// stand in it.
    Http(String),
    /// RTSP, through GStreamer.
    Rtsp(String),
    /// A pipeline of GStreamer's, `gst:PIPELINE`, that ends in raw video or in JPEG.
    Gstreamer(String),
    /// A folder into which pictures are put, `folder:PATH`.
    Folder(PathBuf),
}

impl FromStr for CameraSource {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let text = text.trim();
        let wrong = || Err(SourceError(mask_address(text)));
        if text.chars().any(char::is_control) {
            return wrong();
        }
        if text.starts_with("/dev/") {
            return Ok(Self::V4l2(text.into()));
        }
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        let rest = rest.trim();
        let host = rest.strip_prefix("//").is_some_and(|host| !host.is_empty());
        match kind.to_ascii_lowercase().as_str() {
            _ if rest.is_empty() => wrong(),
            "http" | "https" if host => Ok(Self::Http(text.into())),
            "rtsp" | "rtsps" | "rtspt" if host => Ok(Self::Rtsp(text.into())),
            "gst" => Ok(Self::Gstreamer(rest.into())),
            "folder" => Ok(Self::Folder(rest.into())),
            "v4l2" => Ok(Self::V4l2(rest.into())),
            _ => wrong(),
        }
    }
}

/// A source that is open.
pub(crate) trait OpenSource {
    /// The next picture; `None` if there was none for a while, so that a thread can check whether it is to stop.
    fn next_picture(&mut self) -> Result<Option<CameraPicture>, CameraError>;

    /// Whether each of its pictures is worth an answer of its own, and comes but once: the next is asked for when
    /// somebody is done with this one. Such a source is not opened again when its pictures are unreadable.
    fn gives_each_picture_once(&self) -> bool {
        false
    }
}

/// The source as it was written, passwords replaced by stars.
impl fmt::Display for CameraSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4l2(path) => write!(f, "{}", path.display()),
            Self::Http(url) | Self::Rtsp(url) => f.write_str(&mask_address(url)),
            Self::Gstreamer(pipeline) => write!(f, "gst:{}", mask_text(pipeline)),
            Self::Folder(path) => write!(f, "folder:{}", path.display()),
        }
    }
}

impl fmt::Debug for CameraSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CameraSource({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_as_they_are_written() {
        let source = |text: &str| text.parse::<CameraSource>();
        assert_eq!(source("/dev/video0"), Ok(CameraSource::V4l2("/dev/video0".into())));
        assert_eq!(source("/dev/v4l/by-path/a:b"), Ok(CameraSource::V4l2("/dev/v4l/by-path/a:b".into())));
        assert_eq!(source("v4l2:/dev/v4l/by-id/a:b"), Ok(CameraSource::V4l2("/dev/v4l/by-id/a:b".into())));
        assert_eq!(source("HTTP://door/stream"), Ok(CameraSource::Http("HTTP://door/stream".into())));
        assert_eq!(source("rtsp://door:554/1"), Ok(CameraSource::Rtsp("rtsp://door:554/1".into())));
        assert_eq!(source("gst:videotestsrc ! x"), Ok(CameraSource::Gstreamer("videotestsrc ! x".into())));
        assert_eq!(source(" folder:new pictures "), Ok(CameraSource::Folder("new pictures".into())));
        for wrong in ["", "camera", "http:", "http://", "http:door", "folder:", "gst: ", "ftp://door", "gst:a\nb"] {
            assert!(source(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "ftp://me:secret@door",
            "me:secret@door/stream",
            "http://me:sec\nret@door",
            "rtsp://door/1?pwd=sec\tret",
            "gst:rtspsrc user-pw=secret\n! x",
        ] {
            let told = source(wrong).unwrap_err().to_string();
            assert!(!told.contains("sec") && !told.contains("ret"), "{told}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for (written, shown) in [
            ("http://me:se@cret@door:8080/a?b=c", "http://me:***@door:8080/a?b=c"),
            // What lies between two of them may be part of the password.
            ("http://me:se@cret@door:8080/a?b=@c", "http://me:***@c"),
            ("rtsp://admin:secret#1@cam/stream", "rtsp://admin:***@cam/stream"),
            ("rtsp://admin:a/secret?b@cam/stream", "rtsp://admin:***@cam/stream"),
            ("rtsp://admin:my secret@cam/stream", "rtsp://admin:***@cam/stream"),
            ("rtsp://admin:pass=secret@cam/stream", "rtsp://admin:***"),
            ("http://:secret@door/", "http://:***@door/"),
            ("http://cam/snap.cgi?user=a&pwd=secret", "http://cam/snap.cgi?user=a&pwd=***"),
            ("http://cam/snap.cgi?PassWord=my secret&size=1", "http://cam/snap.cgi?PassWord=***"),
            ("http://cam/snapshot.cgi?loginuse=a&loginpas=secret", "http://cam/snapshot.cgi?loginuse=a&loginpas=***"),
            ("https://cam/live?access_token=secret", "https://cam/live?access_token=***"),
            ("http://cam/ISAPI/picture?auth=secret", "http://cam/ISAPI/picture?auth=***"),
            ("gst:srtsrc uri=srt://cam:1 passphrase=secret ! x", "gst:srtsrc uri=srt://cam:1 passphrase=*** ! x"),
            ("rtsp://cam:554/user=a_password=secret_channel=1", "rtsp://cam:554/user=a_password=***"),
            ("http://cam:8080/stream?size=1", "http://cam:8080/stream?size=1"),
            ("rtsp://me@door/1", "rtsp://me@door/1"),
            ("gst:rtspsrc location=rtsp://me:secret@door/1 ! x", "gst:rtspsrc location=rtsp://me:***@door/1 ! x"),
            (
                "gst:rtspsrc location=rtsp://cam/1 user-id=me user-pw=secret ! decodebin",
                "gst:rtspsrc location=rtsp://cam/1 user-id=me user-pw=*** ! decodebin",
            ),
            ("gst:rtspsrc user-pw = \"my \\\" secret\" ! x", "gst:rtspsrc user-pw = *** ! x"),
            ("gst:rtspsrc 'user-pw=my secret' ! x", "gst:rtspsrc 'user-pw=*** ! x"),
            ("gst:rtspsrc user-pw=my\\ secret ! x", "gst:rtspsrc user-pw=*** ! x"),
            (
                "gst:souphttpsrc location=\"http://cam/?PWD=secret&a=b\" ! x",
                "gst:souphttpsrc location=\"http://cam/?PWD=*** ! x",
            ),
            ("gst:a location=rtsp://cam:554/1 user-pw='my @secret word' ! x", "gst:a location=rtsp://cam:*** ! x"),
            (
                "gst:a location=rtsp://me:secret@one ! b location=rtsp://me:secret@two",
                "gst:a location=rtsp://me:***@two",
            ),
            ("/dev/video0", "/dev/video0"),
        ] {
            let source: CameraSource = written.parse().unwrap();
            assert_eq!(source.to_string(), shown);
            assert!(!format!("{source:?}").contains("cret"));
        }
    }
}
