//! Ends a graph at one of its values, so that a classifier becomes a backbone: what that value does not need is left
//! out, whatever operators it has.

use std::collections::HashSet;

use prost::{DecodeError, Message};

use super::parts::{GraphParts, TensorHeader, has_graphs, names_of};
use crate::model::onnx_proto::{NodeProto, ValueInfoProto};

/// Numbers of classes that ImageNet's classifiers tell apart; the second counts the background.
const IMAGENET_CLASSES: [i64; 2] = [1_000, 1_001];
/// Fewer numbers of a dense layer than these are taken for scores.
const FEWEST_FEATURES: i64 = 64;
/// Most nodes between a classifier's last layer and its output.
const MOST_AFTER_CLASSIFIER: usize = 8;
/// How many values are named to people.
const NAMED_VALUES: usize = 6;

impl GraphParts {
    /// Makes the value of this name the only output, be it an output already or a value between nodes. Returns whether
    /// there is such a value.
    pub(super) fn end_at(&mut self, name: &str) -> Result<bool, DecodeError> {
        let is_given = |node: &NodeProto| node.output.iter().any(|output| output == name);
        let exists = names_of(&self.output)?.iter().any(|output| output == name) || self.nodes()?.iter().any(is_given);
        if exists {
            self.output = vec![self.declaration(name)?.encode_to_vec()];
        }
        Ok(exists)
    }

    /// Leaves out nodes and weights that no output needs. Nodes must be in order. Returns whether anything was changed.
    pub(super) fn drop_unread(&mut self) -> Result<bool, DecodeError> {
        let (nodes, outputs) = (self.nodes()?, names_of(&self.output)?);
        let mut needed: HashSet<&str> = outputs.iter().map(String::as_str).collect();
        let mut is_needed = vec![false; nodes.len()];
        for (node, is_needed) in nodes.iter().zip(&mut is_needed).rev() {
            if node.output.iter().any(|output| needed.contains(output.as_str())) {
                *is_needed = true;
                needed.extend(node.input.iter().filter(|input| !input.is_empty()).map(String::as_str));
            }
        }
        // A graph without outputs is refused later, and so are graphs inside a node, which read values that it does not
        // name.
        let mut kept = nodes.iter().zip(&is_needed).filter(|(_, is_needed)| **is_needed);
        if outputs.is_empty() || kept.any(|(node, _)| has_graphs(node)) {
            return Ok(false);
        }
        let before = (self.node.len(), self.initializer.len());
        let mut is_needed = is_needed.into_iter();
        self.node.retain(|_| is_needed.next().unwrap_or(false));
        retain_needed(&mut self.initializer, |bytes| Ok(TensorHeader::decode(bytes)?.name), &needed)?;
        let is_changed = before != (self.node.len(), self.initializer.len());
        if is_changed {
            retain_needed(&mut self.value_info, |bytes| Ok(ValueInfoProto::decode(bytes)?.name), &needed)?;
        }
        Ok(is_changed)
    }

    /// What the file says of a value's type.
    fn declaration(&self, name: &str) -> Result<ValueInfoProto, DecodeError> {
        let declared = self.values()?.into_iter().find(|value| value.name == name);
        Ok(declared.unwrap_or_else(|| ValueInfoProto { name: name.to_owned(), r#type: None }))
    }

    /// The last values that nodes give, from front to back.
    pub(super) fn last_values(&self) -> Result<Vec<String>, DecodeError> {
        let given = self.nodes()?.into_iter().flat_map(|node| node.output).filter(|name| !name.is_empty());
        let given: Vec<String> = given.collect();
        Ok(given[given.len().saturating_sub(NAMED_VALUES)..].to_vec())
    }

    /// What the last layer of a classifier reads, if the graph seems to be one: it ends with shares of classes, with as
    /// many numbers as ImageNet has classes, or with a dense layer of few numbers.
    pub(super) fn before_classifier(&self) -> Result<Option<String>, DecodeError> {
        let [output] = &self.output[..] else { return Ok(None) };
        let output = ValueInfoProto::decode(output.as_slice())?;
        let (nodes, weights) = (self.nodes()?, self.weights()?);
        let maker_of = |name: &str| nodes.iter().rev().find(|node| node.output.iter().any(|output| output == name));
        let sizes = output.sizes();
        let mut is_classifier =
            matches!(sizes.as_deref(), Some([_, Some(length), ..]) if IMAGENET_CLASSES.contains(length));
        let is_short = matches!(sizes.as_deref(), Some([_, Some(length)]) if *length < FEWEST_FEATURES);
        let mut name = output.name;
        // Features may be rectified last. Scores are so only before they are averaged, or shares are made of them.
        let mut may_rectify = false;
        for _ in 0..MOST_AFTER_CLASSIFIER {
            let Some(maker) = maker_of(&name) else { break };
            let Some(read) = maker.input.iter().find(|input| !input.is_empty() && !weights.contains(*input)) else {
                break;
            };
            match maker.op_type.as_str() {
                // What is pooled, or made into shares, is told apart below.
                "Gemm" | "MatMul" if is_short && !may_rectify => return Ok(Some(read.clone())),
                "Conv" | "Gemm" | "MatMul" => return Ok(is_classifier.then(|| read.clone())),
                "LogSoftmax" | "Sigmoid" | "Softmax" => (is_classifier, may_rectify) = (true, true),
                // Some networks score every position of a map, and average the scores.
                "AveragePool" | "GlobalAveragePool" | "ReduceMean" => may_rectify = true,
                "Relu" if may_rectify => {}
                "Add" | "Cast" | "DequantizeLinear" | "Flatten" | "Identity" | "QuantizeLinear" | "Reshape"
                | "Squeeze" | "Transpose" => {}
                _ => break,
            }
            name.clone_from(read);
        }
        Ok(None)
    }
}

/// Leaves out parts whose names are not needed.
fn retain_needed<P: AsRef<[u8]>>(
    parts: &mut Vec<P>,
    name_of: impl Fn(&[u8]) -> Result<String, DecodeError>,
    needed: &HashSet<&str>,
) -> Result<(), DecodeError> {
    let names = parts.iter().map(|part| name_of(part.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let mut names = names.iter();
    parts.retain(|_| names.next().is_some_and(|name| needed.contains(name.as_str())));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::onnx_proto::{AttributeProto, FLOAT, NodeProto, TensorProto, attribute_type, node};

    fn vector(name: &str, length: i64) -> ValueInfoProto {
        ValueInfoProto::of_sides(name, FLOAT, &[0, length])
    }

    fn of(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
        node(operator, inputs.iter().map(|&name| name.into()).collect(), output, vec![])
    }

    /// A classifier of 1,000 classes with a branch that no engine has.
    fn classifier() -> GraphParts {
        let nodes = [
            of("Conv", &["x", "kernel"], "map"),
            of("Boxes", &["map", "anchors"], "boxes"),
            of("Flatten", &["map"], "features"),
            of("Gemm", &["features", "w", "b"], "scores"),
            of("Identity", &["scores"], "logits"),
        ];
        let weight = |name: &str| TensorProto { name: name.into(), ..TensorProto::default() }.encode_to_vec().into();
        GraphParts {
            node: nodes.iter().map(Message::encode_to_vec).collect(),
            initializer: ["kernel", "anchors", "w", "b"].map(weight).to_vec(),
            output: [vector("logits", 1_000), vector("boxes", 4)].iter().map(Message::encode_to_vec).collect(),
            value_info: [vector("features", 64), vector("scores", 1_000)].iter().map(Message::encode_to_vec).collect(),
            ..GraphParts::default()
        }
    }

    fn ending_at(name: &str) -> GraphParts {
        let mut graph = classifier();
        assert!(graph.end_at(name).unwrap() && graph.drop_unread().unwrap(), "{name}");
        graph
    }

    #[test]
    fn a_graph_ends_at_any_of_its_values() {
        for (name, kept, weights) in [
            ("features", &["Conv", "Flatten"][..], &["kernel"][..]),
            ("logits", &["Conv", "Flatten", "Gemm", "Identity"], &["b", "kernel", "w"]),
            ("boxes", &["Conv", "Boxes"], &["anchors", "kernel"]),
        ] {
            let graph = ending_at(name);
            let operators: Vec<String> = graph.nodes().unwrap().into_iter().map(|node| node.op_type).collect();
            assert_eq!(operators, kept, "{name}");
            let mut left: Vec<String> = graph.weights().unwrap().into_iter().collect();
            left.sort();
            assert_eq!(left, weights, "{name}");
            assert_eq!(names_of(&graph.output).unwrap(), [name]);
        }
        let declared = [vector("features", 64).encode_to_vec()];
        let graph = ending_at("features");
        assert_eq!((&graph.output[..], &graph.value_info[..]), (&declared[..], &declared[..]), "as the file says");
        assert_eq!(ending_at("map").output, [ValueInfoProto { name: "map".into(), r#type: None }.encode_to_vec()]);
        for absent in ["x", "kernel", "", "none"] {
            let mut graph = classifier();
            assert!(!graph.end_at(absent).unwrap(), "{absent:?}");
            assert_eq!(graph, classifier());
        }
        assert_eq!(classifier().last_values().unwrap(), ["map", "boxes", "features", "scores", "logits"]);
    }

    #[test]
    fn what_no_output_needs_is_left_out_and_nothing_else() {
        let mut whole = classifier();
        assert!(!whole.drop_unread().unwrap());
        assert_eq!(whole, classifier());
        let without_outputs = GraphParts { output: vec![], ..classifier() };
        let mut kept = without_outputs.clone();
        assert!(!kept.drop_unread().unwrap());
        assert_eq!(kept, without_outputs);
        // Inputs that are left out have no name, as outputs of other nodes may.
        let mut unnamed = ending_at("features");
        unnamed.append(&[of("Clip", &["features", "", ""], "clipped"), of("Boxes", &["features"], "")], &[]);
        assert!(unnamed.end_at("clipped").unwrap() && unnamed.drop_unread().unwrap());
        assert_eq!(unnamed.node.len(), 3);
        // What graphs inside a node may read stays.
        let branch = AttributeProto { name: "body".into(), r#type: attribute_type::GRAPH, ..AttributeProto::default() };
        let mut graph = classifier();
        graph.append(&[node("If", vec!["features".into()], "chosen", vec![branch])], &[]);
        assert!(graph.end_at("chosen").unwrap() && !graph.drop_unread().unwrap());
        assert_eq!((graph.node.len(), graph.initializer.len()), (6, 4));
    }

    #[test]
    fn a_classifier_is_told_by_how_it_ends() {
        let before = |graph: &GraphParts| graph.before_classifier().unwrap();
        assert_eq!(before(&classifier()), None, "two outputs");
        assert_eq!(before(&ending_at("logits")).as_deref(), Some("features"));
        assert_eq!(before(&ending_at("features")), None);
        // A projection of another length is none, unless shares are made of it.
        let mut graph = ending_at("scores");
        graph.output = vec![vector("scores", 128).encode_to_vec()];
        assert_eq!(before(&graph), None);
        graph.append(&[of("Softmax", &["scores"], "shares")], &[]);
        graph.output = vec![vector("shares", 128).encode_to_vec()];
        assert_eq!(before(&graph).as_deref(), Some("features"));
        // Scores of several labels at once, and those of one's own classes.
        graph.node.pop();
        graph.append(&[of("Sigmoid", &["scores"], "shares")], &[]);
        assert_eq!(before(&graph).as_deref(), Some("features"));
        for (length, expected) in [(12, Some("features")), (64, None)] {
            let mut graph = ending_at("scores");
            graph.output = vec![vector("scores", length).encode_to_vec()];
            assert_eq!(before(&graph).as_deref(), expected, "{length}");
        }
        // As SqueezeNet ends.
        let mut graph = ending_at("map");
        graph.append(&[of("Conv", &["map", "w"], "maps"), of("Relu", &["maps"], "positive")], &[]);
        graph.append(&[of("GlobalAveragePool", &["positive"], "means"), of("Softmax", &["means"], "shares")], &[]);
        graph.output = vec![vector("shares", 128).encode_to_vec()];
        assert_eq!(before(&graph).as_deref(), Some("map"));
        // As MobileNetV3 of Keras ends, whose channels come last.
        let mut graph = ending_at("map");
        graph.append(&[of("Conv", &["map", "w"], "maps"), of("Transpose", &["maps"], "turned")], &[]);
        graph.append(&[of("Reshape", &["turned", "sides"], "flat"), of("Softmax", &["flat"], "shares")], &[]);
        graph.output = vec![vector("shares", 128).encode_to_vec()];
        assert_eq!(before(&graph).as_deref(), Some("map"));
    }

    #[test]
    fn features_that_are_rectified_last_are_no_scores() {
        let before = |nodes: &[NodeProto], length| {
            let mut graph = ending_at("map");
            graph.append(nodes, &[]);
            graph.output = vec![vector("last", length).encode_to_vec()];
            graph.before_classifier().unwrap()
        };
        let conv = || of("Conv", &["map", "w"], "maps");
        // As ResNet ends without its classifier.
        let residual = [of("Add", &["maps", "map"], "sum"), of("Relu", &["sum"], "positive")];
        let pooled = [of("GlobalAveragePool", &["positive"], "means"), of("Flatten", &["means"], "last")];
        let resnet = [&[conv()][..], &residual, &pooled].concat();
        assert_eq!(before(&resnet, 512), None);
        // Features as many as ImageNet has classes, as they leave a layer that is no classifier.
        let dense = [of("Gemm", &["map", "w", "b"], "dense"), of("Relu", &["dense"], "last")];
        assert_eq!(before(&dense, 1_000), None);
        let late = [conv(), of("GlobalAveragePool", &["maps"], "means"), of("Relu", &["means"], "last")];
        assert_eq!(before(&late, 1_000), None);
        // A small network has few channels.
        assert_eq!(before(&[conv(), of("GlobalAveragePool", &["maps"], "last")], 16), None);
        assert_eq!(before(&dense, 16), None);
    }
}
