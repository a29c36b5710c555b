//! Processors of small boards, and how fast they can be at most.

/// A board.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    pub name: &'static str,
    /// Multiply-adds in f32 that all of its cores together start in a second, at the most.
    pub rate: f64,
}

/// Cores, times clock, times multiply-adds that a core starts in a cycle.
const fn board(name: &'static str, cores: f64, hertz: f64, multiply_adds: f64) -> Board {
    Board { name, rate: cores * hertz * multiply_adds }
}

/// One multiply-add in a cycle on the Cortex-M7 (VFMA.F32), four on Cortex-A53 and Cortex-A72 (one FMLA of four
/// lanes), eight on Cortex-A76 (two of them).
pub const BOARDS: [Board; 4] = [
    board("Cortex-M7", 1.0, 480e6, 1.0),
    board("Pi Zero 2", 4.0, 1.0e9, 4.0),
    board("Pi 4", 4.0, 1.5e9, 4.0),
    board("Pi 5", 4.0, 2.4e9, 8.0),
];
