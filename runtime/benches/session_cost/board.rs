//! Processors of small boards, and how fast they can be at most.

/// A board.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    pub name: &'static str,
    cores: f64,
    /// Cycles in a second.
    clock: f64,
    /// Multiply-adds in f32 that a core starts in a cycle at the most.
    width: f64,
}

impl Board {
    /// Least seconds of a session whose own multiply-adds take one core, and the backbone's all of them.
    pub fn seconds(&self, session: u64, backbone: u64) -> f64 {
        (session as f64 + backbone as f64 / self.cores) / (self.clock * self.width)
    }
}

/// The Cortex-M7 starts one multiply-add in a cycle (VFMA.F32), Cortex-A53 and Cortex-A72 start four (one FMLA of four
/// lanes), Cortex-A76 eight (two of them).
pub const BOARDS: [Board; 4] = [
    Board { name: "Cortex-M7", cores: 1.0, clock: 480e6, width: 1.0 },
    Board { name: "Pi Zero 2", cores: 4.0, clock: 1.0e9, width: 4.0 },
    Board { name: "Pi 4", cores: 4.0, clock: 1.5e9, width: 4.0 },
    Board { name: "Pi 5", cores: 4.0, clock: 2.4e9, width: 8.0 },
];
