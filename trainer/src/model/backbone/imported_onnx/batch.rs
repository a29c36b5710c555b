//! Opens the batch of a model that was exported for one image, whose exporter wrote that one into shapes and constants.
//!
//! | file | step |
//! |---|---|
//! | `gather` | before all: gathers that only reshape become reshapes |
//! | `axis` | follows the batch through a node: along which axis of a value images lie ([`axis::BatchAxis`]) |
//! | `values` | what is known of all values, by that: computed of images, of their shapes, or constant |
//! | `opened_graph` | the graph that takes any number of images, as far as it is made |
//! | `shapes` | shapes in which the batch is written get it open |
//! | `constants` | constants that have a row for the image get one for each |

mod axis;
mod constants;
mod gather;
mod opened_graph;
mod shapes;
#[cfg(test)]
mod tests;
mod values;

use orco_runtime::encoder::audit::bounds::shapes_of_values;
use prost::{DecodeError, Message};

use self::opened_graph::OpenedGraph;
use self::values::{BatchStep, Values};
use super::lists::Lists;
use super::parts::{GraphParts, ModelParts, NodeParts, Replacement, replace};
use crate::model::onnx_proto::{DimensionProto, NodeProto, ValueInfoProto};

/// At most so many constants are repeated for each image.
const MOST_REPEATED: usize = 64;

impl GraphParts {
    /// Where the input takes exactly one image, lets it take any number: shapes have as many rows as there are images,
    /// and class tokens and masks of windows are repeated for each. Returns whether it did. Nodes must be in order.
    /// Results for one image do not change. A layer that still assumes one image has no shapes for two, or mixes them;
    /// the model is refused for that later.
    pub(super) fn open_batch(&mut self, model: &ModelParts) -> Result<bool, DecodeError> {
        let Some(images) = self.input_of_one_image()? else { return Ok(false) };
        let model = ModelParts { graph: Some(self.clone()), ..model.clone() };
        // Where they cannot be inferred, two images do not fit, for which the model is refused later.
        let shapes = shapes_of_values(&model.encode_to_vec()).unwrap_or_default();
        drop(model);
        self.reshape_ordered_gathers(&shapes)?;
        let nodes = self.nodes()?;
        let lists = self.lists(&nodes)?;
        let mut values = Values::new(&images, &shapes, &lists);
        let mut opened = OpenedGraph::default();
        for (bytes, node) in self.node.iter().zip(&nodes) {
            let mut parts = NodeParts::decode(bytes.as_slice())?;
            let step = values.follow(node);
            if let Some(step) = step {
                opened.move_batch(node, &mut parts, step);
                opened.open_shape(node, &mut parts, step, &lists);
                opened.repeat_constants(node, &mut parts, step, &values);
            }
            let is_too_much = opened.repeated > MOST_REPEATED;
            if values.is_of_images(node) && (is_too_much || mixes_images(node, step, &lists)) {
                return Ok(false);
            }
            values.note_outputs(node, step);
            opened.nodes.push(parts.encode_to_vec());
        }
        opened.replace_nodes_of(self, &images);
        replace(&mut self.input, |bytes| with_open_batch(bytes, |name| name == images))?;
        replace(&mut self.output, |bytes| with_open_batch(bytes, |_| true))?;
        // They speak of one image.
        self.value_info.clear();
        log::info!("the backbone takes one image at a time; it is made to take any number");
        Ok(true)
    }

    /// The name of the input that takes exactly one image.
    fn input_of_one_image(&self) -> Result<Option<String>, DecodeError> {
        let weights = self.weights()?;
        let inputs = self.input.iter().map(|bytes| ValueInfoProto::decode(bytes.as_slice()));
        let takes_one = |value: &ValueInfoProto| {
            value.sizes().is_some_and(|sizes| matches!(sizes[..], [Some(1), _, _, _])) && !weights.contains(&value.name)
        };
        Ok(inputs.collect::<Result<Vec<_>, _>>()?.into_iter().find(takes_one).map(|value| value.name))
    }
}

/// Whether a node would not make of each of several images what it makes of one: broadcasting may hide that later.
fn mixes_images(node: &NodeProto, step: Option<BatchStep<'_>>, lists: &Lists) -> bool {
    let list = |input: usize| node.input.get(input).and_then(|name| lists.get(name));
    match node.op_type.as_str() {
        "Reshape" => step.is_none() && list(1).is_some_and(|shape| shape.first() == Some(&1)),
        "Resize" if node.named("axes").is_some() => list(3).is_some_and(|sizes| sizes.first() == Some(&1)),
        "Resize" => list(3).is_some() && step.is_none_or(|step| step.to[step.axis.index] != 1),
        _ => false,
    }
}

/// A value of floats whose first axis has the length 1, with that left open; none where it is another one.
fn with_open_batch(bytes: &[u8], is_meant: impl Fn(&str) -> bool) -> Replacement {
    let mut value = ValueInfoProto::decode(bytes)?;
    let is_one = value.sizes().is_some_and(|sizes| sizes.first() == Some(&Some(1)));
    if !is_one || !is_meant(&value.name) {
        return Ok(None);
    }
    let tensor = value.r#type.as_mut().and_then(|kind| kind.tensor_type.as_mut());
    if let Some(first) = tensor.and_then(|tensor| tensor.shape.as_mut()).and_then(|shape| shape.dim.first_mut()) {
        *first = DimensionProto { dim_value: None, dim_param: None };
    }
    Ok(Some(value.encode_to_vec()))
}
