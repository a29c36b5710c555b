//! Standard error, where the log goes: a pipe or a terminal that nobody reads must hold up no thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a line waits for a slow reader.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest text of a line, in bytes: with what stands before it, a pipe that is writable takes it at once
/// (`PIPE_BUF` of Linux is 4,096).
const MAX_TEXT: usize = 3900;

/// Counts the lines that were left out since the last one that was written.
#[derive(Default)]
pub struct MissingLines(AtomicU64);

impl MissingLines {
    /// Whether the next line is written, and after how many that were left out; `None` if it is left out, too.
    /// `is_writable_within` says whether it can be written within a time. Once a line was left out, others do not wait.
    pub fn admit(&self, is_writable_within: impl FnOnce(Duration) -> bool) -> Option<u64> {
        let timeout = if self.0.load(Ordering::Relaxed) == 0 { WRITE_TIMEOUT } else { Duration::ZERO };
        if is_writable_within(timeout) {
            return Some(self.0.swap(0, Ordering::Relaxed));
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// Has the message of a panic printed only if standard error takes it: a thread that waited there would not end, so
/// nothing would restart it.
pub fn print_panics_if_read() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if is_writable_within(WRITE_TIMEOUT) {
            print(panic);
        }
    }));
}

/// A text without what a line has no room for.
pub fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// Whether standard error takes a line within a time, or fails at once.
#[cfg(unix)]
pub fn is_writable_within(most: Duration) -> bool {
    is_writable(std::io::stderr(), most)
}

/// Other systems than Unix are not asked.
#[cfg(not(unix))]
pub fn is_writable_within(_: Duration) -> bool {
    true
}

/// Whether a write does not wait. A pipe that is writable takes `PIPE_BUF` bytes, more than most lines have.
#[cfg(unix)]
fn is_writable(stream: impl std::os::fd::AsFd, most: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Ok(most) = Timespec::try_from(most) else { return true };
    loop {
        match poll(&mut [PollFd::new(&stream, PollFlags::OUT)], Some(&most)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready != Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_left_out_are_counted_and_only_the_first_waits() {
        let missing = MissingLines::default();
        let next = |is_writable: bool, expected: Duration| {
            missing.admit(|timeout| {
                assert_eq!(timeout, expected);
                is_writable
            })
        };
        assert_eq!(next(true, WRITE_TIMEOUT), Some(0));
        assert_eq!(next(false, WRITE_TIMEOUT), None);
        assert_eq!(next(false, Duration::ZERO), None);
        assert_eq!(next(true, Duration::ZERO), Some(2));
        assert_eq!(next(true, WRITE_TIMEOUT), Some(0));
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        let long = "\u{e4}".repeat(MAX_TEXT);
        assert_eq!(cut(&long), &long[..MAX_TEXT]);
        assert_eq!(cut(&format!("x{long}")).len(), MAX_TEXT - 1);
    }

    #[test]
    #[cfg(unix)]
    fn a_full_pipe_takes_nothing_and_a_closed_one_fails_at_once() {
        use std::io::{Write, pipe};
        let (reader, writer) = pipe().unwrap();
        assert!(is_writable(&writer, Duration::ZERO));
        let mut filler = writer.try_clone().unwrap();
        // Ends once nobody can read any more.
        let filling = std::thread::spawn(move || filler.write_all(&vec![b'\n'; 1 << 21]));
        let is_full = (0..3000).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            !is_writable(&writer, Duration::ZERO)
        });
        assert!(is_full, "nobody reads, and the pipe takes more and more");
        drop(reader);
        assert!(filling.join().unwrap().is_err());
        assert!(is_writable(&writer, Duration::ZERO), "a write fails at once");
    }
}
