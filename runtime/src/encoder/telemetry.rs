//! Keeps ONNX Runtime's telemetry off. Its official builds collect what they are used for in a database below the
//! user's cache folder, and send it to their maker's host. Two switches stop that: the environment variable
//! [`VARIABLE`], which counts when the library is loaded, and `DisableTelemetryEvents` of its C interface, which is
//! called as soon as there is an environment of it (`encoder/onnx.rs`).

use std::env;

use crate::threads::is_single_threaded;

/// The variable that keeps telemetry off, if it is `1`.
pub const VARIABLE: &str = "ORT_DISABLE_TELEMETRY";

/// Telemetry cannot be turned off: the variable is not set, and other threads may be reading the environment. Programs
/// call [`turn_off`] at the start of `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its telemetry cannot be turned off while other threads run; set {VARIABLE}=1 before the program starts")]
pub struct TelemetryError;

/// Turns ONNX Runtime's telemetry off for this process and its children, whatever the environment said. Programs call
/// it first in `main`; [`super::onnx`] calls it before it loads the library, and does not load it without.
///
/// # Errors
/// [`TelemetryError`] if [`VARIABLE`] is not `1` and the process may have other threads: one of them could read the
/// environment just then. Systems that do not say how many threads there are count as having some.
pub fn turn_off() -> Result<(), TelemetryError> {
    if env::var_os(VARIABLE).is_some_and(|value| value == "1") {
        return Ok(());
    }
    if !is_single_threaded() {
        return Err(TelemetryError);
    }
    // SAFETY: this is the process's only thread (on Windows, any number is allowed). No other one can read or write the
    // environment meanwhile, and none can come into being but by this one.
    unsafe { env::set_var(VARIABLE, "1") };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use orco_trials::alone::alone_with;

    use super::*;

    /// Asks for it as a process with several threads, which a test is: nothing is set behind their backs, and the
    /// library stays unloaded.
    #[test]
    fn with_other_threads_it_must_be_off_already() {
        let name = "encoder::telemetry::tests::with_other_threads_it_must_be_off_already";
        for value in [None, Some("0"), Some(""), Some("1")] {
            let prepare = |command: &mut Command| {
                command.env_remove(VARIABLE).envs(value.map(|value| (VARIABLE, value)));
            };
            // In a process of its own every round asks the same, so the environment says what to expect.
            alone_with(name, prepare, || {
                let before = env::var_os(VARIABLE);
                let is_off = before.as_deref().is_some_and(|value| value == "1");
                assert_eq!(turn_off().is_ok(), is_off);
                assert_eq!(env::var_os(VARIABLE), before);
                if !is_off && super::super::library::locate().is_some() {
                    let said = super::super::onnx::start().unwrap_err().to_string();
                    assert!(said.contains("telemetry cannot be turned off while other threads run"), "{said}");
                }
            });
        }
    }
}
