//! Views of a shot: the picture as it is, then random crops with flips and changed colours.

use ::image::{RgbImage, imageops};
use serde::{Deserialize, Serialize};

use crate::image::{Preprocessing, luma};
use orco_core::random::Random;
use orco_state::codec::digest;

/// How the random views are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AugmentedViews {
    /// Smallest share in a crop of the area that the clean view shows.
    pub crop_scale: f32,
    /// Probability of brightness, contrast and saturation jitter.
    pub jitter_probability: f32,
    /// Strength of each jitter: a factor from `1 - s` to `1 + s`.
    pub jitter: f32,
    /// Probability of turning grey.
    pub grey_probability: f32,
}

impl Default for AugmentedViews {
    fn default() -> Self {
        Self { crop_scale: 0.35, jitter_probability: 0.5, jitter: 0.4, grey_probability: 0.1 }
    }
}

impl AugmentedViews {
    /// Whether the values make sense; to be asked after decoding.
    pub fn is_sound(&self) -> bool {
        let shares = [self.jitter_probability, self.jitter, self.grey_probability];
        self.crop_scale > 0.0 && self.crop_scale <= 1.0 && shares.iter().all(|share| (0.0..=1.0).contains(share))
    }

    /// Draws `count` views, the clean one first. The random ones depend on the picture's content and `seed` alone.
    pub fn draw(&self, picture: &RgbImage, input: &Preprocessing, count: usize, seed: u64) -> Vec<RgbImage> {
        let mut views = Vec::with_capacity(count);
        if count > 0 {
            views.push(input.fit(picture));
        }
        // The clean view of a frame must not cost a digest of all its pixels.
        if count <= 1 {
            return views;
        }
        let content = digest(picture.as_raw());
        let content = content[..8].iter().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
        let mut random = Random::new(seed ^ content, "views");
        while views.len() < count {
            views.push(self.random_view(picture, input, &mut random));
        }
        views
    }

    fn random_view(&self, picture: &RgbImage, input: &Preprocessing, random: &mut Random) -> RgbImage {
        let mut view = input.scale(picture, self.random_crop(input.crop(picture), random));
        if random.unit() < 0.5 {
            imageops::flip_horizontal_in_place(&mut view);
        }
        if random.unit() < self.jitter_probability {
            let mut factor = || random.uniform(1.0 - self.jitter, 1.0 + self.jitter);
            let (brightness, contrast, saturation) = (factor(), factor(), factor());
            jitter(&mut view, brightness, contrast, saturation);
        }
        if random.unit() < self.grey_probability {
            jitter(&mut view, 1.0, 1.0, 0.0);
        }
        view
    }

    /// A random crop of what the clean view shows, aspect ratio 3/4..4/3 (log-uniform); both `[x, y, width, height]`.
    fn random_crop(&self, [left, top, width, height]: [u32; 4], random: &mut Random) -> [u32; 4] {
        let area = random.uniform(self.crop_scale, 1.0) * width as f32 * height as f32;
        let ratio = libm::expf(random.uniform(libm::logf(3.0 / 4.0), libm::logf(4.0 / 3.0)));
        let side = |length: f32, limit: u32| (libm::roundf(length) as u32).clamp(1, limit);
        let crop_width = side(libm::sqrtf(area * ratio), width);
        let crop_height = side(libm::sqrtf(area / ratio), height);
        let x = random.below((width - crop_width + 1) as usize) as u32;
        let y = random.below((height - crop_height + 1) as usize) as u32;
        [left + x, top + y, crop_width, crop_height]
    }
}

/// Scales brightness, then the distance from the mean grey (contrast), then that from each pixel's grey (saturation).
fn jitter(view: &mut RgbImage, brightness: f32, contrast: f32, saturation: f32) {
    let bright = |pixel: &::image::Rgb<u8>| pixel.0.map(|value| (f32::from(value) * brightness).min(255.0));
    let pixels = (view.width() * view.height()).max(1) as f32;
    let mean = view.pixels().map(|pixel| luma(bright(pixel))).sum::<f32>() / pixels;
    for pixel in view.pixels_mut() {
        let contrasted = bright(pixel).map(|value| ((value - mean) * contrast + mean).clamp(0.0, 255.0));
        let own = luma(contrasted);
        pixel.0 = contrasted.map(|value| libm::roundf(((value - own) * saturation + own).clamp(0.0, 255.0)) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Look;

    #[test]
    fn views_depend_on_content_and_seed_alone() {
        let input = Preprocessing { width: 16, height: 16, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE };
        let picture = RgbImage::from_fn(40, 30, |x, y| ::image::Rgb([x as u8 * 5, y as u8 * 7, 90]));
        let views = AugmentedViews::default();
        let drawn = views.draw(&picture, &input, 4, 1);
        assert_eq!(drawn, views.draw(&picture.clone(), &input, 4, 1));
        assert_eq!(drawn[0], input.fit(&picture));
        assert_ne!(drawn[1], drawn[2]);
        assert_ne!(drawn, views.draw(&picture, &input, 4, 2));
        assert!(drawn.iter().all(|view| (view.width(), view.height()) == (16, 16)));
    }

    #[test]
    fn no_view_shows_what_the_clean_one_does_not() {
        let input = Preprocessing { width: 16, height: 16, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE };
        // Red beyond the middle square of a wide frame, and of a tall one.
        let red = |is_beyond: bool| ::image::Rgb(if is_beyond { [255, 0, 0] } else { [0, 90, 90] });
        let wide = RgbImage::from_fn(64, 36, |x, _| red(!(14..50).contains(&x)));
        let tall = RgbImage::from_fn(36, 64, |_, y| red(!(14..50).contains(&y)));
        let views = AugmentedViews { jitter_probability: 0.0, grey_probability: 0.0, ..AugmentedViews::default() };
        for picture in [wide, tall] {
            let drawn = views.draw(&picture, &input, 50, 1);
            assert!(drawn.iter().all(|view| view.pixels().all(|pixel| pixel[0] == 0)));
        }
    }
}
