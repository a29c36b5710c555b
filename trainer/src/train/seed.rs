//! Seeds of the parts of a training, all from the seed of its recipe.

/// Number of phase 2 among the parts of a training; see [`part_seed`].
pub const PHASE_2: i64 = -1;

/// Seeds torch's generator for a part of the training, by its number (see [`part_seed`]).
pub fn seed_torch(seed: u64, number: i64) {
    tch::manual_seed(part_seed(seed, number) as i64);
}

/// The seed of a part of the training, by the recipe's seed and the part's number:
///
/// | part | number |
/// |---|---|
/// | initial weights | the recipe's own seed |
/// | epoch n of phase 1, or of a rival's episodes, from 0 | n + 1 |
/// | batch-norm statistics of averaged weights, after N epochs | N + 1 |
/// | phase 2 | [`PHASE_2`] |
/// | session s of draw d, in the lab's protocol | 1000 d + s |
pub fn part_seed(seed: u64, number: i64) -> u64 {
    /// A prime beyond the numbers of parts, up to 1000 draws, so that the parts of neighbouring seeds have other seeds.
    const STRIDE: u64 = 1_000_003;
    seed.wrapping_mul(STRIDE).wrapping_add_signed(number)
}
