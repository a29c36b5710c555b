//! Opens the batch of a model that was exported for one image: exporters write that one into its shapes.

use std::collections::{BTreeSet, HashMap, HashSet};

use orco_runtime::encoder::audit::MAX_RANK;
use orco_runtime::encoder::audit::bounds::check_unfolded;
use prost::{DecodeError, Message};

use super::parts::{
    AttributeParts, GraphParts, ModelParts, NodeParts, Replacement, TensorHeader, is_onnx_domain, replace,
};
use crate::model::onnx_proto::{
    DimensionProto, INT64, NodeProto, TensorProto, ValueInfoProto, int, list_of_whole_numbers, node,
};

/// What the number of images is called.
const BATCH: &str = "orco.batch";
/// Most places at which a class token or the like is joined to images.
const MOST_TOKENS: usize = 64;

/// `onnx.TensorProto` of whole numbers.
#[derive(Clone, PartialEq, Message)]
struct ListTensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    data_type: i32,
    #[prost(int64, repeated, tag = "7")]
    int64_data: Vec<i64>,
    #[prost(bytes = "vec", tag = "9")]
    raw_data: Vec<u8>,
}

impl ListTensor {
    /// Its numbers, if it is a list of them.
    fn list(bytes: &[u8]) -> Result<Option<Vec<i64>>, DecodeError> {
        let Self { dims, data_type, int64_data, raw_data } = Self::decode(bytes)?;
        let raw = raw_data.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes));
        Ok((data_type == INT64 && dims.len() == 1).then(|| raw.chain(int64_data).collect()))
    }
}

impl GraphParts {
    /// Where the input takes exactly one image, lets it take any number: reshaping reads the number of images, and
    /// class tokens are repeated for each. Whether it did. Nodes must be in order. Results for one image do not change.
    /// A layer that still assumes one image has no shapes for two, and the model is refused later.
    pub(super) fn open_batch(&mut self, model: &ModelParts) -> Result<bool, DecodeError> {
        let weights = self.weights()?;
        let inputs = self.input.iter().map(|bytes| ValueInfoProto::decode(bytes.as_slice()));
        let takes_one = |value: &ValueInfoProto| {
            value.sizes().is_some_and(|sizes| matches!(sizes[..], [Some(1), _, _, _])) && !weights.contains(&value.name)
        };
        let Some(images) = inputs.collect::<Result<Vec<_>, _>>()?.into_iter().find(takes_one) else { return Ok(false) };
        let nodes = self.nodes()?;
        let (lists, tokens) = (self.lists(&nodes)?, self.tokens(model, &images.name, &nodes)?);
        let mut of_images = HashSet::from([images.name.as_str()]);
        let (mut opened, mut constants) = (Vec::new(), Vec::new());
        let mut joined = 0;
        for (bytes, own) in self.node.iter().zip(&nodes) {
            let to = own.output.first().map_or("", String::as_str);
            let mut parts = NodeParts::decode(bytes.as_slice())?;
            let is_of_images = own.input.iter().any(|input| of_images.contains(input.as_str()));
            if is_of_images && own.op_type != "Shape" {
                of_images.extend(own.output.iter().map(String::as_str));
                let list = |input: usize| lists.get(own.input.get(input)?).filter(|list| list.first() == Some(&1));
                // Resized to sizes that begin with 1, a batch would shrink to one image, and broadcasting would hide
                // that where the result is added to a whole batch.
                if own.op_type == "Resize" && list(3).is_some() {
                    return Ok(false);
                }
                if let Some(sides) = list(1).filter(|_| own.op_type == "Reshape" && is_onnx_domain(&own.domain)) {
                    let others = list_of_whole_numbers(&format!("{to}.orco.others"), &sides[1..]);
                    // Not 0, which takes over the first side of what is reshaped: an image may have many windows.
                    parts.input[1] = format!("{to}.orco.shape");
                    opened.push(shape_of_batch(&others, &parts.input[1]));
                    constants.push(others);
                }
                for (at, input) in parts.input.iter_mut().enumerate().filter(|_| joins_within_images(own)) {
                    let Some(&axes) = tokens.get(input.as_str()) else { continue };
                    let name = format!("{to}.orco.{at}");
                    let (ones, sides) =
                        (list_of_whole_numbers(&format!("{name}.ones"), &vec![1; axes]), format!("{name}.sides"));
                    opened.push(shape_of_batch(&ones, &sides));
                    constants.push(ones);
                    let token = std::mem::replace(input, name.clone());
                    opened.push(node("Expand", vec![token, sides], &name, vec![]).encode_to_vec());
                    joined += 1;
                    if joined > MOST_TOKENS {
                        return Ok(false);
                    }
                }
            }
            opened.push(parts.encode_to_vec());
        }
        if !constants.is_empty() {
            let [sides, first] = ["sides", "first"].map(|part| format!("{BATCH}.{part}"));
            constants.push(list_of_whole_numbers(&first, &[0]));
            let counted = [
                node("Shape", vec![images.name.clone()], &sides, vec![]),
                node("Gather", vec![sides.clone(), first], BATCH, vec![]),
            ];
            opened = counted.iter().map(Message::encode_to_vec).chain(opened).collect();
        }
        self.node = opened;
        self.append(&[], &constants);
        replace(&mut self.input, |bytes| with_open_batch(bytes, |name| name == images.name))?;
        replace(&mut self.output, |bytes| with_open_batch(bytes, |_| true))?;
        // They speak of one image.
        self.value_info.clear();
        log::info!("the backbone takes one image at a time; it is made to take any number");
        Ok(true)
    }

    /// Class tokens and the like: what is joined to images, comes from constants alone, and has a first side of one.
    /// How many axes each has behind that, by name.
    fn tokens(
        &self,
        model: &ModelParts,
        images: &str,
        nodes: &[NodeProto],
    ) -> Result<HashMap<String, usize>, DecodeError> {
        let mut computed = HashSet::from([images]);
        let (mut constant, mut joined) = (Self::default(), BTreeSet::<&String>::new());
        for (bytes, own) in self.node.iter().zip(nodes) {
            if !own.input.iter().any(|input| computed.contains(input.as_str())) {
                constant.node.push(bytes.clone());
                continue;
            }
            if joins_within_images(own) {
                joined.extend(own.input.iter().filter(|input| !computed.contains(input.as_str())));
            }
            computed.extend(own.output.iter().map(String::as_str));
        }
        if joined.is_empty() {
            return Ok(HashMap::new());
        }
        let output = |&name: &&String| ValueInfoProto { name: name.clone(), r#type: None }.encode_to_vec();
        constant.output = joined.iter().map(output).collect();
        constant.drop_unread()?;
        let model = ModelParts { graph: Some(self.with_what_is_read(constant)?), ..model.clone() };
        // Where their sides cannot be inferred, two images do not fit, for which the model is refused later.
        let Ok(inferred) = check_unfolded(&model.encode_to_vec()) else { return Ok(HashMap::new()) };
        let sides = joined.into_iter().zip(inferred.outputs);
        let token = |(name, sides): (&String, Vec<u64>)| match &sides[..] {
            [1, others @ ..] => Some((name.clone(), others.len())),
            _ => None,
        };
        Ok(sides.filter_map(token).collect())
    }

    /// Its constants that are lists of whole numbers, by name.
    fn lists(&self, nodes: &[NodeProto]) -> Result<HashMap<String, Vec<i64>>, DecodeError> {
        let mut lists = HashMap::new();
        for bytes in &self.initializer {
            let TensorHeader { dims, data_type, name } = TensorHeader::decode(&bytes[..])?;
            if data_type == INT64 && dims.len() == 1 {
                lists.extend(ListTensor::list(&bytes[..])?.map(|list| (name, list)));
            }
        }
        for (bytes, node) in self.node.iter().zip(nodes).filter(|(_, node)| node.op_type == "Constant") {
            let Some(output) = node.output.first() else { continue };
            lists.extend(node.named("value_ints").map(|own| (output.clone(), own.ints.clone())));
            for attribute in NodeParts::decode(bytes.as_slice())?.attribute {
                let value = AttributeParts::decode(attribute.as_slice())?.t;
                let list = value.map(|value| ListTensor::list(&value)).transpose()?.flatten();
                lists.extend(list.map(|list| (output.clone(), list)));
            }
        }
        // Longer ones are no shapes.
        lists.retain(|_, list| list.len() <= MAX_RANK);
        Ok(lists)
    }
}

/// A value of floats whose first side is one, with that opened; none where it is another one.
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

/// A `Concat` that computes the shape of a batch: the number of images, then these sides.
fn shape_of_batch(others: &TensorProto, to: &str) -> Vec<u8> {
    node("Concat", vec![BATCH.into(), others.name.clone()], to, vec![int("axis", 0)]).encode_to_vec()
}

/// Whether a node joins values of each image, not images.
fn joins_within_images(node: &NodeProto) -> bool {
    let axis = node.named("axis").and_then(|own| own.i);
    node.op_type == "Concat" && is_onnx_domain(&node.domain) && axis != Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::onnx_proto::{FLOAT, OperatorSetProto, ShapeProto, TensorTypeProto, TypeProto, whole_numbers};

    fn value(name: &str, sides: &[i64]) -> ValueInfoProto {
        let dim = sides.iter().map(|&size| DimensionProto { dim_value: (size > 0).then_some(size), dim_param: None });
        let tensor_type = TensorTypeProto { elem_type: FLOAT, shape: Some(ShapeProto { dim: dim.collect() }) };
        ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type: Some(tensor_type) }) }
    }

    fn of(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
        node(operator, inputs.iter().map(|&name| name.into()).collect(), output, vec![])
    }

    /// The model around a graph.
    fn model() -> ModelParts {
        let opset_import = vec![OperatorSetProto { domain: String::new(), version: 18 }];
        ModelParts { ir_version: 8, opset_import, ..ModelParts::default() }
    }

    /// A graph of images of 3 x 8 x 8 numbers, with two lists of sides.
    fn graph(batch: i64, nodes: &[NodeProto]) -> GraphParts {
        let lists = [whole_numbers("row", vec![2], &[1, -1]), whole_numbers("rows", vec![2], &[2, -1])];
        let weight = TensorProto { dims: vec![4, 5], data_type: FLOAT, name: "w".into(), raw_data: vec![0; 80] };
        GraphParts {
            node: nodes.iter().map(Message::encode_to_vec).collect(),
            initializer: lists.into_iter().chain([weight]).map(|one| one.encode_to_vec().into()).collect(),
            input: vec![value("x", &[batch, 3, 8, 8]).encode_to_vec()],
            output: vec![value("y", &[batch, 192]).encode_to_vec()],
            value_info: vec![value("a", &[batch, 3, 8, 8]).encode_to_vec()],
            ..GraphParts::default()
        }
    }

    #[test]
    fn a_batch_of_one_becomes_a_batch_of_any_size() {
        // As PyTorch's newer exporter writes it.
        let reshaping = node("Reshape", vec!["a".into(), "row".into()], "y", vec![int("allowzero", 1)]);
        let before = [of("Relu", &["x"], "a"), of("Reshape", &["w", "row"], "b"), reshaping];
        let mut opened = graph(1, &before);
        assert!(opened.open_batch(&model()).unwrap());
        assert_eq!(opened.input, [value("x", &[0, 3, 8, 8]).encode_to_vec()]);
        assert_eq!((&opened.output[..], opened.value_info.len()), (&[value("y", &[0, 192]).encode_to_vec()][..], 0));
        let after = opened.nodes().unwrap();
        assert_eq!(after[2..4], before[..2], "what does not come from the images stays");
        let [counted, shape, reshaped] = [1, 4, 5].map(|at| &after[at]);
        assert_eq!((&*counted.op_type, &*shape.op_type), ("Gather", "Concat"));
        assert_eq!(shape.input, [counted.output[0].clone(), "y.orco.others".to_owned()], "the number of images, not 0");
        assert_eq!(reshaped.input, ["a".to_owned(), shape.output[0].clone()]);
        assert_eq!(reshaped.attribute, before[2].attribute);
        let others = TensorProto::decode(&opened.initializer[3][..]).unwrap();
        assert_eq!(others, list_of_whole_numbers("y.orco.others", &[-1]));
        assert!(!opened.open_batch(&model()).unwrap(), "a second time");
    }

    #[test]
    fn every_image_gets_the_class_token() {
        let joined = || node("Concat", vec!["made".into(), "a".into()], "y", vec![int("axis", 1)]);
        // As exporters write it, a row that is repeated, and one that positions were added to.
        for (dims, made) in [
            (&[1, 1, 5][..], of("Expand", &["token", "ones"], "made")),
            (&[5], of("Expand", &["token", "ones"], "made")),
            (&[1, 1, 5], of("Add", &["token", "token"], "made")),
        ] {
            let token =
                TensorProto { dims: dims.to_vec(), data_type: FLOAT, name: "token".into(), raw_data: vec![0; 20] };
            let mut opened = graph(1, &[made.clone(), of("Relu", &["x"], "a"), joined()]);
            opened.initializer.push(token.encode_to_vec().into());
            opened.initializer.push(whole_numbers("ones", vec![3], &[1, 1, 1]).encode_to_vec().into());
            assert!(opened.open_batch(&model()).unwrap());
            let nodes = opened.nodes().unwrap();
            let operators: Vec<&str> = nodes.iter().map(|node| node.op_type.as_str()).collect();
            assert_eq!(operators, ["Shape", "Gather", made.op_type.as_str(), "Relu", "Concat", "Expand", "Concat"]);
            assert_eq!(nodes[1].output, nodes[4].input[..1], "the number of images");
            assert_eq!((&nodes[5].input[0], &nodes[5].input[1]), (&"made".to_owned(), &nodes[4].output[0]));
            assert_eq!((&nodes[6].input[0], &nodes[6].input[1]), (&nodes[5].output[0], &"a".to_owned()));
            let added = opened.initializer[5..].iter().map(|bytes| TensorProto::decode(&bytes[..]).unwrap());
            let expected =
                [list_of_whole_numbers("y.orco.0.ones", &[1, 1]), list_of_whole_numbers("orco.batch.first", &[0])];
            assert_eq!(added.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn constants_of_nodes_are_read() {
        let mut constant = NodeParts::decode(&*of("Constant", &[], "shape").encode_to_vec()).unwrap();
        // Numbers in either form.
        let numbers = ListTensor { dims: vec![3], data_type: INT64, int64_data: vec![1, 64, 3], raw_data: vec![] };
        let value = AttributeParts {
            name: "value".into(),
            t: Some(numbers.encode_to_vec()),
            r#type: 4,
            ..AttributeParts::default()
        };
        constant.attribute.push(value.encode_to_vec());
        let mut opened = graph(1, &[of("Identity", &["x"], "a"), of("Reshape", &["a", "shape"], "y")]);
        opened.node.insert(0, constant.encode_to_vec());
        assert!(opened.open_batch(&model()).unwrap());
        let others = TensorProto::decode(&opened.initializer[3][..]).unwrap();
        assert_eq!(others, whole_numbers("y.orco.others", vec![2], &[64, 3]));
    }

    #[test]
    fn other_batches_and_shapes_stay() {
        for batch in [0, 2] {
            let mut kept = graph(batch, &[of("Reshape", &["x", "row"], "y")]);
            assert!(!kept.open_batch(&model()).unwrap(), "{batch}");
            assert_eq!(kept, graph(batch, &[of("Reshape", &["x", "row"], "y")]));
        }
        let resized = of("Resize", &["x", "", "", "row"], "y");
        assert!(!graph(1, &[resized]).open_batch(&model()).unwrap(), "to one map");
        for kept in [of("Reshape", &["x", "rows"], "y"), of("Expand", &["x", "row"], "y")] {
            let mut opened = graph(1, std::slice::from_ref(&kept));
            assert!(opened.open_batch(&model()).unwrap());
            assert_eq!(opened.nodes().unwrap(), [kept]);
        }
    }
}
