//! The machine's clock: seconds since 1970, or nothing where it was never set.

use std::time::SystemTime;

/// 2026-01-01, in seconds since 1970. A clock that shows less was never set: this program is younger.
pub const EARLIEST: u64 = 1_767_225_600;

/// Seconds since 1970; 0 where the clock stands before that.
pub fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Seconds since 1970; `None` where the clock was obviously never set.
pub fn seconds_if_set() -> Option<u64> {
    Some(seconds_since_1970()).filter(|seconds| *seconds >= EARLIEST)
}
