//! What is known of a graph's values while its nodes are gone through in their order.

use std::collections::{HashMap, HashSet};

use super::super::lists::Lists;
use super::axis::BatchAxis;
use crate::model::onnx_proto::NodeProto;

/// Shapes of values for one image, by name.
pub type Shapes = HashMap<String, Vec<u64>>;

/// How the images of a batch pass through a node.
#[derive(Clone, Copy)]
pub struct BatchStep<'a> {
    /// Index of the input that has them.
    pub input: usize,
    /// The input's shape for one image.
    pub from: &'a [u64],
    /// The axis along which the node has to find them in the input, if they lie along another one.
    pub moved: Option<BatchAxis>,
    /// The axis along which they lie in the node's output.
    pub axis: BatchAxis,
    /// The output's shape for one image.
    pub to: &'a [u64],
}

/// What is known of the values that the nodes so far have computed.
pub struct Values<'a> {
    shapes: &'a Shapes,
    lists: &'a Lists,
    /// Along which axis images lie in each value that is computed of them; none where that cannot be told.
    axes: HashMap<&'a str, Option<BatchAxis>>,
    /// Values that are computed of the shapes of such values alone.
    of_shapes: HashSet<&'a str>,
}

impl<'a> Values<'a> {
    /// Before the first node. `images` is the input of one image.
    pub fn new(images: &'a str, shapes: &'a Shapes, lists: &'a Lists) -> Self {
        let axes = HashMap::from([(images, Some(BatchAxis::FIRST))]);
        Self { shapes, lists, axes, of_shapes: HashSet::new() }
    }

    /// A value's shape for one image, if it is known.
    pub fn shape(&self, name: &str) -> Option<&'a [u64]> {
        self.shapes.get(name).map(Vec::as_slice)
    }

    /// Whether a value is computed neither of images nor of their shapes.
    pub fn is_constant(&self, name: &str) -> bool {
        !self.axes.contains_key(name) && !self.of_shapes.contains(name)
    }

    /// Whether a node computes something of images, and not of their shapes alone.
    pub fn is_of_images(&self, node: &NodeProto) -> bool {
        node.op_type != "Shape" && node.input.iter().any(|name| self.axes.contains_key(name.as_str()))
    }

    /// How images pass through a node; none where none do, or that cannot be told.
    pub fn follow(&self, node: &NodeProto) -> Option<BatchStep<'a>> {
        if node.op_type == "Shape" {
            return None;
        }
        let placed = |(input, name): (usize, &String)| Some((input, (*self.axes.get(name.as_str())?)?));
        let (input, before) = node.input.iter().enumerate().find_map(placed)?;
        let (from, to) = (self.shape(&node.input[input])?, self.shape(node.output.first()?)?);
        let follow = |found: BatchAxis| Some((found, found.follow(node, input, from, to, self.lists)?));
        let (found, axis) = before.candidates(from).into_iter().find_map(follow)?;
        Some(BatchStep { input, from, moved: (found != before).then_some(found), axis, to })
    }

    /// Notes what the outputs of a node are computed of.
    pub fn note_outputs(&mut self, node: &'a NodeProto, step: Option<BatchStep<'_>>) {
        let outputs = node.output.iter().map(String::as_str).filter(|output| !output.is_empty());
        if self.is_of_images(node) {
            let axis = step.map(|step| step.axis);
            self.axes.extend(outputs.map(|output| (output, axis)));
        } else if node.input.iter().any(|name| !self.is_constant(name)) {
            self.of_shapes.extend(outputs);
        }
    }
}
