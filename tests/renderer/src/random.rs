//! Random choices of one picture, reproducible from the picture's place in the set.

use oorandom::Rand32;

/// Another seed gives another set of pictures.
const SEED: u64 = 1;

/// The random choices of one picture.
///
/// Free draws ([`Random::between`], [`Random::chance`]) come from the picture's own stream.
/// [`Random::deal`] deals each picture of a folder another card, so that a folder shows all variants.
#[derive(Debug)]
pub struct Random {
    stream: Rand32,
    folder: u64,
    index: usize,
}

impl Random {
    /// The choices of picture `index` in the folder called `folder`.
    pub fn new(folder: &str, index: usize) -> Self {
        let folder = folder.bytes().fold(mixed(SEED), |hash, byte| mixed(hash ^ u64::from(byte)));
        let stream = Rand32::new(mixed(folder ^ (index as u64 + 1)));
        Self { stream, folder, index }
    }

    /// A number in `low..high`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.stream.rand_float()
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f32) -> bool {
        self.stream.rand_float() < probability
    }

    /// Plus or minus one.
    pub fn sign(&mut self) -> f32 {
        if self.chance(0.5) { 1.0 } else { -1.0 }
    }

    /// 32 random bits, to salt a texture with.
    pub fn salt(&mut self) -> u32 {
        self.stream.rand_u32()
    }

    /// A number with mean zero and deviation about one (the sum of four uniform ones).
    pub fn bell(&mut self) -> f32 {
        let sum: f32 = (0..4).map(|_| self.stream.rand_float()).sum();
        (sum - 2.0) * 1.732
    }

    /// One of `options`: the pictures of a folder get them in turn, in an order shuffled by folder and `purpose`.
    pub fn deal<T: Copy>(&self, purpose: &str, options: &[T]) -> T {
        let key = purpose.bytes().fold(self.folder, |hash, byte| mixed(hash ^ u64::from(byte)));
        let mut shuffler = Rand32::new(key);
        let mut order: Vec<usize> = (0..options.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, shuffler.rand_range(0..last as u32 + 1) as usize);
        }
        options[order[self.index % order.len()]]
    }
}

/// The finaliser of SplitMix64.
fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
