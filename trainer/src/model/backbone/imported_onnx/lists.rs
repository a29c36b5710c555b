//! Constants that are lists of whole numbers, as shapes and axes are.

use std::collections::HashMap;

use orco_runtime::encoder::audit::MAX_RANK;
use prost::{DecodeError, Message};

use super::parts::{AttributeParts, GraphParts, NodeParts, NumberTensor, TensorHeader};
use crate::model::onnx_proto::{INT64, NodeProto};

/// Constants that are lists of whole numbers, by name.
pub type Lists = HashMap<String, Vec<i64>>;

/// The numbers of a tensor, if it is a list of whole ones.
fn list(bytes: &[u8]) -> Result<Option<Vec<i64>>, DecodeError> {
    let tensor = NumberTensor::decode(bytes)?;
    Ok((tensor.data_type == INT64 && tensor.dims.len() == 1).then(|| whole_numbers(tensor)))
}

fn whole_numbers(tensor: NumberTensor) -> Vec<i64> {
    let raw = tensor.raw_data.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes));
    raw.chain(tensor.int64_data).collect()
}

impl GraphParts {
    /// Its constants that are lists of whole numbers: weights, and those of its nodes, if these are given. Longer ones
    /// than a shape may be are left out.
    pub(super) fn lists(&self, nodes: &[NodeProto]) -> Result<Lists, DecodeError> {
        let mut lists = HashMap::new();
        for bytes in &self.initializer {
            let TensorHeader { dims, data_type, name } = TensorHeader::decode(&bytes[..])?;
            if data_type == INT64 && dims.len() == 1 {
                lists.extend(list(&bytes[..])?.map(|list| (name, list)));
            }
        }
        for (bytes, node) in self.node.iter().zip(nodes).filter(|(_, node)| node.op_type == "Constant") {
            let Some(output) = node.output.first() else { continue };
            lists.extend(node.named("value_ints").map(|attribute| (output.clone(), attribute.ints.clone())));
            for attribute in NodeParts::decode(bytes.as_slice())?.attribute {
                let value = AttributeParts::decode(attribute.as_slice())?.t;
                let list = value.map(|value| list(&value)).transpose()?.flatten();
                lists.extend(list.map(|list| (output.clone(), list)));
            }
        }
        lists.retain(|_, list| list.len() <= MAX_RANK);
        Ok(lists)
    }

    /// The numbers of the weight of this name, row-major, if it is one of whole numbers, whatever its length and shape.
    pub(super) fn whole_numbers_of(&self, name: &str) -> Result<Option<Vec<i64>>, DecodeError> {
        for bytes in &self.initializer {
            let header = TensorHeader::decode(&bytes[..])?;
            if header.name == name && header.data_type == INT64 {
                return Ok(Some(whole_numbers(NumberTensor::decode(&bytes[..])?)));
            }
        }
        Ok(None)
    }
}
