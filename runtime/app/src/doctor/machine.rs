//! The machine: processor, memory, clock, cameras.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use orco_runtime::clock::seconds_if_set;
use orco_runtime::state::sentence::{byte_size, counted};
use orco_runtime::{memory, threads};

use super::Findings;

/// What is said behind the name of a camera device that this user may not use.
pub(super) const NOT_FOR_THIS_USER: &str =
    "may not be used by this user: add the user to its group (usermod -aG video USER)";

/// Which vector units the processor has, and how many threads are used.
pub fn processor(findings: &mut Findings) {
    let (units, fast) = vector_units();
    let text = format!("{}, {units}, {}", std::env::consts::ARCH, counted(threads::usable_threads(), "thread"));
    if fast {
        findings.good("processor", text);
    } else {
        findings.note("processor", format!("{text}: everything works, several times slower than with vector units"));
    }
}

#[cfg(target_arch = "x86_64")]
fn vector_units() -> (&'static str, bool) {
    match (is_x86_feature_detected!("avx512f"), is_x86_feature_detected!("avx2")) {
        (true, _) => ("AVX2 and AVX-512", true),
        (false, true) => ("AVX2", true),
        (false, false) => ("without AVX2", false),
    }
}

#[cfg(target_arch = "aarch64")]
fn vector_units() -> (&'static str, bool) {
    if std::arch::is_aarch64_feature_detected!("neon") { ("NEON", true) } else { ("without NEON", false) }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn vector_units() -> (&'static str, bool) {
    ("vector units unknown", true)
}

/// Whether the clock was set: dates of the history and of certificates hang on it.
pub fn clock(findings: &mut Findings) {
    let now = Timestamp::now();
    if seconds_if_set().is_none() {
        findings.wrong(
            "clock",
            format!("shows {now:.0}, so it was never set; set it (timedatectl) or start a time service"),
        );
    } else {
        findings.good("clock", format!("{now:.0}"));
    }
}

/// Whether there is memory for a session, which takes `needed` bytes beside what the program takes anyway.
pub fn memory(needed: Option<usize>, findings: &mut Findings) {
    let Some(free) = memory::available() else { return };
    match needed.map(|bytes| bytes as u64) {
        Some(needed) if free < needed => findings.wrong(
            "memory",
            format!(
                "{} available, but learning a class takes {}; end other programs",
                byte_size(free),
                byte_size(needed)
            ),
        ),
        Some(needed) => findings
            .good("memory", format!("{} available, learning a class takes {}", byte_size(free), byte_size(needed))),
        None => findings.good("memory", format!("{} available", byte_size(free))),
    }
}

/// Which camera devices there are, and whether this user may use them.
pub fn cameras(findings: &mut Findings) {
    let entries = fs::read_dir("/dev").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let name = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("video"));
    let mut nodes: Vec<PathBuf> = entries.filter(name).collect();
    nodes.sort();
    if nodes.is_empty() {
        return findings.note("cameras", "no /dev/video*: the browser's camera and files can be used");
    }
    for node in nodes {
        let shown = node.display();
        if usable(&node) {
            findings.good("cameras", format!("{shown} can be used"));
        } else {
            findings.note("cameras", format!("{shown} {NOT_FOR_THIS_USER}"));
        }
    }
}

/// Whether this user may use a device.
pub(super) fn usable(node: &Path) -> bool {
    #[cfg(unix)]
    return rustix::fs::access(node, rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK).is_ok();
    #[cfg(not(unix))]
    return node.exists();
}
