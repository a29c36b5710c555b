//! Recognises unsupported picture formats by how their files begin or end, to tell users what to do about them.

use std::fmt::{self, Display};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Format;
use crate::files;

/// A picture, or film, in a format that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsupportedFormat {
    /// What it is called.
    pub name: &'static str,
    /// The article before its name.
    pub article: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

const SAVE: &str = "save it as JPEG or PNG";
const HEIF: UnsupportedFormat = UnsupportedFormat {
    name: "HEIC",
    article: "a",
    remedy: "save it as JPEG; an iPhone takes JPEG pictures with Settings > Camera > Formats > Most Compatible",
};
const AVIF: UnsupportedFormat = UnsupportedFormat { name: "AVIF", article: "an", remedy: SAVE };
const GIF: UnsupportedFormat = UnsupportedFormat { name: "GIF", article: "a", remedy: SAVE };
const BMP: UnsupportedFormat = UnsupportedFormat { name: "BMP", article: "a", remedy: SAVE };
const TIFF: UnsupportedFormat = UnsupportedFormat { name: "TIFF", article: "a", remedy: SAVE };
const JPEG_XL: UnsupportedFormat = UnsupportedFormat { name: "JPEG XL", article: "a", remedy: SAVE };
const JPEG_2000: UnsupportedFormat = UnsupportedFormat { name: "JPEG 2000", article: "a", remedy: SAVE };
const PHOTOSHOP: UnsupportedFormat = UnsupportedFormat { name: "Photoshop", article: "a", remedy: SAVE };
const QOI: UnsupportedFormat = UnsupportedFormat { name: "QOI", article: "a", remedy: SAVE };
const ICO: UnsupportedFormat = UnsupportedFormat { name: "ICO", article: "an", remedy: SAVE };
const PNM: UnsupportedFormat = UnsupportedFormat { name: "PNM", article: "a", remedy: SAVE };
const TGA: UnsupportedFormat = UnsupportedFormat { name: "TGA", article: "a", remedy: SAVE };
const PDF: UnsupportedFormat =
    UnsupportedFormat { name: "PDF", article: "a", remedy: "save each picture of it as JPEG or PNG" };
const SVG: UnsupportedFormat = UnsupportedFormat { name: "SVG", article: "an", remedy: SAVE };
const RAW: UnsupportedFormat =
    UnsupportedFormat { name: "raw camera", article: "a", remedy: "develop it and save it as JPEG" };
const FILM: UnsupportedFormat =
    UnsupportedFormat { name: "film", article: "a", remedy: "save single pictures of it as JPEG" };

/// Bytes at the start of a file that tell every format that is read.
const LONGEST_START: u64 = 12;

/// How names of files in these formats end.
const ENDINGS: [(&str, UnsupportedFormat); 36] = [
    ("heic", HEIF),
    ("heif", HEIF),
    ("hif", HEIF),
    ("avif", AVIF),
    ("gif", GIF),
    ("bmp", BMP),
    ("tif", TIFF),
    ("tiff", TIFF),
    ("jxl", JPEG_XL),
    ("jp2", JPEG_2000),
    ("j2k", JPEG_2000),
    ("ico", ICO),
    ("pbm", PNM),
    ("pgm", PNM),
    ("pnm", PNM),
    ("ppm", PNM),
    ("tga", TGA),
    ("pdf", PDF),
    ("psd", PHOTOSHOP),
    ("qoi", QOI),
    ("svg", SVG),
    ("dng", RAW),
    ("cr2", RAW),
    ("cr3", RAW),
    ("nef", RAW),
    ("arw", RAW),
    ("orf", RAW),
    ("raf", RAW),
    ("rw2", RAW),
    ("mov", FILM),
    ("mp4", FILM),
    ("mkv", FILM),
    ("webm", FILM),
    ("avi", FILM),
    ("m4v", FILM),
    ("3gp", FILM),
];

impl UnsupportedFormat {
    pub(super) const ANIMATED_WEBP: Self = Self { name: "animated WebP", article: "an", remedy: FILM.remedy };

    /// A picture in a format that is read, without a picture's extension.
    const MISNAMED: Self =
        Self { name: "misnamed", article: "a", remedy: "rename it so that it ends in .jpg, .png or .webp" };

    /// The format of a file with these first bytes, if they tell.
    pub fn of_bytes(start: &[u8]) -> Option<Self> {
        if start.get(4..8) == Some(b"ftyp") {
            return Some(match start.get(8..12)? {
                b"avif" | b"avis" => AVIF,
                b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" | b"mif1" | b"msf1" => HEIF,
                b"crx " => RAW,
                _ => FILM,
            });
        }
        if start.starts_with(b"RIFF") && start.get(8..12) == Some(b"AVI ") {
            return Some(FILM);
        }
        let known: [(&[u8], Self); 16] = [
            (b"GIF87a", GIF),
            (b"GIF89a", GIF),
            (b"BM", BMP),
            (b"II*\0", TIFF),
            (b"MM\0*", TIFF),
            (b"II+\0", TIFF),
            (b"MM\0+", TIFF),
            (b"\xff\x0a", JPEG_XL),
            (b"\0\0\0\x0cJXL ", JPEG_XL),
            (b"\0\0\0\x0cjP  ", JPEG_2000),
            (b"\xff\x4f\xff\x51", JPEG_2000),
            (b"\0\0\x01\0", ICO),
            (b"%PDF-", PDF),
            (b"8BPS", PHOTOSHOP),
            (b"qoif", QOI),
            (b"<svg", SVG),
        ];
        let is_pnm = matches!(start, [b'P', b'1'..=b'7', b' ' | b'\t' | b'\n' | b'\r', ..]);
        let known = known.into_iter().find(|(bytes, _)| start.starts_with(bytes)).map(|(_, format)| format);
        known.or(is_pnm.then_some(PNM))
    }

    /// The format of a file of this name, if its ending tells.
    pub fn of_name(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_string_lossy().to_lowercase();
        ENDINGS.iter().find(|(known, _)| *known == ending).map(|(_, format)| *format)
    }

    /// The format of a file without an extension of [`super::EXTENSIONS`]. One that begins as a picture is misnamed.
    pub(crate) fn of_other_file(path: &Path) -> Option<Self> {
        Self::of_name(path).or_else(|| begins_as_picture(path).unwrap_or(false).then_some(Self::MISNAMED))
    }
}

/// Whether a file begins as a picture in a format that is read.
fn begins_as_picture(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    files::open_regular(path)?.take(LONGEST_START).read_to_end(&mut start)?;
    Ok(Format::of(&start).is_some())
}

/// A file in a format that is not read, or a picture without a picture's extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedFile {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: UnsupportedFormat,
}

impl Display for UnsupportedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, format: UnsupportedFormat { name, remedy, .. } } = self;
        write!(f, "{} is passed over, since {name} files cannot be read: {remedy}", path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_first_bytes_and_by_names() {
        let of = |bytes: &[u8]| UnsupportedFormat::of_bytes(bytes).map(|format| format.name);
        assert_eq!(of(b"\0\0\0\x24ftypheic\0\0\0\0mif1"), Some("HEIC"));
        assert_eq!(of(b"\0\0\0\x24ftypavif"), Some("AVIF"));
        assert_eq!(of(b"\0\0\0\x14ftypqt  "), Some("film"));
        assert_eq!((of(b"GIF89a"), of(b"MM\0*\0"), of(b"text"), of(b"")), (Some("GIF"), Some("TIFF"), None, None));
        assert_eq!(
            (of(b"P5\n4 4\n255\n"), of(b"P6 4 4 255 "), of(b"P5"), of(b"P8\n")),
            (Some("PNM"), Some("PNM"), None, None)
        );
        assert_eq!((of(b"RIFF\0\0\0\0AVI LIST"), of(b"qoif\0\0")), (Some("film"), Some("QOI")));
        assert_eq!(
            (of(b"II+\0\x08"), of(b"%PDF-1.7"), of(b"\0\0\x01\0\x01")),
            (Some("TIFF"), Some("PDF"), Some("ICO"))
        );
        let named = |name: &str| UnsupportedFormat::of_name(Path::new(name)).map(|format| format.name);
        let said = |format| crate::image::ImageError::Unsupported(format).to_string();
        for (format, start) in [
            (UnsupportedFormat::ANIMATED_WEBP, "is an animated WebP file, which cannot be read: "),
            (AVIF, "is an AVIF file, "),
            (SVG, "is an SVG file, "),
            (HEIF, "is a HEIC file, "),
            (RAW, "is a raw camera file, "),
        ] {
            assert!(said(format).starts_with(start), "{}", said(format));
        }
        assert_eq!(
            (named("a/IMG_1.HEIC"), named("a.webm"), named("a.txt"), named("gif")),
            (Some("HEIC"), Some("film"), None, None)
        );
        assert_eq!(
            ["a.jp2", "a.PSD", "a.qoi", "a.avi", "a.m4v", "a.3gp"].map(named),
            ["JPEG 2000", "Photoshop", "QOI", "film", "film", "film"].map(Some)
        );
        assert_eq!(["scan.PDF", "a.ppm", "a.tga"].map(named), ["PDF", "PNM", "TGA"].map(Some));
    }
}
