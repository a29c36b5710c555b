//! Walks through all scans of a JPEG picture, code by code, and notices what is missing or makes no sense (ITU-T T.81,
//! annexes F and G).
//!
//! Decoders fill what is missing with grey. The walk counts the units of every scan: its codes must exist, restarts
//! must come in their order, and nothing may be left over at the end. For a progressive picture it keeps one bit for
//! each coefficient, which is what reading later scans takes. Where planes are given, it decodes into them.

use super::bits::{Damage, HuffmanTable, JpegBits, NO_CODE, WRONG_TABLE};
use super::frame::{BlockId, CUT_OFF, DHT, DQT, DRI, EOI, JpegFrame, SOS, Segments};
use super::reduced::ReducedPlanes;

/// Most scans of a picture; encoders write about ten.
const MAX_SCANS: usize = 256;
/// Bytes that may be left over behind a scan: some webcams pad it to a whole number of words.
const MAX_FILLING: usize = 16;

/// The index within a block, row by row, of each coefficient in the order in which they are written.
pub(super) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
];

/// Most bytes that the walk takes.
pub(super) fn peak_bytes(frame: &JpegFrame) -> usize {
    if frame.progressive { size_of::<u64>() * frame.blocks() } else { 0 }
}

/// Goes through all scans; with `reduced`, its planes get the picture.
pub(super) fn walk(jpeg: &[u8], frame: &JpegFrame, reduced: Option<&mut ReducedPlanes>) -> Result<(), Damage> {
    let components = frame.components.len();
    let nonzero = if frame.progressive {
        frame.components.iter().map(|own| vec![0; own.blocks[0] * own.blocks[1]]).collect()
    } else {
        Vec::new()
    };
    let mut walk = ScanWalk {
        frame,
        reduced,
        nonzero,
        complete: vec![0; components],
        quantisation: [[0; 64]; 4],
        latched: vec![None; components],
        tables: [const { None }; 8],
        interval: 0,
    };
    let mut segments = Segments::new(jpeg);
    let mut scans = 0;
    loop {
        match segments.next()? {
            (DQT, content) => walk.read_quantisation(content)?,
            (DHT, content) => walk.read_huffman(content)?,
            (DRI, &[high, low]) => walk.interval = usize::from(u16::from_be_bytes([high, low])),
            (SOS, content) => {
                scans += 1;
                if scans > MAX_SCANS {
                    return Err("it has more than 256 scans");
                }
                segments.at = walk.scan(content, jpeg, segments.at)?;
            }
            (EOI, _) => break,
            // Among others a restart behind the last unit, which some encoders write.
            _ => {}
        }
    }
    if walk.complete.iter().any(|complete| *complete != u64::MAX) {
        return Err("scans of it are missing, as in a file that was cut off");
    }
    if let Some(reduced) = walk.reduced
        && frame.progressive
    {
        reduced.finish(&walk.latched.iter().map(|table| table.unwrap_or([1; 64])).collect::<Vec<_>>());
    }
    Ok(())
}

/// The state of the walk between two segments.
struct ScanWalk<'a, 'b> {
    frame: &'a JpegFrame,
    reduced: Option<&'b mut ReducedPlanes>,
    /// For each block of a progressive picture the coefficients that are not zero so far, as bits.
    nonzero: Vec<Vec<u64>>,
    /// For each component the coefficients that have come with all their bits, as bits.
    complete: Vec<u64>,
    quantisation: [[u16; 64]; 4],
    /// For each component its quantisation table, as it was when its first scan began.
    latched: Vec<Option<[u16; 64]>>,
    /// Four of DC, four of AC.
    tables: [Option<HuffmanTable>; 8],
    /// Units between restarts; 0 for no restarts.
    interval: usize,
}

/// The coefficients of each block that a scan holds.
#[derive(Clone, Copy)]
struct SpectralBand {
    first: usize,
    last: usize,
    /// Whether earlier scans sent the higher bits.
    refines: bool,
    /// Bits that later scans send.
    shift: u32,
}

/// A component of a scan.
struct ScanComponent {
    /// Index in the frame.
    index: usize,
    /// Indices of its tables for DC and AC.
    tables: [usize; 2],
    /// The DC coefficient of the last block.
    dc: i32,
}

impl ScanWalk<'_, '_> {
    fn read_quantisation(&mut self, mut content: &[u8]) -> Result<(), Damage> {
        const WRONG: Damage = "a quantisation table of it makes no sense";
        while let [info, rest @ ..] = content {
            let (width, slot) = (usize::from(info >> 4) + 1, usize::from(info & 15));
            if width > 2 || slot > 3 || rest.len() < 64 * width {
                return Err(WRONG);
            }
            let (own, rest) = rest.split_at(64 * width);
            for (value, bytes) in self.quantisation[slot].iter_mut().zip(own.chunks_exact(width)) {
                *value = bytes.iter().fold(0, |value, byte| value << 8 | u16::from(*byte));
            }
            content = rest;
        }
        Ok(())
    }

    fn read_huffman(&mut self, mut content: &[u8]) -> Result<(), Damage> {
        while let [info, rest @ ..] = content {
            let (class, slot) = (usize::from(info >> 4), usize::from(info & 15));
            let (counts, rest) = rest.split_first_chunk::<16>().ok_or(WRONG_TABLE)?;
            let total: usize = counts.iter().map(|count| usize::from(*count)).sum();
            if class > 1 || slot > 3 || rest.len() < total {
                return Err(WRONG_TABLE);
            }
            self.tables[4 * class + slot] = Some(HuffmanTable::new(counts, &rest[..total])?);
            content = &rest[total..];
        }
        Ok(())
    }

    /// Reads a scan whose data begin at `at`; returns where the next segment begins.
    fn scan(&mut self, content: &[u8], jpeg: &[u8], at: usize) -> Result<usize, Damage> {
        let (mut components, band) = self.read_scan_header(content)?;
        let alone = components.len() == 1;
        let frame = self.frame;
        let [across, down] = if alone { frame.components[components[0].index].unpadded_blocks } else { frame.units };
        let mut bits = JpegBits::new(jpeg, at);
        // Blocks ahead whose band holds nothing more.
        let (mut eob_run, mut restarts) = (0u32, 0u8);
        for unit in 0..across * down {
            if self.interval > 0 && unit > 0 && unit % self.interval == 0 {
                if eob_run > 0 {
                    return Err(NO_CODE);
                }
                bits = restart(&mut bits, jpeg, &mut restarts)?;
                components.iter_mut().for_each(|component| component.dc = 0);
            }
            let (x, y) = (unit % across, unit / across);
            for component in &mut components {
                let [wide, high] = if alone { [1, 1] } else { frame.components[component.index].sampling };
                for inner in 0..wide * high {
                    let position = [x * wide + inner % wide, y * high + inner / wide];
                    if frame.progressive {
                        self.progressive_block(&mut bits, component, band, position, &mut eob_run)?;
                    } else {
                        self.sequential_block(&mut bits, component, position)?;
                    }
                }
            }
        }
        if eob_run > 0 {
            return Err(NO_CODE);
        }
        end_of_data(&mut bits)
    }

    fn read_scan_header(&mut self, content: &[u8]) -> Result<(Vec<ScanComponent>, SpectralBand), Damage> {
        const WRONG: Damage = "the header of a scan makes no sense";
        let [count, rest @ ..] = content else { return Err(WRONG) };
        let count = usize::from(*count);
        if !(1..=4).contains(&count) || rest.len() != 2 * count + 3 {
            return Err(WRONG);
        }
        let mut components: Vec<ScanComponent> = Vec::new();
        for own in rest[..2 * count].chunks_exact(2) {
            let component = self.frame.components.iter().position(|component| component.id == own[0]).ok_or(WRONG)?;
            let tables = [usize::from(own[1] >> 4), usize::from(own[1] & 15)];
            // A sequential scan holds all of a component. One that came again would be computed again, up to 256 times.
            let came_whole = !self.frame.progressive && self.latched[component].is_some();
            let is_twice = came_whole || components.iter().any(|other| other.index == component);
            if is_twice || tables.iter().any(|table| *table > 3) {
                return Err(WRONG);
            }
            let table = self.quantisation[self.frame.components[component].quantisation];
            self.latched[component].get_or_insert(table);
            components.push(ScanComponent { index: component, tables: [tables[0], 4 + tables[1]], dc: 0 });
        }
        let (first, last) = (usize::from(rest[2 * count]), usize::from(rest[2 * count + 1]));
        let (high, low) = (u32::from(rest[2 * count + 2] >> 4), u32::from(rest[2 * count + 2] & 15));
        let band = if self.frame.progressive {
            let together = first == 0 && last == 0;
            let alone = first > 0 && first <= last && last < 64 && count == 1;
            if !(together || alone) || low > 13 || (high != 0 && high != low + 1) {
                return Err(WRONG);
            }
            SpectralBand { first, last, refines: high > 0, shift: low }
        } else {
            SpectralBand { first: 0, last: 63, refines: false, shift: 0 }
        };
        if band.shift == 0 {
            for component in &components {
                self.complete[component.index] |= u64::MAX >> (63 - band.last) & u64::MAX << band.first;
            }
        }
        Ok((components, band))
    }

    /// A difference of DC coefficients (T.81, F.2.2.1); returns the coefficient.
    fn dc(&self, bits: &mut JpegBits<'_>, component: &mut ScanComponent, shift: u32) -> Result<i32, Damage> {
        let table = self.tables[component.tables[0]].as_ref().ok_or(NO_TABLE)?;
        let size = bits.code(table)?;
        if size > 11 {
            return Err(NO_CODE);
        }
        component.dc += bits.signed(size.into())?;
        let step = self.latched[component.index].as_ref().map_or(1, |table| i64::from(table[0].max(1)));
        // A block's mean stays within the range of samples, with room for encoders that overshoot at edges (1024
        // without); after a wrong difference it runs away.
        const LARGEST: i64 = 1536;
        if (i64::from(component.dc << shift) * step).abs() > LARGEST + 2 * step {
            return Err(NO_CODE);
        }
        Ok(component.dc)
    }

    fn sequential_block(
        &mut self,
        bits: &mut JpegBits<'_>,
        component: &mut ScanComponent,
        position: [usize; 2],
    ) -> Result<(), Damage> {
        let mut block = [0i16; 64];
        block[0] = self.dc(bits, component, 0)? as i16;
        let table = self.tables[component.tables[1]].as_ref().ok_or(NO_TABLE)?;
        let mut index = 1;
        while index < 64 {
            let code = bits.code(table)?;
            let (zeros, size) = (usize::from(code >> 4), u32::from(code & 15));
            match (zeros, size) {
                (0, 0) => break,
                (15, 0) => index += 16,
                (_, 1..=10) if index + zeros < 64 => {
                    index += zeros;
                    block[index] = bits.signed(size)? as i16;
                    index += 1;
                }
                _ => return Err(NO_CODE),
            }
        }
        if index > 64 {
            return Err(NO_CODE);
        }
        if let Some(reduced) = &mut self.reduced {
            reduced.put(component.index, position, &block, self.latched[component.index].as_ref().unwrap_or(&[1; 64]));
        }
        Ok(())
    }

    /// Reads what a scan holds of a block of a progressive picture.
    fn progressive_block(
        &mut self,
        bits: &mut JpegBits<'_>,
        component: &mut ScanComponent,
        band: SpectralBand,
        [x, y]: [usize; 2],
        eob_run: &mut u32,
    ) -> Result<(), Damage> {
        let number = y * self.frame.components[component.index].blocks[0] + x;
        let block = BlockId { component: component.index, number };
        if band.first > 0 {
            return self.progressive_ac(bits, component, band, block, eob_run);
        }
        let change = if band.refines {
            (bits.take(1)? << band.shift) as i32
        } else {
            self.dc(bits, component, band.shift)? << band.shift
        };
        if let Some(reduced) = &mut self.reduced {
            reduced.add(block, 0, change);
        }
        Ok(())
    }

    /// Reads the AC coefficients that a scan holds of a block (T.81, G.1.2.2 and G.1.2.3).
    fn progressive_ac(
        &mut self,
        bits: &mut JpegBits<'_>,
        component: &ScanComponent,
        band: SpectralBand,
        block: BlockId,
        eob_run: &mut u32,
    ) -> Result<(), Damage> {
        if !band.refines && *eob_run > 0 {
            *eob_run -= 1;
            return Ok(());
        }
        let mut index = band.first;
        while *eob_run == 0 && index <= band.last {
            let table = self.tables[component.tables[1]].as_ref().ok_or(NO_TABLE)?;
            let code = bits.code(table)?;
            let (mut zeros, size) = (usize::from(code >> 4), u32::from(code & 15));
            let mut value = 0;
            match (zeros, size) {
                (15, 0) => {}
                (_, 0) => {
                    // A run of blocks ends here, this one among them.
                    *eob_run = (1 << zeros) + bits.take(zeros as u32)?;
                    break;
                }
                (_, 1) if band.refines => value = if bits.take(1)? == 1 { 1 } else { -1 },
                (_, 1..=10) if !band.refines => value = bits.signed(size)?,
                _ => return Err(NO_CODE),
            }
            (index, zeros) = self.pass_over(bits, block, band, index, zeros)?;
            if value != 0 {
                if index > band.last {
                    return Err(NO_CODE);
                }
                self.nonzero[block.component][block.number] |= 1 << index;
                if let Some(reduced) = &mut self.reduced {
                    reduced.add(block, index, value << band.shift);
                }
            } else if index > band.last && zeros > 0 {
                return Err(NO_CODE);
            }
            index += 1;
        }
        if *eob_run > 0 {
            *eob_run -= 1;
            if band.refines {
                self.pass_over(bits, block, band, index, usize::MAX)?;
            }
        }
        Ok(())
    }

    /// Passes over as many coefficients from `index` on that are still zero; the others get their next bit where the
    /// scan refines. Returns where that ends, and how many zeros are left beyond the band.
    fn pass_over(
        &mut self,
        bits: &mut JpegBits<'_>,
        block: BlockId,
        band: SpectralBand,
        mut index: usize,
        mut zeros: usize,
    ) -> Result<(usize, usize), Damage> {
        while index <= band.last {
            if band.refines && self.is_nonzero(block, index) {
                self.refine(bits, block, index, band.shift)?;
            } else if zeros == 0 {
                break;
            } else {
                zeros -= 1;
            }
            index += 1;
        }
        Ok((index, zeros))
    }

    /// Whether an earlier code has set the `index`-th coefficient of a block.
    fn is_nonzero(&self, block: BlockId, index: usize) -> bool {
        self.nonzero[block.component][block.number] >> index & 1 == 1
    }

    /// Reads the next bit of a coefficient that is not zero.
    fn refine(&mut self, bits: &mut JpegBits<'_>, block: BlockId, index: usize, shift: u32) -> Result<(), Damage> {
        if bits.take(1)? == 1
            && let Some(reduced) = &mut self.reduced
        {
            reduced.grow(block, index, 1 << shift);
        }
        Ok(())
    }
}

const NO_TABLE: Damage = "it lacks a Huffman table; a frame of a video must be saved as usual JPEG";

/// Where the next marker stands, before which no more than [`MAX_FILLING`] bytes may be left over.
fn end_of_data(bits: &mut JpegBits<'_>) -> Result<usize, Damage> {
    let (at, unused) = bits.end();
    if unused > MAX_FILLING { Err("it holds more picture data than belong into it") } else { Ok(at) }
}

/// Goes over a restart marker, which must be the next in its order.
fn restart<'a>(bits: &mut JpegBits<'a>, jpeg: &'a [u8], restarts: &mut u8) -> Result<JpegBits<'a>, Damage> {
    let at = end_of_data(bits)?;
    let filling = jpeg[at..].iter().take_while(|byte| **byte == 0xff).count();
    match jpeg.get(at + filling) {
        None => Err(CUT_OFF),
        Some(marker) if *marker == 0xd0 + *restarts => {
            *restarts = (*restarts + 1) % 8;
            Ok(JpegBits::new(jpeg, at + filling + 1))
        }
        Some(_) => Err("picture data between its restarts are missing"),
    }
}
