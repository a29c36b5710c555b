//! Scaling pictures: for the backbone, for cut-outs, and for people to look at.

use ::image::RgbImage;
use fast_image_resize::images::{TypedCroppedImage, TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};

use super::from_rows;

/// The part `[x, y, width, height]` of a picture, scaled to `[width, height]` (triangle filter, antialiased).
///
/// Every machine gives the same bytes: the arithmetic is in integers, whichever vector unit does it. The trainer and
/// the device both scale by this function, so that a picture has the same features on both.
///
/// # Panics
/// If a length is 0, or the part reaches beyond the picture.
pub fn resize_part(picture: &RgbImage, part: [u32; 4], size: [u32; 2]) -> RgbImage {
    resize_by(&mut Resizer::new(), picture, part, size)
}

/// A picture scaled to `[width, height]`, as [`resize_part`].
///
/// # Panics
/// If a length is 0.
pub fn resize(picture: &RgbImage, size: [u32; 2]) -> RgbImage {
    resize_part(picture, [0, 0, picture.width(), picture.height()], size)
}

fn resize_by(resizer: &mut Resizer, picture: &RgbImage, part: [u32; 4], size: [u32; 2]) -> RgbImage {
    let ([x, y, width, height], [columns, rows]) = (part, size);
    if [width, height] == size {
        let first = 3 * (y as usize * picture.width() as usize + x as usize);
        let rows = &picture.as_raw()[first..];
        return from_rows(width, height, 3 * picture.width() as usize, rows).expect("the part lies in the picture");
    }
    let mut scaled = RgbImage::new(columns, rows);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear)).use_alpha(false);
    // Of one type of pixels: a choice among all would compile the code for each, which takes a minute.
    let whole = TypedImageRef::<U8x3>::from_buffer(picture.width(), picture.height(), picture.as_raw());
    let whole = whole.expect("a picture has as many bytes as its size says");
    // A view of its own: the filter must not reach what lies around the part.
    let from = TypedCroppedImage::from_ref(&whole, x, y, width, height).expect("the part lies in the picture");
    let mut to = TypedImage::<U8x3>::from_buffer(columns, rows, &mut scaled).expect("it was made with this size");
    resizer.resize_typed(&from, &mut to, &options).expect("the part is not larger than itself");
    scaled
}

/// Most bytes that [`resize_part`] takes for a part of a size, the result among them.
pub(super) fn resize_memory(part: [u64; 2], size: [u64; 2]) -> u64 {
    // The picture between both passes, which has the part's columns and the result's rows; the result; and the weights,
    // up to three for each pixel of both along both axes.
    let weights = 24 * (part[0] + part[1] + 3 * size[0] + 3 * size[1]);
    3 * part[0] * size[1] + 3 * size[0] * size[1] + weights
}

#[cfg(test)]
mod tests {
    use ::image::Rgb;
    use ::image::imageops::{self, FilterType};
    use fast_image_resize::CpuExtensions;
    use orco_state::codec::digest;

    use super::*;

    /// Sizes of pictures, parts of them, and what these become.
    const CASES: [([u32; 2], [u32; 4], [u32; 2]); 5] = [
        ([640, 480], [81, 3, 401, 321], [224, 224]),
        ([640, 480], [0, 0, 480, 480], [33, 35]),
        ([96, 96], [0, 0, 96, 96], [298, 224]),
        ([3000, 2], [0, 0, 3000, 2], [224, 224]),
        ([5, 5], [1, 1, 1, 1], [3, 2]),
    ];

    /// The first four bytes of SHA-256 of what they become, written on an x86-64.
    const DIGESTS: [&str; 5] = ["91d5fb4a", "be19a650", "558c779d", "55416ed2", "26980a9b"];

    fn picture([width, height]: [u32; 2]) -> RgbImage {
        let mut noise = 1_u32;
        RgbImage::from_fn(width, height, |x, y| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = (noise >> 26) as u8;
            Rgb([(x / 3) as u8 ^ noise, (y / 2) as u8 ^ noise, ((x + y) / 5) as u8 ^ noise])
        })
    }

    #[test]
    fn a_part_is_scaled_by_itself_as_another_library_scales_it() {
        for (size, part, to) in CASES {
            let picture = picture(size);
            let [x, y, width, height] = part;
            let alone = imageops::crop_imm(&picture, x, y, width, height).to_image();
            let scaled = resize_part(&picture, part, to);
            assert_eq!(scaled, resize(&alone, to), "{part:?}");
            let expected = imageops::resize(&alone, to[0], to[1], FilterType::Triangle);
            let furthest = scaled.iter().zip(expected.iter()).map(|(one, other)| one.abs_diff(*other)).max();
            assert!(furthest <= Some(1), "{part:?}: {furthest:?}");
        }
    }

    #[test]
    fn every_machine_gives_the_same_bytes() {
        let first_bytes = CASES.map(|(size, part, to)| {
            let [first, second, third, fourth, ..] = digest(resize_part(&picture(size), part, to).as_raw());
            u32::from_be_bytes([first, second, third, fourth])
        });
        assert_eq!(first_bytes.map(|bytes| format!("{bytes:08x}")), DIGESTS);
    }

    #[test]
    fn every_vector_unit_gives_the_same_bytes() {
        #[cfg(target_arch = "x86_64")]
        let units = [CpuExtensions::Sse4_1, CpuExtensions::Avx2];
        #[cfg(target_arch = "aarch64")]
        let units = [CpuExtensions::Neon];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let units: [CpuExtensions; 0] = [];
        for (size, part, to) in CASES {
            let picture = picture(size);
            let with = |unit| {
                let mut resizer = Resizer::new();
                // SAFETY: none, or one that this processor has.
                unsafe { resizer.set_cpu_extensions(unit) };
                resize_by(&mut resizer, &picture, part, to)
            };
            let expected = with(CpuExtensions::None);
            for unit in units.into_iter().filter(CpuExtensions::is_supported) {
                assert_eq!(with(unit), expected, "{unit:?}: {part:?}");
            }
        }
    }
}
