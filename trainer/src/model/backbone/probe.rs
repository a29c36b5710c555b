//! Tries an imported model as devices will run it: a few images of noise through ONNX Runtime, together and
//! alone, and through rten.

use half::f16;
use ndarray::{Array2, Array4, ArrayView1, Axis};
use orco_core::random::Random;
use orco_runtime::encoder::onnx::Onnx;
use orco_runtime::encoder::rten::Rten;
use orco_runtime::encoder::{EncodeError, Encoder};
use orco_runtime::image::Preprocessing;

use super::imported_onnx::are_byte_channels;
use crate::data::dataset::ChannelStatistics;

/// Images that are tried.
const IMAGES: usize = 3;
/// Lowest [likeness] of an image's features computed alone and in a batch, by one engine.
const BATCH_LIKENESS: f64 = 0.999;
/// Lowest cosine between an image's features of both engines. Int8 is rounded differently by each.
const ENGINE_COSINE: f64 = 0.99;

/// Why a model cannot be a backbone.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    /// ONNX Runtime refuses it, or fails.
    #[error(transparent)]
    Engine(#[from] EncodeError),
    /// Its features would mislead a device.
    #[error("{0}")]
    Features(String),
}

/// The length of a model's feature vector.
///
/// # Errors
/// [`ProbeError`] if ONNX Runtime cannot run the model, features are single numbers, too large or not finite, depend on
/// other images of the batch, or differ in rten. That rten cannot run it at all is a warning: devices with ONNX Runtime
/// can.
pub(super) fn probe(model: &[u8], input: &Preprocessing) -> Result<usize, ProbeError> {
    let mut random = Random::new(1, "probe of a backbone");
    let mut images = Array4::<f32>::zeros((IMAGES, 3, input.height as usize, input.width as usize));
    for (mut image, (lowest, highest)) in images.outer_iter_mut().zip(ranges(input)) {
        image.mapv_inplace(|_| random.uniform(lowest, highest));
    }
    let mut onnx = Onnx::open(model, input)?;
    let together = onnx.encode(images.view())?;
    if together.ncols() == 0 {
        return Err(EncodeError::Shape { expected: IMAGES, actual: 0 }.into());
    }
    if together.iter().any(|value| !value.is_finite()) {
        return Err(EncodeError::NotFinite.into());
    }
    let largest = together.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    let limit = f16::MAX.to_f32();
    if largest > limit {
        let reason = format!(
            "features of noise are as large as {largest:.1e}, but devices keep numbers up to {limit}; see that \
             backbone.mean and backbone.deviation are those of its training, or let it divide its features"
        );
        return Err(ProbeError::Features(reason));
    }
    compare_alone(&mut onnx, &images, &together)?;
    // The direction of a single number is its sign.
    if together.ncols() == 1 {
        let reason = "it gives one number for an image, as a classifier of two classes does; devices tell things apart \
             by several: name what its last layer reads by backbone.output";
        return Err(ProbeError::Features(reason.to_owned()));
    }
    compare_rten(model, input, &images, &together)?;
    Ok(together.ncols())
}

/// Refuses a model whose features of an image depend on the rest of its batch.
fn compare_alone(onnx: &mut Onnx, images: &Array4<f32>, together: &Array2<f32>) -> Result<(), ProbeError> {
    let mut alone = Array2::zeros(together.dim());
    for (image, mut row) in images.axis_iter(Axis(0)).zip(alone.rows_mut()) {
        let features = onnx.encode(image.insert_axis(Axis(0)))?;
        if features.len() != row.len() {
            return Err(ProbeError::Features(format!(
                "it gives {} number(s) for an image alone, but {} for each of {IMAGES} together; export it for \
                 a batch of any size, with nothing computed over the batch",
                features.len(),
                row.len()
            )));
        }
        row.assign(&features.row(0));
    }
    let lowest = lowest_of_rows(together, &alone, likeness);
    if lowest < BATCH_LIKENESS {
        return Err(ProbeError::Features(format!(
            "an image's features depend on the other images of its batch (likeness {lowest:.3} to the image alone); \
             export it for inference, with nothing computed over the batch"
        )));
    }
    Ok(())
}

/// Refuses a model of which rten computes other features than ONNX Runtime's `together`; warns of one that rten cannot
/// run.
fn compare_rten(
    model: &[u8],
    input: &Preprocessing,
    images: &Array4<f32>,
    together: &Array2<f32>,
) -> Result<(), ProbeError> {
    match Rten::open(model, input).and_then(|mut rten| rten.encode(images.view())) {
        Err(error) => log::warn!(
            "rten, the engine that every device has, did not run this backbone, so devices need ONNX Runtime for it: {error}"
        ),
        Ok(features) if features.dim() != together.dim() || features.iter().any(|value| !value.is_finite()) => {
            let reason =
                "rten computes features from it that are too few, too many or not finite; ONNX Runtime does not";
            return Err(ProbeError::Features(reason.to_owned()));
        }
        Ok(features) => {
            let lowest = lowest_of_rows(together, &features, cosine);
            if lowest < ENGINE_COSINE {
                return Err(ProbeError::Features(format!(
                    "rten and ONNX Runtime, the engines of devices, compute other features from it (cosine {lowest:.3}); \
                     export it with other operators, quantised models from their float form"
                )));
            }
        }
    }
    Ok(())
}

/// The range of each image's noise: that of bytes if the model takes bytes, since features grow with the input, else
/// about that of normalised pictures. One image is dark and one bright: if all were alike, a mean over the batch would
/// equal the mean of each image and pass unnoticed.
fn ranges(input: &Preprocessing) -> [(f32, f32); IMAGES] {
    let Preprocessing { mean, deviation, .. } = *input;
    let (lowest, highest) =
        if are_byte_channels(ChannelStatistics { mean, deviation }) { (0.0, 255.0) } else { (-1.0, 1.0) };
    let middle = (lowest + highest) / 2.0;
    [(lowest, highest), (lowest, middle), (middle, highest)]
}

/// The lowest `measure` between rows of the same index; 1 for equal rows, also where both are zero.
fn lowest_of_rows(expected: &Array2<f32>, actual: &Array2<f32>, measure: fn(&[f32], &[f32]) -> f64) -> f64 {
    let rows = expected.rows().into_iter().zip(actual.rows());
    let of = |(one, other): (ArrayView1<'_, f32>, ArrayView1<'_, f32>)| {
        if one == other { 1.0 } else { measure(&one.to_vec(), &other.to_vec()) }
    };
    rows.map(of).fold(1.0, f64::min)
}

/// 2ab / (aa + bb): the cosine where both vectors have the same norm, closer to 0 where the norms differ. A cosine
/// would miss a batch that rescales its features, as a norm over the whole batch does.
fn likeness(a: &[f32], b: &[f32]) -> f64 {
    2.0 * dot(a, b) / (dot(a, a) + dot(b, b)).max(f64::MIN_POSITIVE)
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// The cosine between two feature vectors; 0 where one is zero.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use orco_runtime::image::Look;
    use prost::Message;

    use super::*;
    use crate::model::onnx_proto::{
        AttributeProto, DimensionProto, FLOAT, GraphProto, ModelProto, NodeProto, OperatorSetProto, ValueInfoProto,
        int, ints, node,
    };

    fn input(mean: [f32; 3], deviation: [f32; 3]) -> Preprocessing {
        Preprocessing { width: 32, height: 32, mean, deviation, look: Look::WHOLE }
    }

    fn value(name: &str, sides: &[i64]) -> ValueInfoProto {
        let fixed = sides.iter().map(|&side| DimensionProto { dim_value: Some(side), dim_param: None });
        let batch = DimensionProto { dim_value: None, dim_param: Some("batch".into()) };
        let dim = std::iter::once(batch).chain(fixed).collect();
        ValueInfoProto::new(name, FLOAT, dim)
    }

    fn of(operator: &str, inputs: &[&str], output: &str, attributes: Vec<AttributeProto>) -> NodeProto {
        node(operator, inputs.iter().map(|&name| name.into()).collect(), output, attributes)
    }

    /// A model of how far pixels lie above and below the mean over these axes, in the mean.
    fn distances(axes: &[i64]) -> Vec<u8> {
        let nodes = vec![
            of("ReduceMean", &["images"], "mean", vec![ints("axes", axes.to_vec())]),
            of("Sub", &["images", "mean"], "above", vec![]),
            of("Sub", &["mean", "images"], "below", vec![]),
            of("Concat", &["above", "below"], "both", vec![int("axis", 1)]),
            of("Relu", &["both"], "distances", vec![]),
            of("GlobalAveragePool", &["distances"], "features", vec![]),
        ];
        model(nodes, 6)
    }

    /// A model of images of 32 x 32 pixels, with `features` features.
    fn model(nodes: Vec<NodeProto>, features: i64) -> Vec<u8> {
        let graph = GraphProto {
            node: nodes,
            name: "model".into(),
            initializer: vec![],
            input: vec![value("images", &[3, 32, 32])],
            output: vec![value("features", &[features, 1, 1])],
        };
        let opset = OperatorSetProto { domain: String::new(), version: 13 };
        let model =
            ModelProto { ir_version: 8, graph: Some(graph), opset_import: vec![opset], ..ModelProto::default() };
        model.encode_to_vec()
    }

    #[test]
    fn a_mean_over_the_batch_is_noticed() {
        let input = input([0.5; 3], [0.5; 3]);
        assert_eq!(probe(&distances(&[1, 2, 3]), &input).unwrap(), 6);
        let refused = probe(&distances(&[0, 1, 2, 3]), &input).unwrap_err().to_string();
        assert!(refused.starts_with("an image's features depend on the other images of its batch"), "{refused}");
    }

    /// All features are as long as the batch makes them; their cosines are 1.
    #[test]
    fn a_length_over_the_batch_is_noticed() {
        let normalised_over = |axes: &[i64]| {
            let nodes = vec![
                of("GlobalAveragePool", &["images"], "colours", vec![]),
                of("Mul", &["colours", "colours"], "squares", vec![]),
                of("ReduceMean", &["squares"], "mean", vec![ints("axes", axes.to_vec())]),
                of("Sqrt", &["mean"], "length", vec![]),
                of("Div", &["colours", "length"], "features", vec![]),
            ];
            probe(&model(nodes, 3), &input([0.5; 3], [0.5; 3]))
        };
        assert_eq!(normalised_over(&[1, 2, 3]).unwrap(), 3);
        let refused = normalised_over(&[0, 1, 2, 3]).unwrap_err().to_string();
        assert!(refused.starts_with("an image's features depend on the other images of its batch"), "{refused}");
    }

    #[test]
    fn one_vector_for_all_images_together_is_noticed() {
        let nodes = vec![
            of("GlobalAveragePool", &["images"], "colours", vec![]),
            of("ReduceMean", &["colours"], "features", vec![ints("axes", vec![0])]),
        ];
        let refused = probe(&model(nodes, 3), &input([0.5; 3], [0.5; 3])).unwrap_err().to_string();
        assert!(refused.starts_with("it gives 3 number(s) for an image alone, but 1 for each of 3"), "{refused}");
    }

    #[test]
    fn a_single_number_is_no_feature_vector() {
        let nodes = vec![
            of("ReduceMean", &["images"], "grey", vec![ints("axes", vec![1])]),
            of("GlobalAveragePool", &["grey"], "features", vec![]),
        ];
        let refused = probe(&model(nodes, 1), &input([0.5; 3], [0.5; 3])).unwrap_err().to_string();
        assert!(refused.starts_with("it gives one number for an image"), "{refused}");
        assert!(refused.ends_with("by backbone.output"), "{refused}");
    }

    #[test]
    fn what_to_do_about_large_features_is_said() {
        let nodes = vec![
            of("GlobalAveragePool", &["images"], "mean", vec![]),
            of("Mul", &["mean", "mean"], "square", vec![]),
            of("Mul", &["square", "square"], "features", vec![]),
        ];
        // Of bytes.
        let refused = probe(&model(nodes, 3), &input([0.0; 3], [1.0 / 255.0; 3])).unwrap_err().to_string();
        assert!(refused.contains("up to 65504; see that backbone.mean and backbone.deviation"), "{refused}");
    }
}
