//! From a picture to the planes of numbers that a backbone takes.

use ::image::RgbImage;
use serde::{Deserialize, Serialize};

use super::look::Look;
use super::resize::resize_part;

/// Largest width and height of the pictures that a backbone is fed with, in pixels.
pub const MAX_CANVAS: u32 = 1024;

/// What the backbone expects of its input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preprocessing {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Mean of red, green and blue, in 0..1.
    pub mean: [f32; 3],
    /// Deviation of red, green and blue, in 0..1.
    pub deviation: [f32; 3],
    /// The parts of a picture that the backbone sees, one image each.
    #[serde(default, skip_serializing_if = "Look::is_whole")]
    pub look: Look,
}

impl Preprocessing {
    /// Whether the values make sense; to be asked after decoding.
    pub fn is_sound(&self) -> bool {
        let sides = self.canvas().iter().all(|side| (1..=MAX_CANVAS).contains(side));
        let finite = self.mean.iter().chain(&self.deviation).all(|value| value.is_finite());
        sides && finite && self.deviation.iter().all(|value| *value > 0.0)
    }

    /// The colour that becomes zero in all planes: it says nothing to the backbone.
    pub fn mean_colour(&self) -> [u8; 3] {
        self.mean.map(|mean| (255.0 * mean).round().clamp(0.0, 255.0) as u8)
    }

    /// Width and height of a [fitted](Self::fit) picture: large enough that the smallest part of the look has the
    /// input's size.
    pub fn canvas(&self) -> [u32; 2] {
        [self.width, self.height].map(|side| self.look.canvas(side))
    }

    /// The largest centred part of the picture with the input's aspect ratio, scaled to the [canvas](Self::canvas). A
    /// picture that was fitted before stays as it is.
    ///
    /// # Panics
    /// If the picture has no pixels.
    pub fn fit(&self, picture: &RgbImage) -> RgbImage {
        self.scale(picture, self.crop(picture))
    }

    /// The crop `[x, y, width, height]` of a picture that [`fit`](Self::fit) keeps.
    pub(crate) fn crop(&self, picture: &RgbImage) -> [u32; 4] {
        let size @ [width, height] = [picture.width(), picture.height()];
        // Of sides that were rounded, the aspect ratio is a little another one.
        if size == self.canvas() {
            return [0, 0, width, height];
        }
        let (width, height) = (u64::from(width), u64::from(height));
        let (wanted_width, wanted_height) = (u64::from(self.width), u64::from(self.height));
        let crop_width = width.min(height * wanted_width / wanted_height).max(1);
        let crop_height = height.min(width * wanted_height / wanted_width).max(1);
        [(width - crop_width) / 2, (height - crop_height) / 2, crop_width, crop_height].map(|value| value as u32)
    }

    /// A crop `[x, y, width, height]` of a picture, scaled to the [canvas](Self::canvas).
    pub(crate) fn scale(&self, picture: &RgbImage, crop: [u32; 4]) -> RgbImage {
        resize_part(picture, crop, self.canvas())
    }

    /// Appends the normalised planes of every part of a fitted picture that the look has, the whole first.
    ///
    /// # Shapes
    /// Appends f32 `[parts, 3, height, width]`: (byte / 255 - mean) / deviation.
    /// # Panics
    /// If the picture has another size than the [canvas](Self::canvas).
    pub fn append_planes(&self, picture: &RgbImage, planes: &mut Vec<f32>) {
        let [width, height] = self.canvas();
        assert_eq!((picture.width(), picture.height()), (width, height), "picture was not fitted");
        if self.look.is_whole() {
            return self.append_image_planes(picture, planes);
        }
        for ([x, width], [y, height]) in self.look.spans(width).zip(self.look.spans(height)) {
            self.append_image_planes(&resize_part(picture, [x, y, width, height], [self.width, self.height]), planes);
        }
    }

    /// Appends the normalised planes of an image of the input's size.
    fn append_image_planes(&self, picture: &RgbImage, planes: &mut Vec<f32>) {
        // Two divisions for each of 256 values, not for each pixel.
        let normalised: [[f32; 256]; 3] = core::array::from_fn(|channel| {
            core::array::from_fn(|byte| (byte as f32 / 255.0 - self.mean[channel]) / self.deviation[channel])
        });
        let (start, pixels) = (planes.len(), picture.as_raw().len() / 3);
        planes.resize(start + 3 * pixels, 0.0);
        let (red, others) = planes[start..].split_at_mut(pixels);
        let (green, blue) = others.split_at_mut(pixels);
        let values = red.iter_mut().zip(green).zip(blue);
        for (pixel, ((red, green), blue)) in picture.as_raw().chunks_exact(3).zip(values) {
            *red = normalised[0][usize::from(pixel[0])];
            *green = normalised[1][usize::from(pixel[1])];
            *blue = normalised[2][usize::from(pixel[2])];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closer_look_adds_the_middle_of_the_picture_in_the_same_detail() {
        // White around a black middle of half the side.
        let is_middle = |at: u32| (10..30).contains(&at);
        let white = |x, y| if is_middle(x) && is_middle(y) { 0 } else { 255 };
        let picture = RgbImage::from_fn(40, 40, |x, y| ::image::Rgb([white(x, y); 3]));
        let look = Look::new(&[1.0, 0.5]).unwrap();
        let input = Preprocessing { width: 20, height: 20, mean: [0.0; 3], deviation: [1.0; 3], look };
        assert_eq!(input.canvas(), [40, 40]);
        let mut planes = Vec::new();
        input.append_planes(&input.fit(&picture), &mut planes);
        let (whole, middle) = planes.split_at(3 * 400);
        let mut expected = Vec::new();
        let once = Preprocessing { look: Look::WHOLE, ..input };
        once.append_planes(&once.fit(&picture), &mut expected);
        assert_eq!(whole, expected);
        assert_eq!(middle, [0.0; 3 * 400]);
        // What was fitted before is as it was, also where a side of the canvas is rounded.
        assert_eq!(input.fit(&input.fit(&picture)), input.fit(&picture));
        let wide = Preprocessing { width: 224, height: 128, look: Look::new(&[1.0, 0.75]).unwrap(), ..input };
        let picture = RgbImage::from_fn(640, 480, |x, y| ::image::Rgb([(x ^ y) as u8, (x * 3) as u8, (y * 7) as u8]));
        assert_eq!(wide.canvas(), [299, 171]);
        assert_eq!(wide.fit(&wide.fit(&picture)), wide.fit(&picture));
    }
}
