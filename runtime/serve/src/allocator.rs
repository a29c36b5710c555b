//! Settings of the memory allocator, so that freed memory goes back to the machine.

use std::sync::atomic::{AtomicBool, Ordering};

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
