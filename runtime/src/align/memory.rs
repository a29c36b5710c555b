//! Working memory, all of it the caller's.

use crate::workers::Workers;

/// Memory and threads that a session works with.
pub struct Workspace<'a> {
    /// At least as many as [`Needs::numbers`].
    pub numbers: &'a mut [f32],
    /// At least as many as [`Needs::indices`].
    pub indices: &'a mut [u32],
    /// Who does the work.
    pub workers: &'a dyn Workers,
}

/// How much working memory a session needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// f32 numbers.
    pub numbers: usize,
    /// u32 indices.
    pub indices: usize,
}

impl Needs {
    /// In bytes.
    pub const fn bytes(self) -> usize {
        4 * (self.numbers + self.indices)
    }

    /// Enough for one or the other.
    pub const fn max(self, other: Self) -> Self {
        const fn larger(a: usize, b: usize) -> usize {
            if a > b { a } else { b }
        }
        Self { numbers: larger(self.numbers, other.numbers), indices: larger(self.indices, other.indices) }
    }

    /// Enough for both.
    pub const fn plus(self, other: Self) -> Self {
        Self { numbers: self.numbers + other.numbers, indices: self.indices + other.indices }
    }
}

/// Sum of lengths.
pub(super) const fn sum(lengths: &[usize]) -> usize {
    let (mut sum, mut place) = (0, 0);
    while place < lengths.len() {
        sum += lengths[place];
        place += 1;
    }
    sum
}

/// Cuts pieces of these lengths off the front of a buffer.
///
/// # Panics
/// If the buffer is too short.
pub(super) fn carve<T, const N: usize>(buffer: &mut [T], lengths: [usize; N]) -> [&mut [T]; N] {
    let mut rest = buffer;
    lengths.map(|length| {
        let (piece, after) = core::mem::take(&mut rest).split_at_mut(length);
        rest = after;
        piece
    })
}
