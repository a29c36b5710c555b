//! Ctrl-C, and SIGTERM as batch systems send it: the first asks for a stop at the next safe place, the second ends the
//! program at once.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use anyhow::{Context, Result};

/// Exit status of a program that was stopped by Ctrl-C or SIGTERM.
pub const EXIT_STATUS: i32 = 130;

/// Whether a stop was asked for.
static STOP_REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// The command that goes on with a run by its folder; [`continue_with`] sets it.
static RESUME_COMMAND: Mutex<Option<&'static str>> = Mutex::new(Some("orco-train resume"));
/// What the program is at; [`enter`] sets it.
static ACTIVITY: AtomicU8 = AtomicU8::new(Activity::Unsaved as u8);

/// What the program is at, and with it what a stop costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// Nothing that a later start goes on from.
    Unsaved,
    /// Waiting for other ranks to start, which the first signal ends at once.
    Meeting,
    /// Parts of a run between its phases, which are made again.
    Run,
    /// Phase 1, saved when it stops.
    Pretrain,
    /// Phase 2, saved when it stops.
    Align,
    /// A rival's episodes, saved when they stop.
    Episodes,
}

impl Activity {
    fn now() -> Self {
        let all = [Self::Unsaved, Self::Meeting, Self::Run, Self::Pretrain, Self::Align, Self::Episodes];
        all[usize::from(ACTIVITY.load(Ordering::Relaxed))]
    }
}

/// Says what the program is at from now on.
pub fn enter(activity: Activity) {
    ACTIVITY.store(activity as u8, Ordering::Relaxed);
}

/// The program was stopped on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// What it was at.
    activity: Activity,
    /// The command that goes on with it by its run's folder.
    resume_command: Option<&'static str>,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("stopped by Ctrl-C or SIGTERM")?;
        let saved = match self.activity {
            Activity::Unsaved | Activity::Meeting => return Ok(()),
            Activity::Run => "the phases that were finished are saved",
            Activity::Pretrain => "phase 1 is saved up to its last step",
            Activity::Align => "phase 2 is saved up to its last step",
            Activity::Episodes => "the episodes are saved up to their last step",
        };
        let resumes = self.resume_command.map_or_else(String::new, |command| format!(" or `{command}`"));
        write!(formatter, "; {saved}, and the same command{resumes} continues")
    }
}

impl std::error::Error for Interrupted {}

/// Says by which command a run is continued from its folder; with none, where the program trains several things, the
/// same command alone goes on with them.
pub fn continue_with(command: Option<&'static str>) {
    *RESUME_COMMAND.lock().unwrap_or_else(PoisonError::into_inner) = command;
}

/// Watches for Ctrl-C and SIGTERM from now on; to be called once.
///
/// # Errors
/// If the system refuses to say when they come.
#[cfg(unix)]
pub fn watch() -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("cannot watch for Ctrl-C and SIGTERM")?;
    let listen =
        move || signals.forever().for_each(|signal| handle_signal(if signal == SIGINT { "Ctrl-C" } else { "SIGTERM" }));
    std::thread::Builder::new().name("signals".into()).spawn(listen).context("cannot watch for Ctrl-C and SIGTERM")?;
    Ok(())
}

/// Watches for Ctrl-C from now on; to be called once.
///
/// # Errors
/// If the system refuses the handler.
#[cfg(not(unix))]
pub fn watch() -> Result<()> {
    use signal_hook::consts::SIGINT;
    signal_hook::flag::register(SIGINT, STOP_REQUESTED.clone()).context("cannot watch for Ctrl-C")?;
    Ok(())
}

/// Asks for a stop; ends the program at once while it waits for other ranks to start, and at the second signal.
#[cfg(unix)]
fn handle_signal(how: &str) {
    let trains = matches!(Activity::now(), Activity::Pretrain | Activity::Align | Activity::Episodes);
    if Activity::now() == Activity::Meeting {
        eprintln!("stopped by {how} while it waited for the other ranks");
        end();
    }
    if STOP_REQUESTED.swap(true, Ordering::Relaxed) {
        eprintln!("stopped at once{}", if trains { "; the last checkpoint, if there was one, is kept" } else { "" });
        end();
    }
    let when = if trains { " as soon as this step is saved" } else { "" };
    eprintln!("{how}: stopping{when}; once more stops at once");
}

/// Ends the program without running destructors: they would tear down libtorch beneath the thread that computes.
#[cfg(unix)]
fn end() -> ! {
    // SAFETY: takes nothing and does not return.
    unsafe { libc::_exit(EXIT_STATUS) }
}

/// Asks for a stop as Ctrl-C does: another rank was asked for one.
pub fn request_stop() {
    STOP_REQUESTED.store(true, Ordering::Relaxed);
}

/// Whether a stop was asked for.
///
/// # Errors
/// [`Interrupted`] if so.
pub fn check() -> Result<(), Interrupted> {
    if STOP_REQUESTED.load(Ordering::Relaxed) {
        let resume_command = *RESUME_COMMAND.lock().unwrap_or_else(PoisonError::into_inner);
        Err(Interrupted { activity: Activity::now(), resume_command })
    } else {
        Ok(())
    }
}

/// Says whether to go on, to work that asks for a [`ControlFlow`]; whoever called it then asks [`check`].
pub fn flow() -> ControlFlow<()> {
    if check().is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_activity_says_what_a_stop_leaves() {
        let stopped = |activity, resume_command| Interrupted { activity, resume_command }.to_string();
        assert_eq!(stopped(Activity::Unsaved, None), "stopped by Ctrl-C or SIGTERM");
        let saved =
            [(Activity::Pretrain, "phase 1"), (Activity::Align, "phase 2"), (Activity::Episodes, "the episodes")];
        for (activity, saved) in saved.into_iter().chain([(Activity::Run, "finished are saved")]) {
            let said = stopped(activity, Some("orco-train resume"));
            assert!(said.contains(saved) && said.ends_with("`orco-train resume` continues"), "{said}");
            assert!(!stopped(activity, None).contains("resume"));
        }
    }
}
