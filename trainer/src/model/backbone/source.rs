//! Where features come from, and the parts of an image over which they are averaged.

use orco_runtime::encoder::EncodeError;
use orco_runtime::image::{Look, Preprocessing};
use tch::{Kind, Tensor};

/// Computes features of images.
pub trait FeatureSource {
    /// Computes features.
    ///
    /// # Shapes
    /// `images` f32 `[n, 3, h, w]` in 0..1; returns f32 `[n, features]` on the same device.
    /// # Errors
    /// [`EncodeError`] if an engine outside this program fails.
    fn features(&mut self, images: &Tensor) -> Result<Tensor, EncodeError>;
}

/// A source whose features are the weighted means over the parts of an image that a look has.
pub struct LookingSource<'a> {
    /// Computes those of a part.
    pub once: Box<dyn FeatureSource + 'a>,
    /// The look.
    pub look: Look,
    /// Height and width of the backbone's input.
    pub input: [i64; 2],
}

impl FeatureSource for LookingSource<'_> {
    fn features(&mut self, images: &Tensor) -> Result<Tensor, EncodeError> {
        let parts = parts(images, self.look, self.input);
        let features = parts.iter().map(|part| self.once.features(part)).collect::<Result<Vec<_>, _>>()?;
        let weighted = features.iter().zip(self.look.parts()).map(|(rows, part)| rows * f64::from(part.weight));
        Ok(weighted.sum::<Tensor>() / f64::from(self.look.total_weight()))
    }
}

/// The parts that a look has of the middle of images, each scaled to the backbone's input, as [`Preprocessing::fit`]
/// and [`Preprocessing::append_planes`] do with a picture.
///
/// # Shapes
/// `images` f32 `[n, 3, h, w]`; returns as many `[n, 3, height, width]` as there are parts.
pub fn parts(images: &Tensor, look: Look, [height, width]: [i64; 2]) -> Vec<Tensor> {
    let images = middle(images, [height, width]);
    let size = images.size();
    let spans = |side: i64| look.spans(side as u32).map(|span| span.map(i64::from)).collect::<Vec<_>>();
    let both = spans(size[2]).into_iter().zip(spans(size[3]));
    let part = |([y, rows], [x, columns]): ([i64; 2], [i64; 2])| {
        scaled(&images.narrow(2, y, rows).narrow(3, x, columns), [height, width])
    };
    both.map(part).collect()
}

/// Images of another size, f32.
fn scaled(images: &Tensor, [height, width]: [i64; 2]) -> Tensor {
    if images.size()[2..] == [height, width] {
        return images.to_kind(Kind::Float);
    }
    images.internal_upsample_bilinear2d_aa([height, width], false, None, None)
}

/// The largest centred part with the input's aspect ratio, scaled to its size, as [`Preprocessing::fit`] does with a
/// picture.
///
/// # Shapes
/// `images` f32 `[n, 3, h, w]`; returns f32 `[n, 3, input.height, input.width]`.
pub(super) fn fit(images: &Tensor, input: &Preprocessing) -> Tensor {
    let wanted = [input.height, input.width].map(i64::from);
    scaled(&middle(images, wanted), wanted)
}

/// The largest centred part with this proportion of height to width.
fn middle(images: &Tensor, [wanted_height, wanted_width]: [i64; 2]) -> Tensor {
    let (height, width) = (images.size()[2], images.size()[3]);
    let crop_width = width.min(height * wanted_width / wanted_height).max(1);
    let crop_height = height.min(width * wanted_height / wanted_width).max(1);
    let part = images.narrow(2, (height - crop_height) / 2, crop_height);
    part.narrow(3, (width - crop_width) / 2, crop_width)
}

#[cfg(test)]
mod tests {
    use orco_runtime::image::LookPart;

    use super::*;

    /// Features that are the image's mean colours.
    struct MeanColours;

    impl FeatureSource for MeanColours {
        fn features(&mut self, images: &Tensor) -> Result<Tensor, EncodeError> {
            assert_eq!(images.size()[2..], [24, 24]);
            Ok(images.mean_dim([2i64, 3].as_slice(), false, Kind::Float))
        }
    }

    #[test]
    fn a_look_at_images_is_that_of_the_runtime_at_pictures() {
        let half = LookPart { side: 0.5, weight: 0.5 };
        let look = Look::weighted(&[LookPart::WHOLE, LookPart { side: 0.75, weight: 1.0 }, half]).unwrap();
        let input = Preprocessing { width: 24, height: 24, mean: [0.0; 3], deviation: [1.0; 3], look };
        let [side, _] = input.canvas();
        let bytes: Vec<u8> = (0..3 * side * side).map(|at| (at * at / 7 % 251) as u8).collect();
        let mut planes = Vec::new();
        input.append_planes(&orco_runtime::image::from_planes(side, side, &bytes), &mut planes);
        let expected = Tensor::from_slice(&planes).view([3, 3, 24, 24]);
        let images = Tensor::from_slice(&bytes).view([1, 3, i64::from(side), i64::from(side)]) / 255.0;
        let parts = Tensor::cat(&parts(&images, look, [24, 24]), 0);
        // Pictures are rounded to bytes where they are scaled.
        assert!((&parts - &expected).abs().max().double_value(&[]) < 1.1 / 255.0);
        let features = LookingSource { once: Box::new(MeanColours), look, input: [24, 24] }.features(&images).unwrap();
        let colours = expected.mean_dim([2i64, 3].as_slice(), false, Kind::Float);
        let means: Tensor = (colours.get(0) + colours.get(1) + colours.get(2) * 0.5) / 2.5;
        assert!((features - means).abs().max().double_value(&[]) < 1e-3);
    }

    #[test]
    fn a_look_of_a_rectangle_at_square_images_squeezes_nothing() {
        let look = Look::new(&[1.0, 0.5]).unwrap();
        let input = Preprocessing { width: 40, height: 24, mean: [0.0; 3], deviation: [1.0; 3], look };
        let bytes: Vec<u8> = (0..3 * 80 * 80).map(|at| (at * at / 7 % 251) as u8).collect();
        let mut planes = Vec::new();
        input.append_planes(&input.fit(&orco_runtime::image::from_planes(80, 80, &bytes)), &mut planes);
        let expected = Tensor::from_slice(&planes).view([2, 3, 24, 40]);
        let images = Tensor::from_slice(&bytes).view([1, 3, 80, 80]) / 255.0;
        let parts = Tensor::cat(&parts(&images, look, [24, 40]), 0);
        // Pictures are rounded to bytes where they are scaled.
        assert!((&parts - &expected).abs().max().double_value(&[]) < 1.1 / 255.0);
    }
}
