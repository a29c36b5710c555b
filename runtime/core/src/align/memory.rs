//! Working memory, all of it the caller's.

use crate::workers::Workers;

/// Memory and threads that a session works with.
pub struct Workspace<'a> {
    /// At least as many as [`WorkspaceSize::numbers`].
    pub numbers: &'a mut [f32],
    /// At least as many as [`WorkspaceSize::indices`].
    pub indices: &'a mut [u32],
    /// Who does the work.
    pub workers: &'a dyn Workers,
}

/// How much working memory a session needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceSize {
    /// f32 numbers.
    pub numbers: usize,
    /// u32 indices.
    pub indices: usize,
}

impl WorkspaceSize {
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

/// Numbers in a cache line. Pieces begin on one: a vector that lies across two takes twice as long to read.
const LINE: usize = 16;

/// What [`carve`] needs for pieces of these lengths, wherever the buffer begins.
pub(super) const fn sum(lengths: &[usize]) -> usize {
    let (mut sum, mut index) = (LINE - 1, 0);
    while index < lengths.len() {
        sum += lengths[index].next_multiple_of(LINE);
        index += 1;
    }
    sum
}

/// Cuts pieces of these lengths off the front of a buffer, each from the beginning of a cache line on.
///
/// # Panics
/// If the buffer is shorter than [`sum`] says.
pub(super) fn carve<T, const N: usize>(buffer: &mut [T], lengths: [usize; N]) -> [&mut [T]; N] {
    let first = buffer.as_ptr().align_offset(LINE * size_of::<T>());
    let mut rest = buffer.split_at_mut(first).1;
    lengths.map(|length| {
        let (piece, after) = core::mem::take(&mut rest).split_at_mut(length.next_multiple_of(LINE));
        rest = after;
        &mut piece[..length]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_begin_on_cache_lines_wherever_the_buffer_does() {
        const LENGTHS: [usize; 4] = [1, 0, 32, 17];
        let mut buffer = [0.0f32; sum(&LENGTHS) + LINE];
        for first in 0..LINE {
            let pieces = carve(&mut buffer[first..][..sum(&LENGTHS)], LENGTHS);
            assert_eq!(pieces.each_ref().map(|piece| piece.len()), LENGTHS);
            assert!(pieces.iter().all(|piece| piece.as_ptr().addr().is_multiple_of(64)));
        }
    }
}
