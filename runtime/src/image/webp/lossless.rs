//! How many tables of codes a lossless stream of WebP has, read before it is decoded: a small file can announce 65,536
//! groups of them, which take half a gigabyte. Only what stands before the pixels is read.
//!
//! Sections are those of the specification of WebP lossless bitstreams (RFC 9649, chapter 3).

/// Groups of tables, each of five codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeGroups(pub usize);

/// Why a stream cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadStream;

/// Most bytes that a group's tables take in the decoder: a table of 1,024 entries of two bytes for each code, behind it
/// tables for longer codes, which for green are up to 4,096 entries in twice the room.
const GROUP: usize = 24 << 10;
/// Bytes of the head before the stream: a mark, and width, height, transparency and version in 32 bits.
const HEAD: usize = 5;
/// Symbols of green that stand for colours or lengths; others for entries of the cache.
const COLOURS: usize = 256;
const LENGTHS: usize = 24;
const DISTANCES: usize = 40;
/// Longest code, in bits.
const LONGEST: usize = 15;
/// In which order lengths of codes for lengths of codes are given (section 3.7.2.1.2).
const ORDER: [usize; 19] = [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

impl CodeGroups {
    /// Reads them from the chunk `VP8L`, for a picture of that size.
    pub(super) fn of_picture(chunk: &[u8], size: [usize; 2]) -> Result<Self, BadStream> {
        Self::of_stream(chunk.get(HEAD..).ok_or(BadStream)?, size)
    }

    /// Reads them from a stream without a head, for a picture of that size.
    pub(super) fn of_stream(stream: &[u8], size: [usize; 2]) -> Result<Self, BadStream> {
        Self::read(&mut WebpBits { bytes: stream, position: 0 }, size).map(|(groups, _)| groups)
    }

    /// Reads up to the codes; returns with the groups how many symbols the codes of green have.
    fn read(bits: &mut WebpBits<'_>, [mut width, height]: [usize; 2]) -> Result<(Self, usize), BadStream> {
        // Transforms (section 3.5), each at most once.
        for _ in 0..4 {
            if bits.read(1)? == 0 {
                break;
            }
            match bits.read(2)? {
                0 | 1 => {
                    bits.blocks([width, height])?;
                }
                2 => {}
                _ => {
                    let colours = bits.read(8)? + 1;
                    bits.image([colours, 1])?;
                    let shift = [2, 4, 16].iter().filter(|most| colours <= **most).count();
                    width = width.div_ceil(1 << shift);
                }
            }
        }
        let cached = bits.cache()?.colours.len();
        let symbols = COLOURS + LENGTHS + cached;
        if bits.read(1)? == 0 {
            return Ok((Self(1), symbols));
        }
        let meta = bits.blocks([width, height])?;
        let most = meta.iter().map(|pixel| (pixel >> 8 & 0xffff) as usize).max();
        Ok((Self(most.unwrap_or(0) + 1), symbols))
    }

    /// Most bytes that they take.
    pub(super) fn bytes(self) -> usize {
        self.0 * GROUP
    }
}

/// Bits, the lowest of each byte first.
struct WebpBits<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl WebpBits<'_> {
    fn bit(&mut self) -> Result<usize, BadStream> {
        let byte = self.bytes.get(self.position / 8).ok_or(BadStream)?;
        let bit = byte >> (self.position % 8) & 1;
        self.position += 1;
        Ok(usize::from(bit))
    }

    fn read(&mut self, count: usize) -> Result<usize, BadStream> {
        (0..count).try_fold(0, |number, place| Ok(number | self.bit()? << place))
    }

    /// The cache of an image, in which no colour was met yet; without room if the image has none.
    fn cache(&mut self) -> Result<ColourCache, BadStream> {
        if self.read(1)? == 0 {
            return Ok(ColourCache { bits: 0, colours: Vec::new() });
        }
        match self.read(4)? {
            bits @ 1..=11 => Ok(ColourCache { bits, colours: vec![0; 1 << bits] }),
            _ => Err(BadStream),
        }
    }

    /// Pixels of an image with one for each block of a larger one, whose size is read first.
    fn blocks(&mut self, size: [usize; 2]) -> Result<Vec<u32>, BadStream> {
        let shift = self.read(3)? + 2;
        self.image(size.map(|side| side.div_ceil(1 << shift)))
    }

    /// Pixels of an image without groups of codes, as alpha, red, green and blue (section 3.6).
    fn image(&mut self, [width, height]: [usize; 2]) -> Result<Vec<u32>, BadStream> {
        let mut cache = self.cache()?;
        let green = self.code(COLOURS + LENGTHS + cache.colours.len())?;
        let [red, blue, alpha] = [self.code(COLOURS)?, self.code(COLOURS)?, self.code(COLOURS)?];
        let distances = self.code(DISTANCES)?;
        let count = width * height;
        let mut pixels: Vec<u32> = Vec::with_capacity(count);
        while pixels.len() < count {
            match green.decode(self)? {
                colour if colour < COLOURS => {
                    let [red, blue, alpha] = [red.decode(self)?, blue.decode(self)?, alpha.decode(self)?];
                    let pixel = (alpha << 24 | red << 16 | colour << 8 | blue) as u32;
                    cache.insert(pixel);
                    pixels.push(pixel);
                }
                length if length < COLOURS + LENGTHS => {
                    let length = self.prefixed(length - COLOURS)?;
                    let code = distances.decode(self)?;
                    let distance = distance(self.prefixed(code)?, width);
                    let start = pixels.len().checked_sub(distance).ok_or(BadStream)?;
                    for index in start..(start + length).min(start + count - pixels.len()) {
                        cache.insert(pixels[index]);
                        pixels.push(pixels[index]);
                    }
                }
                cached => {
                    let pixel = *cache.colours.get(cached - COLOURS - LENGTHS).ok_or(BadStream)?;
                    cache.insert(pixel);
                    pixels.push(pixel);
                }
            }
        }
        Ok(pixels)
    }

    /// A length or distance, by the symbol that begins it (section 3.6.2.2).
    fn prefixed(&mut self, symbol: usize) -> Result<usize, BadStream> {
        if symbol < 4 {
            return Ok(symbol + 1);
        }
        let extra = (symbol - 2) >> 1;
        Ok(((2 + (symbol & 1)) << extra) + self.read(extra)? + 1)
    }

    /// A code (section 3.7.2.1).
    fn code(&mut self, symbols: usize) -> Result<PrefixCode, BadStream> {
        if self.read(1)? == 1 {
            let is_two = self.read(1)? == 1;
            let width = if self.read(1)? == 1 { 8 } else { 1 };
            let first = self.read(width)?;
            let second = if is_two { Some(self.read(8)?) } else { None };
            return Ok(PrefixCode::of_one_or_two(first, second));
        }
        let mut lengths = [0; ORDER.len()];
        let given = 4 + self.read(4)?;
        for place in &ORDER[..given] {
            lengths[*place] = self.read(3)?;
        }
        let of_lengths = PrefixCode::new(&lengths)?;
        let mut left = symbols;
        if self.read(1)? == 1 {
            let width = 2 + 2 * self.read(3)?;
            left = 2 + self.read(width)?;
        }
        let mut lengths = Vec::with_capacity(symbols);
        // What is repeated where nothing was given yet.
        let mut last = 8;
        while lengths.len() < symbols && left > 0 {
            left -= 1;
            let (length, count) = match of_lengths.decode(self)? {
                16 => (last, 3 + self.read(2)?),
                17 => (0, 3 + self.read(3)?),
                18 => (0, 11 + self.read(7)?),
                length => (length, 1),
            };
            if length > 0 {
                last = length;
            }
            if lengths.len() + count > symbols {
                return Err(BadStream);
            }
            lengths.resize(lengths.len() + count, length);
        }
        lengths.resize(symbols, 0);
        PrefixCode::new(&lengths)
    }
}

/// How far back, by the code of a distance: the first 120 are places near the pixel (section 3.6.2.2).
fn distance(code: usize, width: usize) -> usize {
    let Some((x, y)) = NEAR.get(code - 1) else { return code - NEAR.len() };
    (i64::from(*x) + i64::from(*y) * width as i64).max(1) as usize
}

/// A code whose symbols have lengths in bits, in the order of their lengths.
struct PrefixCode {
    /// How many symbols have each length.
    counts: [usize; LONGEST + 1],
    symbols: Vec<usize>,
}

impl PrefixCode {
    fn new(lengths: &[usize]) -> Result<Self, BadStream> {
        let mut counts = [0; LONGEST + 1];
        lengths.iter().for_each(|length| counts[*length] += 1);
        counts[0] = 0;
        let of_length = |length| (0..lengths.len()).filter(move |symbol| lengths[*symbol] == length);
        let symbols: Vec<usize> = (1..=LONGEST).flat_map(of_length).collect();
        // All codes of full length together.
        let used: usize = (1..=LONGEST).map(|length| counts[length] << (LONGEST - length)).sum();
        let is_sound = symbols.len() == 1 || used == 1 << LONGEST;
        if is_sound { Ok(Self { counts, symbols }) } else { Err(BadStream) }
    }

    fn of_one_or_two(first: usize, second: Option<usize>) -> Self {
        let mut counts = [0; LONGEST + 1];
        counts[1] = 1 + usize::from(second.is_some());
        // The second has the longer code where both are the same: the first is always met.
        Self { counts, symbols: std::iter::once(first).chain(second).collect() }
    }

    fn decode(&self, bits: &mut WebpBits<'_>) -> Result<usize, BadStream> {
        if let [symbol] = self.symbols[..] {
            return Ok(symbol);
        }
        let (mut code, mut first, mut index) = (0, 0, 0);
        for count in &self.counts[1..] {
            code |= bits.bit()?;
            if code < first + count {
                return Ok(self.symbols[index + code - first]);
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        Err(BadStream)
    }
}

/// Colours that were met (section 3.6.2.3).
struct ColourCache {
    bits: usize,
    colours: Vec<u32>,
}

impl ColourCache {
    fn insert(&mut self, pixel: u32) {
        if self.bits > 0 {
            self.colours[(0x1e35_a7bd_u32.wrapping_mul(pixel) >> (32 - self.bits)) as usize] = pixel;
        }
    }
}

/// Columns and rows back from a pixel, by codes of distances from 1.
#[rustfmt::skip]
const NEAR: [(i8, i8); 120] = [
    (0, 1), (1, 0), (1, 1), (-1, 1), (0, 2), (2, 0), (1, 2), (-1, 2), (2, 1), (-2, 1), (2, 2), (-2, 2), (0, 3), (3, 0),
    (1, 3), (-1, 3), (3, 1), (-3, 1), (2, 3), (-2, 3), (3, 2), (-3, 2), (0, 4), (4, 0), (1, 4), (-1, 4), (4, 1),
    (-4, 1), (3, 3), (-3, 3), (2, 4), (-2, 4), (4, 2), (-4, 2), (0, 5), (3, 4), (-3, 4), (4, 3), (-4, 3), (5, 0),
    (1, 5), (-1, 5), (5, 1), (-5, 1), (2, 5), (-2, 5), (5, 2), (-5, 2), (4, 4), (-4, 4), (3, 5), (-3, 5), (5, 3),
    (-5, 3), (0, 6), (6, 0), (1, 6), (-1, 6), (6, 1), (-6, 1), (2, 6), (-2, 6), (6, 2), (-6, 2), (4, 5), (-4, 5),
    (5, 4), (-5, 4), (3, 6), (-3, 6), (6, 3), (-6, 3), (0, 7), (7, 0), (1, 7), (-1, 7), (5, 5), (-5, 5), (7, 1),
    (-7, 1), (4, 6), (-4, 6), (6, 4), (-6, 4), (2, 7), (-2, 7), (7, 2), (-7, 2), (3, 7), (-3, 7), (7, 3), (-7, 3),
    (5, 6), (-5, 6), (6, 5), (-6, 5), (8, 0), (4, 7), (-4, 7), (7, 4), (-7, 4), (8, 1), (8, 2), (6, 6), (-6, 6),
    (8, 3), (5, 7), (-5, 7), (7, 5), (-7, 5), (8, 4), (6, 7), (-6, 7), (7, 6), (-7, 6), (8, 5), (7, 7), (-7, 7),
    (8, 6), (8, 7),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by libwebp, losslessly: regions that differ much, so that it uses groups of codes.
    const REGIONS: &[u8] = include_bytes!("../samples/regions.webp");

    fn chunk() -> &'static [u8] {
        assert_eq!(&REGIONS[12..16], b"VP8L");
        &REGIONS[20..]
    }

    #[test]
    fn the_groups_are_those_whose_codes_follow() {
        let mut bits = WebpBits { bytes: &chunk()[HEAD..], position: 0 };
        let (groups, symbols) = CodeGroups::read(&mut bits, [256, 192]).unwrap();
        assert_eq!(CodeGroups::of_picture(chunk(), [256, 192]), Ok(groups));
        assert!(groups.0 > 1, "{groups:?}");
        // Read on: all codes of all groups make sense, which those at a wrong place would not.
        for _ in 0..groups.0 {
            for symbols in [symbols, COLOURS, COLOURS, COLOURS, DISTANCES] {
                assert!(bits.code(symbols).is_ok());
            }
        }
        assert!(bits.position / 8 < chunk().len() - HEAD);
    }

    #[test]
    fn what_is_cut_off_or_another_size_is_no_stream_or_another_one() {
        for length in 0..60 {
            assert_eq!(CodeGroups::of_picture(&chunk()[..length], [256, 192]), Err(BadStream), "length {length}");
        }
        assert_eq!(CodeGroups::of_stream(&[], [1, 1]), Err(BadStream));
    }
}
