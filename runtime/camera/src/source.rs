//! Sources of pictures: parsed from what people write, and opened.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{CameraError, SourceError};
use crate::frame::CameraPicture;

/// What names of settings and of query parameters end in whose values are passwords: `user-pw`, `proxy-pw`, `userpwd`.
const PASSWORD_NAMES: [&str; 5] = ["pw", "pwd", "pass", "passwd", "password"];
/// What stands for a password.
const MASK: &str = "***";

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
        if text.starts_with("/dev/") && !text.chars().any(char::is_control) {
            return Ok(Self::V4l2(text.into()));
        }
        let (kind, rest) = text.split_once(':').unwrap_or(("", text));
        let rest = rest.trim();
        let host = rest.strip_prefix("//").is_some_and(|host| !host.is_empty());
        match kind.to_ascii_lowercase().as_str() {
            _ if rest.is_empty() || text.chars().any(char::is_control) => Err(SourceError(without_password(text))),
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

    /// Whether each of its pictures is worth an answer of its own, and comes but once: the next is asked for when
    /// somebody is done with this one. Such a source is not opened again when its pictures are unreadable.
    fn gives_each_picture_once(&self) -> bool {
        false
    }
}

/// An address with stars for its passwords. It may be mistyped, so any part of it may belong to one: rather too much is
/// masked than too little.
pub fn without_password(address: &str) -> String {
    let start = address.find("://").map_or(0, |scheme| scheme + 3);
    let named = named_passwords(address).map(|start| start..address.len());
    masked(address, userinfo_password(address, start).into_iter().chain(named).collect())
}

/// A text with stars for all passwords in it: of addresses, from the first one's to the last one's, and of settings.
pub(crate) fn without_passwords(text: &str) -> String {
    let start = text.find("://").map(|scheme| scheme + 3);
    let named = named_passwords(text).map(|start| start..value_end(text, start));
    masked(text, start.and_then(|start| userinfo_password(text, start)).into_iter().chain(named).collect())
}

/// Where the password lies in front of a host: from the first colon on to the last `@`, since a password may hold `@`,
/// `/`, `?` and `#` that nobody encoded.
fn userinfo_password(text: &str, start: usize) -> Option<Range<usize>> {
    let end = text.rfind('@').filter(|end| *end >= start)?;
    let colon = text[start..end].find(':')?;
    Some(start + colon + 1..end)
}

/// Where values begin whose names are those of passwords.
fn named_passwords(text: &str) -> impl Iterator<Item = usize> {
    let is_password = |name: &str| {
        let ends_with = |ending: &str| {
            let at = name.len().checked_sub(ending.len());
            at.is_some_and(|at| name.as_bytes()[at..].eq_ignore_ascii_case(ending.as_bytes()))
        };
        PASSWORD_NAMES.into_iter().any(ends_with)
    };
    let signs = text.match_indices('=').map(|(at, _)| at).filter(move |at| is_password(text[..*at].trim_end()));
    signs.map(|at| text.len() - text[at + 1..].trim_start().len())
}

/// Where the value ends that begins at `start`. An apostrophe before it may be one of a sentence, so a value that begins
/// with a quotation mark ends behind that quotation at least.
fn value_end(text: &str, start: usize) -> usize {
    let (before, value) = text.split_at(start);
    let (_, quotation) = word_end(before, None, false);
    let (inside, _) = word_end(value, quotation, true);
    let alone = if value.starts_with(['\'', '"']) { word_end(value, None, true).0 } else { 0 };
    start + inside.max(alone)
}

/// Goes through a text as a shell does, up to white space that is neither quoted nor escaped if it `stops` there.
/// Returns where that is, and the quotation that is open then.
fn word_end(text: &str, mut quotation: Option<char>, stops: bool) -> (usize, Option<char>) {
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        match (quotation, character) {
            _ if is_escaped => is_escaped = false,
            (None | Some('"'), '\\') => is_escaped = true,
            (Some(open), _) if open == character => quotation = None,
            (None, '\'' | '"') => quotation = Some(character),
            (None, _) if stops && character.is_whitespace() => return (at, quotation),
            _ => {}
        }
    }
    (text.len(), quotation)
}

/// A text with stars in place of its parts.
fn masked(text: &str, mut passwords: Vec<Range<usize>>) -> String {
    passwords.sort_by_key(|password| password.start);
    let (mut shown, mut at) = (String::new(), 0);
    for Range { start, end } in passwords {
        if start > at || shown.is_empty() {
            shown.push_str(&text[at..start]);
            shown.push_str(MASK);
        }
        at = at.max(end);
    }
    shown.push_str(&text[at..]);
    shown
}

/// As it was written, passwords replaced by stars.
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
        let said = "cannot reach \"rtsp://me:secret@door/1\": no answer";
        assert_eq!(without_passwords(said), "cannot reach \"rtsp://me:***@door/1\": no answer");
        let said = "it can't set user-pw='my secret' and passwd=secret: no";
        let shown = without_passwords(said);
        assert!(shown.starts_with("it can't set user-pw=***") && !shown.contains("secret"), "{shown}");
        assert_eq!(without_passwords("0 of 3 @ 5 fps: a=b"), "0 of 3 @ 5 fps: a=b");
    }
}
