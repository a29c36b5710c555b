//! A whole session of the core on the host, as a microcontroller runs it: no std, no allocator, all memory static, a
//! panic handler of its own. If anything of std or an allocation crept into the core, this would not link.
#![no_std]
#![no_main]

use core::ffi::{c_int, c_void};
use core::panic::PanicInfo;
use core::ptr::addr_of_mut;

use orco_bare::session::{BareMemory, LEARNED_SHOTS, run};

/// The program's whole memory.
static mut MEMORY: BareMemory = BareMemory::new();

// The host starts programs through its C library.
#[link(name = "c")]
unsafe extern "C" {
    fn write(file: c_int, bytes: *const c_void, length: usize) -> isize;
    fn abort() -> !;
}

fn say(text: &str) {
    // SAFETY: the pointer and the length are those of a string.
    unsafe { write(1, text.as_ptr().cast(), text.len()) };
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    say("the session panicked\n");
    // SAFETY: it takes nothing and does not return.
    unsafe { abort() }
}

/// The compiled `core` names this symbol, though nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Runs the session: 0 if the shots of the learned classes are recognised.
#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    // SAFETY: `main` runs once, on one thread, so this is the only reference.
    let memory = unsafe { &mut *addr_of_mut!(MEMORY) };
    match run(memory) {
        Ok(LEARNED_SHOTS) => {
            say("a session without std and without an allocator: every shot of the learned classes is recognised\n");
            return 0;
        }
        Ok(_) => say("the learned classes are not recognised\n"),
        Err(_) => say("the session failed: the memory is too small, or training diverged\n"),
    }
    1
}
