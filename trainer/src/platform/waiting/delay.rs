//! How long the threads of this process were ready to run while others had the cores.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// Where Linux lists the threads of this process.
const TASKS: &str = "/proc/self/task";

/// What each thread has waited for a core since it was started.
#[derive(Debug, Default)]
pub(super) struct Delays {
    seen: HashMap<String, Duration>,
}

impl Delays {
    /// Time that the threads waited for a core since the last call, all together, but for the calling thread, whose own
    /// waiting holds nobody up. `None` where the system does not tell.
    pub(super) fn since_last(&mut self) -> Option<Duration> {
        if !counts() {
            return None;
        }
        let own = fs::read_link("/proc/thread-self").ok()?;
        let mut now = HashMap::with_capacity(self.seen.len());
        for task in fs::read_dir(TASKS).ok()?.flatten() {
            let name = task.file_name();
            // A thread that ends meanwhile has no file any more.
            if own.file_name() == Some(&name) {
                continue;
            }
            let Ok(text) = fs::read_to_string(task.path().join("schedstat")) else { continue };
            now.insert(name.into_string().ok()?, waited(&text)?);
        }
        let new = |(thread, &waited): (&String, &Duration)| {
            waited.saturating_sub(self.seen.get(thread).copied().unwrap_or_default())
        };
        let sum = now.iter().map(new).sum();
        self.seen = now;
        Some(sum)
    }
}

/// Whether the system counts such times at all: the calling thread has run, which the third number would say.
pub(super) fn counts() -> bool {
    fs::read_to_string("/proc/thread-self/schedstat").is_ok_and(|text| text != "0 0 0\n")
}

/// The second number of `schedstat`: nanoseconds on the queue of a processor.
fn waited(text: &str) -> Option<Duration> {
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_counts() {
        assert_eq!(waited("2087 143485 1\n"), Some(Duration::from_nanos(143_485)));
        assert_eq!(waited("2087"), None);
        assert_eq!(waited(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_that_share_a_core_are_seen_to_wait() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let mut delays = Delays::default();
        if delays.since_last().is_none() {
            eprintln!("skipped: this system does not count how long threads wait for a core");
            return;
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let busy = || {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            // One more than there are cores, so at every moment one of them waits.
            for _ in 0..=orco_runtime::threads::usable_threads() {
                scope.spawn(busy);
            }
            let mut sum = Duration::ZERO;
            while sum < Duration::from_millis(20) {
                std::thread::sleep(Duration::from_millis(5));
                sum += delays.since_last().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
