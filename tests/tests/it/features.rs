//! Features of many pictures, computed by engines side by side, are bit for bit those of one picture after the other.

use std::path::Path;

use ndarray::ArrayView2;
use orco_runtime::bundle::Bundle;
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::encoder::rten::Rten;
use orco_runtime::encoder::stream::{BackboneShape, ViewSource, encode_stream};
use orco_runtime::encoder::{EncodeError, Encoder};
use orco_runtime::image::from_planes;

const PICTURES: u32 = 37;
const SIDE: u32 = 40;

fn pictures() -> impl Iterator<Item = image::RgbImage> {
    let plane = |picture: u32, at: u32| ((at * 7 + at / SIDE * 13 + picture * 29) % 251) as u8;
    (0..PICTURES).map(move |picture| {
        let planes: Vec<u8> = (0..3 * SIDE * SIDE).map(|at| plane(picture, at)).collect();
        from_planes(SIDE, SIDE, &planes)
    })
}

fn streamed(bundle: &Bundle, encoder: &mut dyn Encoder, views: usize) -> Vec<f32> {
    let shape = BackboneShape { input: &bundle.manifest.preprocessing, features: bundle.base_model.head.inputs };
    let views = ViewSource { count: views, draw: |picture: &_| bundle.views(picture, views) };
    let mut rows = Vec::new();
    let each = |features: ArrayView2<'_, f32>| {
        rows.extend(features.iter());
        Ok::<(), EncodeError>(())
    };
    encode_stream(encoder, shape, pictures(), views, each).unwrap();
    rows
}

#[test]
fn features_of_a_stream_are_those_of_each_picture() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    for name in ["cifar100-edge", "cifar100-small"] {
        let bundle = Bundle::open(models.join(name)).unwrap();
        let (model, input) = (&bundle.backbone, &bundle.manifest.preprocessing);
        let mut alone = Onnx::open(model, input).unwrap();
        let mut rten = Rten::open(model, input).unwrap();
        for views in [1, 3] {
            let one_by_one = |encoder: &mut dyn Encoder| -> Vec<f32> {
                pictures().flat_map(|picture| bundle.features(encoder, &picture, views).unwrap()).collect()
            };
            let expected = one_by_one(&mut alone);
            assert_eq!(expected.len(), PICTURES as usize * views * bundle.base_model.head.inputs);
            assert!(streamed(&bundle, &mut Onnx::pool(model, input).unwrap(), views) == expected, "{name}, {views}");
            assert!(streamed(&bundle, &mut alone, views) == expected, "{name}, {views}: an engine without members");
            let expected = one_by_one(&mut rten);
            let rows = streamed(&bundle, &mut rten, views);
            let deviation = rows.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(rows.len() == expected.len() && deviation < 1e-4, "{name}, {views}: rten by {deviation:e}");
        }
    }
}
