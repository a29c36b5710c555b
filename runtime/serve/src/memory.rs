//! The memory of this process: how much it may have, and what of it goes back to the machine.

use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that this program may have: the machine's memory, or less where a control group has a limit. `None` where that
/// is not known.
pub fn available() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(total);
    machine.into_iter().chain(group_limit()).min()
}

/// The machine's memory, of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The lowest limit of the control group (version 2) and of those around it.
fn group_limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = std::path::Path::new("/sys/fs/cgroup").join(own.trim_end());
    let around = folder.ancestors().take_while(|folder| folder.starts_with("/sys/fs/cgroup"));
    around.filter_map(|folder| std::fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok()).min()
}

/// Has the allocator keep large buffers out of its arenas, to be called once before pictures are decoded.
///
/// glibc raises the size from which a buffer is mapped on its own each time that one is freed, up to 32 MiB. After a
/// few large pictures all others lie in the arenas, of which there are eight for each core, and each keeps what it once
/// needed.
pub fn keep_large_buffers_apart() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: these only change how the allocator deals with requests to come.
    unsafe {
        // Larger than what the backbones of our bundles compute with, which is wanted again at once.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 16 << 20);
        libc::mallopt(libc::M_ARENA_MAX, 4);
    }
}

/// Whether the heap may hold much that is free.
static TRIM_IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Has the heap trimmed soon. Trimming walks through all arenas: too much for every request.
pub(crate) fn want_trim() {
    TRIM_IS_WANTED.store(true, Ordering::Relaxed);
}

/// Trims the heap where that is [wanted](want_trim). To be called now and then.
pub(crate) fn trim_heap_if_wanted() {
    if TRIM_IS_WANTED.swap(false, Ordering::Relaxed) {
        trim_heap();
    }
}

/// Gives the machine what lies free in the allocator's arenas.
fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: only memory that nobody holds goes back.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_how_much_there_is() {
        assert_eq!(total("MemTotal:         983040 kB\nMemFree: 1 kB\n"), Some(960 << 20));
        assert_eq!((total("MemFree: 1 kB\n"), total("MemTotal: much\n")), (None, None));
        #[cfg(target_os = "linux")]
        assert!(available().is_some_and(|bytes| bytes > 16 << 20));
    }
}
