//! Power on: reads an order from the file `order` of the host, carries it out on the bundle in flash and the state on
//! the flash chip, writes the file `outcome`, and ends QEMU. Where the order says so the power goes on the way.
#![no_std]
#![no_main]

extern crate alloc;

mod memory;
mod timer;

use alloc::vec;
use core::panic::PanicInfo;
use core::ptr::addr_of_mut;

// Brings the critical section of a single core.
use cortex_m as _;
use orco_bare::session::BareMemory;
use orco_micro::board::{Board, Ram};
use orco_micro::exchange::{Order, Task};
use orco_micro::run::{Files, run, run_without_allocator};
use semihosting::fs::{self, File};
use semihosting::io::Read;
use semihosting::{eprintln, process};

/// The bundle: next to the program in flash, and read from there.
const FILES: Files<'_> = Files {
    learner: include_bytes!("../../../../models/cifar100-micro/learner.postcard"),
    statistics: include_bytes!("../../../../models/cifar100-micro/statistics.postcard"),
};

/// Where the board has a memory of 16 MiB that QEMU keeps in a file: it stands for a chip of serial flash.
const CHIP: *mut u8 = 0x6000_0000 as *mut u8;
/// Bytes of it that hold the state.
const CHIP_SIZE: usize = 1 << 20;

/// Memory of the session that needs no allocator.
static mut MEMORY: BareMemory = BareMemory::new();

/// Exit status after a power cut.
const POWER_CUT: i32 = 3;

/// The board mps2-an500.
struct An500;

impl Board for An500 {
    fn instructions(&self) -> u64 {
        timer::instructions()
    }

    fn heap(&self) -> usize {
        memory::HEAP.take_peak()
    }

    fn ram(&self) -> Ram {
        memory::used()
    }

    fn off(&self) {
        process::exit(POWER_CUT)
    }
}

#[cortex_m_rt::entry]
fn main() -> ! {
    memory::begin();
    timer::begin();
    assert!(timer::is_right(), "QEMU counts no instructions; start it with -icount shift=0");
    // SAFETY: nothing else lies there, and this is the only reference.
    let chip = unsafe { core::slice::from_raw_parts_mut(CHIP, CHIP_SIZE) };
    let order: Order = postcard::from_bytes(&read(c"order")).expect("the host writes orders");
    let outcome = match order.task {
        Task::WithoutAllocator => {
            // SAFETY: `main` runs once, on one core, so this is the only reference.
            let memory = unsafe { &mut *addr_of_mut!(MEMORY) };
            run_without_allocator(memory, &An500)
        }
        Task::Answer | Task::Learn(_) => run(FILES, &order, chip, &An500),
    };
    match outcome {
        Ok(outcome) => {
            let bytes = postcard::to_allocvec(&outcome).expect("an outcome can be written");
            fs::write(c"outcome", bytes).expect("the host takes the outcome");
            process::exit(0)
        }
        Err(error) => {
            eprintln!("{error}");
            process::exit(1)
        }
    }
}

fn read(name: &core::ffi::CStr) -> alloc::vec::Vec<u8> {
    let mut file = File::open(name).expect("the host has written the file");
    let mut bytes = vec![0; file.metadata().expect("a file has a length").len() as usize];
    file.read_exact(&mut bytes).expect("the file can be read");
    bytes
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    eprintln!("{info}");
    process::exit(2)
}
