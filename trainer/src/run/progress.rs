//! Progress of long work: a bar with rate and time left on a terminal, log lines elsewhere.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use orco_benchmark::machine::memory_peak;
use orco_state::sentence::byte_size;

use crate::platform::gpu;
use crate::platform::system::memory_used;

/// Where there is no terminal, a line is printed at least this often.
const LINE_INTERVAL: Duration = Duration::from_secs(30);

/// Whether this process shows no bars.
static HIDDEN: AtomicBool = AtomicBool::new(false);

/// Shows no bars and logs warnings only from now on: of several ranks, the first alone tells of progress.
pub fn show_warnings_only() {
    log::set_max_level(log::max_level().min(log::LevelFilter::Warn));
    HIDDEN.store(true, Ordering::Relaxed);
}

/// Shows how far long work has come.
#[derive(Debug)]
pub struct WorkProgress {
    bar: ProgressBar,
    name: &'static str,
    /// Where the clock was started, and when: at the first units, since what comes before them may take long, too.
    clock: Option<(u64, Instant)>,
    /// When the last line was printed.
    said: Instant,
}

impl WorkProgress {
    /// Work of `total` units, such as steps or images, of which `done` were made before.
    pub fn new(name: &'static str, unit: &str, total: u64, done: u64) -> Self {
        let shown = std::io::stderr().is_terminal() && !HIDDEN.load(Ordering::Relaxed);
        let bar = if shown { ProgressBar::new(total) } else { ProgressBar::hidden() };
        bar.set_length(total);
        let template = format!("{{prefix}} [{{bar:30}}] {{pos}}/{{len}} {unit}, {{per_sec}}, {{eta}} left  {{msg}}");
        bar.set_style(ProgressStyle::with_template(&template).expect("template is valid").progress_chars("=> "));
        bar.set_prefix(name);
        bar.set_position(done);
        bar.reset_eta();
        Self { bar, name, clock: None, said: Instant::now() }
    }

    /// Counts so many further units, and shows a message beside the bar.
    pub fn advance(&mut self, units: u64, message: &str) {
        self.show(self.bar.position() + units, || message.to_owned());
    }

    /// Shows how many units are done, and a message beside the bar; without a bar, prints both from time to time.
    pub fn show(&mut self, position: u64, message: impl FnOnce() -> String) {
        self.bar.set_position(position);
        self.clock.get_or_insert_with(|| (position, Instant::now()));
        if !self.bar.is_hidden() {
            self.bar.set_message(message());
        } else if self.said.elapsed() > LINE_INTERVAL {
            let all = self.bar.length().unwrap_or(0);
            self.milestone(format!("{position} of {all}, {}", message()).trim_end_matches(", "));
        }
    }

    /// The work ends here, before all its units are done: no time is left.
    pub fn end_here(&mut self) {
        self.bar.set_length(self.bar.position());
    }

    /// Prints a line that stays, with the time left and the memory in use, of the GPU too.
    pub fn milestone(&mut self, line: &str) {
        let left = self.left().map_or_else(String::new, |left| format!("; {} left", duration(left)));
        let memory = match (memory_used(), memory_peak()) {
            (Some(used), Some(peak)) => format!(", {} memory, {} at most", byte_size(used), byte_size(peak)),
            _ => String::new(),
        };
        let gpu = gpu::used().and_then(|gpu| gpu.memory()).map_or_else(String::new, |(free, all)| {
            format!(", {} of the GPU's {}", byte_size(all.saturating_sub(free)), byte_size(all))
        });
        let line = format!("{}: {line}{left}{memory}{gpu}", self.name);
        if self.bar.is_hidden() {
            log::info!("{line}")
        } else {
            self.bar.println(line)
        }
        self.said = Instant::now();
    }

    /// Seconds that are left at the rate so far; nothing before there is a rate.
    fn left(&self) -> Option<f64> {
        let (first, started) = self.clock?;
        let (position, all) = (self.bar.position(), self.bar.length()?);
        let made = position.checked_sub(first).filter(|made| *made > 0)?;
        Some(started.elapsed().as_secs_f64() / made as f64 * all.saturating_sub(position) as f64)
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
    use super::WorkProgress;

    #[test]
    fn time_left_is_told_once_there_is_a_rate() {
        let mut progress = WorkProgress::new("work", "steps", 10, 4);
        assert_eq!(progress.left(), None);
        progress.advance(1, "");
        assert_eq!(progress.left(), None, "what came before the first step is not what a step takes");
        progress.advance(4, "");
        let left = progress.left().unwrap();
        assert!(left <= progress.clock.unwrap().1.elapsed().as_secs_f64() / 4.0, "{left}");
        progress.advance(1, "");
        assert_eq!(progress.left(), Some(0.0));
    }

    #[test]
    fn work_that_ends_early_has_no_time_left() {
        let mut progress = WorkProgress::new("work", "steps", 10, 0);
        (0..3).for_each(|_| progress.advance(1, ""));
        progress.end_here();
        assert_eq!(progress.left(), Some(0.0));
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(super::duration(8.2), "8s");
        assert_eq!(super::duration(750.0), "12m30s");
        assert_eq!(super::duration(3900.0), "1h05m");
    }
}
