//! Working memory, all of it the caller's.

use crate::workers::Workers;

/// Memory and threads that an alignment works with.
pub struct Workspace<'a> {
    /// At least as many as [`WorkspaceSize::numbers`].
    pub numbers: &'a mut [f32],
    /// At least as many as [`WorkspaceSize::indices`].
    pub indices: &'a mut [u32],
    /// Who does the work.
    pub workers: &'a dyn Workers,
}

/// How much working memory an alignment needs: [`super::AlignmentExtent::workspace_size`] computes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceSize {
    /// f32 numbers.
    pub numbers: usize,
    /// u32 indices.
    pub indices: usize,
}

impl WorkspaceSize {
    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        4 * (self.numbers + self.indices)
    }

    /// The size that is enough for one or the other.
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
pub(super) const fn total_length(lengths: &[usize]) -> usize {
    let (mut total, mut index) = (LINE - 1, 0);
    while index < lengths.len() {
        total += lengths[index].next_multiple_of(LINE);
        index += 1;
    }
    total
}

/// Cuts pieces of these lengths off the front of a buffer, each from the beginning of a cache line on.
///
/// # Panics
/// If the buffer is shorter than [`total_length`] says.
pub(super) fn carve<T, const N: usize>(buffer: &mut [T], lengths: [usize; N]) -> [&mut [T]; N] {
    let first = buffer.as_ptr().align_offset(LINE * size_of::<T>());
    let mut rest = buffer.split_at_mut(first).1;
    lengths.map(|length| {
        let (piece, after) = core::mem::take(&mut rest).split_at_mut(length.next_multiple_of(LINE));
        rest = after;
        &mut piece[..length]
    })
}

/// Declares buffers that are cut off one piece of working memory, with their names, contents and lengths in one place:
/// a struct of them, `size(..)` for all together, and `carve(..)`. They lie in the order in which they are declared.
macro_rules! buffers {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident of $number:ty, sized by ($($argument:ident: $type:ty),* $(,)?) {
            $($(#[$content:meta])* $buffer:ident: $length:expr,)*
        }
    ) => {
        $(#[$about])*
        $visible struct $name<'a> {
            $($(#[$content])* $visible $buffer: &'a mut [$number],)*
        }

        impl<'a> $name<'a> {
            /// Length of the memory that they are carved from, wherever it begins.
            $visible const fn size($($argument: $type),*) -> usize {
                $crate::align::memory::total_length(&[$($length),*])
            }

            /// Cuts them off the front of some memory.
            ///
            /// # Panics
            /// If it is shorter than [`Self::size`] says.
            $visible fn carve(memory: &'a mut [$number], $($argument: $type),*) -> Self {
                let [$($buffer),*] = $crate::align::memory::carve(memory, [$($length),*]);
                Self { $($buffer),* }
            }
        }
    };
}
pub(super) use buffers;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_begin_on_cache_lines_wherever_the_buffer_does() {
        const LENGTHS: [usize; 4] = [1, 0, 32, 17];
        let mut buffer = [0.0f32; total_length(&LENGTHS) + LINE];
        for first in 0..LINE {
            let pieces = carve(&mut buffer[first..][..total_length(&LENGTHS)], LENGTHS);
            assert_eq!(pieces.each_ref().map(|piece| piece.len()), LENGTHS);
            assert!(pieces.iter().all(|piece| piece.as_ptr().addr().is_multiple_of(64)));
        }
    }
}
