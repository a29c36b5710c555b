//! Bounds the cost of a backbone before an engine sees it: the walk, then shape inference for the batches that the
//! engine will get, and again before each batch of another size. So the work of an engine is summed up before it opens
//! a model, and before it runs one.

#[cfg(feature = "onnx")]
use std::collections::HashMap;
use std::sync::Arc;

use super::graph::Graph;
pub use super::inference::Inference;
use super::inference::infer;
#[cfg(feature = "onnx")]
use super::inference::{infer_before_folding, infer_types_before_folding};
#[cfg(feature = "onnx")]
use super::tensor::DataType;
use super::{AuditError, audit, audit_layers};
use crate::encoder::{EncodeError, batch_size, check_input};
use crate::image::Preprocessing;

/// A model whose cost is known, for batches of some sizes.
#[derive(Clone)]
pub struct Bounds {
    graph: Arc<Graph>,
    admitted: Vec<Vec<usize>>,
}

impl Bounds {
    /// Looks through a model and infers what it costs for one picture, and for as many as are encoded together.
    ///
    /// # Errors
    /// [`EncodeError::Refused`] names what is refused, [`EncodeError::Input`] says that it takes other pictures.
    pub fn of(model: &[u8], input: &Preprocessing) -> Result<Self, EncodeError> {
        audit(model).map_err(EncodeError::Refused)?;
        let graph = Graph::read(model).map_err(EncodeError::Refused)?;
        let declared: Option<Vec<Option<usize>>> = graph.declared.as_ref().map(|shape| {
            let length = |side: &Option<u64>| side.and_then(|side| usize::try_from(side).ok());
            shape.iter().map(length).collect()
        });
        let declared = declared.unwrap_or_default();
        check_input(&declared, input)?;
        let batches = match declared.first() {
            // No other batch gets past the engine.
            Some(Some(pictures)) if declared.len() == 4 => vec![*pictures],
            _ => vec![1, batch_size(input)],
        };
        let mut bounds = Self { graph: Arc::new(graph), admitted: Vec::new() };
        for pictures in batches {
            bounds.admit(&[pictures, 3, input.height as usize, input.width as usize])?;
        }
        Ok(bounds)
    }

    /// What the model makes of images `[images, 3, height, width]`, and what it costs.
    ///
    /// # Errors
    /// [`AuditError`] names the node whose shape cannot be inferred, or that exceeds a limit.
    pub fn infer(&self, images: &[usize]) -> Result<Inference, AuditError> {
        infer(&self.graph, &images.iter().map(|&side| side as u64).collect::<Vec<_>>())
    }

    /// Makes sure that the engine may be given images of this shape.
    ///
    /// # Errors
    /// [`EncodeError::Refused`] as [`Self::infer`].
    pub fn admit(&mut self, images: &[usize]) -> Result<(), EncodeError> {
        if self.admitted.iter().all(|admitted| admitted != images) {
            self.infer(images).map_err(EncodeError::Refused)?;
            self.admitted.push(images.to_vec());
        }
        Ok(())
    }
}

/// Looks through a model whose constants are going to be folded, and infers what it costs for one image of the shape
/// that it declares.
///
/// # Errors
/// [`AuditError`] names what is refused.
#[cfg(feature = "onnx")]
pub fn check_unfolded(model: &[u8]) -> Result<Inference, AuditError> {
    super::audit_unfolded(model)?;
    let graph = Graph::read(model)?;
    infer_before_folding(&graph, &declared_shape(&graph)?)
}

/// Whole numbers that a node of a model makes whatever the pictures and however many: constants that can be folded.
#[cfg(feature = "onnx")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstantIntegers {
    /// The sides of the tensor.
    pub shape: Vec<u64>,
    /// Its numbers, row-major, of 64 bits.
    pub numbers: Vec<i64>,
}

/// Looks through a model whose constants are going to be folded, and infers which of its values are few whole numbers
/// that depend on no picture: sides, and what is computed of them. By name.
///
/// # Errors
/// [`AuditError`] names what is refused.
#[cfg(feature = "onnx")]
pub fn constant_integers(model: &[u8]) -> Result<HashMap<String, ConstantIntegers>, AuditError> {
    super::audit_unfolded(model)?;
    let (graph, names) = Graph::read_with_names(model)?;
    let one = declared_shape(&graph)?;
    infer_before_folding(&graph, &one)?;
    let mut two = one.clone();
    two.iter_mut().take(1).for_each(|pictures| *pictures *= 2);
    // What is the same for one picture and for two does not come from their number.
    let [of_one, of_two] = [infer_types_before_folding(&graph, &one)?, infer_types_before_folding(&graph, &two)?];
    let constant = |(name, index): (&[u8], u32)| {
        let (tensor, other) = (of_one[index as usize].as_ref()?, of_two[index as usize].as_ref()?);
        let is_same = tensor.shape == other.shape && tensor.values == other.values;
        let numbers = tensor.values.clone().filter(|_| is_same && tensor.data_type == DataType::INT64)?;
        Some((str::from_utf8(name).ok()?.to_owned(), ConstantIntegers { shape: tensor.shape.clone(), numbers }))
    };
    Ok(names.iter().filter_map(constant).collect())
}

/// Looks through a model whose constants are going to be folded, and infers the shapes of its values for one image of
/// the shape that it declares. By name.
///
/// # Errors
/// [`AuditError`] names what is refused.
#[cfg(feature = "onnx")]
pub fn shapes_of_values(model: &[u8]) -> Result<HashMap<String, Vec<u64>>, AuditError> {
    super::audit_unfolded(model)?;
    let (graph, names) = Graph::read_with_names(model)?;
    let tensors = infer_types_before_folding(&graph, &declared_shape(&graph)?)?;
    let shape = |(name, index): (&[u8], u32)| {
        let tensor = tensors[index as usize].as_ref()?;
        Some((str::from_utf8(name).ok()?.to_owned(), tensor.shape.clone()))
    };
    Ok(names.iter().filter_map(shape).collect())
}

/// Looks through a model as [`audit_layers`] does, and infers what it costs for one image of the shape that it
/// declares. One with other operators, or whose shapes cannot be inferred, is perhaps worth folding
/// ([`fold_constants`](crate::encoder::onnx::fold_constants)).
///
/// # Errors
/// [`AuditError`] names what is refused.
pub fn check_declared(model: &[u8]) -> Result<Inference, AuditError> {
    audit_layers(model)?;
    let graph = Graph::read(model)?;
    infer(&graph, &declared_shape(&graph)?)
}

/// The shape of one image that a model declares.
fn declared_shape(graph: &Graph) -> Result<Vec<u64>, AuditError> {
    let open = || AuditError::Damaged { part: "declaration of its input's shape" };
    let declared = graph.declared.as_deref().ok_or_else(open)?;
    let shape = declared.iter().enumerate().map(|(axis, side)| side.or((axis == 0).then_some(1)));
    shape.collect::<Option<Vec<u64>>>().ok_or_else(open)
}
