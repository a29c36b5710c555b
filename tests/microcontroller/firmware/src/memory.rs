//! The heap, and how much of all memory was used at most.

use core::alloc::{GlobalAlloc, Layout};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use embedded_alloc::LlffHeap;
use orco_micro::board::Ram;

/// End of the RAM, from where the stack grows downwards.
const END: usize = 0x2000_0000 + (4 << 20);
/// Bytes that are left to the stack.
const STACK: usize = 64 << 10;
/// What the stack is filled with before it is used.
const FILL: u32 = 0xC0FF_EE00;

/// A heap that counts.
pub struct CountingHeap {
    heap: LlffHeap,
    used: AtomicUsize,
    /// Since it was asked last.
    peak: AtomicUsize,
    /// One past the last byte that was ever in use.
    reach: AtomicUsize,
}

#[global_allocator]
pub static HEAP: CountingHeap = CountingHeap {
    heap: LlffHeap::empty(),
    used: AtomicUsize::new(0),
    peak: AtomicUsize::new(0),
    reach: AtomicUsize::new(0),
};

// SAFETY: memory comes from the heap; only numbers are noted.
unsafe impl GlobalAlloc for CountingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let memory = unsafe { self.heap.alloc(layout) };
        if !memory.is_null() {
            let used = self.used.fetch_add(layout.size(), Relaxed) + layout.size();
            self.peak.fetch_max(used, Relaxed);
            self.reach.fetch_max(memory as usize + layout.size(), Relaxed);
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.used.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { self.heap.dealloc(memory, layout) };
    }
}

impl CountingHeap {
    /// Most bytes in use at once since the last call.
    pub fn take_peak(&self) -> usize {
        self.peak.swap(self.used.load(Relaxed), Relaxed)
    }
}

/// Gives the heap all that lies between the static variables and the stack, and marks the stack.
pub fn begin() {
    let start = cortex_m_rt::heap_start() as usize;
    // SAFETY: nothing lies between; this is called once, before anything is allocated.
    unsafe { HEAP.heap.init(start, END - STACK - start) };
    let here = MaybeUninit::<u32>::uninit();
    // Some way below this function's own frame.
    let top = (here.as_ptr() as usize - 1024) & !3;
    for address in (END - STACK..top).step_by(4) {
        // SAFETY: this part of the stack is not in use yet.
        unsafe { (address as *mut u32).write_volatile(FILL) };
    }
}

/// Most bytes that were ever in use.
pub fn used() -> Ram {
    let start = cortex_m_rt::heap_start() as usize;
    // SAFETY: the stack's own memory.
    let is_marked = |address: &usize| unsafe { (*address as *const u32).read_volatile() } == FILL;
    let marked = (END - STACK..END).step_by(4).take_while(is_marked).count() * 4;
    assert!(marked > 0, "the stack was too small");
    Ram { statics: start - 0x2000_0000, heap: HEAP.reach.load(Relaxed).max(start) - start, stack: STACK - marked }
}
