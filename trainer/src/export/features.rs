//! Features of images by the encoder that a device would use.

use anyhow::Result;
use orco_runtime::encoder::Encoder;
use orco_runtime::encoder::stream::{BackboneShape, ViewSource, encode_stream};
use orco_runtime::image::{Preprocessing, from_planes};

use crate::data::dataset::Images;
use crate::platform::interrupt;
use crate::run::progress::WorkProgress;

/// Features of the images at `indices`, without augmentation, with progress: f32 `[indices, features]`.
///
/// # Errors
/// If they cannot be computed, or a stop was asked for.
pub(super) fn clean_features(
    encoder: &mut dyn Encoder,
    input: &Preprocessing,
    features: usize,
    images: &Images,
    indices: &[usize],
) -> Result<Vec<f32>> {
    let mut progress = WorkProgress::new("features", "images", indices.len() as u64, 0);
    let mut all = Vec::with_capacity(indices.len() * features);
    let pictures = indices.iter().map(|&index| picture(images, index));
    let views = ViewSource { count: 1, draw: |picture: &_| vec![input.fit(picture)] };
    encode_stream(encoder, BackboneShape { input, features }, pictures, views, |row| {
        interrupt::check()?;
        all.extend(row);
        progress.advance(1, "");
        anyhow::Ok(())
    })?;
    progress.finish();
    Ok(all)
}

/// The image at an index.
pub(super) fn picture(images: &Images, index: usize) -> image::RgbImage {
    let planes = Vec::<u8>::try_from(images.pixels.get(index as i64).contiguous().view(-1)).expect("u8 tensor");
    let size = images.pixels.size();
    from_planes(size[3] as u32, size[2] as u32, &planes)
}
