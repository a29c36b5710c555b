//! Leaves out what no wanted output is computed from: the head of a classifier whose inner features are taken, its weights,
//! and its operators, which engines may lack.

use std::collections::HashSet;
use std::mem;

use prost::{DecodeError, Message};

use super::parts::{GraphParts, TensorHeader, names_of};
use crate::model::onnx_proto::ValueInfoProto;

impl GraphParts {
    /// Leaves out the outputs beside the chosen one, if one is and exists, and the nodes and weights that no output needs.
    /// The nodes are sorted. Whether there was something.
    pub(super) fn drop_unread(&mut self, chosen: Option<&str>) -> Result<bool, DecodeError> {
        let before = (self.output.len(), self.node.len(), self.initializer.len());
        let outputs = names_of(&self.output)?;
        if let Some(at) = outputs.iter().position(|name| Some(name.as_str()) == chosen) {
            self.output = vec![self.output.swap_remove(at)];
        }
        let mut read: HashSet<String> = names_of(&self.output)?.into_iter().collect();
        // A graph without outputs is refused later.
        if read.is_empty() {
            return Ok(false);
        }
        let (nodes, mut kept) = (self.nodes()?, Vec::new());
        // From the last node back, what reads a value comes before what makes it.
        for (bytes, node) in mem::take(&mut self.node).into_iter().zip(nodes).rev() {
            if node.output.iter().any(|output| read.contains(output)) {
                // Inputs that are left out have no name, as outputs of other nodes may.
                read.extend(node.input.into_iter().filter(|name| !name.is_empty()));
                kept.push(bytes);
            }
        }
        kept.reverse();
        self.node = kept;
        let weights = mem::take(&mut self.initializer).into_iter();
        let headed = weights.map(|bytes| Ok((TensorHeader::decode(&bytes[..])?, bytes)));
        let headed = headed.collect::<Result<Vec<_>, DecodeError>>()?.into_iter();
        self.initializer = headed.filter(|(header, _)| read.contains(&header.name)).map(|(_, bytes)| bytes).collect();
        let is_changed = before != (self.output.len(), self.node.len(), self.initializer.len());
        if is_changed {
            let values = mem::take(&mut self.value_info).into_iter();
            let named = values.map(|bytes| Ok((ValueInfoProto::decode(bytes.as_slice())?.name, bytes)));
            let named = named.collect::<Result<Vec<_>, DecodeError>>()?.into_iter();
            self.value_info = named.filter(|(name, _)| read.contains(name)).map(|(_, bytes)| bytes).collect();
        }
        Ok(is_changed)
    }
}

#[cfg(test)]
mod tests {
    use orco_runtime::encoder::audit::bounds::check_declared;
    use prost::bytes::Bytes;

    use super::super::adapt::{Adaptation, adapt};
    use super::super::parts::ModelParts;
    use super::*;
    use crate::model::onnx_proto::{
        DimensionProto, FLOAT, NodeProto, OperatorSetProto, ShapeProto, TensorProto, TensorTypeProto, TypeProto, node,
        whole_numbers,
    };

    fn value(name: &str) -> Vec<u8> {
        ValueInfoProto { name: name.into(), r#type: None }.encode_to_vec()
    }

    /// A classifier that gives its features, and its best class by an operator that engines lack.
    fn classifier() -> GraphParts {
        let dim = [0, 3, 24, 24].map(|size| DimensionProto { dim_value: (size > 0).then_some(size), dim_param: None });
        let tensor_type = TensorTypeProto { elem_type: FLOAT, shape: Some(ShapeProto { dim: dim.to_vec() }) };
        let images = ValueInfoProto { name: "x".into(), r#type: Some(TypeProto { tensor_type: Some(tensor_type) }) };
        let inner = 3 * 24 * 24;
        let raw_data = vec![0; 2 * 4 * inner as usize];
        let weight = TensorProto { dims: vec![inner, 2], data_type: FLOAT, name: "w".into(), raw_data };
        let head = node("MatMul", vec!["features".into(), "w".into()], "logits", vec![]);
        // Of the outputs of this one, the second alone has a name.
        let best = node("TopK", vec!["logits".into(), "k".into()], "", vec![]);
        let best = NodeProto { output: vec![String::new(), "class".into()], ..best };
        let flat = node("Flatten", vec!["x".into()], "features", vec![]);
        GraphParts {
            node: [flat, head, best].iter().map(Message::encode_to_vec).collect(),
            initializer: [weight, whole_numbers("k", vec![1], &[1])]
                .map(|one| Bytes::from(one.encode_to_vec()))
                .to_vec(),
            input: vec![images.encode_to_vec()],
            output: vec![value("class"), value("features")],
            value_info: vec![value("logits")],
            ..GraphParts::default()
        }
    }

    #[test]
    fn what_no_output_needs_is_left_out() {
        for chosen in [None, Some("logits")] {
            let mut whole = classifier();
            assert!(!whole.drop_unread(chosen).unwrap());
            assert_eq!(whole, classifier(), "{chosen:?}");
        }
        let mut cut = classifier();
        assert!(cut.drop_unread(Some("features")).unwrap());
        let expected = GraphParts {
            node: classifier().node[..1].to_vec(),
            initializer: vec![],
            output: vec![value("features")],
            value_info: vec![],
            ..classifier()
        };
        assert_eq!(cut, expected);
        let mut dead = GraphParts { output: vec![value("features")], ..classifier() };
        assert!(dead.drop_unread(None).unwrap());
        assert_eq!((dead.node.len(), dead.initializer.len()), (1, 0));
        assert!(!dead.drop_unread(None).unwrap());
    }

    #[test]
    fn an_output_is_chosen_beside_a_head_that_engines_lack() {
        let opset_import = vec![OperatorSetProto { domain: String::new(), version: 18 }];
        let model = ModelParts { ir_version: 8, opset_import, graph: Some(classifier()), ..ModelParts::default() };
        let wanted = Adaptation { side: 24, output: Some("features"), pool: None };
        let adapted = adapt(model.encode_to_vec(), wanted).unwrap().model;
        assert_eq!(check_declared(&adapted).unwrap().outputs, [[1, 3 * 24 * 24]]);
        assert!(adapted.len() < 1000, "its head was left in: {} bytes", adapted.len());
    }
}
