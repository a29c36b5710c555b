//! The segments of a JPEG file, and what its header says (ITU-T T.81, annex B).

use ::image::metadata::Orientation;

use super::bits::Damage;
use crate::image::exif;

/// End of image.
pub(super) const EOI: u8 = 0xd9;
/// Start of scan.
pub(super) const SOS: u8 = 0xda;
/// Quantisation tables.
pub(super) const DQT: u8 = 0xdb;
/// Huffman tables.
pub(super) const DHT: u8 = 0xc4;
/// Restart interval.
pub(super) const DRI: u8 = 0xdd;
/// Application data, of JFIF among others.
const APP0: u8 = 0xe0;
/// Application data, of Adobe among others.
pub(super) const APP14: u8 = 0xee;

pub(super) const CUT_OFF: Damage = "it has no end, as a file that was cut off";
const HEADER: Damage = "its header makes no sense";

/// One component of the colours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Component {
    pub(super) id: u8,
    /// Samples of it for the picture's largest, across and down.
    pub(super) sampling: [usize; 2],
    /// Number of its quantisation table.
    pub(super) quantisation: usize,
    /// Blocks across and down, padded to whole units of interleaved scans.
    pub(super) blocks: [usize; 2],
    /// Blocks that its samples need, as in a scan of this component alone.
    pub(super) unpadded_blocks: [usize; 2],
}

/// A block of a component.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockId {
    /// Index of the component in the frame.
    pub(super) component: usize,
    /// Number of the block in the component, row by row.
    pub(super) number: usize,
}

/// The colour model of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    Grey,
    Rgb,
    YCbCr,
    /// Inverted, as all programs write it.
    Cmyk,
    /// Inverted CMYK, its first three components stored as YCbCr.
    Ycck,
}

/// The header of a picture: everything before the first scan.
#[derive(Clone, Debug)]
pub(super) struct JpegFrame {
    pub(super) size: [usize; 2],
    pub(super) progressive: bool,
    pub(super) components: Vec<Component>,
    /// Largest sampling, across and down.
    pub(super) sampling: [usize; 2],
    /// Units of interleaved scans, across and down.
    pub(super) units: [usize; 2],
    pub(super) colours: Colours,
    /// How the picture is to be turned upright, as its EXIF data say.
    pub(super) orientation: Orientation,
    /// Whether the first scan holds all components.
    pub(super) interleaved: bool,
}

/// The segments of a file, one by one.
pub(super) struct Segments<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    /// Whether bytes between segments are passed over, as some cameras leave them before the picture.
    lenient: bool,
    /// Whether the data of scans are passed over as well.
    passes_scans: bool,
}

impl<'a> Segments<'a> {
    /// The segments of a file; the caller sets `at` behind the data of each scan.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, lenient: true, passes_scans: false }
    }

    /// The segments of a file, between whose scans the data are passed over.
    pub(super) fn with_scans(bytes: &'a [u8]) -> Self {
        Self { passes_scans: true, ..Self::new(bytes) }
    }

    /// The next marker with what its segment holds; nothing for those that stand alone.
    pub(super) fn next(&mut self) -> Result<(u8, &'a [u8]), Damage> {
        let marker = loop {
            let rest = self.bytes.get(self.at..).ok_or(CUT_OFF)?;
            // Before a marker may stand any number of 0xff.
            let filling = rest.iter().take_while(|byte| **byte == 0xff).count();
            let marker = *rest.get(filling).ok_or(CUT_OFF)?;
            self.at += filling + 1;
            match (filling, marker) {
                (1.., 1..) => break marker,
                _ if self.lenient => {}
                _ => return Err("bytes stand between its segments that belong to none"),
            }
        };
        if marker == SOS {
            self.lenient = self.passes_scans;
        }
        if matches!(marker, 0x01 | 0xd0..=EOI) {
            return Ok((marker, &[]));
        }
        let rest = &self.bytes[self.at..];
        let &[high, low, ..] = rest else { return Err(CUT_OFF) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let content = rest.get(..length).ok_or(CUT_OFF)?.get(2..).ok_or(HEADER)?;
        self.at += length;
        Ok((marker, content))
    }
}

/// The colour transform that Adobe's segment names, if this is what one holds.
pub(super) fn adobe_transform(content: &[u8]) -> Option<u8> {
    content.strip_prefix(b"Adobe")?.get(6).copied()
}

impl JpegFrame {
    /// Reads the header of a JPEG file.
    pub(super) fn read(jpeg: &[u8]) -> Result<Self, Damage> {
        let mut segments = Segments::new(jpeg);
        let (mut frame, mut orientation, mut adobe, mut is_jfif) = (None, None, None, false);
        loop {
            match segments.next()? {
                (0xc0..=0xc2, _) if frame.is_some() => return Err("it holds more than one picture in one"),
                (marker @ 0xc0..=0xc2, content) => frame = Some(Self::parse(content, marker == 0xc2)?),
                // The last is that of JPEG-LS.
                (0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf | 0xf7, _) => {
                    return Err(
                        "it is of a kind (lossless, arithmetic or hierarchical) that is not read; save it as usual \
                         JPEG",
                    );
                }
                (0xe1, content) if content.starts_with(b"Exif\0\0") => {
                    orientation = orientation.or_else(|| exif::orientation(content));
                }
                // As libjpeg reads it: a shorter segment is no header of JFIF's.
                (APP0, content) if content.len() >= 14 && content.starts_with(b"JFIF\0") => is_jfif = true,
                (APP14, content) => adobe = adobe_transform(content).or(adobe),
                (EOI, _) => return Err("it holds no picture"),
                (SOS, content) => {
                    let mut frame = frame.ok_or(HEADER)?;
                    frame.interleaved =
                        content.first().is_some_and(|count| usize::from(*count) == frame.components.len());
                    frame.orientation = orientation.unwrap_or(Orientation::NoTransforms);
                    frame.colours = frame.colours_of(adobe, is_jfif);
                    return Ok(frame);
                }
                _ => {}
            }
        }
    }

    fn parse(content: &[u8], progressive: bool) -> Result<Self, Damage> {
        let &[precision, h0, h1, w0, w1, count, ref components @ ..] = content else { return Err(HEADER) };
        if precision != 8 {
            return Err("its colours have 12 bits, which is not read; save it as usual JPEG");
        }
        let size = [[w0, w1], [h0, h1]].map(|side| usize::from(u16::from_be_bytes(side)));
        if !matches!(count, 1 | 3 | 4) || components.len() != 3 * usize::from(count) || size.contains(&0) {
            return Err(HEADER);
        }
        let mut read = Vec::new();
        for parts in components.chunks_exact(3) {
            let sampling = [usize::from(parts[1] >> 4), usize::from(parts[1] & 15)];
            if !sampling.iter().all(|factor| (1..=4).contains(factor)) || parts[2] > 3 {
                return Err(HEADER);
            }
            let quantisation = usize::from(parts[2]);
            read.push(Component { id: parts[0], sampling, quantisation, blocks: [0; 2], unpadded_blocks: [0; 2] });
        }
        let sampling = [0, 1].map(|axis| read.iter().map(|own| own.sampling[axis]).max().unwrap_or(1));
        let units = [0, 1].map(|axis| size[axis].div_ceil(8 * sampling[axis]));
        for own in &mut read {
            own.blocks = [0, 1].map(|axis| units[axis] * own.sampling[axis]);
            own.unpadded_blocks = [0, 1].map(|axis| (size[axis] * own.sampling[axis]).div_ceil(8 * sampling[axis]));
        }
        let (colours, orientation) = (Colours::Grey, Orientation::NoTransforms);
        Ok(Self { size, progressive, components: read, sampling, units, colours, orientation, interleaved: true })
    }

    /// The colours of components, as Adobe's transform tells, or as JFIF fixes them for three; those that call
    /// themselves R, G and B are that, as for the decoder of whole pictures.
    fn colours_of(&self, adobe: Option<u8>, is_jfif: bool) -> Colours {
        match (self.components.len(), adobe) {
            (1, _) => Colours::Grey,
            (3, _) if self.components.iter().map(|own| own.id).eq(*b"RGB") => Colours::Rgb,
            (3, _) if is_jfif => Colours::YCbCr,
            (3, Some(0)) => Colours::Rgb,
            (3, _) => Colours::YCbCr,
            (_, Some(2)) => Colours::Ycck,
            _ => Colours::Cmyk,
        }
    }

    /// Blocks of all components.
    pub(super) fn blocks(&self) -> usize {
        self.components.iter().map(|own| own.blocks[0] * own.blocks[1]).sum()
    }
}
