//! Reproducible random numbers: ChaCha8, one stream per purpose, the same on every platform.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::math;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// The stream of a seed for one purpose; other purposes get independent numbers.
    ///
    /// ```
    /// use orco_core::random::Random;
    /// assert_eq!(Random::new(1, "shots").below(1000), Random::new(1, "shots").below(1000));
    /// assert_ne!(Random::new(1, "shots").bits(), Random::new(1, "views").bits());
    /// ```
    pub fn new(seed: u64, purpose: &str) -> Self {
        // FNV-1a: any fixed spreading of names over stream numbers does.
        let stream = purpose
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream);
        Self(generator)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..1`, in steps of 2^-24.
    pub fn unit(&mut self) -> f32 {
        (self.0.next_u32() >> 8) as f32 * (1.0 / (1 << 24) as f32)
    }

    /// Uniform in `low..high`.
    pub fn uniform(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// Uniform in `0..bound` (0 if `bound` is 0), by multiplication; its bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Standard normal (Box-Muller).
    pub fn normal(&mut self) -> f32 {
        let radius = math::sqrt(-2.0 * math::ln(1.0 - self.unit()));
        radius * libm::cosf(core::f32::consts::TAU * self.unit())
    }

    /// Puts items into random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}
