//! Tells systemd that the service listens, is alive, and stops (sd_notify(3)). Does nothing if systemd did not
//! start the service.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use orco_runtime::threads::panic_message;
use tokio::task::JoinHandle;
use tokio::time;

use crate::answers::Answers;
use crate::health::Health;

/// What the task is called.
const NAME: &str = "watchdog";
/// The message that feeds the watchdog.
const FED: &str = "WATCHDOG=1";

/// Notifies systemd that the service listens. If the unit has a watchdog, it is fed from now on.
pub fn ready(answers: Answers, health: Health) -> Option<JoinHandle<()>> {
    notify("READY=1\nSTATUS=listening");
    let timeout = watchdog_timeout()?;
    Some(tokio::spawn(keep_feeding(answers, health, timeout, notify)))
}

/// Feeds the watchdog, again after a panic.
async fn keep_feeding(answers: Answers, health: Health, timeout: Duration, notify: impl Fn(&str) + Copy) {
    loop {
        let feeding = async {
            health.fault_point("watchdog: feeding");
            health.up(NAME);
            feed(&answers, timeout, notify).await;
        };
        let Err(panic) = AssertUnwindSafe(feeding).catch_unwind().await else { return };
        health.down(NAME, format!("it stopped because of a fault in the program: {}", panic_message(panic.as_ref())));
        time::sleep(timeout / 6).await;
    }
}

/// Notifies systemd that the service stops; the watchdog is fed no more.
pub fn stopping(watchdog: Option<JoinHandle<()>>) {
    notify("STOPPING=1\nSTATUS=stopping");
    watchdog.inspect(JoinHandle::abort);
}

/// Feeds the watchdog as long as the thread that answers handles its calls. If that thread hangs or has ended, systemd
/// restarts the service after `timeout`.
async fn feed(answers: &Answers, timeout: Duration, notify: impl Fn(&str)) {
    // More than twice within the timeout, as sd_watchdog_enabled(3) advises.
    let mut turns = time::interval(timeout / 3);
    turns.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    let mut before = 0;
    loop {
        turns.tick().await;
        let asked = answers.alive().await;
        let handled = answers.handled();
        match asked {
            // The queue is full, but its calls are handled.
            Err(_) if handled != before => notify(FED),
            Ok(()) => notify(FED),
            Err(refusal) => log::warn!("the watchdog is not fed: {}", refusal.sentence),
        }
        before = handled;
    }
}

#[cfg(unix)]
fn notify(what: &str) {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Custom(what)]) {
        log::warn!("systemd cannot be told how the service is: {error}");
    }
}

#[cfg(unix)]
fn watchdog_timeout() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|timeout| !timeout.is_zero())
}

#[cfg(not(unix))]
fn notify(_: &str) {}

#[cfg(not(unix))]
fn watchdog_timeout() -> Option<Duration> {
    None
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_watchdog_is_not_fed_when_nobody_answers() {
        let (answers, hanging) = Answers::stuck();
        let fed = AtomicUsize::new(0);
        let count = |_: &str| {
            fed.fetch_add(1, Ordering::Relaxed);
        };
        let timeout = Duration::from_millis(3);
        let feeding = feed(&answers, timeout, count);
        assert!(time::timeout(10 * timeout, feeding).await.is_err(), "it ends with the service alone");
        assert_eq!(fed.load(Ordering::Relaxed), 0, "the thread hangs");
        drop(hanging);
        assert!(time::timeout(10 * timeout, feed(&answers, timeout, count)).await.is_err());
        assert_eq!(fed.load(Ordering::Relaxed), 0, "the thread has ended");
    }

    #[tokio::test]
    async fn a_feeder_that_panics_begins_again_and_that_is_told() {
        let (answers, _hanging) = Answers::stuck();
        let health = Health::new(std::env::temp_dir().as_path(), crate::event::Events::default());
        health.break_at("watchdog: feeding", 2);
        let timeout = Duration::from_millis(300);
        let feeding = tokio::spawn(keep_feeding(answers, health.clone(), timeout, |_: &str| {}));
        let is_down = |health: &Health| health.problems().iter().any(|problem| problem.contains("\"watchdog\""));
        while !is_down(&health) {
            time::sleep(Duration::from_millis(1)).await;
        }
        while is_down(&health) {
            time::sleep(Duration::from_millis(1)).await;
        }
        assert!(!feeding.is_finished());
    }
}
