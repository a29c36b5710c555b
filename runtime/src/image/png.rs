//! PNG: row by row, so that a large picture is made smaller while it is read, in bounded memory.

use std::io::{self, BufRead, Read, Seek};

use ::image::RgbImage;
use ::image::metadata::Orientation;
use ::png::{
    BitDepth, ColorType, DecodeOptions, Decoder, Info, Limits, Reader, ScaledFloat, SourceChromaticities,
    Transformations,
};

use super::colours::{self, Conversion, ProfileKind};
use super::{DecodedPicture, DecodingCost, ImageError, MAX_MEMORY, blend, check_size, exif, swaps_sides, upright};

/// The bytes that a PNG file begins with.
pub(super) const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// Most bytes that the decoder takes for rows and metadata.
const OVERHEAD: usize = 8 << 20;

/// Most bytes of EXIF data that are read for the orientation, which is among the first.
const MAX_EXIF: u64 = 1 << 20;

/// First column and row of each pass of an interlaced picture, and the steps between them (PNG, section 8.2).
const PASSES: [[usize; 4]; 7] =
    [[0, 0, 8, 8], [4, 0, 8, 8], [0, 4, 4, 8], [2, 0, 4, 4], [0, 2, 2, 4], [1, 0, 2, 2], [0, 1, 1, 2]];

/// Decodes a PNG file, at full scale or, where that takes too much memory, with the means of squares of its pixels.
///
/// All checksums must be right.
pub(super) fn decode<R: BufRead + Seek>(file: R) -> Result<DecodedPicture, ImageError> {
    with_header(file, |file| file.decode())
}

/// The memory that [`decode`] takes for the same file.
pub(super) fn decoding_cost<R: BufRead + Seek>(file: R) -> Result<DecodingCost, ImageError> {
    with_header(file, |file| file.cost())
}

/// Width and height as they are stored, and how the picture is to be turned.
pub(super) fn size<R: BufRead + Seek>(mut file: R) -> Result<((u32, u32), Orientation), ImageError> {
    let orientation = orientation(&mut file)?;
    let file = PngFile::read(file, orientation, IccProfile::Ignored)?;
    Ok((file.reader.info().size(), file.orientation))
}

/// How the picture is to be turned, by the first chunk that says so: it may stand behind the pixels (PNG, third
/// edition, section 5.6), and is wanted before them. Leaves the file at its start.
fn orientation<R: BufRead + Seek>(file: &mut R) -> Result<Orientation, ImageError> {
    let found = find_exif(file);
    file.rewind().map_err(ImageError::Read)?;
    // A file that ends too early is refused when it is decoded.
    Ok(found.ok().and_then(|found| exif::orientation(&found)).unwrap_or(Orientation::NoTransforms))
}

/// The start of the first chunk of EXIF data.
fn find_exif<R: BufRead + Seek>(file: &mut R) -> io::Result<Vec<u8>> {
    file.seek_relative(SIGNATURE.len() as i64)?;
    loop {
        let (mut length, mut name) = ([0; 4], [0; 4]);
        file.read_exact(&mut length)?;
        file.read_exact(&mut name)?;
        let length = u32::from_be_bytes(length);
        match &name {
            b"eXIf" => {
                let mut exif = Vec::new();
                file.take(u64::from(length).min(MAX_EXIF)).read_to_end(&mut exif)?;
                return Ok(exif);
            }
            b"IEND" => return Err(io::ErrorKind::NotFound.into()),
            // Behind the chunk stands its checksum.
            _ => file.seek_relative(i64::from(length) + 4)?,
        }
    }
}

/// Reads what stands before the pixels, and goes on with that. A colour profile that is too large is passed over: then
/// the file is read again without it.
fn with_header<R: BufRead + Seek, T>(
    mut file: R,
    go_on: impl FnOnce(PngFile<&mut R>) -> Result<T, ImageError>,
) -> Result<T, ImageError> {
    let orientation = orientation(&mut file)?;
    match PngFile::read(&mut file, orientation, IccProfile::Read) {
        Ok(file) if file.has_usable_profile() => return go_on(file),
        // Whatever else is too large is found again.
        Ok(_) | Err(ImageError::LargeMetadata) => {}
        Err(error) => return Err(error),
    }
    file.rewind().map_err(ImageError::Read)?;
    go_on(PngFile::read(&mut file, orientation, IccProfile::Ignored)?)
}

/// What becomes of a file's ICC profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IccProfile {
    Read,
    Ignored,
}

/// A PNG file that has been read up to its pixels.
struct PngFile<R: BufRead + Seek> {
    reader: Reader<R>,
    orientation: Orientation,
}

impl<R: BufRead + Seek> PngFile<R> {
    /// Reads what stands before the pixels.
    fn read(file: R, orientation: Orientation, profile: IccProfile) -> Result<Self, ImageError> {
        let mut options = DecodeOptions::default();
        options.set_ignore_adler32(false);
        options.set_ignore_crc(false);
        let mut decoder = Decoder::new_with_options(file, options);
        decoder.set_limits(Limits { bytes: OVERHEAD / 2 });
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(profile == IccProfile::Ignored);
        decoder.set_transformations(Transformations::EXPAND);
        let header = decoder.read_header_info().map_err(failed)?;
        let (width, height) = header.size();
        check_size(width, height)?;
        let reader = decoder.read_info().map_err(failed)?;
        Ok(Self { reader, orientation })
    }

    /// Whether the profile, if there is one, is not too large.
    fn has_usable_profile(&self) -> bool {
        self.reader.info().icc_profile.as_deref().is_none_or(|icc| icc.len() <= colours::MAX_PROFILE)
    }

    /// Width and height as they are stored.
    fn size(&self) -> [usize; 2] {
        let info = self.reader.info();
        [info.width, info.height].map(|side| side as usize)
    }

    fn cost(&self) -> Result<DecodingCost, ImageError> {
        let (size, converting) = (self.size(), Conversion::peak_bytes(conversion(self.reader.info()).as_ref()));
        let by = scale(size, self.orientation, converting)?;
        let peak = converting + peak_bytes(size, by, self.orientation);
        Ok(DecodingCost::new(size, by, self.orientation, peak))
    }

    fn decode(mut self) -> Result<DecodedPicture, ImageError> {
        let conversion = conversion(self.reader.info());
        let [width, height] = self.size();
        let by = scale([width, height], self.orientation, Conversion::peak_bytes(conversion.as_ref()))?;
        let mut picture = Means::new([width, height], by);
        if self.reader.info().interlaced {
            for [x, y, across, down] in PASSES {
                for y in (y..height).step_by(down).filter(|_| x < width) {
                    next_row(&mut self.reader, |rgb, column| picture.add(x + column * across, y, rgb))?;
                }
            }
        } else {
            for y in 0..height {
                next_row(&mut self.reader, |rgb, x| picture.add(x, y, rgb))?;
            }
        }
        // What stands behind the picture: the last checksums, and the end.
        self.reader.finish().map_err(failed)?;
        let mut picture = upright(picture.finish().into(), self.orientation).into_rgb8();
        if let Some(conversion) = conversion {
            conversion.apply(&mut picture);
        }
        Ok(DecodedPicture::new(picture, [width, height], self.orientation))
    }
}

/// What turns the picture's colours into sRGB's, where they are others: by the first of its chunks that says (PNG,
/// third edition, section 4.3).
fn conversion(info: &Info<'_>) -> Option<Conversion> {
    let grey = matches!(info.color_type, ColorType::Grayscale | ColorType::GrayscaleAlpha);
    if let Some(code) = info.coding_independent_code_points {
        let full = code.is_video_full_range_image;
        return Conversion::of_code_points(
            code.color_primaries,
            code.transfer_function,
            code.matrix_coefficients,
            full,
        );
    }
    if let Some(icc) = &info.icc_profile {
        return Conversion::of_profile(icc, if grey { ProfileKind::Grey } else { ProfileKind::Rgb });
    }
    if info.srgb.is_some() {
        return None;
    }
    let point = |(x, y): (ScaledFloat, ScaledFloat)| [x.into_value(), y.into_value()];
    let points = |all: SourceChromaticities| [all.white, all.red, all.green, all.blue].map(point);
    // Without its gamma nothing is known of a picture's colours.
    Conversion::of_gamma(info.gama_chunk?.into_value(), info.chrm_chunk.filter(|_| !grey).map(points))
}

fn failed(error: ::png::DecodingError) -> ImageError {
    match error {
        // Rows of all sizes that are accepted fit.
        ::png::DecodingError::LimitsExceeded => ImageError::LargeMetadata,
        ::png::DecodingError::IoError(error) if error.kind() != io::ErrorKind::UnexpectedEof => ImageError::Read(error),
        other => ImageError::Damaged(other.to_string()),
    }
}

/// Reads a row; `pixel` gets each pixel's colours with its number within the row.
fn next_row<R: BufRead + Seek>(reader: &mut Reader<R>, pixel: impl FnMut([u8; 3], usize)) -> Result<(), ImageError> {
    let (colours, depth) = reader.output_color_type();
    let cut_off = || ImageError::Damaged("rows of it are missing".into());
    let row = reader.next_row().map_err(failed)?.ok_or_else(cut_off)?;
    let row = row.data();
    match (colours.samples(), depth == BitDepth::Sixteen) {
        (1, false) => each_pixel::<1, 1>(row, pixel),
        (1, true) => each_pixel::<1, 2>(row, pixel),
        (2, false) => each_pixel::<2, 1>(row, pixel),
        (2, true) => each_pixel::<2, 2>(row, pixel),
        (3, false) => each_pixel::<3, 1>(row, pixel),
        (3, true) => each_pixel::<3, 2>(row, pixel),
        (_, false) => each_pixel::<4, 1>(row, pixel),
        (_, true) => each_pixel::<4, 2>(row, pixel),
    }
    Ok(())
}

/// Gives each pixel of a row of `COUNT` samples (grey or colours, with transparency or without) of `WIDTH` bytes, both
/// known to the compiler: a picture may have 100 million pixels.
fn each_pixel<const COUNT: usize, const WIDTH: usize>(row: &[u8], mut pixel: impl FnMut([u8; 3], usize)) {
    for (column, samples) in row.chunks_exact(WIDTH * COUNT).enumerate() {
        // 65,535 of 16 bits is 255 of 8.
        let sample = |index: usize| match WIDTH {
            2 => {
                let [high, low] = [samples[2 * index], samples[2 * index + 1]];
                ((u32::from(u16::from_be_bytes([high, low])) + 128) / 257) as u8
            }
            _ => samples[index],
        };
        let rgb = match COUNT {
            1 => [sample(0); 3],
            2 => [blend(sample(0), sample(1)); 3],
            3 => [sample(0), sample(1), sample(2)],
            _ => {
                let cover = sample(3);
                [blend(sample(0), cover), blend(sample(1), cover), blend(sample(2), cover)]
            }
        };
        pixel(rgb, column);
    }
}

/// Sums over squares of this many pixels a side fit into 16 bits.
const MAX_SIDE_OF_SQUARE: usize = 16;

/// How many pixels a side become one, at least, where converting colours takes `converting` bytes.
fn scale(size: [usize; 2], orientation: Orientation, converting: usize) -> Result<usize, ImageError> {
    let by = (1..=MAX_SIDE_OF_SQUARE).find(|by| converting + peak_bytes(size, *by, orientation) <= MAX_MEMORY as usize);
    by.ok_or(ImageError::TooLarge)
}

/// Most bytes that decoding takes, colours apart.
fn peak_bytes(size: [usize; 2], by: usize, orientation: Orientation) -> usize {
    let pixels = size[0].div_ceil(by) * size[1].div_ceil(by);
    let sums = if by > 1 { 3 * size_of::<u16>() * pixels } else { 0 };
    let turned = if swaps_sides(orientation) { 3 * pixels } else { 0 };
    OVERHEAD + 3 * pixels + sums.max(turned)
}

/// A picture of the means of squares of pixels, at the right and lower edge of what is there of them.
struct Means {
    size: [usize; 2],
    by: usize,
    /// `[height, width, 3]`, each reduced.
    sums: Vec<u16>,
    /// The picture itself, `[height, width, 3]`, where it is not reduced.
    rgb: Vec<u8>,
}

impl Means {
    fn new(size: [usize; 2], by: usize) -> Self {
        let count = 3 * size[0].div_ceil(by) * size[1].div_ceil(by);
        let (sums, rgb) = if by > 1 { (count, 0) } else { (0, count) };
        Self { size, by, sums: vec![0; sums], rgb: vec![0; rgb] }
    }

    fn add(&mut self, x: usize, y: usize, rgb: [u8; 3]) {
        if self.by == 1 {
            self.rgb[3 * (y * self.size[0] + x)..][..3].copy_from_slice(&rgb);
            return;
        }
        // Numbers of 32 bits are divided in less time.
        let column = (x as u32 / self.by as u32) as usize;
        let index = y / self.by * self.size[0].div_ceil(self.by) + column;
        let sums = &mut self.sums[3 * index..][..3];
        sums.iter_mut().zip(rgb).for_each(|(sum, value)| *sum += u16::from(value));
    }

    fn finish(self) -> RgbImage {
        let [width, height] = self.size.map(|side| side.div_ceil(self.by));
        let mut rgb = self.rgb;
        if self.by > 1 {
            rgb.reserve_exact(self.sums.len());
            for (index, sums) in self.sums.chunks_exact(3).enumerate() {
                let inside = |axis: usize, index: usize| self.by.min(self.size[axis] - index * self.by) as u32;
                let count = inside(0, index % width) * inside(1, index / width);
                rgb.extend(sums.iter().map(|sum| ((u32::from(*sum) + count / 2) / count) as u8));
            }
        }
        RgbImage::from_raw(width as u32, height as u32, rgb).expect("as many bytes as the size asks for")
    }
}

#[cfg(test)]
mod tests;
