//! What the machine has: processor, memory, disk. Read from Linux's own files; elsewhere unknown, which is `None`.

use std::path::Path;
use std::sync::OnceLock;

use orco_benchmark::machine;

/// Has freed memory stay with the program, to be called before tensors are made.
///
/// Otherwise glibc gives the memory of every large tensor back and gets it anew with the next step, page by page and
/// filled with zeros.
pub fn keep_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both only change how the allocator deals with requests to come.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        // -1 stands for the highest threshold: the heap is never trimmed.
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
    }
}

/// Bytes of memory that this process holds.
pub fn memory_used() -> Option<u64> {
    machine::bytes("/proc/self/status", "VmRSS")
}

/// Bytes that can be written into a folder's file system.
pub fn disk_free(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    return rustix::fs::statvfs(folder).ok().map(|disk| disk.f_bavail * disk.f_frsize);
    #[cfg(not(unix))]
    return folder.exists().then_some(()).and(None);
}

/// Whether the processor computes in bf16 and in f16 by itself.
pub fn half_precisions() -> (bool, bool) {
    (has_any(&["avx512_bf16", "amx_bf16", "bf16"]), has_any(&["avx512_fp16", "amx_fp16", "fphp"]))
}

/// Whether the processor multiplies matrices in bf16 tile by tile (Intel's AMX).
pub fn multiplies_tiles() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| has_any(&["amx_bf16"]))
}

/// Whether the processor has one of these features, by Linux's names.
fn has_any(known: &[&str]) -> bool {
    let flags = machine::field("/proc/cpuinfo", "flags")
        .or_else(|| machine::field("/proc/cpuinfo", "Features"))
        .unwrap_or_default();
    flags.split_whitespace().any(|flag| known.contains(&flag))
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn linux_knows_itself() {
        let used = super::memory_used().unwrap();
        assert!(super::machine::memory_peak().unwrap() >= used);
        assert!(used > 1 << 20 && used < orco_runtime::memory::limit().unwrap());
        assert!(super::disk_free(&std::env::temp_dir()).is_some());
    }
}
