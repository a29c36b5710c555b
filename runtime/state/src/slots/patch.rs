//! Describes a new body by its difference (diff, delta) from the old one: bodies of megabytes often differ by the bytes
//! of one class.
//!
//! A patch is a row of pieces, each a run of the old body and then bytes that are added. They are found as rsync finds
//! them: blocks of the old body are looked up by a hash that rolls over the new one. Any two bodies can be described,
//! so that nothing here depends on what a body holds; and the new one is never in memory as a whole.
//!
//! A piece is three variable-length integers, as postcard writes them, and bytes: where its run of the old body begins,
//! how long that is, how many bytes are added, and these.

use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use postcard::ser_flavors::Flavor;

/// Bytes of a block that is looked up.
const BLOCK: usize = 256;

/// Distance between the starts of indexed blocks. Every unchanged run of `STRIDE + BLOCK` bytes contains one. Indexing
/// all blocks would take four times as long, and save a few hundred bytes of a change.
const STRIDE: usize = 4 * BLOCK;

/// Most segments of a body. Each takes a few words of memory, however few bytes it holds.
const MAX_SEGMENTS: usize = 1 << 16;

/// A body in parts of the bytes of a slot: patches are applied without copying what they keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segments {
    /// Where they lie in the slot; none is empty.
    ranges: Vec<Range<usize>>,
    /// Where each ends in the body.
    ends: Vec<usize>,
}

impl Segments {
    /// A body that lies in one place.
    pub(super) fn of(body: Range<usize>) -> Self {
        let mut segments = Self { ranges: Vec::new(), ends: Vec::new() };
        segments.push(body);
        segments
    }

    /// Bytes of the body.
    pub(super) fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn push(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.ends.push(self.len() + range.len());
            self.ranges.push(range);
        }
    }

    /// The body that pieces make of this one, which lie in the slot from `at` on. `None` if they make no sense, or if
    /// it would have more than `most` bytes or too many segments.
    pub(super) fn patched(&self, pieces: &[u8], at: usize, most: usize) -> Option<Self> {
        let mut patched = Self { ranges: Vec::new(), ends: Vec::new() };
        let end = at + pieces.len();
        let mut rest = pieces;
        while !rest.is_empty() {
            let ((start, length, added), behind) = postcard::take_from_bytes::<(u32, u32, u32)>(rest).ok()?;
            patched.push_kept(self, start as usize, length as usize, most)?;
            rest = behind.get(added as usize..)?;
            patched.push(end - behind.len()..end - rest.len());
            patched.check(most)?;
        }
        Some(patched)
    }

    /// Adds `length` bytes of another body, from `start` on.
    fn push_kept(&mut self, body: &Self, mut start: usize, mut length: usize, most: usize) -> Option<()> {
        while length > 0 {
            let ahead = body.range_from(start)?;
            let taken = length.min(ahead.len());
            self.push(ahead.start..ahead.start + taken);
            (start, length) = (start + taken, length - taken);
            self.check(most)?;
        }
        Some(())
    }

    fn check(&self, most: usize) -> Option<()> {
        (self.len() <= most && self.ranges.len() <= MAX_SEGMENTS).then_some(())
    }

    /// Where the body lies in the slot from this byte of it on, as far as it lies there in one segment; `None` behind
    /// its end.
    fn range_from(&self, at: usize) -> Option<Range<usize>> {
        let segment = self.ends.partition_point(|end| *end <= at);
        let range = self.ranges.get(segment)?;
        Some(range.end - (self.ends[segment] - at)..range.end)
    }

    /// The body in one place.
    pub(super) fn body<'a>(&self, slot: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.ranges[..] {
            [] => Cow::Borrowed(&[]),
            [range] => Cow::Borrowed(&slot[range.clone()]),
            ranges => {
                let mut body = Vec::with_capacity(self.len());
                ranges.iter().for_each(|range| body.extend_from_slice(&slot[range.clone()]));
                Cow::Owned(body)
            }
        }
    }

    /// The body in the bytes of the slot themselves, where it lies there in one piece.
    pub(super) fn into_body(self, mut slot: Vec<u8>) -> Vec<u8> {
        match &self.ranges[..] {
            [range] => {
                slot.truncate(range.end);
                slot.drain(..range.start);
                slot
            }
            _ => self.body(&slot).into_owned(),
        }
    }
}

/// The body that a patch is to change.
#[derive(Clone, Copy)]
struct OldBody<'a> {
    slot: &'a [u8],
    segments: &'a Segments,
}

impl<'a> OldBody<'a> {
    /// Its bytes from one on, as far as they lie in one segment; none past its end.
    fn ahead(self, at: usize) -> &'a [u8] {
        self.segments.range_from(at).map_or(&[], |range| &self.slot[range])
    }

    fn byte(self, at: usize) -> u8 {
        self.ahead(at)[0]
    }

    /// Copies bytes from `at` on, as many as there is room for.
    fn copy(self, mut at: usize, mut to: &mut [u8]) {
        while !to.is_empty() {
            let ahead = self.ahead(at);
            let (some, rest) = to.split_at_mut(ahead.len().min(to.len()));
            some.copy_from_slice(&ahead[..some.len()]);
            (at, to) = (at + some.len(), rest);
        }
    }

    fn has_block(self, start: usize, block: &[u8]) -> bool {
        let mut own = [0; BLOCK];
        self.copy(start, &mut own);
        own == *block
    }
}

/// Writes the pieces of a body while postcard serialises it.
pub(super) struct PieceWriter<'a> {
    old: OldBody<'a>,
    blocks: BlockIndex,
    /// Most bytes of all pieces.
    most: usize,
    written: Vec<u8>,
    /// Where the present piece's run of the old body begins, and how long it is.
    start: usize,
    length: usize,
    /// What follows that run in the old body, as far as it lies there in one segment.
    ahead: &'a [u8],
    /// What follows it in the new body instead.
    added: Vec<u8>,
    /// Whether the run has ended: the new body is looked for in all of the old one then.
    has_ended: bool,
    /// The hash of the last block of added bytes.
    hash: RollingHash,
}

impl<'a> PieceWriter<'a> {
    /// A writer of the body that follows the one in a slot; refuses to write more than `most` bytes.
    pub(super) fn new(slot: &'a [u8], segments: &'a Segments, most: usize) -> Self {
        let old = OldBody { slot, segments };
        Self {
            old,
            blocks: BlockIndex::of(old),
            most,
            written: Vec::new(),
            start: 0,
            length: 0,
            ahead: old.ahead(0),
            added: Vec::new(),
            has_ended: false,
            hash: RollingHash(0),
        }
    }

    /// Takes as many bytes as the run goes on with; returns the rest.
    fn keep<'b>(&mut self, mut bytes: &'b [u8]) -> &'b [u8] {
        loop {
            let same = common_prefix(self.ahead, bytes);
            (self.ahead, bytes) = (&self.ahead[same..], &bytes[same..]);
            self.length += same;
            if self.ahead.is_empty() {
                self.ahead = self.old.ahead(self.start + self.length);
            }
            if same == 0 || bytes.is_empty() {
                self.has_ended = !bytes.is_empty();
                return bytes;
            }
        }
    }

    /// Adds bytes until a block of them is found in the old body; returns the rest.
    fn add<'b>(&mut self, bytes: &'b [u8]) -> postcard::Result<&'b [u8]> {
        let before = self.added.len();
        if self.written.len() + before + bytes.len() > self.most {
            return Err(postcard::Error::SerializeBufferFull);
        }
        self.added.extend_from_slice(bytes);
        for end in before + 1..=self.added.len() {
            let first = end.checked_sub(BLOCK + 1).map(|first| self.added[first]);
            self.hash = self.hash.rolled(first, self.added[end - 1]);
            if end >= BLOCK
                && let Some(start) = self.find_block(end)
            {
                self.added.truncate(end);
                self.begin_piece(start)?;
                return Ok(&bytes[end - before..]);
            }
        }
        Ok(&[])
    }

    /// Where the old body has the block of added bytes that ends there, whose hash is the present one.
    fn find_block(&self, end: usize) -> Option<usize> {
        let start = self.blocks.find(self.hash)?;
        self.old.has_block(start, &self.added[end - BLOCK..end]).then_some(start)
    }

    /// Begins a piece with a run of the old body that the added bytes end with: its block at `start`, and what comes
    /// before it.
    fn begin_piece(&mut self, mut start: usize) -> postcard::Result<()> {
        let behind = start + BLOCK;
        self.added.truncate(self.added.len() - BLOCK);
        while start > 0 && self.added.last() == Some(&self.old.byte(start - 1)) {
            self.added.pop();
            start -= 1;
        }
        self.end_piece()?;
        (self.start, self.length) = (start, behind - start);
        self.ahead = self.old.ahead(behind);
        self.has_ended = false;
        self.hash = RollingHash(0);
        Ok(())
    }

    fn end_piece(&mut self) -> postcard::Result<()> {
        let head = (self.start as u32, self.length as u32, self.added.len() as u32);
        self.written = postcard::to_extend(&head, core::mem::take(&mut self.written))?;
        self.written.append(&mut self.added);
        if self.written.len() <= self.most { Ok(()) } else { Err(postcard::Error::SerializeBufferFull) }
    }
}

impl Flavor for PieceWriter<'_> {
    type Output = Vec<u8>;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, mut bytes: &[u8]) -> postcard::Result<()> {
        while !bytes.is_empty() {
            bytes = if self.has_ended {
                // Few at a time: `add` counts all that it gets against `most`, also what follows a block that it finds.
                let some = &bytes[..bytes.len().min(STRIDE)];
                let left = self.add(some)?;
                &bytes[some.len() - left.len()..]
            } else {
                self.keep(bytes)
            };
        }
        Ok(())
    }

    fn finalize(mut self) -> postcard::Result<Vec<u8>> {
        self.end_piece()?;
        Ok(self.written)
    }
}

/// Number of bytes that are the same at the start of both.
fn common_prefix(first: &[u8], second: &[u8]) -> usize {
    // Chunks are compared many bytes at a time.
    let same = first.chunks_exact(BLOCK).zip(second.chunks_exact(BLOCK)).take_while(|(first, second)| first == second);
    let same = BLOCK * same.count();
    same + first[same..].iter().zip(&second[same..]).take_while(|(first, second)| first == second).count()
}

/// The hash of a block that rolls on byte by byte: a polynomial, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RollingHash(u32);

impl RollingHash {
    const FACTOR: u32 = 0x0100_0193;
    /// The factor of a block's first byte once one more has come.
    const OF_FIRST: u32 = Self::FACTOR.wrapping_pow(BLOCK as u32);

    /// That of one byte more: without the first byte, where the block has one already.
    fn rolled(self, first: Option<u8>, next: u8) -> Self {
        let without = u32::from(first.unwrap_or(0)).wrapping_mul(Self::OF_FIRST);
        Self(self.0.wrapping_mul(Self::FACTOR).wrapping_sub(without).wrapping_add(next.into()))
    }

    /// Its bits mixed: the low bits of a polynomial hang on the low bits of the bytes alone.
    fn mixed(self) -> u32 {
        self.0.wrapping_mul(0x9E37_79B1)
    }

    /// Those of several blocks at a time: a hash waits for its own last multiplication alone.
    fn of_each<const N: usize>(blocks: &[[u8; BLOCK]; N]) -> [Self; N] {
        let mut hashes = [Self(0); N];
        for byte in 0..BLOCK {
            for (hash, block) in hashes.iter_mut().zip(blocks) {
                *hash = hash.rolled(None, block[byte]);
            }
        }
        hashes
    }
}

/// The blocks of a body, to be found by their hashes.
struct BlockIndex {
    /// A table with open addressing, at most half full: a block's hash, and from 1 its number, counted in strides.
    table: Vec<(u32, u32)>,
    /// A Bloom filter with one hash, eight bits for each place of the table: it rejects most hashes without a look at
    /// the table, by a branch that the processor predicts well.
    filter: Vec<u64>,
}

impl BlockIndex {
    fn of(body: OldBody<'_>) -> Self {
        const AT_ONCE: usize = 8;
        let count = (body.segments.len() + STRIDE - BLOCK) / STRIDE;
        let places = (2 * count).next_power_of_two();
        let mut index = Self { table: vec![(0, 0); places], filter: vec![0; (8 * places).div_ceil(64)] };
        for first in (0..count).step_by(AT_ONCE) {
            let mut blocks = [[0; BLOCK]; AT_ONCE];
            for (number, block) in (first..count).zip(&mut blocks) {
                body.copy(number * STRIDE, block);
            }
            for (number, hash) in (first..count).zip(RollingHash::of_each(&blocks)) {
                let (word, bit) = index.filter_bit(hash);
                index.filter[word] |= bit;
                let place = index.place_of(hash);
                // Of blocks with the same hash, equal ones for example, the first is kept.
                if index.table[place].1 == 0 {
                    index.table[place] = (hash.0, number as u32 + 1);
                }
            }
        }
        index
    }

    /// The word of the filter that has a hash's bit, and that bit in it.
    fn filter_bit(&self, hash: RollingHash) -> (usize, u64) {
        let bit = (hash.mixed() >> 4) as usize & (8 * self.table.len() - 1);
        (bit / 64, 1 << (bit % 64))
    }

    /// The place of a hash in the table: where it lies, or would.
    fn place_of(&self, rolling: RollingHash) -> usize {
        let (RollingHash(hash), mask) = (rolling, self.table.len() - 1);
        let mut place = (rolling.mixed() >> 7) as usize & mask;
        while self.table[place].1 != 0 && self.table[place].0 != hash {
            place = (place + 1) & mask;
        }
        place
    }

    /// Where a block with this hash begins in the body.
    fn find(&self, hash: RollingHash) -> Option<usize> {
        let (word, bit) = self.filter_bit(hash);
        if self.filter[word] & bit == 0 {
            return None;
        }
        let (_, number) = self.table[self.place_of(hash)];
        (number as usize).checked_sub(1).map(|number| number * STRIDE)
    }
}

#[cfg(test)]
mod tests {
    use orco_core::random::Random;
    use proptest::prelude::*;

    use super::*;

    /// The pieces that make `new` of `old`, from bytes that come in chunks.
    fn pieces(old: &[u8], new: &[u8], chunk: usize) -> Vec<u8> {
        let segments = Segments::of(0..old.len());
        let mut writer = PieceWriter::new(old, &segments, usize::MAX);
        new.chunks(chunk).for_each(|some| writer.try_extend(some).unwrap());
        writer.finalize().unwrap()
    }

    fn patched(old: &[u8], pieces: &[u8], most: usize) -> Option<Vec<u8>> {
        let slot = [old, pieces].concat();
        let segments = Segments::of(0..old.len()).patched(pieces, old.len(), most)?;
        assert_eq!(segments.body(&slot).len(), segments.len());
        Some(segments.into_body(slot))
    }

    /// Bytes that do not repeat.
    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut random = Random::new(seed, "noise");
        (0..length).map(|_| random.below(256) as u8).collect()
    }

    /// Replaces `removed` bytes from `at` on by others.
    fn edit(body: &[u8], (at, removed): (usize, usize), inserted: &[u8]) -> Vec<u8> {
        let at = at.min(body.len());
        let end = (at + removed).min(body.len());
        [&body[..at], inserted, &body[end..]].concat()
    }

    proptest! {
        #[test]
        fn pieces_of_a_body_make_the_other_one(
            old in prop::collection::vec(0..3u8, 0..5000),
            edits in prop::collection::vec((0..5000usize, 0..700usize, prop::collection::vec(any::<u8>(), 0..50)), 0..4),
            chunk in 1..600usize,
        ) {
            let mut new = old.clone();
            edits.iter().for_each(|(at, removed, inserted)| new = edit(&new, (*at, *removed), inserted));
            prop_assert_eq!(patched(&old, &pieces(&old, &new, chunk), usize::MAX), Some(new));
        }

        #[test]
        fn patches_follow_each_other(edits in prop::collection::vec((0..3000usize, 0..300usize, 0..40usize), 1..8)) {
            let mut body = noise(1, 3000);
            let mut slot = body.clone();
            let mut segments = Segments::of(0..slot.len());
            for (seed, (at, removed, added)) in (2..).zip(edits) {
                body = edit(&body, (at, removed), &noise(seed, added));
                let mut writer = PieceWriter::new(&slot, &segments, usize::MAX);
                writer.try_extend(&body).unwrap();
                let pieces = writer.finalize().unwrap();
                segments = segments.patched(&pieces, slot.len(), usize::MAX).unwrap();
                slot.extend_from_slice(&pieces);
                prop_assert_eq!(&*segments.body(&slot), &body[..]);
            }
        }
    }

    #[test]
    fn what_is_inserted_replaced_and_removed_is_all_that_a_patch_holds() {
        let old = noise(1, 100_000);
        let mut new = edit(&old, (70_000, 100), b"");
        new[40_000] ^= 1;
        let new = edit(&new, (20_000, 0), b"a class");
        for chunk in [1, 4, 1000, new.len()] {
            let pieces = pieces(&old, &new, chunk);
            assert_eq!(patched(&old, &pieces, new.len()).as_ref(), Some(&new));
            // Four pieces, each three numbers of at most three bytes.
            assert!(pieces.len() <= 4 * 9 + 7 + 1, "{pieces:?}");
        }
    }

    #[test]
    fn a_long_run_behind_what_is_added_does_not_count_as_added() {
        let old = noise(1, 100_000);
        let new = edit(&old, (1000, 0), b"a class");
        let segments = Segments::of(0..old.len());
        let mut writer = PieceWriter::new(&old, &segments, 2 * STRIDE);
        writer.try_extend(&new).unwrap();
        assert_eq!(patched(&old, &writer.finalize().unwrap(), new.len()), Some(new));
    }

    #[test]
    fn bytes_that_moved_are_found() {
        let (first, second) = (noise(1, 5000), noise(2, 5000));
        let (old, new) = ([&first[..], &second].concat(), [&second[..], &first].concat());
        let pieces = pieces(&old, &new, 77);
        assert_eq!(patched(&old, &pieces, new.len()).as_ref(), Some(&new));
        assert!(pieces.len() < STRIDE + BLOCK, "{pieces:?}");
    }

    #[test]
    fn a_patch_that_would_be_too_large_is_given_up() {
        let (old, new) = (noise(1, 50_000), noise(2, 50_000));
        let segments = Segments::of(0..old.len());
        let mut writer = PieceWriter::new(&old, &segments, 10_000);
        assert!(new.chunks(100).any(|some| writer.try_extend(some).is_err()));
        assert!(writer.added.len() <= 10_000, "it went on");
    }

    #[test]
    fn a_hash_rolls_to_that_of_the_next_block() {
        let bytes = noise(1, BLOCK + 1);
        let block = |start: usize| -> [u8; BLOCK] { bytes[start..][..BLOCK].try_into().unwrap() };
        let [first, second] = RollingHash::of_each(&[block(0), block(1)]);
        assert_eq!(first.rolled(Some(bytes[0]), bytes[BLOCK]), second);
    }

    #[test]
    fn pieces_that_make_no_sense_are_refused() {
        let old = noise(1, 1000);
        let piece = |start: u32, length: u32, new: u32| postcard::to_allocvec(&(start, length, new)).unwrap();
        for (start, length) in [(0, 1001), (1000, 1), (u32::MAX, 1), (1, u32::MAX), (999, 2)] {
            assert_eq!(patched(&old, &piece(start, length, 0), usize::MAX), None, "{start}, {length}");
        }
        assert_eq!(patched(&old, &piece(0, 1000, 1), usize::MAX), None, "a new byte that is not there");
        assert_eq!(patched(&old, &[0xff], usize::MAX), None, "half a number");
        let whole = [piece(0, 1000, 0), piece(0, 0, 0)].concat();
        assert_eq!(patched(&old, &whole, usize::MAX), Some(old.clone()));
        // A body that doubles with every patch, and one in crumbs.
        assert_eq!(patched(&old, &piece(0, 1000, 0).repeat(2), 1999), None);
        assert!(patched(&old, &piece(0, 1, 0).repeat(MAX_SEGMENTS), usize::MAX).is_some());
        assert!(patched(&old, &piece(0, 1, 0).repeat(MAX_SEGMENTS + 1), usize::MAX).is_none());
    }
}
