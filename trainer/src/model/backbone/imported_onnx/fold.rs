//! Folds the constants of a model that the user brings. Exporters write paddings, shapes and tables as nodes that
//! compute them from numbers known beforehand (`ConstantOfShape`, `Range`), which costs time in every call and bars an
//! engine's own optimisations.
//!
//! ONNX Runtime folds what depends on constants alone. It does not look into the shape of a tensor whose batch is left
//! open. The audit does, so nodes that make whole numbers which are the same for any batch become constants here first:
//! sides, and what exporters compute of them. The batch stays open.

use std::collections::{HashMap, HashSet};

use orco_runtime::encoder::EncodeError;
use orco_runtime::encoder::audit::bounds::{ConstantIntegers, check_declared, constant_integers};
use orco_runtime::encoder::audit::{AuditError, audit};
use orco_runtime::encoder::onnx::fold_constants;
use prost::bytes::Bytes;
use prost::{DecodeError, Message};

use super::parts::{GraphParts, ModelParts, is_onnx_domain, names_of};
use crate::model::onnx_proto::whole_numbers;

/// A model as the engines accept it: as it is, or with constants folded if it has operators that make some, or such
/// whose shapes cannot be inferred.
///
/// # Errors
/// [`EncodeError::Refused`] names what is refused even so.
pub fn without_constant_nodes(model: Vec<u8>) -> Result<Vec<u8>, EncodeError> {
    // What is no model at all is found to be none by its reader.
    if !matches!(check_declared(&model), Err(AuditError::Operator { .. } | AuditError::Shape { .. })) {
        return Ok(model);
    }
    let damaged = |_| EncodeError::Refused(AuditError::Damaged { part: "graph" });
    // Folding loses the metadata that the model came with.
    let mut metadata = None;
    let mut folded = Bytes::from(model);
    for turn in 0..=MOST_TURNS {
        let constants = constant_integers(&folded).map_err(EncodeError::Refused)?;
        let mut parts = ModelParts::decode(folded).map_err(damaged)?;
        let metadata = metadata.get_or_insert_with(|| parts.metadata_props.clone());
        let graph = parts.graph.get_or_insert_default();
        let replaced = graph.fold_integers(&constants).map_err(damaged)?;
        if turn > 0 && (replaced == 0 || turn == MOST_TURNS) {
            graph.value_info.clear();
            // The library writes equal constants once.
            graph.separate_int8().map_err(damaged)?;
            log::info!("folded the constants of the backbone: {} nodes are left", graph.node.len());
            // The library names the domains of all operators that it has.
            parts.opset_import.retain(|set| is_onnx_domain(&set.domain));
            parts.metadata_props = std::mem::take(metadata);
            folded = parts.encode_to_vec().into();
            break;
        }
        folded = fold_constants(&parts.encode_to_vec())?.into();
    }
    audit(&folded).map_err(EncodeError::Refused)?;
    Ok(folded.into())
}

/// Most times that a model is folded: what one turn computes may be a side that the next one knows.
const MOST_TURNS: usize = 4;

impl GraphParts {
    /// Replaces the nodes that make these constants by them, and leaves out what nothing reads any more; how many there
    /// were.
    fn fold_integers(&mut self, constants: &HashMap<String, ConstantIntegers>) -> Result<usize, DecodeError> {
        let mut read: HashSet<String> = names_of(&self.output)?.into_iter().collect();
        let mut kept = Vec::new();
        let mut replaced = 0;
        // From the last node back, what reads a value comes before what makes it.
        let nodes = self.nodes()?;
        for (bytes, node) in std::mem::take(&mut self.node).into_iter().zip(nodes).rev() {
            if !node.output.iter().any(|output| read.contains(output)) {
                continue;
            }
            match node.output.first().and_then(|output| constants.get_key_value(output)) {
                Some((name, ConstantIntegers { shape, numbers })) if node.output.len() == 1 => {
                    let sides = shape.iter().map(|&side| side.cast_signed()).collect();
                    self.initializer.push(whole_numbers(name, sides, numbers).encode_to_vec().into());
                    replaced += 1;
                }
                _ => {
                    read.extend(node.input);
                    kept.push(bytes);
                }
            }
        }
        kept.reverse();
        self.node = kept;
        Ok(replaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::onnx_proto::{TensorProto, ValueInfoProto, node};

    #[test]
    fn constant_integers_take_the_place_of_the_nodes_that_make_them() {
        let of = |operator: &str, from: &[&str], to: &str| {
            node(operator, from.iter().map(|&name| name.into()).collect(), to, vec![]).encode_to_vec()
        };
        let kept = [of("Relu", &["x"], "r"), of("Reshape", &["r", "sides"], "y")];
        let made =
            [of("Shape", &["r"], "shape"), of("Gather", &["shape", "index"], "sides"), of("Exp", &["r"], "unread")];
        let output = ValueInfoProto { name: "y".into(), r#type: None }.encode_to_vec();
        let node = [&kept[..1], &made[..], &kept[1..]].concat();
        let mut graph = GraphParts { node, output: vec![output], ..GraphParts::default() };
        let constants =
            HashMap::from([("sides".to_owned(), ConstantIntegers { shape: vec![2], numbers: vec![1, -1] })]);
        assert_eq!(graph.fold_integers(&constants).unwrap(), 1);
        assert_eq!(graph.node, kept);
        let constant = TensorProto::decode(&*graph.initializer[0]).unwrap();
        assert_eq!(constant, whole_numbers("sides", vec![2], &[1, -1]));
        assert_eq!(graph.fold_integers(&constants).unwrap(), 0);
    }
}
