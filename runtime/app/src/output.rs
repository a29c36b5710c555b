//! Tables and progress bars.

use std::any::Any;
use std::io::{IsTerminal, Write};
use std::panic;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use orco_runtime::protocol::Summary;

static CHANGED: AtomicBool = AtomicBool::new(false);

/// Notes that the change that was asked for is saved.
pub fn changed() {
    CHANGED.store(true, Ordering::Relaxed);
}

/// Ends the program with one sentence where standard output cannot be written, as on a full disk: `println!` knows only
/// panicking.
pub fn refuse_quietly() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let Some(reason) = unprinted(info.payload()) else { return usual(info) };
        let change = if CHANGED.load(Ordering::Relaxed) { "; the change was made all the same" } else { "" };
        let _ = writeln!(std::io::stderr(), "error: cannot write to standard output: {reason}{change}");
        process::exit(1);
    }));
}

/// Why printing failed, if that is what a panic is about.
fn unprinted(payload: &(dyn Any + Send)) -> Option<&str> {
    payload.downcast_ref::<String>()?.strip_prefix("failed printing to stdout: ")
}

/// A progress bar with rate and time left; hidden where nobody looks.
pub fn bar(total: usize, what: &str) -> ProgressBar {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len}, {per_sec}, {eta} left {msg}");
    bar.set_style(style.expect("template is valid").progress_chars("=> "));
    bar.set_prefix(what.to_owned());
    bar
}

/// A time in seconds since 1970 as date, hour and minute of UTC.
pub fn minute(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "-".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}

/// A number of things: `1 draw`, `3 draws`.
pub fn counted(count: impl Into<u64>, thing: &str) -> String {
    let count = count.into();
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A system's result: one line for the means and one per session.
pub fn summary(summary: &Summary) -> String {
    format!(
        "{}: aHM {:.2} ± {:.2}, aACC {:.2} ± {:.2}, base decay {:.2}, performance decay {:.2}\n{}",
        summary.system,
        summary.ahm,
        summary.ahm_deviation,
        summary.aacc,
        summary.aacc_deviation,
        summary.base_decay,
        summary.performance_decay,
        summary.table()
    )
}

/// Presets side by side; arithmetic and time are those of learning all sessions of a draw, also as shares of the first
/// preset's.
pub fn presets(measured: &[(&str, Summary)]) -> String {
    let Some((_, first)) = measured.first() else { return String::new() };
    let line = |(name, summary): &(&str, Summary)| {
        format!(
            "{name:<8} {:6.2} ± {:<5.2} {:6.2} ± {:<5.2} {:>8.1} {:>7.3} {:>8.2} {:>7.3}",
            summary.ahm,
            summary.ahm_deviation,
            summary.aacc,
            summary.aacc_deviation,
            summary.operations / 1e9,
            summary.operations / first.operations,
            summary.seconds,
            summary.seconds / first.seconds
        )
    };
    let lines: Vec<String> = measured.iter().map(line).collect();
    format!("preset      aHM            aACC             Gflop   share  seconds   share\n{}", lines.join("\n"))
}

/// How an answer is found, for a weight of class means.
pub fn rule(class_means: f32) -> String {
    if class_means > 0.0 {
        format!("by targets and by class means, weighed 1 to {class_means}")
    } else {
        "by targets alone".to_owned()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn minutes_are_those_of_the_calendar() {
        assert_eq!(super::minute(0), "1970-01-01 00:00");
        assert_eq!(super::minute(951_827_640), "2000-02-29 12:34");
        assert_eq!(super::minute(1_795_220_400), "2026-11-21 00:20");
        assert_eq!(super::minute(u64::MAX), "-");
    }
}
