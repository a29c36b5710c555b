//! What benchmarks measured, for `cargo xtask bench`: `ORCO_BENCH_RECORD` names the file that a line of JSON for each
//! figure is added to. Without that variable nothing is written.

use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Names the file that [`record`] adds its lines to.
pub const RECORD: &str = "ORCO_BENCH_RECORD";

/// A figure of a benchmark: a time, a rate, or how much is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// What was measured. Stays the same over time: figures of one name are one series.
    pub name: String,
    /// How much, in that unit.
    pub value: f64,
    /// Of the value.
    pub unit: Unit,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// How long something takes.
    #[serde(rename = "ms")]
    Milliseconds,
    /// How often something is done in a second.
    #[serde(rename = "/s")]
    PerSecond,
    /// How much is handed to the file system, in thousands of bytes.
    #[serde(rename = "KB")]
    Kilobytes,
}

impl Measurement {
    /// How often it is done while the reference kernel, which takes `reference` milliseconds, runs once: more is
    /// faster. Of what is written, which needs no kernel: how often in a megabyte.
    #[must_use]
    pub fn ratio(&self, reference: f64) -> f64 {
        match self.unit {
            Unit::Milliseconds => reference / self.value,
            Unit::PerSecond => self.value * reference / 1e3,
            Unit::Kilobytes => 1e3 / self.value,
        }
    }
}

/// Milliseconds that a call takes; what it returns is not optimised away.
pub fn milliseconds<T>(call: impl FnOnce() -> T) -> f64 {
    let started = Instant::now();
    black_box(call());
    1e3 * started.elapsed().as_secs_f64()
}

/// Adds a figure to the file that [`RECORD`] names.
///
/// # Panics
/// If the file cannot be written.
pub fn record(name: impl Into<String>, value: f64, unit: Unit) {
    let Some(path) = std::env::var_os(RECORD).filter(|path| !path.is_empty()) else { return };
    let line = serde_json::to_string(&Measurement { name: name.into(), value, unit }).expect("a name and a number");
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{line}"));
    assert!(written.is_ok(), "{RECORD}: the line cannot be written: {written:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_faster_of_a_time_and_of_a_rate() {
        let ratio = |value, unit| Measurement { name: "step".into(), value, unit }.ratio(50.0);
        assert_eq!(ratio(10.0, Unit::Milliseconds), 5.0);
        assert_eq!(ratio(100.0, Unit::PerSecond), 5.0, "100 a second take 10 ms each");
        assert_eq!(ratio(200.0, Unit::Kilobytes), 5.0, "five of 200 KB are a megabyte, on any machine");
    }
}
