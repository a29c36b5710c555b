//! The backbone in rten, an ONNX engine in pure Rust: a part of the program, which starts at once.

use std::mem;

use ndarray::{Array2, ArrayView4};
use rten::{Dimension, Model};
use rten_tensor::AsView;
use rten_tensor::NdTensorView;
use rten_tensor::Tensor;

use super::audit::audit;
use super::{EncodeError, Encoder, check_input, rows};
use crate::image::Preprocessing;

/// A backbone in rten.
pub struct Rten {
    model: Model,
}

impl Rten {
    /// Loads a model from its bytes, after [`audit`] has looked through them.
    ///
    /// # Errors
    /// [`EncodeError::Refused`] if it is suspicious, [`EncodeError::Model`] if rten refuses it,
    /// [`EncodeError::Input`] if it takes other pictures.
    pub fn open(model: &[u8], input: &Preprocessing) -> Result<Self, EncodeError> {
        audit(model).map_err(EncodeError::Refused)?;
        need_pool()?;
        let model = Model::load(model.to_vec()).map_err(|error| EncodeError::Model(error.to_string()))?;
        if let Some(shape) = model.input_shape(0) {
            let fixed = |size: &Dimension| match size {
                Dimension::Fixed(size) => Some(*size),
                Dimension::Symbolic(_) => None,
            };
            check_input(&shape.iter().map(fixed).collect::<Vec<_>>(), input)?;
        }
        Ok(Self { model })
    }
}

impl Encoder for Rten {
    fn engine(&self) -> String {
        String::from("rten (pure Rust)")
    }

    fn encode(&mut self, images: ArrayView4<'_, f32>) -> Result<Array2<f32>, EncodeError> {
        need_pool()?;
        let images = images.as_standard_layout();
        let view = NdTensorView::from_data(images.dim().into(), images.as_slice().expect("the standard layout"));
        let output = self.model.run_one(view.into(), None).map_err(|error| EncodeError::Run(error.to_string()))?;
        let features: Tensor<f32> =
            output.try_into().map_err(|_| EncodeError::Run(String::from("the output is no f32 tensor")))?;
        rows(images.dim().0, features.to_vec())
    }
}

/// Makes sure that rten finds a pool of threads. Where its own could not be started, because the process may have no
/// more threads, it would ask rayon for one, which panics; then the calling thread becomes a pool of its own, once.
fn need_pool() -> Result<(), EncodeError> {
    let inside = || rayon::current_thread_index().is_some();
    if rten::thread_pool().run(inside) || inside() {
        return Ok(());
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
    let pool = pool.map_err(|error| EncodeError::Start(std::format!("rten needs threads: {error}")))?;
    // The thread belongs to the pool until it ends.
    mem::forget(pool);
    log::warn!("rten cannot start threads, so it computes on one: the process may have no more");
    Ok(())
}
