//! The frozen backbone f, on the engines that run it: a batch of images becomes a batch of feature vectors, which are
//! the model's first output.
//!
//! - [`engine_choice`] names the engines, chooses one for the work ahead and opens a backbone in it. A further engine
//!   is a variant there, and a file with an [`Encoder`] beside `rten.rs` and `onnx.rs`.
//! - `library` finds ONNX Runtime's shared library, `telemetry` keeps its telemetry off; other engines need neither.
//! - [`audit`] refuses a model that could do harm in an engine. `time_limit` stops waiting for an engine that opens one
//!   for too long.
//! - [`stream`] has engines compute side by side.

pub mod audit;
pub mod engine_choice;
#[cfg(feature = "onnx")]
pub mod library;
#[cfg(feature = "onnx")]
pub mod onnx;
#[cfg(feature = "rten")]
pub mod rten;
pub mod stream;
#[cfg(feature = "onnx")]
pub mod telemetry;
#[cfg(any(feature = "onnx", feature = "rten"))]
pub mod time_limit;

use ::image::RgbImage;
use ndarray::{Array2, Array4, ArrayView4, Axis, s};

use crate::image::Preprocessing;

/// Computes features of images.
pub trait Encoder: Send {
    /// Name and version of the engine, for people.
    fn engine(&self) -> String;

    /// Computes features.
    ///
    /// # Shapes
    /// `images` `[images, 3, height, width]`, normalised; returns `[images, features]`.
    /// # Errors
    /// [`EncodeError`] if the engine fails.
    fn encode(&mut self, images: ArrayView4<'_, f32>) -> Result<Array2<f32>, EncodeError>;

    /// The engines of a pool, which may compute side by side; none for a single engine.
    fn members(&mut self) -> &mut [Box<dyn Encoder>] {
        &mut []
    }
}

/// Why features could not be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The engine could not be started; what it said.
    #[error("the ONNX engine could not be started: {0}")]
    Start(String),
    /// The model is refused before any engine sees it.
    #[error("the backbone is refused")]
    Refused(#[source] audit::AuditError),
    /// The engine does not take the model; what it said.
    #[error("the ONNX engine does not accept the backbone: {0}")]
    Model(String),
    /// The model takes other pictures than the bundle's preprocessing makes: planes, height and width, where it names
    /// them.
    #[error(
        "the backbone takes {} planes of {} x {} pixels, but the bundle's preprocessing makes {} of {} x {}",
        in_words(model[0]), in_words(model[2]), in_words(model[1]), given[0], given[2], given[1]
    )]
    Input {
        /// What the model takes.
        model: [Option<usize>; 3],
        /// What it would get.
        given: [usize; 3],
    },
    /// The engine was still opening the model when its time was up.
    #[error("the ONNX engine was still opening a backbone after {seconds} seconds, which is all it may take")]
    Slow {
        /// The time that it had.
        seconds: u64,
    },
    /// An engine still opens a model that took too long; no other is opened meanwhile.
    #[error("the ONNX engine is still opening an earlier backbone, which took too long; try again later")]
    Busy,
    /// The process was forked from one in which the engine computes; the engine's threads are not there.
    #[error(
        "the backbone cannot run in a process that was forked after it began to compute; start a new process instead \
         (in Python, by multiprocessing's \"spawn\" or \"forkserver\")"
    )]
    Forked,
    /// The picture has no pixels.
    #[error("the picture has no pixels")]
    NoPixels,
    /// The engine failed on a batch; what it said.
    #[error("the backbone failed on an image: {0}")]
    Run(String),
    /// The backbone does not return the features that the bundle declares.
    #[error("the backbone returned {actual} numbers where the bundle declares {expected}")]
    Shape {
        /// Numbers expected for a batch.
        expected: usize,
        /// Numbers returned.
        actual: usize,
    },
    /// The backbone returned something infinite or not a number.
    #[error("the backbone returned features that are not finite")]
    NotFinite,
}

/// A size in words: `any` for one that the model leaves open.
fn in_words(size: Option<usize>) -> String {
    size.map_or_else(|| "any".to_owned(), |size| size.to_string())
}

/// Computes features of [fitted](Preprocessing::fit) pictures, in batches of at most [`batch_size`] images. The look
/// may give a picture several parts, each of them an image; the picture's features are their weighted mean.
///
/// # Shapes
/// Returns `[pictures, features]`, finite.
/// # Errors
/// [`EncodeError`] if the engine fails or returns something else.
pub fn encode_pictures(
    encoder: &mut dyn Encoder,
    input: &Preprocessing,
    features: usize,
    pictures: &[RgbImage],
) -> Result<Array2<f32>, EncodeError> {
    let batch = pictures_at_once(input, 1);
    let mut encoded = Array2::zeros((pictures.len(), features));
    for (number, pictures) in pictures.chunks(batch).enumerate() {
        let rows = encode_parts(encoder, input, features, to_planes(input, pictures).view())?;
        encoded.slice_mut(s![number * batch..number * batch + pictures.len(), ..]).assign(&rows);
    }
    Ok(encoded)
}

/// The most images that go through an engine together.
pub fn batch_size(input: &Preprocessing) -> usize {
    const BATCH_BYTES: usize = 4 << 20;
    (BATCH_BYTES / (3 * size_of::<f32>() * input.height as usize * input.width as usize)).max(1)
}

/// The number of pictures that go through an engine together, with `views` views each.
fn pictures_at_once(input: &Preprocessing, views: usize) -> usize {
    (batch_size(input) / (views.max(1) * input.look.parts().len())).max(1)
}

/// Fitted pictures as an engine takes them: normalised planes of all parts, picture after picture.
///
/// # Shapes
/// Returns `[pictures * parts, 3, height, width]`, for [`Encoder::encode`].
/// # Panics
/// If a picture was not [fitted](Preprocessing::fit).
pub fn to_planes(input: &Preprocessing, pictures: &[RgbImage]) -> Array4<f32> {
    let (height, width) = (input.height as usize, input.width as usize);
    let images = pictures.len() * input.look.parts().len();
    let mut planes = Vec::with_capacity(images * 3 * height * width);
    pictures.iter().for_each(|picture| input.append_planes(picture, &mut planes));
    Array4::from_shape_vec((images, 3, height, width), planes).expect("planes of every part of every picture")
}

/// Computes features of pictures from the planes of all their parts.
///
/// # Shapes
/// `images` `[pictures * parts, 3, height, width]`; returns `[pictures, features]`, finite.
fn encode_parts(
    encoder: &mut dyn Encoder,
    input: &Preprocessing,
    features: usize,
    images: ArrayView4<'_, f32>,
) -> Result<Array2<f32>, EncodeError> {
    let rows = encode_planes(encoder, input, features, images)?;
    if input.look.is_whole() {
        return Ok(rows);
    }
    let (parts, total) = (input.look.parts(), input.look.total_weight());
    let mut means = Array2::zeros((rows.nrows() / parts.len(), features));
    for (rows, mut mean) in rows.axis_chunks_iter(Axis(0), parts.len()).zip(means.rows_mut()) {
        rows.rows().into_iter().zip(parts).for_each(|(row, part)| mean.scaled_add(part.weight, &row));
        mean /= total;
    }
    Ok(means)
}

/// Computes features of normalised images, in batches of bounded size.
///
/// # Shapes
/// `images` `[images, 3, height, width]`; returns `[images, features]`, finite.
/// # Errors
/// [`EncodeError`] if the engine fails or returns something else.
pub fn encode_planes(
    encoder: &mut dyn Encoder,
    input: &Preprocessing,
    features: usize,
    images: ArrayView4<'_, f32>,
) -> Result<Array2<f32>, EncodeError> {
    let batch = batch_size(input);
    let mut encoded = Array2::zeros((images.dim().0, features));
    for (number, images) in images.axis_chunks_iter(Axis(0), batch).enumerate() {
        let count = images.dim().0;
        let rows = encoder.encode(images)?;
        if rows.dim() != (count, features) {
            return Err(EncodeError::Shape { expected: count * features, actual: rows.len() });
        }
        if rows.iter().any(|value| !value.is_finite()) {
            return Err(EncodeError::NotFinite);
        }
        encoded.slice_mut(s![number * batch..number * batch + count, ..]).assign(&rows);
    }
    Ok(encoded)
}

/// What an engine returned, as a row for each image.
#[cfg(any(feature = "onnx", feature = "rten"))]
fn rows(images: usize, numbers: Vec<f32>) -> Result<Array2<f32>, EncodeError> {
    let (features, actual) = (numbers.len() / images.max(1), numbers.len());
    Array2::from_shape_vec((images, features), numbers)
        .map_err(|_| EncodeError::Shape { expected: images * features, actual })
}

/// Compares the sizes `[batch, planes, height, width]` of a model's input with what it would get; a size that the model
/// leaves open is `None`.
fn check_input(sizes: &[Option<usize>], input: &Preprocessing) -> Result<(), EncodeError> {
    let given = [3, input.height as usize, input.width as usize];
    // An input of another rank is left to the engine.
    let &[_, planes, height, width] = sizes else { return Ok(()) };
    let model = [planes, height, width];
    let fits = model.iter().zip(given).all(|(size, given)| size.is_none_or(|size| size == given));
    if fits { Ok(()) } else { Err(EncodeError::Input { model, given }) }
}
