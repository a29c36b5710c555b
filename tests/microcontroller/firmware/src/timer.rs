//! Instructions, by a timer of the board: with `-icount shift=0` QEMU's clock moves on by a nanosecond with each.

/// CMSDK timer 0: control, value, reload.
const TIMER: *mut u32 = 0x4000_0000 as *mut u32;
/// Nanoseconds of a tick at 25 MHz, and with it instructions.
const TICK: u64 = 40;

/// Starts counting. A count lasts for 1.7e11 instructions.
pub fn begin() {
    // SAFETY: the registers of a device that nobody else uses.
    unsafe {
        TIMER.add(2).write_volatile(u32::MAX);
        TIMER.add(1).write_volatile(u32::MAX);
        TIMER.write_volatile(1);
    }
}

/// Instructions since [`begin`], to a tick.
pub fn instructions() -> u64 {
    // SAFETY: as above.
    let left = unsafe { TIMER.add(1).read_volatile() };
    u64::from(u32::MAX - left) * TICK
}

/// Whether a loop of a million instructions counts as such: QEMU may have been started without `-icount shift=0`.
pub fn is_right() -> bool {
    let begin = instructions();
    // SAFETY: the loop changes nothing but the register.
    unsafe {
        core::arch::asm!("2:", "subs {count}, {count}, #1", "bne 2b", count = inout(reg) 500_000 => _);
    }
    (instructions() - begin).abs_diff(1_000_000) < 1_000
}
