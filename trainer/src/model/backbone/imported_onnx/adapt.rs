//! Leads an imported model through all passes, in the order in which [`super`] lists them.

use orco_runtime::encoder::audit::{AuditError, audit_layers};
use prost::bytes::Bytes;
use prost::{DecodeError, Message};

use super::outputs::names;
use super::parts::{GraphParts, ModelParts, unreadable};
use crate::config::Pooling;
use crate::model::onnx_proto::ValueInfoProto;

/// What a model is made to take and to give.
#[derive(Clone, Copy)]
pub struct Adaptation<'a> {
    /// Sides of its images, where the model leaves them open.
    pub side: u32,
    /// Which of its outputs, or of the values inside it, gives features.
    pub output: Option<&'a str>,
    /// How one vector is made of them.
    pub pool: Option<Pooling>,
}

/// An adapted model.
pub struct AdaptedModel {
    pub model: Vec<u8>,
    /// Whether its images are bytes, which it normalises itself.
    pub takes_bytes: bool,
    /// Whether it was exported for one image at a time.
    pub took_one: bool,
}

/// The model in f32, made of operators that both engines have, with images of a fixed size and channels first, without
/// inputs, nodes and weights that nothing reads, and with the chosen value for its only output, pooled if wished. What
/// is no model at all, or is refused for more than a node, stays as it is.
///
/// # Errors
/// A sentence if there is no such value, or it cannot be pooled in this way, or the model computes of bytes.
pub fn adapt(model: Vec<u8>, wanted: Adaptation<'_>) -> Result<AdaptedModel, String> {
    // Writing it anew would drop functions and other fields for which the audit refuses it. Operators and graphs inside
    // a node stay, unless no output needs them.
    let is_of_node = |error: &AuditError| matches!(error, AuditError::Operator { .. } | AuditError::Subgraph { .. });
    if audit_layers(&model).is_err_and(|error| !is_of_node(&error)) {
        return Ok(AdaptedModel { model, takes_bytes: false, took_one: false });
    }
    // The weights of the parts lie in these bytes.
    let model = Bytes::from(model);
    let mut parts = ModelParts::decode(model.clone()).map_err(unreadable)?;
    let mut graph = parts.graph.take().unwrap_or_default();
    let mut is_changed = graph.drop_listed_weights().map_err(unreadable)?;
    if is_changed {
        // Before this version of the format, weights had to stand among the inputs.
        parts.ir_version = parts.ir_version.max(4);
    }
    is_changed |= graph.sort_nodes().map_err(unreadable)?;
    if let Some(name) = wanted.output {
        end_at(&mut graph, name)?;
        is_changed = true;
    }
    is_changed |= graph.drop_unread().map_err(unreadable)?;
    is_changed |= graph.half_precision_to_f32().map_err(unreadable)?;
    let takes_bytes = graph.take_floats_for_bytes()?;
    is_changed |= takes_bytes;
    is_changed |= replace_operators(&mut graph).map_err(unreadable)?;
    is_changed |= graph.drop_unread_inputs().map_err(unreadable)?;
    let was_channels_last = graph.put_channels_first().map_err(unreadable)?;
    is_changed |= was_channels_last;
    is_changed |= graph.fix_images(wanted.side).map_err(unreadable)?;
    is_changed |= graph.spell_out_padding(&parts).map_err(unreadable)?;
    is_changed |= graph.pool_whole_maps(&parts).map_err(unreadable)?;
    let took_one = open_batch(&mut graph, &parts).map_err(unreadable)?;
    is_changed |= took_one;
    is_changed |= graph.declare_outputs(&parts).map_err(unreadable)?;
    if let Some(pool) = wanted.pool {
        graph.pool_output(pool, parts.operators(), was_channels_last)?;
        is_changed = true;
    }
    if wanted.output.is_none() {
        warn_of_classifier(&graph)?;
    }
    if !is_changed {
        // Bytes that nothing else holds are not copied.
        drop(graph);
        return Ok(AdaptedModel { model: model.into(), takes_bytes, took_one });
    }
    drop(model);
    parts.graph = Some(graph);
    Ok(AdaptedModel { model: parts.encode_to_vec(), takes_bytes, took_one })
}

/// Leaves operators that both engines have; returns whether there were others.
fn replace_operators(graph: &mut GraphParts) -> Result<bool, DecodeError> {
    let is_separated = graph.separate_int8()?;
    let is_decomposed = graph.decompose()?;
    if is_decomposed {
        // Nodes that were replaced leave behind what only they read: a weight's norm its statistics.
        graph.drop_unread()?;
    }
    Ok(graph.write_defaults()? || is_separated || is_decomposed)
}

/// Makes a model of one image take any number of them; returns whether it was one.
fn open_batch(graph: &mut GraphParts, parts: &ModelParts) -> Result<bool, DecodeError> {
    let took_one = graph.open_batch(parts)?;
    if took_one {
        // Shapes that were replaced leave behind what they were computed from.
        graph.drop_unread()?;
    }
    Ok(took_one)
}

/// Makes the value of that name the only output; says which values there are if it is none of them.
fn end_at(graph: &mut GraphParts, name: &str) -> Result<(), String> {
    if graph.end_at(name).map_err(unreadable)? {
        return Ok(());
    }
    let (outputs, last) = (graph.outputs().map_err(unreadable)?, graph.last_values().map_err(unreadable)?);
    Err(no_such_value(name, &outputs, &last))
}

/// Warns of a model whose output seems to be a score for each class rather than features.
fn warn_of_classifier(graph: &GraphParts) -> Result<(), String> {
    if let Some(before) = graph.before_classifier().map_err(unreadable)? {
        log::warn!(
            "the backbone seems to be a classifier, and gives a score for each of its classes; what its last layer reads \
             makes better features: set backbone.output = {before:?}"
        );
    }
    Ok(())
}

/// Says that there is no value of that name, and which there are.
fn no_such_value(name: &str, outputs: &[ValueInfoProto], last: &[String]) -> String {
    let last = last.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    format!("it has no value {name:?} for backbone.output; its outputs are {}, its last values {last}", names(outputs))
}

#[cfg(test)]
mod tests;
