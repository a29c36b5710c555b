//! How a thread's floating-point arithmetic rounds, treats subnormal numbers and traps. The program may have
//! changed that, perhaps unknowingly: `-ffast-math` flushes to zero. But Rust assumes the defaults, a change gives
//! other bytes with other modes, and a trap would end the process.

use std::marker::PhantomData;

/// The default modes on this thread, and on threads that it starts meanwhile, until this is dropped; then those before.
/// On other processors than x86-64 and aarch64, the modes stay as they are.
#[derive(Debug)]
pub(crate) struct DefaultFloatModes {
    before: u64,
    /// Keeps this on its thread, to which the modes belong.
    thread: PhantomData<*const ()>,
}

impl DefaultFloatModes {
    /// Sets them.
    pub fn set() -> Self {
        let before = register::read();
        register::write(register::DEFAULT);
        Self { before, thread: PhantomData }
    }
}

impl Drop for DefaultFloatModes {
    fn drop(&mut self) {
        register::write(self.before);
    }
}

/// MXCSR: modes, and flags of what happened, which are restored as well.
#[cfg(target_arch = "x86_64")]
mod register {
    use std::arch::asm;

    /// Every trap is masked.
    pub const DEFAULT: u64 = 0x1f80;

    pub fn read() -> u64 {
        let mut bits = 0_u32;
        // SAFETY: four bytes are written, to `bits`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack, preserves_flags)) };
        bits.into()
    }

    pub fn write(bits: u64) {
        let bits = bits as u32;
        // SAFETY: four bytes are read, from `bits`, which are the default or came from the register.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const bits, options(nostack)) };
    }
}

/// FPCR.
#[cfg(target_arch = "aarch64")]
mod register {
    use std::arch::asm;

    pub const DEFAULT: u64 = 0;

    pub fn read() -> u64 {
        let bits: u64;
        // SAFETY: it only reads the register.
        unsafe { asm!("mrs {}, fpcr", out(reg) bits, options(nostack, preserves_flags)) };
        bits
    }

    pub fn write(bits: u64) {
        // SAFETY: the bits are the default or came from the register.
        unsafe { asm!("msr fpcr, {}", in(reg) bits, options(nostack)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    pub const DEFAULT: u64 = 0;

    pub fn read() -> u64 {
        DEFAULT
    }

    pub fn write(_bits: u64) {}
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use std::thread;

    use super::*;

    /// Rounds up and flushes to zero; on x86-64 invalid operations trap, too.
    const PROGRAM: u64 = if cfg!(target_arch = "x86_64") { 0xdf00 } else { 0x0140_0000 };

    #[test]
    fn the_programs_modes_do_not_hold_in_a_call_and_are_back_after_it() {
        let tests = register::read();
        register::write(PROGRAM);
        let modes = DefaultFloatModes::set();
        let (within, started) = (register::read(), thread::spawn(register::read).join());
        drop(modes);
        let after = register::read();
        register::write(tests);
        assert_eq!((within, started.unwrap()), (register::DEFAULT, register::DEFAULT));
        assert_eq!(after, PROGRAM);
    }
}
