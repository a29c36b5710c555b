//! The machine's clock: seconds since 1970, or nothing where it was never set.

use std::time::SystemTime;

/// Seconds since 1970; 0 where the clock stands before that.
pub fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Seconds since 1970; `None` where the clock was obviously never set.
pub fn seconds_if_set() -> Option<u64> {
    const YEAR_2020: u64 = 1_577_836_800;
    Some(seconds_since_1970()).filter(|seconds| *seconds >= YEAR_2020)
}
