//! Waits for input, with a time limit.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Returns once there is something to read, or an end or an error to be told of.
pub(crate) fn for_input(input: impl AsFd, most: Duration) -> io::Result<()> {
    let end = Instant::now() + most;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| io::Error::other("this is too long to wait"))?;
        match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&left)) {
            Ok(0) => {
                let sentence = format!("nothing came for {} s", most.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, sentence));
            }
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
