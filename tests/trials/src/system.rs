//! Facts about processes and the processor, from Linux; the day and the commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A figure of a file such as `/proc/self/status`, by the start of its line: KiB where it is memory. `None` where the
/// system does not tell.
pub fn figure(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// A figure of a process's status, such as `VmRSS` or `Threads`.
///
/// # Panics
/// If the process has ended, or the system does not tell.
pub fn status(process: u32, name: &str) -> u64 {
    figure(&format!("/proc/{process}/status"), name).unwrap_or_else(|| panic!("process {process} has no {name}"))
}

/// The processor's name; its architecture where the system does not tell.
pub fn processor() -> String {
    of_processor("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// The processor's name, and the numbers of its family and model where it has them.
pub fn processor_with_model() -> String {
    match (of_processor("cpu family"), of_processor("model")) {
        (Some(family), Some(model)) => format!("{}, family {family}, model {model}", processor()),
        _ => processor(),
    }
}

/// A field of the first processor.
fn of_processor(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// The day, UTC, as 2026-11-25.
#[must_use]
pub fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

/// Folder of the workspace, where relative paths start whatever the folder of a test program is.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What git calls the checkout; it ends in `-dirty` if files were changed.
#[must_use]
pub fn commit() -> String {
    let git =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).current_dir(workspace()).output();
    let said =
        git.ok().filter(|output| output.status.success()).and_then(|output| String::from_utf8(output.stdout).ok());
    said.map_or_else(|| "unknown".into(), |said| said.trim().to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn figures_of_this_process_are_read() {
        let own = std::process::id();
        let now = status(own, "VmRSS");
        assert!(now > 100 && status(own, "VmHWM") >= now);
        assert!(status(own, "Threads") >= 1);
        assert_eq!(figure("/proc/self/status", "Vm"), None);
        assert_eq!(figure("/proc/self/none", "VmRSS"), None);
        assert!(processor_with_model().starts_with(&processor()));
    }
}
