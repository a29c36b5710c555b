//! Keeps ONNX Runtime's telemetry off. Its official builds collect what they are used for in a database below the
//! user's cache folder, and send it to their maker's host. Two switches stop that: the environment variable
//! [`VARIABLE`], which counts when the library is loaded, and `DisableTelemetryEvents` of its C interface, which is
//! called as soon as there is an environment of it (`encoder/onnx.rs`).

use std::env;

use crate::threads::alone;

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
    if !alone() {
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

    use super::*;

    /// Asks for it as a process with several threads, which a test is: nothing is set behind their backs, and the
    /// library stays unloaded.
    #[test]
    fn with_other_threads_it_must_be_off_already() {
        const CHILD: &str = "ORCO_TELEMETRY_CHILD";
        if let Ok(expected) = env::var(CHILD) {
            let before = env::var_os(VARIABLE);
            assert_eq!(turn_off().is_ok(), expected == "off");
            assert_eq!(env::var_os(VARIABLE), before);
            if expected != "off" && super::super::library::locate().is_some() {
                let said = std::format!("{}", super::super::onnx::start().unwrap_err());
                assert!(said.contains("telemetry cannot be turned off while other threads run"), "{said}");
            }
            return;
        }
        for (value, expected) in [(None, "on"), (Some("0"), "on"), (Some(""), "on"), (Some("1"), "off")] {
            let mut command = Command::new(env::current_exe().unwrap());
            let name = "encoder::telemetry::tests::with_other_threads_it_must_be_off_already";
            command.args(["--exact", name, "--nocapture"]).env(CHILD, expected).env_remove(VARIABLE);
            command.envs(value.map(|value| (VARIABLE, value)));
            let output = command.output().unwrap();
            let said = std::string::String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains("1 passed"), "{value:?}: {said}");
        }
    }
}
