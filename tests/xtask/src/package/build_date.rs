//! The time that files of a package carry, so that two builds of one commit are the same bytes.

use std::env::VarError;
use std::error::Error;

use jiff::{Timestamp, tz::TimeZone};

use crate::process::git;

/// The variable by which programs agree on a time (<https://reproducible-builds.org/specs/source-date-epoch>).
pub const VARIABLE: &str = "SOURCE_DATE_EPOCH";

/// A time: that of the variable, else that of the commit.
#[derive(Clone, Copy, Debug)]
pub struct BuildDate(Timestamp);

impl BuildDate {
    /// # Errors
    /// If the variable is no number, or git tells no commit.
    pub fn find() -> Result<Self, Box<dyn Error>> {
        let seconds = match std::env::var(VARIABLE) {
            Ok(seconds) => seconds,
            Err(VarError::NotUnicode(_)) => return Err(format!("{VARIABLE} is no number").into()),
            Err(VarError::NotPresent) => git(&["log", "-1", "--format=%ct"])
                .map_err(|error| format!("the commit's time is unknown, so name one in {VARIABLE}: {error}"))?,
        };
        Self::from_seconds(seconds.trim().parse().map_err(|_| format!("{VARIABLE} is no number: {seconds}"))?)
    }

    /// That many seconds after 1970.
    ///
    /// # Errors
    /// If that is no time that can be written.
    pub fn from_seconds(seconds: i64) -> Result<Self, Box<dyn Error>> {
        Ok(Self(Timestamp::from_second(seconds)?))
    }

    /// Seconds after 1970.
    pub fn seconds(&self) -> i64 {
        self.0.as_second()
    }

    /// As Debian's changelogs have it: RFC 2822 with two digits for the day.
    pub fn rfc2822(&self) -> String {
        self.0.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S %z").to_string()
    }
}
