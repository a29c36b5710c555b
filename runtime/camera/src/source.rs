//! Where pictures come from: as people write it, and opened.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{CameraError, SourceError};
use crate::frame::CameraPicture;

/// Unreadable pictures one after another, after which a camera is opened anew.
pub const MAX_UNREADABLE: u32 = 20;

/// A camera's address.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CameraSource {
    /// A V4L2 device, `/dev/video0` or `v4l2:/dev/video0`; Linux only.
    V4l2(PathBuf),
    /// Motion JPEG over HTTP, or a picture that is fetched again and again; a name and a password may stand in it.
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
        if text.starts_with("/dev/") && !text.chars().any(char::is_control) {
            return Ok(Self::V4l2(text.into()));
        }
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        let rest = rest.trim();
        let host = rest.strip_prefix("//").is_some_and(|host| !host.is_empty());
        match kind.to_ascii_lowercase().as_str() {
            _ if rest.is_empty() || text.chars().any(char::is_control) => Err(SourceError(text.into())),
            "http" | "https" if host => Ok(Self::Http(text.into())),
            "rtsp" | "rtsps" | "rtspt" if host => Ok(Self::Rtsp(text.into())),
            "gst" => Ok(Self::Gstreamer(rest.into())),
            "folder" => Ok(Self::Folder(rest.into())),
            "v4l2" => Ok(Self::V4l2(rest.into())),
            _ => Err(SourceError(without_password(text))),
        }
    }
}

/// A source that is open.
pub(crate) trait OpenSource {
    /// The next picture; `None` if there was none for a while, so that a thread can check whether it is to stop.
    fn next_picture(&mut self) -> Result<Option<CameraPicture>, CameraError>;

    /// Whether it is opened again when its pictures are unreadable.
    fn reopens_when_unreadable(&self) -> bool {
        true
    }
}

/// An address with stars for its password.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.into() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        Some((user, host)) => {
            let name = user.split_once(':').map_or(user.to_owned(), |(name, _)| format!("{name}:***"));
            format!("{scheme}://{name}@{host}{}", &rest[end..])
        }
        None => url.into(),
    }
}

/// A text with stars for the passwords of all addresses in it.
pub(crate) fn without_passwords(text: &str) -> String {
    let words: Vec<String> = text.split(' ').map(without_password).collect();
    words.join(" ")
}

/// As it was written, passwords in addresses replaced by stars.
impl fmt::Display for CameraSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4l2(path) => write!(f, "{}", path.display()),
            Self::Http(url) | Self::Rtsp(url) => f.write_str(&without_password(url)),
            Self::Gstreamer(pipeline) => write!(f, "gst:{}", without_passwords(pipeline)),
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
        assert!(!source("ftp://me:secret@door").unwrap_err().to_string().contains("secret"));
    }

    #[test]
    fn passwords_are_not_shown() {
        for (written, shown) in [
            ("http://me:se@cret@door:8080/a?b=@c", "http://me:***@door:8080/a?b=@c"),
            ("rtsp://me@door/1", "rtsp://me@door/1"),
            ("gst:rtspsrc location=rtsp://me:secret@door/1 ! x", "gst:rtspsrc location=rtsp://me:***@door/1 ! x"),
            ("/dev/video0", "/dev/video0"),
        ] {
            let source: CameraSource = written.parse().unwrap();
            assert_eq!(source.to_string(), shown);
            assert!(!format!("{source:?}").contains("cret"));
        }
        let said = "cannot reach \"rtsp://me:secret@door/1\": no answer";
        assert_eq!(without_passwords(said), "cannot reach \"rtsp://me:***@door/1\": no answer");
    }
}
