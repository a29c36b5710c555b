//! Frames of a camera that stands still: a place, things in it, and what light and camera do to them.

use orco_core::random::Random;
use orco_runtime::image;
use orco_runtime::image_rs::codecs::jpeg::JpegEncoder;
use orco_runtime::image_rs::imageops::{self, FilterType};
use orco_runtime::image_rs::{GrayImage, RgbImage, RgbaImage};
use orco_runtime::scene::PixelRect;

use super::objects::MaskedPicture;

/// Width and height of the frames, in pixels.
pub const FRAME: [u32; 2] = [640, 480];
/// How far exposure and white balance are off at the most, as shares.
const EXPOSURE: f32 = 0.07;
const TINT: f32 = 0.02;
/// Deviation of the camera's noise, in steps of 0..255.
const NOISE: f32 = 3.0;
/// Quality of the frames' JPEG.
const QUALITY: u8 = 88;

/// A place as its camera sees it, with things in it.
#[derive(Clone, Debug)]
pub struct Stage {
    /// What is there, before light and camera change it.
    pub picture: RgbImage,
    /// Where the things are, in the order in which they were put there.
    pub things: Vec<PixelRect>,
    /// How much of each pixel the things cover, 0..255.
    pub cover: GrayImage,
}

impl Stage {
    /// The empty place of a photograph: the largest part in its middle with the frames' aspect ratio.
    pub fn empty(photograph: &RgbImage) -> Self {
        let [width, height] = FRAME;
        let (have_width, have_height) = photograph.dimensions();
        let scale = (f64::from(have_width) / f64::from(width)).min(f64::from(have_height) / f64::from(height));
        let [part_width, part_height] = FRAME.map(|side| (f64::from(side) * scale).floor().max(1.0) as u32);
        let (left, top) = ((have_width - part_width) / 2, (have_height - part_height) / 2);
        let part = imageops::crop_imm(photograph, left, top, part_width, part_height);
        Self {
            picture: imageops::resize(&*part, width, height, FilterType::Triangle),
            things: Vec::new(),
            cover: GrayImage::new(width, height),
        }
    }

    /// With a thing whose longer side has so many pixels, and whose middle is there, as far as it fits the frame.
    pub fn with(mut self, thing: &MaskedPicture, side: u32, middle: [u32; 2]) -> Self {
        let MaskedPicture(thing) = thing;
        let longest = thing.width().max(thing.height());
        let scaled = |length: u32| (length * side / longest).max(1);
        let [width, height] = [scaled(thing.width()), scaled(thing.height())];
        let thing = imageops::resize(thing, width, height, FilterType::Triangle);
        let start =
            |middle: u32, length: u32, frame: u32| middle.saturating_sub(length / 2).min(frame.saturating_sub(length));
        let (x, y) = (start(middle[0], width, FRAME[0]), start(middle[1], height, FRAME[1]));
        self.paste(&thing, x, y);
        self.things.push(PixelRect { x, y, width, height });
        self
    }

    /// A frame that the camera takes of it: exposure, white balance, noise and JPEG are drawn anew.
    pub fn frame(&self, random: &mut Random) -> RgbImage {
        let gain = random.uniform(1.0 - EXPOSURE, 1.0 + EXPOSURE);
        let gains = [(); 3].map(|()| gain * random.uniform(1.0 - TINT, 1.0 + TINT));
        let mut frame = self.picture.clone();
        for pixel in frame.pixels_mut() {
            for channel in 0..3 {
                let value = f32::from(pixel[channel]) * gains[channel] + NOISE * random.normal();
                pixel[channel] = value.round().clamp(0.0, 255.0) as u8;
            }
        }
        let mut file = Vec::new();
        JpegEncoder::new_with_quality(&mut file, QUALITY)
            .encode_image(&frame)
            .expect("writing into memory cannot fail");
        image::decode(&file).expect("it was just encoded")
    }

    fn paste(&mut self, thing: &RgbaImage, left: u32, top: u32) {
        for (x, y, pixel) in thing.enumerate_pixels() {
            let (x, y) = (left + x, top + y);
            if x < self.picture.width() && y < self.picture.height() {
                let [red, green, blue, cover] = pixel.0;
                let place = self.picture.get_pixel_mut(x, y);
                place.0 = blended([red, green, blue], place.0, cover);
                let covered = self.cover.get_pixel_mut(x, y);
                covered[0] = covered[0].max(cover);
            }
        }
    }

    /// A frame of it in which all that no thing covers has the colour `fill`: what a perfect comparison with the empty
    /// place would leave.
    pub fn cut_out(&self, frame: &RgbImage, fill: [u8; 3]) -> RgbImage {
        let mut cut_out = frame.clone();
        for (pixel, cover) in cut_out.pixels_mut().zip(self.cover.pixels()) {
            pixel.0 = blended(pixel.0, fill, cover[0]);
        }
        cut_out
    }
}

/// A colour that covers another one so far, 0..255.
fn blended(upper: [u8; 3], lower: [u8; 3], cover: u8) -> [u8; 3] {
    let cover = f32::from(cover) / 255.0;
    std::array::from_fn(|channel| {
        let (upper, lower) = (f32::from(upper[channel]), f32::from(lower[channel]));
        (lower + cover * (upper - lower)).round() as u8
    })
}
