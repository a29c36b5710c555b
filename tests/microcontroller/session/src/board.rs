//! What differs between a microcontroller and the host.

use serde::{Deserialize, Serialize};

/// Most bytes of RAM that were ever in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ram {
    /// Static variables.
    pub statics: usize,
    /// From the heap's beginning to the last byte ever in use: what was in use at once, and gaps between.
    pub heap: usize,
    /// The stack.
    pub stack: usize,
}

/// The machine that a run is on.
pub trait Board {
    /// Instructions since power on; 0 where nobody counts them.
    fn instructions(&self) -> u64;

    /// Most bytes of the heap that were in use at once since the last call.
    fn heap(&self) -> usize;

    /// Most bytes that were ever in use.
    fn ram(&self) -> Ram;

    /// The power goes. A device does not return from this; on the host, the chip fails from now on.
    fn off(&self);
}

/// A board that counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct UncountedBoard;

impl Board for UncountedBoard {
    fn instructions(&self) -> u64 {
        0
    }

    fn heap(&self) -> usize {
        0
    }

    fn ram(&self) -> Ram {
        Ram::default()
    }

    fn off(&self) {}
}
