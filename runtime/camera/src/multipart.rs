//! A stream of pictures in parts, as cameras send Motion JPEG over HTTP (`multipart/x-mixed-replace`, RFC 2046 5.1) and
//! GStreamer's `multipartmux` writes it.

use std::io::{self, BufRead, BufReader, Read};

use memchr::memmem;

use crate::error::StreamError;
use crate::frame::MAX_PICTURE_BYTES;

/// Most bytes of a line of a part's head.
const MAX_LINE: usize = 8 << 10;
/// Most lines of a part's head.
const MAX_LINES: usize = 64;

/// How the types of parts begin that are no pictures: heartbeats, events, sound.
const OTHER_TYPES: [&str; 4] = ["text/", "audio/", "application/json", "application/xml"];

/// What is said of a part before its content.
#[derive(Default)]
struct PartHead {
    /// Bytes of its content, where it says so.
    length: Option<usize>,
    /// Whether it says that it is no picture, but one of [`OTHER_TYPES`].
    is_other: bool,
}

/// The parts of a stream, one by one.
#[derive(Debug)]
pub struct Multipart<R> {
    stream: BufReader<R>,
    /// The line between parts, once it was found. Until then, the two forms that the named boundary may have, or
    /// nothing where none was named.
    boundaries: Vec<Vec<u8>>,
    /// Whether the next part's boundary was read with the last part, so that its head comes next.
    at_head: bool,
}

impl<R: Read> Multipart<R> {
    /// Parts between lines of two dashes and `boundary`, or of `boundary` alone: cameras do both. Some name another one
    /// than they write: a stream that begins with two dashes and something else has that as its boundary.
    pub fn new(stream: R, boundary: &str) -> Self {
        let given = boundary.trim().trim_matches('"');
        if given.is_empty() {
            return Self::with_any_boundary(stream);
        }
        Self::between(stream, vec![format!("--{given}").into_bytes(), given.into()])
    }

    /// Parts between lines like the first that begins with two dashes: of a stream whose boundary nobody says.
    pub fn with_any_boundary(stream: R) -> Self {
        Self::between(stream, Vec::new())
    }

    fn between(stream: R, boundaries: Vec<Vec<u8>>) -> Self {
        Self { stream: BufReader::with_capacity(64 << 10, stream), boundaries, at_head: false }
    }

    /// What the stream begins with, blanks left out, as far as it has come. None of it is passed over.
    pub(crate) fn start(&mut self) -> io::Result<&[u8]> {
        Ok(self.stream.fill_buf()?.trim_ascii_start())
    }

    /// All that has not been read as parts.
    pub(crate) fn into_stream(self) -> BufReader<R> {
        self.stream
    }

    /// What the parts are read from.
    pub fn stream_mut(&mut self) -> &mut R {
        self.stream.get_mut()
    }

    /// The content of the next part, by its length where its head names one, else up to the next boundary. Skips what
    /// stands before its boundary, empty parts, and parts whose type is that of text or sound. A part that begins as a
    /// JPEG file is never skipped: some cameras name a wrong type.
    ///
    /// # Errors
    /// [`StreamError`] if the stream ends, cannot be read, has no boundary within [`MAX_PICTURE_BYTES`], or a part is
    /// longer than that.
    // An iterator would go on after an error.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Vec<u8>, StreamError> {
        loop {
            if !std::mem::take(&mut self.at_head) {
                self.skip_to_boundary()?;
            }
            let head = self.head()?;
            let part = self.content(head.length)?;
            if part.starts_with(b"\xff\xd8") || !head.is_other && !part.is_empty() {
                return Ok(part);
            }
        }
    }

    /// The content of the part whose head was read.
    fn content(&mut self, length: Option<usize>) -> Result<Vec<u8>, StreamError> {
        match length {
            Some(length) if length > MAX_PICTURE_BYTES => Err(StreamError::TooLarge),
            Some(length) => {
                let mut part = Vec::new();
                let read = self.stream.by_ref().take(length as u64).read_to_end(&mut part)?;
                if read == length { Ok(part) } else { Err(StreamError::Ended) }
            }
            None => self.up_to_boundary(),
        }
    }

    /// Skips all up to the next boundary. Where the boundary is not known yet, this line decides which one it is.
    fn skip_to_boundary(&mut self) -> Result<(), StreamError> {
        let mut passed = 0;
        let mut line = Vec::new();
        // Whether what comes next is the rest of a line that was longer than is held.
        let mut is_rest = false;
        // Whether the stream may still show that it has another boundary than the one that was named: only as its first
        // line that is not blank.
        let mut may_be_another = self.boundaries.len() > 1;
        while passed < MAX_PICTURE_BYTES {
            passed += self.line(&mut line)?;
            let was_rest = std::mem::replace(&mut is_rest, !line.ends_with(b"\n"));
            if was_rest {
                continue;
            }
            let text = line.trim_ascii_end();
            if let Some(found) = self.boundaries.iter().position(|boundary| boundary == text) {
                self.boundaries = vec![self.boundaries.swap_remove(found)];
                return Ok(());
            }
            if self.boundaries.iter().any(|boundary| text.strip_prefix(&boundary[..]) == Some(b"--")) {
                return Err(StreamError::Ended);
            }
            if (may_be_another || self.boundaries.is_empty()) && text.len() > 2 && text.starts_with(b"--") {
                self.boundaries = vec![text.to_vec()];
                return Ok(());
            }
            may_be_another &= text.is_empty();
        }
        Err(StreamError::NoBoundary)
    }

    /// Reads a part's head up to the blank line behind it.
    fn head(&mut self) -> Result<PartHead, StreamError> {
        let (mut head, mut line) = (PartHead::default(), Vec::new());
        for _ in 0..MAX_LINES {
            self.line(&mut line)?;
            if line.trim_ascii().is_empty() {
                return Ok(head);
            }
            let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
            match text.split_once(':').map(|(name, value)| (name.trim(), value.trim())) {
                Some(("content-length", value)) => head.length = value.parse().ok(),
                Some(("content-type", value)) => {
                    head.is_other = OTHER_TYPES.iter().any(|other| value.starts_with(other));
                }
                _ => {}
            }
        }
        Err(StreamError::NoBoundary)
    }

    /// The next line, or as much of it as is held.
    fn line(&mut self, line: &mut Vec<u8>) -> Result<usize, StreamError> {
        line.clear();
        match self.stream.by_ref().take(MAX_LINE as u64).read_until(b'\n', line)? {
            0 => Err(StreamError::Ended),
            read => Ok(read),
        }
    }

    /// All up to the next boundary, without the line's end before it.
    fn up_to_boundary(&mut self) -> Result<Vec<u8>, StreamError> {
        let end = [b"\n", &self.boundaries[0][..]].concat();
        let finder = memmem::Finder::new(&end);
        // The line end before the boundary of an empty part is that of its head.
        let mut part = b"\n".to_vec();
        loop {
            let more = match self.stream.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                more => more?,
            };
            if more.is_empty() {
                return Err(StreamError::Ended);
            }
            let (before, read) = (part.len(), more.len());
            part.extend_from_slice(more);
            // The boundary may have begun in what was read before.
            let from = before.saturating_sub(end.len() - 1);
            let Some(at) = finder.find(&part[from..]).map(|at| from + at) else {
                self.stream.consume(read);
                if part.len() > MAX_PICTURE_BYTES {
                    return Err(StreamError::TooLarge);
                }
                continue;
            };
            self.stream.consume(at + end.len() - before);
            let mut rest = Vec::new();
            self.line(&mut rest)?;
            self.at_head = !rest.starts_with(b"--");
            part.truncate(at);
            if part.ends_with(b"\r") {
                part.pop();
            }
            // The line end that stands for the head's; an empty part has none left.
            part.drain(..part.len().min(1));
            return Ok(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives at most this many bytes at a time.
    struct Dripping<'a>(&'a [u8], usize);

    impl Read for Dripping<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(buffer.len()).min(self.0.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn parts_are_found_however_they_are_written_and_arrive() {
        let with_length = b"junk\r\n--b\r\nContent-Type: image/jpeg\r\nCONTENT-LENGTH: 7\r\n\r\none\r\n--\r\n--b\r\n\
            Content-Length: 3\r\n\r\ntwo\r\n--b--\r\n";
        let without = b"--b\r\nContent-Type: image/jpeg\r\n\r\none\r\n--\r\n--b\n\ntwo\r\n--b--\r\n";
        for drip in [1, 2, 3, 5, 1000] {
            for boundary in ["b", "--b", "\"b\""] {
                for stream in [&with_length[..], without] {
                    let mut parts = Multipart::new(Dripping(stream, drip), boundary);
                    let first = parts.next().unwrap();
                    assert_eq!(String::from_utf8_lossy(&first).trim_end(), "one\r\n--", "{drip} {boundary}");
                    assert_eq!(parts.next().unwrap(), b"two", "{drip} {boundary}");
                    assert!(matches!(parts.next(), Err(StreamError::Ended)));
                }
            }
        }
    }

    #[test]
    fn dashes_of_a_boundary_are_its_own_or_those_before_it() {
        // RFC 2046 has two more dashes before those of the boundary; some cameras count two of its own.
        for line in ["------abc", "----abc"] {
            let stream = format!("{line}\r\n\r\none\r\n--abc\r\n{line}\r\n\r\ntwo\r\n{line}--\r\n");
            for boundary in ["----abc", "\"----abc\""] {
                let mut parts = Multipart::new(stream.as_bytes(), boundary);
                assert_eq!(parts.next().unwrap(), b"one\r\n--abc", "{line} {boundary}");
                assert_eq!(parts.next().unwrap(), b"two", "{line} {boundary}");
                assert!(matches!(parts.next(), Err(StreamError::Ended)), "{line} {boundary}");
            }
        }
    }

    #[test]
    fn a_boundary_may_be_written_without_dashes_or_be_another_than_the_one_named() {
        for (line, boundary) in [("b", "b"), ("--B", "b"), ("--other", "b"), ("--b", "")] {
            let stream = format!("\r\n{line}\r\n\r\none\r\n--c\r\n{line}\r\n\r\ntwo\r\n{line}--\r\n");
            let mut parts = Multipart::new(stream.as_bytes(), boundary);
            assert_eq!(parts.next().unwrap(), b"one\r\n--c", "{line} {boundary}");
            assert_eq!(parts.next().unwrap(), b"two", "{line} {boundary}");
            assert!(matches!(parts.next(), Err(StreamError::Ended)), "{line} {boundary}");
        }
    }

    #[test]
    fn parts_that_are_no_pictures_are_passed_over() {
        let stream = b"--b\r\nContent-Type: TEXT/plain\r\nContent-Length: 9\r\n\r\nHeartbeat\r\n\
            --b\r\ncontent-type:text/plain\r\n\r\nEvents\r\n--b\r\nContent-Type: image/jpeg\r\n\r\none\r\n\
            --b\r\nContent-Type: text/html\r\n\r\n\xff\xd8\r\n--b--\r\n";
        let mut parts = Multipart::new(&stream[..], "b");
        assert_eq!((parts.next().unwrap(), parts.next().unwrap()), (b"one".to_vec(), b"\xff\xd8".to_vec()));
        assert!(matches!(parts.next(), Err(StreamError::Ended)));
    }

    #[test]
    fn empty_parts_are_passed_over() {
        for empty in ["\r\n", "\r\n\r\n", "Content-Type: image/jpeg\r\n\r\n", "Content-Length: 0\r\n\r\n\r\n"] {
            let stream = format!("--b\r\n{empty}--b\r\n\r\none\r\n--b\r\n{empty}--b\r\n\r\ntwo\r\n--b--\r\n");
            for drip in [1, 3, 1000] {
                let mut parts = Multipart::new(Dripping(stream.as_bytes(), drip), "b");
                let both = (parts.next().unwrap(), parts.next().unwrap());
                assert_eq!(both, (b"one".to_vec(), b"two".to_vec()), "{empty:?} {drip}");
                assert!(matches!(parts.next(), Err(StreamError::Ended)), "{empty:?} {drip}");
            }
        }
    }

    #[test]
    fn a_boundary_that_nobody_says_is_the_first_line_with_two_dashes() {
        let stream = b"junk\r\n--\r\n--b\r\n\r\none\r\n--c\r\n--b\r\nContent-Length: 3\r\n\r\ntwo\r\n--b--\r\n";
        let mut parts = Multipart::with_any_boundary(&stream[..]);
        assert_eq!((parts.next().unwrap(), parts.next().unwrap()), (b"one\r\n--c".to_vec(), b"two".to_vec()));
        assert!(matches!(parts.next(), Err(StreamError::Ended)));
    }

    #[test]
    fn what_never_ends_is_given_up() {
        let endless = |bytes: &'static [u8]| bytes.chain(io::repeat(b'x'));
        let mut parts = Multipart::new(endless(b""), "b");
        assert!(matches!(parts.next(), Err(StreamError::NoBoundary)));
        let mut parts = Multipart::new(endless(b"--b\r\n\r\n"), "b");
        assert!(matches!(parts.next(), Err(StreamError::TooLarge)));
        let mut parts = Multipart::new(endless(b"--b\r\nContent-Length: 99999999999\r\n\r\n"), "b");
        assert!(matches!(parts.next(), Err(StreamError::TooLarge)));
        let lines = "--b\r\n".to_owned() + &"a: b\r\n".repeat(1000);
        assert!(matches!(Multipart::new(lines.as_bytes(), "b").next(), Err(StreamError::NoBoundary)));
        let short = b"--b\r\nContent-Length: 10\r\n\r\nshort";
        assert!(matches!(Multipart::new(&short[..], "b").next(), Err(StreamError::Ended)));
    }
}
