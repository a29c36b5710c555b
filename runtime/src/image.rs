//! Pictures: from a file's bytes to the backbone's input.
//!
//! The crate `image`, whose [`RgbImage`] a picture in memory is, is [`image_rs`](crate::image_rs) here.

mod colours;
mod decoded_picture;
mod decoding_cost;
mod exif;
mod jpeg;
mod look;
mod png;
mod preprocessing;
mod reduced;
mod resize;
mod unsupported;
mod webp;

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use ::image::metadata::Orientation;
use ::image::{DynamicImage, RgbImage};

use crate::files;
pub use decoded_picture::DecodedPicture;
pub use decoding_cost::DecodingCost;
pub use look::{Look, LookError, LookPart};
pub use preprocessing::{MAX_CANVAS, Preprocessing};
pub use reduced::{reduced, reduced_jpeg};
pub use resize::{resize, resize_part};
pub use unsupported::{UnsupportedFile, UnsupportedFormat};

/// Most pixels of a picture.
pub const MAX_PIXELS: u64 = 100_000_000;
/// Largest width and height of a picture, in pixels: the largest of a JPEG file.
pub const MAX_SIDE: u32 = 65_535;
/// Most bytes that decoding a picture takes, the decoded picture among them, the file apart. Larger pictures are
/// decoded at reduced scale.
pub const MAX_MEMORY: u64 = 64 << 20;
/// Largest picture file that is held in memory, in bytes. PNG files are read piece by piece and may be larger.
pub const MAX_FILE: u64 = 64 << 20;
/// Largest PNG file that is read, in bytes.
pub const MAX_PNG_FILE: u64 = 1 << 30;

/// Extensions of the files that [`open`] reads. A file of several JPEG pictures (`.mpo`) is read as its first.
pub const EXTENSIONS: [&str; 7] = ["jpg", "jpeg", "jfif", "jpe", "mpo", "png", "webp"];
/// Media types of the files that [`decode`] reads; `image/jpg` is what some cameras send.
pub const MEDIA_TYPES: [&str; 4] = ["image/jpeg", "image/jpg", "image/png", "image/webp"];

/// Why a picture could not be used: the rest of a sentence that begins with its name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file could not be read.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// The bytes are no picture.
    #[error("is neither a JPEG nor a PNG nor a WebP picture")]
    Format,
    /// The picture is in a format that is not read.
    #[error("is {} {} file, which cannot be read: {}", .0.article, .0.name, .0.remedy)]
    Unsupported(UnsupportedFormat),
    /// The file has no bytes.
    #[error("is empty")]
    Empty,
    /// The file stands for one that Git LFS has not fetched.
    #[error("is a Git LFS pointer: run git lfs pull")]
    LfsPointer,
    /// The picture is in WebP, which cannot be decoded at reduced scale, and takes more than [`MAX_MEMORY`].
    #[error(
        "is a WebP picture of {width} x {height} pixels, too large to decode within {} MiB: save it as JPEG or make it \
         smaller",
        MAX_MEMORY >> 20
    )]
    LargeWebp {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The picture has more pixels than [`MAX_PIXELS`], or cannot be decoded within [`MAX_MEMORY`].
    #[error(
        "is too large: at most {} megapixels and {MAX_SIDE} pixels a side are accepted, as far as they can be \
         decoded within {} MiB; save it smaller",
        MAX_PIXELS / 1_000_000, MAX_MEMORY >> 20
    )]
    TooLarge,
    /// What stands in the file beside the picture takes too much memory.
    #[error("holds more metadata than can be read, such as EXIF data: save it without")]
    LargeMetadata,
    /// The rows in memory are not a picture of that size.
    #[error(
        "is not {width} x {height} pixels of red, green and blue, three bytes each: rows of {stride} bytes, {bytes} \
         bytes in all"
    )]
    Rows {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// From the start of a row to that of the next, in bytes.
        stride: usize,
        /// Bytes given.
        bytes: usize,
    },
    /// The picture is damaged; how.
    #[error("is damaged: {0}")]
    Damaged(String),
}

/// A file that is not used as a picture, and why. The reason goes on with the sentence.
#[derive(Debug, thiserror::Error)]
#[error("{} {reason}", path.display())]
#[non_exhaustive]
pub struct PictureFileError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: ImageError,
}

/// Reads a JPEG, PNG or WebP file. The picture is turned upright as its EXIF data say, put on white where it is
/// transparent, and converted to sRGB if it has another colour profile (ICC; in PNG files also gAMA, cHRM and cICP).
/// CMYK profiles are ignored.
///
/// A picture that cannot be decoded within [`MAX_MEMORY`] is returned at reduced scale, one in WebP refused.
///
/// # Errors
/// [`PictureFileError`] if the file cannot be read, is no such picture, is damaged or too large.
pub fn open(path: impl AsRef<Path>) -> Result<RgbImage, PictureFileError> {
    Ok(open_with_size(path)?.picture)
}

/// As [`open`], with the size of the picture in the file.
///
/// # Errors
/// As for [`open`].
pub fn open_with_size(path: impl AsRef<Path>) -> Result<DecodedPicture, PictureFileError> {
    let path = path.as_ref();
    read_with_size(path).map_err(|reason| PictureFileError { path: path.into(), reason })
}

fn read_with_size(path: &Path) -> Result<DecodedPicture, ImageError> {
    let mut file = BufReader::new(files::open_regular(path).map_err(ImageError::Read)?.take(MAX_PNG_FILE));
    if Format::of(file.fill_buf().map_err(ImageError::Read)?) == Some(Format::Png) {
        return png::decode(file);
    }
    let decoded = decode_with_size(&files::read(path, MAX_FILE).map_err(ImageError::Read)?);
    decoded.map_err(|reason| match (reason, UnsupportedFormat::of_name(path)) {
        // Not every format has first bytes that tell.
        (ImageError::Format, Some(format)) => ImageError::Unsupported(format),
        (reason, _) => reason,
    })
}

/// As [`open`], from the bytes of a file.
///
/// # Errors
/// [`ImageError`] if the bytes are no such picture, are damaged or cut off, or decode to something too large.
pub fn decode(bytes: &[u8]) -> Result<RgbImage, ImageError> {
    Ok(decode_with_size(bytes)?.picture)
}

fn decode_with_size(bytes: &[u8]) -> Result<DecodedPicture, ImageError> {
    match Format::of(bytes) {
        Some(Format::Png) => png::decode(Cursor::new(bytes)),
        Some(Format::Jpeg) => jpeg::decode(bytes),
        Some(Format::Webp) => webp::decode(bytes),
        None => Err(refusal(bytes)),
    }
}

/// Width and height of the picture in the bytes of a file, upright, as its header says: those of
/// [`decode`]'s picture, unless that is reduced.
///
/// # Errors
/// [`ImageError`] if the bytes are no such picture, or their header makes no sense.
pub fn size(bytes: &[u8]) -> Result<(u32, u32), ImageError> {
    let (stored, orientation) = match Format::of(bytes) {
        Some(Format::Png) => png::size(Cursor::new(bytes))?,
        Some(Format::Jpeg) => jpeg::size(bytes)?,
        Some(Format::Webp) => webp::size(bytes)?,
        None => return Err(refusal(bytes)),
    };
    Ok(upright_size(stored.into(), orientation).into())
}

/// Whether a file is meant to be a picture in a format that is read, by its extension.
pub fn has_extension(path: &Path) -> bool {
    path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

/// The size of the picture that [`decode`] gives for the same bytes, and the memory that it takes. Ask before you
/// decode several pictures at a time in bounded memory: only the header is read.
///
/// # Errors
/// [`ImageError`] if the bytes are no such picture, their header makes no sense, or the picture is too large.
pub fn decoding_cost(bytes: &[u8]) -> Result<DecodingCost, ImageError> {
    match Format::of(bytes) {
        Some(Format::Png) => png::decoding_cost(Cursor::new(bytes)),
        Some(Format::Jpeg) => jpeg::decoding_cost(bytes),
        Some(Format::Webp) => webp::decoding_cost(bytes),
        None => Err(refusal(bytes)),
    }
}

/// As [`decode`], but decodes a JPEG picture at the smallest scale of 1, 1/4 and 1/8 that leaves at least `side` pixels
/// in width and height. This is faster for large pictures: use it for a live view, or a classifier with a small input.
///
/// # Errors
/// As for [`decode`].
pub fn decode_reduced(bytes: &[u8], side: u32) -> Result<RgbImage, ImageError> {
    if Format::of(bytes) == Some(Format::Jpeg) { jpeg::decode_reduced(bytes, side) } else { decode(bytes) }
}

/// As [`decoding_cost()`], for [`decode_reduced`].
///
/// # Errors
/// As for [`decoding_cost()`].
pub fn decoding_cost_reduced(bytes: &[u8], side: u32) -> Result<DecodingCost, ImageError> {
    if Format::of(bytes) == Some(Format::Jpeg) {
        jpeg::decoding_cost_reduced(bytes, side)
    } else {
        decoding_cost(bytes)
    }
}

/// The format of a picture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Jpeg,
    Png,
    Webp,
}

impl Format {
    /// The format of a file with these first bytes.
    fn of(start: &[u8]) -> Option<Self> {
        if start.starts_with(&png::SIGNATURE) {
            Some(Self::Png)
        } else if start.starts_with(&jpeg::SIGNATURE) {
            Some(Self::Jpeg)
        } else if webp::is_webp(start) {
            Some(Self::Webp)
        } else {
            None
        }
    }
}

/// Why the bytes of a file are not decoded.
fn refusal(bytes: &[u8]) -> ImageError {
    if bytes.is_empty() {
        return ImageError::Empty;
    }
    if files::is_lfs_pointer(bytes) {
        return ImageError::LfsPointer;
    }
    UnsupportedFormat::of_bytes(bytes).map_or(ImageError::Format, ImageError::Unsupported)
}

/// The level that shows through transparent pixels: white, as on a page. Their own colours, which nobody sees, must not
/// matter.
const WHITE: u32 = 255;

/// A colour over [`WHITE`].
fn blend(colour: u8, alpha: u8) -> u8 {
    let (colour, alpha) = (u32::from(colour), u32::from(alpha));
    ((colour * alpha + WHITE * (255 - alpha) + 127) / 255) as u8
}

/// Luma of red, green and blue (ITU-R BT.601).
pub(crate) fn luma([red, green, blue]: [f32; 3]) -> f32 {
    0.299 * red + 0.587 * green + 0.114 * blue
}

/// Refuses a size that no picture may have: more than [`MAX_PIXELS`], or a side longer than [`MAX_SIDE`].
///
/// # Errors
/// [`ImageError::TooLarge`].
pub fn check_size(width: u32, height: u32) -> Result<(), ImageError> {
    let fits = width.max(height) <= MAX_SIDE && u64::from(width) * u64::from(height) <= MAX_PIXELS;
    if fits { Ok(()) } else { Err(ImageError::TooLarge) }
}

/// Whether turning a picture upright exchanges width and height; only then is it copied.
fn swaps_sides(orientation: Orientation) -> bool {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH)
}

/// The size of a picture once it is turned upright.
fn upright_size([width, height]: [u32; 2], orientation: Orientation) -> [u32; 2] {
    if swaps_sides(orientation) { [height, width] } else { [width, height] }
}

/// Turns a picture upright.
fn upright(mut picture: DynamicImage, orientation: Orientation) -> DynamicImage {
    picture.apply_orientation(orientation);
    picture
}

/// A picture from planes of red, green and blue bytes, row-major.
///
/// # Panics
/// If `planes` does not hold `3 * width * height` bytes.
pub fn from_planes(width: u32, height: u32, planes: &[u8]) -> RgbImage {
    let pixels = (width * height) as usize;
    assert_eq!(planes.len(), 3 * pixels, "planes do not match the size");
    let interleaved = (0..pixels).flat_map(|pixel| [planes[pixel], planes[pixels + pixel], planes[2 * pixels + pixel]]);
    RgbImage::from_raw(width, height, interleaved.collect()).expect("length was checked")
}

/// A picture from rows of red, green and blue bytes, as cameras give them. Each row starts `stride` bytes after the one
/// before; what lies between them is left out, and the last one may end with its last pixel.
///
/// # Errors
/// [`ImageError`] if there are no pixels or too many, the rows overlap, or `rows` ends too early.
pub fn from_rows(width: u32, height: u32, stride: usize, rows: &[u8]) -> Result<RgbImage, ImageError> {
    check_size(width, height)?;
    let row = 3 * width as usize;
    // The size was checked: only a stride can be too much.
    let needed = (height as usize).checked_sub(1).and_then(|before| before.checked_mul(stride)?.checked_add(row));
    if width == 0 || stride < row || needed.is_none_or(|needed| rows.len() < needed) {
        return Err(ImageError::Rows { width, height, stride, bytes: rows.len() });
    }
    let mut pixels = Vec::with_capacity(row * height as usize);
    rows.chunks(stride).take(height as usize).for_each(|chunk| pixels.extend_from_slice(&chunk[..row]));
    Ok(RgbImage::from_raw(width, height, pixels).expect("as many pixels as rows were taken"))
}

#[cfg(test)]
mod tests {
    use ::image::ImageFormat;

    use super::*;

    fn png(picture: &RgbImage) -> Vec<u8> {
        let mut bytes = Vec::new();
        picture.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).unwrap();
        bytes
    }

    #[test]
    fn a_picture_is_cropped_in_the_middle_and_normalised() {
        let picture = RgbImage::from_fn(8, 4, |x, _| ::image::Rgb([if (2..6).contains(&x) { 255 } else { 0 }, 51, 0]));
        let input = Preprocessing { width: 4, height: 4, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE };
        let mut planes = Vec::new();
        input.append_planes(&input.fit(&decode(&png(&picture)).unwrap()), &mut planes);
        assert!(planes[..16].iter().all(|value| *value == 1.0));
        assert!(planes[16..32].iter().all(|value| (value + 0.6).abs() < 1e-6));
    }

    #[test]
    fn rows_are_taken_without_what_lies_between_them() {
        let rows: Vec<u8> = (0..26).collect();
        let picture = from_rows(2, 3, 10, &rows).unwrap();
        assert_eq!(picture.dimensions(), (2, 3));
        assert_eq!(picture.as_raw()[..], [&rows[..6], &rows[10..16], &rows[20..]].concat());
        for (width, height, stride) in [(2, 3, 11), (2, 4, 10), (2, 3, 5), (0, 3, 10), (2, 0, 10), (2, 3, usize::MAX)] {
            let refused = from_rows(width, height, stride, &rows);
            assert!(matches!(refused, Err(ImageError::Rows { .. })), "{width} {height} {stride}");
        }
        assert!(matches!(from_rows(MAX_SIDE, MAX_SIDE, 10, &rows), Err(ImageError::TooLarge)));
        // One byte a pixel, as from a mono camera.
        let grey = from_rows(3, 2, 3, &[0; 6]).unwrap_err().to_string();
        assert!(grey.contains("of red, green and blue, three bytes each: rows of 3 bytes"), "{grey}");
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        assert!(matches!(decode(b"GIF89a"), Err(ImageError::Unsupported(format)) if format.name == "GIF"));
        assert!(matches!(decode(b"text"), Err(ImageError::Format)));
        let said = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
        assert_eq!(said(b""), "is empty");
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
        assert_eq!(said(pointer), "is a Git LFS pointer: run git lfs pull");
        let avif = said(b"\0\0\0\x24ftypavif");
        assert_eq!(avif, "is an AVIF file, which cannot be read: save it as JPEG or PNG");
        assert!(said(b"BM").starts_with("is a BMP file"));
        let jpeg_ls = said(b"\xff\xd8\xff\xf7\0\x02");
        assert!(jpeg_ls.ends_with("save it as usual JPEG"), "{jpeg_ls}");
        assert!(["a.JFIF", "a.jpe", "a.mpo", "a.webp"].iter().all(|name| has_extension(Path::new(name))));
        let bytes = png(&RgbImage::new(40, 40));
        assert!(matches!(decode(&bytes[..bytes.len() / 2]), Err(ImageError::Damaged(_))));
        assert!(matches!(decode(&png(&RgbImage::new(65_536, 1))), Err(ImageError::TooLarge)));
        assert_eq!(decode(&png(&RgbImage::new(65_535, 1))).unwrap().dimensions(), (65_535, 1));
    }

    #[test]
    fn the_size_is_that_of_the_file_whatever_its_decoded_picture_is_reduced_to() {
        let large = png(&RgbImage::new(5000, 4000));
        assert_eq!(size(&large).unwrap(), (5000, 4000));
        assert!(decode(&large).unwrap().width() < 5000);
        let mut jpeg = Vec::new();
        RgbImage::new(40, 30).write_to(&mut Cursor::new(&mut jpeg), ImageFormat::Jpeg).unwrap();
        assert_eq!(size(&jpeg).unwrap(), (40, 30));
        // One entry of EXIF data: to be turned by a quarter.
        let exif = [&b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01"[..], b"\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"];
        let turned = [&jpeg[..2], &exif.concat(), &jpeg[2..]].concat();
        assert_eq!((size(&turned).unwrap(), decode(&turned).unwrap().dimensions()), ((30, 40), (30, 40)));
        assert!(matches!(size(b"GIF89a"), Err(ImageError::Unsupported(_))));
        assert!(matches!(size(&png(&RgbImage::new(65_536, 1))), Err(ImageError::TooLarge)));
    }

    #[test]
    fn files_are_read_as_bytes_are() {
        let folder = tempfile::tempdir().unwrap();
        let picture = RgbImage::from_fn(40, 30, |x, y| ::image::Rgb([x as u8, y as u8, 9]));
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let mut bytes = Vec::new();
            picture.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
            let path = folder.path().join("picture");
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(open(path).unwrap(), decode(&bytes).unwrap());
        }
        assert!(matches!(open(folder.path()).unwrap_err().reason, ImageError::Read(_)));
        let missing = folder.path().join("1.jpg");
        let said = open(&missing).unwrap_err().to_string();
        assert!(said.starts_with(&format!("{} cannot be read: ", missing.display())), "{said}");
        let scan = folder.path().join("scan.PPM");
        std::fs::write(&scan, b"P6 1 1 255 rgb").unwrap();
        let said = open(&scan).unwrap_err().reason.to_string();
        assert_eq!(said, "is a PNM file, which cannot be read: save it as JPEG or PNG");
    }

    #[test]
    fn a_png_with_any_bit_flipped_in_its_pixels_is_refused() {
        let picture = RgbImage::from_fn(40, 30, |x, y| ::image::Rgb([(x * y) as u8, y as u8, x as u8]));
        let bytes = png(&picture);
        let name = bytes.windows(4).position(|name| name == b"IDAT").unwrap();
        let length = u32::from_be_bytes(bytes[name - 4..name].try_into().unwrap()) as usize;
        for bit in 8 * name..8 * (name + 4 + length + 4) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn half_a_jpeg_is_refused_and_bytes_behind_one_do_no_harm() {
        let picture = RgbImage::from_fn(64, 64, |x, y| ::image::Rgb([(x * y) as u8, (x * 7) as u8, (y * 5) as u8]));
        let mut bytes = Vec::new();
        picture.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Jpeg).unwrap();
        // A small picture for previews within the file, as cameras write it, has an end of its own; before markers may
        // stand any number of 0xff; restarts stand between blocks of a scan.
        let preview = [&[0xff, 0xe1, 0, 7][..], &[0xff, 0xda, 0xff, 0xd9, 0]].concat();
        let camera = [&bytes[..2], &preview, &[0xff, 0xff], &bytes[2..]].concat();
        for whole in [&bytes, &camera] {
            assert_eq!(decode(whole).unwrap().dimensions(), (64, 64));
            assert!(decode(&[whole, &[0u8; 100][..]].concat()).is_ok());
            for length in 0..whole.len() {
                assert!(decode(&whole[..length]).is_err(), "length {length}");
            }
        }
    }
}
