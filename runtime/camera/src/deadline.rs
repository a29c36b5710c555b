//! A time limit for receiving a picture.

use std::io::{self, Read};
use std::time::{Duration, Instant};

/// How long a camera may send nothing.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// How long a picture may take from when it is awaited to its last byte.
pub(crate) const PICTURE_TIME: Duration = Duration::from_secs(10);

/// A reader that fails at its deadline, also while a slow camera sends now and then.
pub(crate) struct DeadlineReader<R> {
    reader: R,
    end: Instant,
    time: Duration,
}

impl<R> DeadlineReader<R> {
    pub fn new(reader: R, time: Duration) -> Self {
        Self { reader, end: Instant::now() + time, time }
    }

    /// The reader inside.
    pub fn reader_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Allows `time` from now on.
    pub fn restart(&mut self, time: Duration) {
        (self.time, self.end) = (time, Instant::now() + time);
    }
}

impl<R: Read> Read for DeadlineReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if Instant::now() >= self.end {
            let sentence = format!("no picture was complete within {} s", self.time.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, sentence));
        }
        self.reader.read(buffer)
    }
}
