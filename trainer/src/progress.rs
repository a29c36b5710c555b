//! Progress of long work: a bar with rate and time left on a terminal, log lines elsewhere.

use std::io::IsTerminal;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};

use crate::system::{memory_used, size};

/// Shows how far a phase has come.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    name: &'static str,
    first: u64,
    started: Instant,
}

impl Progress {
    /// A phase of `total` steps, of which `done` were made by an earlier run.
    pub fn new(name: &'static str, total: u64, done: u64) -> Self {
        Self::counting(name, "steps", total, done)
    }

    /// Work that is counted in something else than steps.
    pub fn counting(name: &'static str, unit: &str, total: u64, done: u64) -> Self {
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new(total) } else { ProgressBar::hidden() };
        bar.set_length(total);
        let template = format!("{{prefix}} [{{bar:30}}] {{pos}}/{{len}} {unit}, {{per_sec}}, {{eta}} left  {{msg}}");
        bar.set_style(ProgressStyle::with_template(&template).expect("template is valid").progress_chars("=> "));
        bar.set_prefix(name);
        bar.set_position(done);
        bar.reset_eta();
        Self { bar, name, first: done, started: Instant::now() }
    }

    /// Counts steps and shows a message beside the bar.
    pub fn advance(&mut self, steps: u64, message: &str) {
        self.bar.inc(steps);
        self.bar.set_message(message.to_owned());
    }

    /// Prints a line that stays, with the time left.
    pub fn milestone(&self, line: &str) {
        let made = (self.bar.position() - self.first).max(1) as f64;
        let remaining = self.bar.length().unwrap_or(0).saturating_sub(self.bar.position()) as f64;
        let left = self.started.elapsed().as_secs_f64() / made * remaining;
        let memory = memory_used().map_or(String::new(), |bytes| format!(", {} memory", size(bytes)));
        let line = format!("{}: {line}; {} left{memory}", self.name, duration(left));
        if self.bar.is_hidden() { log::info!("{line}") } else { self.bar.println(line) }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Seconds in words: `1h05m`, `12m30s`, `8s`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s:02}s"),
        (h, m, _) => format!("{h}h{m:02}m"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn durations_read_well() {
        assert_eq!(super::duration(8.2), "8s");
        assert_eq!(super::duration(750.0), "12m30s");
        assert_eq!(super::duration(3900.0), "1h05m");
    }
}
