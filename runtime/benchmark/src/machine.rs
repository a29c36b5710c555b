//! The machine that something is measured on, as Linux describes it; elsewhere unknown, which is `None`.

use std::fs;

/// The most bytes of memory that this process ever held.
pub fn memory_peak() -> Option<u64> {
    bytes("/proc/self/status", "VmHWM")
}

/// Name of the processor, or of the board where the processor has none.
pub fn processor() -> Option<String> {
    field("/proc/cpuinfo", "model name").or_else(|| field("/proc/cpuinfo", "Model"))
}

/// A line `name: 123 kB` of a file, in bytes.
pub fn bytes(file: &str, name: &str) -> Option<u64> {
    Some(field(file, name)?.trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

/// What stands behind `name` and a colon in the first line of a file that starts so.
pub fn field(file: &str, name: &str) -> Option<String> {
    let content = fs::read_to_string(file).ok()?;
    let found = content.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    found.map(|value| value.trim().to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_and_missing_fields_and_files_are_none() {
        let now = bytes("/proc/self/status", "VmRSS").unwrap();
        assert!(now > 1 << 16 && memory_peak().unwrap() >= now);
        assert_eq!(field("/proc/self/status", "Vm"), None);
        assert_eq!(bytes("/proc/self/none", "VmRSS"), None);
    }
}
