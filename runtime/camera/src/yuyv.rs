//! Raw pictures of webcams: YUYV, four bytes for two pixels (V4L2_PIX_FMT_YUYV).

use std::fmt;

use orco_runtime::image_rs::RgbImage;

/// A raw picture.
#[derive(Clone, PartialEq, Eq)]
pub struct Yuyv {
    width: u32,
    height: u32,
    bytes: Vec<u8>,
}

/// Without the pixels.
impl fmt::Debug for Yuyv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yuyv").field("width", &self.width).field("height", &self.height).finish_non_exhaustive()
    }
}

impl Yuyv {
    /// A picture from rows of `stride` bytes, of which the first `2 * width` are used: brightness, blue, brightness,
    /// red of every two pixels. `None` if the width is odd or 0, a row does not fit in its stride, or there are too few
    /// bytes (the last row may end with its pixels).
    pub fn new(width: u32, height: u32, stride: usize, bytes: &[u8]) -> Option<Self> {
        let row = 2 * width as usize;
        if width == 0 || height == 0 || !width.is_multiple_of(2) || stride < row {
            return None;
        }
        let needed = stride.checked_mul(height as usize - 1)?.checked_add(row)?;
        let rows = bytes.get(..needed)?.chunks(stride).flat_map(|line| &line[..row]);
        Some(Self { width, height, bytes: rows.copied().collect() })
    }

    /// Width and height, in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// Converts it to red, green and blue, by ITU-R BT.601 with brightness from 16 to 235, as V4L2 has it where a
    /// driver says nothing else.
    ///
    /// # Panics
    /// Never: the number of bytes was checked.
    pub fn to_rgb(&self) -> RgbImage {
        let mut rgb = Vec::with_capacity(3 * (self.width * self.height) as usize);
        for &[first, blue, second, red] in self.bytes.as_chunks::<4>().0 {
            rgb.extend_from_slice(&pixel(first, blue, red));
            rgb.extend_from_slice(&pixel(second, blue, red));
        }
        RgbImage::from_raw(self.width, self.height, rgb).expect("the number of bytes was checked")
    }
}

/// One pixel; factors in shares of 65536.
fn pixel(light: u8, blue: u8, red: u8) -> [u8; 3] {
    let (light, blue, red) = (76_309 * (i32::from(light) - 16), i32::from(blue) - 128, i32::from(red) - 128);
    [light + 104_597 * red, light - 25_675 * blue - 53_279 * red, light + 132_201 * blue]
        .map(|value| ((value + 32_768) >> 16).clamp(0, 255) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One colour's light, blue and red, each from the definition of BT.601 in real numbers.
    fn from_rgb([r, g, b]: [u8; 3]) -> [u8; 3] {
        let [r, g, b] = [r, g, b].map(|value| f64::from(value) / 255.0);
        let light = 0.299 * r + 0.587 * g + 0.114 * b;
        let [blue, red] = [(b - light) / 1.772, (r - light) / 1.402];
        [16.0 + 219.0 * light, 128.0 + 224.0 * blue, 128.0 + 224.0 * red].map(|value| value.round() as u8)
    }

    #[test]
    fn colours_survive_the_way_through_yuyv() {
        for colour in [[0, 0, 0], [255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255], [12, 200, 99], [128; 3]] {
            let [light, blue, red] = from_rgb(colour);
            let picture = Yuyv::new(2, 1, 4, &[light, blue, light, red]).unwrap().to_rgb();
            for pixel in picture.pixels() {
                let distance = pixel.0.iter().zip(colour).map(|(one, other)| one.abs_diff(other)).max().unwrap();
                assert!(distance <= 3, "{colour:?}: {pixel:?}");
            }
        }
    }

    #[test]
    fn rows_are_taken_from_their_strides() {
        let [dark, bright] = [[16, 128, 16, 128], [235, 128, 235, 128]];
        let rows = [&dark[..], &bright, &[9; 4], &bright, &dark].concat();
        let picture = Yuyv::new(4, 2, 12, &rows).unwrap().to_rgb();
        let light: Vec<u8> = picture.pixels().map(|pixel| pixel[0]).collect();
        assert_eq!(light, [0, 0, 255, 255, 255, 255, 0, 0]);
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        let bytes = [128; 64];
        assert!(Yuyv::new(4, 2, 8, &bytes).is_some());
        for (width, height, stride) in [(0, 2, 8), (4, 0, 8), (3, 2, 8), (4, 2, 7), (4, 9, 8), (4, 2, usize::MAX)] {
            assert!(Yuyv::new(width, height, stride, &bytes).is_none(), "{width} {height} {stride}");
        }
    }
}
