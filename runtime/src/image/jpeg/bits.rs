//! The entropy-coded bits of a scan, and the Huffman codes in them (ITU-T T.81, annexes C and F).

/// What is wrong with a picture, in a few words.
pub(super) type Damage = &'static str;

/// The scan ends before everything is in it that belongs there.
const ENDS: Damage = "picture data are missing, as in a file that was cut off or copied with errors";
/// Bits that are no code, or a code that cannot stand here.
pub(super) const NO_CODE: Damage = "its picture data make no sense";

pub(super) const WRONG_TABLE: Damage = "a Huffman table of it makes no sense";

/// Codes of up to this many bits are looked up at once.
const SHORT: u32 = 9;

/// A Huffman table, ready for decoding.
pub(super) struct HuffmanTable {
    /// For each beginning of [`SHORT`] bits: length of the code, 0 for longer ones, and its value.
    short: Vec<(u8, u8)>,
    lengths: [CodeLength; 17],
    values: Vec<u8>,
}

/// The codes of one length.
#[derive(Clone, Copy, Default)]
struct CodeLength {
    /// The first code that is longer, left-aligned in 16 bits.
    end: u32,
    /// What a code needs added to it to be the index of its value.
    to_index: i32,
}

impl HuffmanTable {
    /// Makes it from the number of codes of each length and the values in the order of their codes.
    pub(super) fn new(counts: &[u8; 16], values: &[u8]) -> Result<Self, Damage> {
        let mut short = vec![(0, 0); 1 << SHORT];
        let mut lengths = [CodeLength::default(); 17];
        let (mut code, mut index) = (0u32, 0usize);
        for length in 1..=16u32 {
            let count = usize::from(counts[length as usize - 1]);
            let own = values.get(index..index + count).ok_or(WRONG_TABLE)?;
            if code + count as u32 > 1 << length {
                return Err(WRONG_TABLE);
            }
            lengths[length as usize].to_index = index as i32 - code as i32;
            for &value in own {
                if length <= SHORT {
                    let first = (code << (SHORT - length)) as usize;
                    short[first..first + (1 << (SHORT - length))].fill((length as u8, value));
                }
                code += 1;
            }
            lengths[length as usize].end = code << (16 - length);
            index += count;
            code <<= 1;
        }
        Ok(Self { short, lengths, values: values[..index].to_vec() })
    }

    /// Length and value of the code that 16 bits begin with.
    fn find(&self, bits: u32) -> Option<(u32, u8)> {
        let (length, value) = self.short[(bits >> (16 - SHORT)) as usize];
        if length > 0 {
            return Some((u32::from(length), value));
        }
        let length = (SHORT + 1..=16).find(|length| bits < self.lengths[*length as usize].end)?;
        let index = (bits >> (16 - length)) as i32 + self.lengths[length as usize].to_index;
        Some((length, *self.values.get(usize::try_from(index).ok()?)?))
    }
}

/// Reads the bits up to the next marker, and tells when they are not enough.
pub(super) struct JpegBits<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The next bits, left-aligned.
    buffer: u64,
    count: u32,
}

impl<'a> JpegBits<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, buffer: 0, count: 0 }
    }

    fn fill(&mut self) {
        while self.count <= 56 {
            let Some(&byte) = self.bytes.get(self.at) else { return };
            if byte == 0xff {
                // 0xff 0 is a byte of data, anything else a marker.
                if self.bytes.get(self.at + 1) != Some(&0) {
                    return;
                }
                self.at += 1;
            }
            self.at += 1;
            self.buffer |= u64::from(byte) << (56 - self.count);
            self.count += 8;
        }
    }

    /// The next `count` bits, at most 16.
    pub(super) fn take(&mut self, count: u32) -> Result<u32, Damage> {
        if count == 0 {
            return Ok(0);
        }
        if self.count < count {
            self.fill();
            if self.count < count {
                return Err(ENDS);
            }
        }
        let bits = (self.buffer >> (64 - count)) as u32;
        self.skip(count);
        Ok(bits)
    }

    fn skip(&mut self, count: u32) {
        self.buffer <<= count;
        self.count -= count;
    }

    /// The value of the next code.
    pub(super) fn code(&mut self, table: &HuffmanTable) -> Result<u8, Damage> {
        if self.count < 16 {
            self.fill();
        }
        match table.find((self.buffer >> 48) as u32) {
            Some((length, value)) if length <= self.count => {
                self.skip(length);
                Ok(value)
            }
            None if self.count >= 16 => Err(NO_CODE),
            _ => Err(ENDS),
        }
    }

    /// A number of `size` bits with its sign (T.81, F.2.2.1).
    pub(super) fn signed(&mut self, size: u32) -> Result<i32, Damage> {
        let value = self.take(size)? as i32;
        let half = 1 << size >> 1;
        Ok(if value < half { value - (half << 1) + 1 } else { value })
    }

    /// Goes to the next marker: where it stands, and how many whole bytes before it were not used.
    pub(super) fn end(&mut self) -> (usize, usize) {
        let mut unused = (self.count / 8) as usize;
        loop {
            (self.buffer, self.count) = (0, 0);
            self.fill();
            if self.count == 0 {
                return (self.at, unused);
            }
            unused += (self.count / 8) as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_all_lengths_are_found_and_no_others() {
        // One code of each length: 0, 10, 110, ...; sixteen ones are none.
        let table = HuffmanTable::new(&[1; 16], &(1..=16).collect::<Vec<u8>>()).unwrap();
        for length in 1..=16u32 {
            let code = (0xffff << (17 - length)) & 0xffff;
            assert_eq!(table.find(code), Some((length, length as u8)));
        }
        assert_eq!(table.find(0xffff), None);
        assert!(
            HuffmanTable::new(&[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[1, 2, 3]).is_err(),
            "too many codes"
        );
        assert!(HuffmanTable::new(&[1; 16], &[1, 2, 3]).is_err(), "too few values");
    }

    #[test]
    fn bits_end_at_a_marker() {
        let mut bits = JpegBits::new(&[0b1010_0000, 0xff, 0, 1, 2, 0xff, 0xd9], 0);
        assert_eq!(bits.take(3), Ok(0b101));
        assert_eq!(bits.take(13), Ok(0xff));
        assert_eq!(bits.end(), (5, 2));
        assert_eq!(bits.take(1), Err(ENDS));
        assert_eq!([1, 2, 3].map(|size| JpegBits::new(&[0], 0).signed(size)), [Ok(-1), Ok(-3), Ok(-7)]);
        assert_eq!([0, 1, 3].map(|size| JpegBits::new(&[0xa0], 0).signed(size)), [Ok(0), Ok(1), Ok(5)]);
    }
}
