//! Opens the batch of a model that was exported for one image: exporters write that one into its shapes. Each value that
//! is computed of the image is followed to where several images would lie in it ([`Place`]); shapes and constants that
//! count them are changed there.

use std::collections::{HashMap, HashSet};

use orco_runtime::encoder::audit::MAX_RANK;
use orco_runtime::encoder::audit::bounds::sides_of_values;
use prost::{DecodeError, Message};

use super::parts::{AttributeParts, GraphParts, ModelParts, NodeParts, Replacement, TensorHeader, replace};
use crate::model::onnx_proto::{
    DimensionProto, INT64, NodeProto, TensorProto, ValueInfoProto, int, list_of_whole_numbers, node,
};

/// What the number of images is called.
const BATCH: &str = "orco.batch";
/// Most constants that are repeated for each image.
const MOST_REPEATED: usize = 64;
/// Operators whose inputs are broadcast against each other, sorted.
const ELEMENTWISE: [&str; 16] = [
    "Add",
    "And",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Min",
    "Mul",
    "Or",
    "Pow",
    "Sub",
    "Sum",
    "Where",
];

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
        let tensor = Self::decode(bytes)?;
        Ok((tensor.data_type == INT64 && tensor.dims.len() == 1).then(|| tensor.numbers()))
    }

    fn numbers(self) -> Vec<i64> {
        let raw = self.raw_data.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes));
        raw.chain(self.int64_data).collect()
    }
}

/// Constants that are lists of whole numbers, by name.
type Lists = HashMap<String, Vec<i64>>;
/// Sides of values for one image, by name.
type Sides = HashMap<String, Vec<u64>>;

/// Where images lie in a value: one after the other along an axis, in each of its blocks. Windows of images have one
/// block; where each row of tokens holds the token of every image, there are as many as tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    axis: usize,
    blocks: u64,
}

impl Place {
    /// Where images lie in what a node computes of them, if its input `at` has these sides, and its output those. None
    /// where that cannot be told.
    fn follow(self, own: &NodeProto, at: usize, from: &[u64], to: &[u64], lists: &Lists) -> Option<Self> {
        let is_own = |&axis: &i64| usize::try_from(axis) == Ok(self.axis);
        let number = |name: &str| own.named(name).and_then(|own| own.i);
        // The axes of a value of this rank without those that the node names.
        let others = |rank: usize| {
            let named = match (own.named("axes"), number("axis")) {
                (Some(axes), _) => axes.ints.clone(),
                (None, Some(axis)) => vec![axis],
                (None, None) => lists.get(own.input.get(1)?)?.clone(),
            };
            let rank = rank as i64;
            let is_other = |axis: &i64| !named.contains(axis) && !named.contains(&(axis - rank));
            Some((0..rank).filter(is_other).collect::<Vec<_>>())
        };
        // Broadcasting and most others keep axes, counted from the last.
        let kept = (self.axis + to.len()).checked_sub(from.len());
        let is_shorter = to.len() < from.len();
        let axis = match own.op_type.as_str() {
            "Flatten" | "Reshape" => return self.reshaped(from, to),
            "Transpose" => match own.named("perm") {
                Some(order) => order.ints.iter().position(is_own)?,
                None => from.len().checked_sub(self.axis + 1)?,
            },
            "Unsqueeze" => usize::try_from(*others(to.len())?.get(self.axis)?).ok()?,
            operator if is_shorter && (matches!(operator, "ArgMax" | "Squeeze") || operator.starts_with("Reduce")) => {
                others(from.len())?.iter().position(is_own)?
            }
            "Gather" => match usize::try_from(number("axis").unwrap_or(0).rem_euclid(from.len() as i64)).ok()? {
                gathered if at > 0 || gathered == self.axis => return None,
                gathered if gathered < self.axis => kept?,
                _ => self.axis,
            },
            "Einsum" => {
                let equation = own.named("equation")?.s.as_deref()?;
                let equation: String = str::from_utf8(equation).ok()?.split_whitespace().collect();
                let (inputs, output) = equation.split_once("->").filter(|_| !equation.contains('.'))?;
                let letter = inputs.split(',').nth(at)?.chars().nth(self.axis)?;
                output.chars().position(|other| other == letter)?
            }
            _ => kept?,
        };
        (to.get(axis)? == from.get(self.axis)?).then_some(Self { axis, ..self })
    }

    /// Where images may lie in a value that has these sides for one: here, or beside, where both sides are 1.
    fn choices(self, sides: &[u64]) -> Vec<Self> {
        let is_one = |axis: usize| sides.get(axis) == Some(&1);
        let beside = [self.axis.checked_sub(1), self.axis.checked_add(1)].into_iter().flatten();
        let beside = beside.filter(|&axis| self.blocks == 1 && is_one(self.axis) && is_one(axis));
        std::iter::once(self.axis).chain(beside).map(|axis| Self { axis, ..self }).collect()
    }

    /// Where images lie once what has sides `from` has sides `to`: as many numbers come before them.
    fn reshaped(self, from: &[u64], to: &[u64]) -> Option<Self> {
        let mut before = from.get(..self.axis)?.iter().product::<u64>() * self.blocks;
        for (axis, &side) in to.iter().enumerate() {
            // The last axis has features, which are as many whatever the batch.
            let is_behind = side == before && axis + 2 >= to.len();
            if before == 1 || side > before || is_behind {
                return side.is_multiple_of(before).then_some(Self { axis, blocks: before });
            }
            if !before.is_multiple_of(side) {
                return None;
            }
            before /= side;
        }
        None
    }
}

/// What a node makes of images.
#[derive(Clone, Copy)]
struct Step<'a> {
    /// Its input that has them.
    at: usize,
    /// The sides of that, for one image.
    from: &'a [u64],
    /// Where the node has to find them in it, if they lie elsewhere.
    moved: Option<Place>,
    /// Where they lie in its output.
    place: Place,
    /// The sides of that, for one image.
    to: &'a [u64],
}

/// Whether a node still makes of several images what it makes of one: broadcasting may hide that it mixes them.
fn mixes_images(own: &NodeProto, followed: Option<Step<'_>>, lists: &Lists) -> bool {
    let list = |at: usize| own.input.get(at).and_then(|input| lists.get(input));
    match own.op_type.as_str() {
        "Reshape" => followed.is_none() && list(1).is_some_and(|sides| sides.first() == Some(&1)),
        "Resize" if own.named("axes").is_some() => list(3).is_some_and(|sides| sides.first() == Some(&1)),
        "Resize" => list(3).is_some() && followed.is_none_or(|step| step.to[step.place.axis] != 1),
        _ => false,
    }
}

/// The nodes of a model that takes any number of images, as far as it is made.
#[derive(Default)]
struct OpenedGraph {
    nodes: Vec<Vec<u8>>,
    constants: Vec<TensorProto>,
    /// How many constants are repeated for each image.
    repeated: usize,
    /// Whether a node reads the number of images.
    is_counted: bool,
}

impl OpenedGraph {
    fn list(&mut self, name: String, values: &[i64]) -> String {
        self.constants.push(list_of_whole_numbers(&name, values));
        name
    }

    /// A list of the sides that a value of any number of images has, if it has these for one.
    fn any_number(&mut self, name: String, place: Place, sides: &[u64]) -> String {
        let mut sides: Vec<i64> = sides.iter().map(|side| side.cast_signed()).collect();
        sides[place.axis] = -1;
        self.list(name, &sides)
    }

    /// Has images lie elsewhere in a value that has these sides for one.
    fn move_images(&mut self, value: &str, place: Place, sides: &[u64], reader: &str) -> String {
        let name = format!("{BATCH}.{reader}.moved");
        let sides = self.any_number(format!("{name}.sides"), place, sides);
        self.nodes.push(node("Reshape", vec![value.to_owned(), sides], &name, vec![]).encode_to_vec());
        name
    }

    /// Computes a list with the number of images between others.
    fn with_batch(&mut self, name: String, before: &[i64], after: &[i64]) -> String {
        self.is_counted = true;
        let mut parts = Vec::new();
        if !before.is_empty() {
            parts.push(self.list(format!("{name}.before"), before));
        }
        parts.push(BATCH.to_owned());
        if !after.is_empty() {
            parts.push(self.list(format!("{name}.after"), after));
        }
        self.nodes.push(node("Concat", parts, &name, vec![int("axis", 0)]).encode_to_vec());
        name
    }

    /// Opens the shape that a node gives to images, which is `to` for one of them.
    fn open_shape(&mut self, own: &NodeProto, parts: &mut NodeParts, place: Place, to: &[u64], lists: &Lists) {
        let list = own.input.get(1).and_then(|input| lists.get(input));
        // There, 0 takes over a side, and -1 takes what is left.
        let is_open = list.and_then(|sides| sides.get(place.axis)).is_some_and(|&side| side <= 0);
        let has_sizes = own.input.get(3).is_some_and(|sizes| !sizes.is_empty()) && own.named("axes").is_none();
        let mut sides: Vec<i64> = to.iter().map(|side| side.cast_signed()).collect();
        let (side, name) = (sides[place.axis], format!("{BATCH}.{}.sides", own.output[0]));
        match own.op_type.as_str() {
            "Reshape" if !is_open && own.input.len() == 2 => {
                parts.input[1] = self.any_number(name, place, to);
            }
            "Expand" if side > 1 => {
                sides[place.axis] = 1;
                parts.input[1] = self.list(name, &sides);
            }
            "Resize" if side == 1 && has_sizes => {
                parts.input[3] = self.with_batch(name, &sides[..place.axis], &sides[place.axis + 1..]);
            }
            _ => {}
        }
    }

    /// Repeats constants that a node joins to images, adds to them and the like.
    fn repeat_constants(
        &mut self,
        own: &NodeProto,
        parts: &mut NodeParts,
        place: Place,
        to: &[u64],
        is_constant: impl Fn(&str) -> bool,
        sides: &Sides,
    ) {
        let is_axis = |axis: i64| usize::try_from(axis.rem_euclid(to.len().max(1) as i64)) == Ok(place.axis);
        let is_joining = own.op_type == "Concat";
        let is_meant = match own.op_type.as_str() {
            "Concat" => own.named("axis").and_then(|own| own.i).is_some_and(|axis| !is_axis(axis)),
            "MatMul" => place.axis + 2 < to.len(),
            operator => ELEMENTWISE.binary_search(&operator).is_ok(),
        };
        if !is_meant || place.blocks > 1 {
            return;
        }
        for (at, input) in own.input.iter().enumerate().filter(|(_, input)| is_constant(input)) {
            let Some(own_sides) = sides.get(input) else { continue };
            // Those that lack the axis, or have one side there, are broadcast.
            let Some(axis) = (place.axis + own_sides.len()).checked_sub(to.len()) else { continue };
            if own_sides.get(axis).is_none_or(|&side| side == 1 && !is_joining) {
                continue;
            }
            let name = format!("{BATCH}.{}.{at}", own.output[0]);
            let (before, after) = (vec![1; axis], vec![1; own_sides.len() - axis - 1]);
            let repeats = self.with_batch(format!("{name}.repeats"), &before, &after);
            self.nodes.push(node("Tile", vec![input.clone(), repeats], &name, vec![]).encode_to_vec());
            parts.input[at] = name;
            self.repeated += 1;
        }
    }
}

impl GraphParts {
    /// Where the input takes exactly one image, lets it take any number: shapes have as many rows as there are images,
    /// and class tokens and masks of windows are repeated for each. Whether it did. Nodes must be in order. Results for
    /// one image do not change. A layer that still assumes one image has no shapes for two, or mixes them; the model is
    /// refused for that later.
    pub(super) fn open_batch(&mut self, model: &ModelParts) -> Result<bool, DecodeError> {
        let weights = self.weights()?;
        let inputs = self.input.iter().map(|bytes| ValueInfoProto::decode(bytes.as_slice()));
        let takes_one = |value: &ValueInfoProto| {
            value.sizes().is_some_and(|sizes| matches!(sizes[..], [Some(1), _, _, _])) && !weights.contains(&value.name)
        };
        let Some(images) = inputs.collect::<Result<Vec<_>, _>>()?.into_iter().find(takes_one) else { return Ok(false) };
        let model = ModelParts { graph: Some(self.clone()), ..model.clone() };
        // Where they cannot be inferred, two images do not fit, for which the model is refused later.
        let sides = sides_of_values(&model.encode_to_vec()).unwrap_or_default();
        drop(model);
        self.reshape_what_is_in_order(&sides)?;
        let nodes = self.nodes()?;
        let lists = self.lists(&nodes)?;
        // Of what is computed of images.
        let mut places = HashMap::from([(images.name.as_str(), Some(Place { axis: 0, blocks: 1 }))]);
        // Computed of their sides alone.
        let mut of_sides = HashSet::<&str>::new();
        let mut opened = OpenedGraph::default();
        for (bytes, own) in self.node.iter().zip(&nodes) {
            let mut parts = NodeParts::decode(bytes.as_slice())?;
            let placed = |(at, input): (usize, &String)| Some((at, (*places.get(input.as_str())?)?));
            let followed = own.input.iter().enumerate().find_map(placed).and_then(|(at, place)| {
                let (from, to) = (sides.get(&own.input[at])?, sides.get(own.output.first()?)?);
                let follow = |chosen: Place| Some((chosen, chosen.follow(own, at, from, to, &lists)?));
                let (chosen, after) = place.choices(from).into_iter().find_map(follow)?;
                Some(Step { at, from, moved: (chosen != place).then_some(chosen), place: after, to })
            });
            let followed = followed.filter(|_| own.op_type != "Shape");
            if let Some(Step { at, from, moved, place, to }) = followed {
                if let Some(moved) = moved {
                    parts.input[at] = opened.move_images(&own.input[at], moved, from, &own.output[0]);
                }
                opened.open_shape(own, &mut parts, place, to, &lists);
                let is_constant = |input: &str| !places.contains_key(input) && !of_sides.contains(input);
                opened.repeat_constants(own, &mut parts, place, to, is_constant, &sides);
            }
            let has_images = own.input.iter().any(|input| places.contains_key(input.as_str()));
            let has_sides = own.input.iter().any(|input| of_sides.contains(input.as_str()));
            let given = own.output.iter().map(String::as_str).filter(|output| !output.is_empty());
            if has_images && own.op_type != "Shape" {
                if opened.repeated > MOST_REPEATED || mixes_images(own, followed, &lists) {
                    return Ok(false);
                }
                let place = followed.map(|step| step.place);
                places.extend(given.map(|output| (output, place)));
            } else if has_images || has_sides {
                of_sides.extend(given);
            }
            opened.nodes.push(parts.encode_to_vec());
        }
        let OpenedGraph { nodes: opened, mut constants, is_counted, .. } = opened;
        self.node.clear();
        if is_counted {
            let [all, first] = ["sides", "first"].map(|part| format!("{BATCH}.{part}"));
            constants.push(list_of_whole_numbers(&first, &[0]));
            let counted = [
                node("Shape", vec![images.name.clone()], &all, vec![]),
                node("Gather", vec![all.clone(), first], BATCH, vec![]),
            ];
            self.append(&counted, &[]);
        }
        self.node.extend(opened);
        self.append(&[], &constants);
        replace(&mut self.input, |bytes| with_open_batch(bytes, |name| name == images.name))?;
        replace(&mut self.output, |bytes| with_open_batch(bytes, |_| true))?;
        // They speak of one image.
        self.value_info.clear();
        log::info!("the backbone takes one image at a time; it is made to take any number");
        Ok(true)
    }

    /// Has nodes that gather all numbers of a list in their order reshape it: PyTorch's newer exporter writes strides that
    /// change nothing so.
    fn reshape_what_is_in_order(&mut self, sides: &Sides) -> Result<(), DecodeError> {
        for at in 0..self.node.len() {
            let own = NodeProto::decode(self.node[at].as_slice())?;
            let ("Gather", [list, order], [output]) = (own.op_type.as_str(), &own.input[..], &own.output[..]) else {
                continue;
            };
            let (Some([length]), Some(to)) = (sides.get(list).map(Vec::as_slice), sides.get(output)) else { continue };
            if !self.is_in_order(order, *length)? {
                continue;
            }
            let to: Vec<i64> = to.iter().map(|side| side.cast_signed()).collect();
            let shape = list_of_whole_numbers(&format!("{BATCH}.{output}.shape"), &to);
            self.node[at] = node("Reshape", vec![list.clone(), shape.name.clone()], output, vec![]).encode_to_vec();
            self.append(&[], &[shape]);
        }
        Ok(())
    }

    /// Whether it has a constant of this name that is as many whole numbers, from 0 on.
    fn is_in_order(&self, name: &str, length: u64) -> Result<bool, DecodeError> {
        for bytes in &self.initializer {
            let header = TensorHeader::decode(&bytes[..])?;
            if header.name == name && header.data_type == INT64 {
                return Ok(ListTensor::decode(&bytes[..])?.numbers().into_iter().eq(0..length.cast_signed()));
            }
        }
        Ok(false)
    }

    /// Its constants that are lists of whole numbers, by name: weights, and those of its nodes, if these are given.
    pub(super) fn lists(&self, nodes: &[NodeProto]) -> Result<Lists, DecodeError> {
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

#[cfg(test)]
mod tests {
    use prost::bytes::Bytes;

    use super::*;
    use crate::model::onnx_proto::{
        FLOAT, OperatorSetProto, ShapeProto, TensorTypeProto, TypeProto, ints, text, whole_numbers,
    };

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
        assert_eq!(after[..2], before[..2], "what does not come from the images stays");
        assert_eq!(after[2].input, ["a", "orco.batch.y.sides"]);
        assert_eq!((after.len(), &after[2].attribute), (3, &before[2].attribute));
        assert_eq!(last_constant(&opened), list_of_whole_numbers("orco.batch.y.sides", &[-1, 192]));
        assert!(!opened.open_batch(&model()).unwrap(), "a second time");
    }

    fn last_constant(graph: &GraphParts) -> TensorProto {
        TensorProto::decode(&graph.initializer.last().unwrap()[..]).unwrap()
    }

    /// A constant of zeros.
    fn zeros(name: &str, dims: &[i64]) -> Bytes {
        let raw_data = vec![0; 4 * dims.iter().product::<i64>() as usize];
        TensorProto { dims: dims.to_vec(), data_type: FLOAT, name: name.into(), raw_data }.encode_to_vec().into()
    }

    #[test]
    fn every_image_gets_the_class_token() {
        let joined = || node("Concat", vec!["made".into(), "a".into()], "y", vec![int("axis", 1)]);
        // As exporters write it, a row that is repeated, and one that positions were added to.
        for (dims, made) in [
            (&[1, 1, 8, 8][..], of("Expand", &["token", "ones"], "made")),
            (&[8], of("Expand", &["token", "ones"], "made")),
            (&[1, 1, 8, 8], of("Add", &["token", "token"], "made")),
        ] {
            let mut opened = graph(1, &[made.clone(), of("Relu", &["x"], "a"), joined()]);
            opened.initializer.push(zeros("token", dims));
            opened.initializer.push(whole_numbers("ones", vec![4], &[1, 1, 8, 8]).encode_to_vec().into());
            assert!(opened.open_batch(&model()).unwrap());
            let nodes = opened.nodes().unwrap();
            let operators: Vec<&str> = nodes.iter().map(|node| node.op_type.as_str()).collect();
            assert_eq!(operators, ["Shape", "Gather", made.op_type.as_str(), "Relu", "Concat", "Tile", "Concat"]);
            assert_eq!(nodes[1].output, nodes[4].input[..1], "the number of images");
            assert_eq!((&nodes[5].input[0], &nodes[5].input[1]), (&"made".to_owned(), &nodes[4].output[0]));
            assert_eq!((&nodes[6].input[0], &nodes[6].input[1]), (&nodes[5].output[0], &"a".to_owned()));
            let added = opened.initializer[5..].iter().map(|bytes| TensorProto::decode(&bytes[..]).unwrap());
            let expected = [
                list_of_whole_numbers("orco.batch.y.0.repeats.after", &[1, 1, 1]),
                list_of_whole_numbers("orco.batch.first", &[0]),
            ];
            assert_eq!(added.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn windows_of_every_image_get_the_mask() {
        let windows = || Bytes::from(list_of_whole_numbers("windows", &[12, 4, 4]).encode_to_vec());
        // Twelve windows of an image, of 4 x 4 numbers, and as many masks.
        let nodes =
            [of("Reshape", &["x", "windows"], "a"), of("Add", &["a", "mask"], "b"), of("Reshape", &["b", "row"], "y")];
        let mut opened = graph(1, &nodes);
        opened.initializer.extend([zeros("mask", &[12, 4, 4]), windows()]);
        assert!(opened.open_batch(&model()).unwrap());
        let after = opened.nodes().unwrap();
        let operators: Vec<&str> = after.iter().map(|node| node.op_type.as_str()).collect();
        assert_eq!(operators, ["Shape", "Gather", "Reshape", "Concat", "Tile", "Add", "Reshape"]);
        assert_eq!(after[4].input, ["mask", "orco.batch.b.1.repeats"]);
        assert_eq!(after[5].input, ["a", "orco.batch.b.1"]);
        let sides = TensorProto::decode(&opened.initializer[5][..]).unwrap();
        assert_eq!(sides, list_of_whole_numbers("orco.batch.a.sides", &[-1, 4, 4]));
        // A mask that all windows share is broadcast.
        let mut shared = graph(1, &nodes);
        shared.initializer.extend([zeros("mask", &[1, 4, 4]), windows()]);
        assert!(shared.open_batch(&model()).unwrap());
        assert_eq!(shared.nodes().unwrap()[1], nodes[1]);
    }

    #[test]
    fn maps_are_resized_for_every_image() {
        let mut opened = graph(1, &[of("Resize", &["x", "", "", "sizes"], "y")]);
        opened.initializer.push(list_of_whole_numbers("sizes", &[1, 3, 4, 4]).encode_to_vec().into());
        assert!(opened.open_batch(&model()).unwrap());
        let after = opened.nodes().unwrap();
        assert_eq!(after[2].input, [BATCH, "orco.batch.y.sides.after"]);
        assert_eq!(after[3].input, ["x", "", "", "orco.batch.y.sides"]);
    }

    /// Of an image and a token, both of which may be what the first side counts.
    #[test]
    fn images_lie_where_nothing_is_taken_out() {
        let taken = node("Gather", vec!["a".into(), "first".into()], "y", vec![int("axis", 0)]);
        let mut opened = graph(1, &[of("Reshape", &["x", "token"], "a"), taken]);
        opened.initializer.push(list_of_whole_numbers("token", &[1, 1, 192]).encode_to_vec().into());
        opened.initializer.push(whole_numbers("first", vec![], &[0]).encode_to_vec().into());
        assert!(opened.open_batch(&model()).unwrap());
        let after = opened.nodes().unwrap();
        assert_eq!((after[1].op_type.as_str(), &after[2].input[0]), ("Reshape", &after[1].output[0]));
        assert_eq!(last_constant(&opened), list_of_whole_numbers("orco.batch.y.moved.sides", &[1, -1, 192]));
    }

    /// As PyTorch's newer exporter writes a mean over maps with their channels last.
    #[test]
    fn gathering_all_in_their_order_is_reshaping() {
        let flat: Vec<i64> = (0..192).collect();
        let mut opened = graph(1, &[of("Reshape", &["x", "all"], "a"), of("Gather", &["a", "order"], "y")]);
        opened.initializer.push(whole_numbers("all", vec![1], &[-1]).encode_to_vec().into());
        opened.initializer.push(whole_numbers("order", vec![1, 192], &flat).encode_to_vec().into());
        assert!(opened.open_batch(&model()).unwrap());
        let after = opened.nodes().unwrap();
        assert_eq!((&*after[1].op_type, &*after[1].input[1]), ("Reshape", "orco.batch.y.sides"));
        assert_eq!(last_constant(&opened), list_of_whole_numbers("orco.batch.y.sides", &[-1, 192]));
    }

    #[test]
    fn images_are_followed() {
        let along = |axis| Place { axis, blocks: 1 };
        let rows = Place { axis: 0, blocks: 9 };
        let lists = Lists::from([("axes".to_owned(), vec![-1])]);
        let reshape = || of("Reshape", &[], "y");
        let turned = node("Transpose", vec![], "y", vec![ints("perm", vec![1, 0, 2])]);
        let einsum = node("Einsum", vec![], "y", vec![text("equation", "bhn, bhm -> hbnm")]);
        let taken = |axis| node("Gather", vec![], "y", vec![int("axis", axis)]);
        for (place, own, from, to, expected) in [
            (along(0), turned, &[1, 9, 4][..], &[9, 1, 4][..], Some(along(1))),
            (along(1), reshape(), &[9, 1, 4], &[9, 4], Some(rows)),
            (rows, reshape(), &[9, 4], &[9, 2, 2], Some(along(1))),
            (along(0), reshape(), &[1, 8, 8], &[4, 4, 4], Some(along(0))),
            (along(1), reshape(), &[6, 1, 4], &[4, 6], None),
            (along(0), of("Unsqueeze", &["x", "axes"], "y"), &[1, 4], &[1, 4, 1], Some(along(0))),
            (along(1), of("ReduceMean", &["x", "axes"], "y"), &[9, 1, 4], &[9, 1], Some(along(1))),
            (along(1), taken(0), &[3, 1, 4], &[1, 4], Some(along(0))),
            (along(1), taken(1), &[3, 1, 4], &[3, 4], None),
            (along(0), einsum, &[1, 2, 9], &[2, 1, 9, 9], Some(along(1))),
            (along(0), of("MatMul", &[], "y"), &[1, 9], &[5, 1, 9], Some(along(1))),
            (along(0), of("Add", &[], "y"), &[1, 9], &[5, 9], None),
        ] {
            assert_eq!(place.follow(&own, 0, from, to, &lists), expected, "{own:?}, {from:?}");
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
        let lists = opened.lists(&opened.nodes().unwrap()).unwrap();
        assert_eq!(lists["shape"], [1, 64, 3]);
        assert!(opened.open_batch(&model()).unwrap());
        assert_eq!(last_constant(&opened), list_of_whole_numbers("orco.batch.y.sides", &[-1, 64, 3]));
    }

    #[test]
    fn other_batches_and_shapes_stay() {
        for batch in [0, 2] {
            let mut kept = graph(batch, &[of("Reshape", &["x", "row"], "y")]);
            assert!(!kept.open_batch(&model()).unwrap(), "{batch}");
            assert_eq!(kept, graph(batch, &[of("Reshape", &["x", "row"], "y")]));
        }
        // The first would shrink all images to one, the second make one long row of them.
        let resized =
            node("Resize", ["x", "", "", "sizes"].map(str::to_owned).to_vec(), "y", vec![ints("axes", vec![0])]);
        let taken = node("Gather", vec!["x".into(), "first".into()], "a", vec![int("axis", 0)]);
        for nodes in [&[resized][..], &[taken, of("Reshape", &["a", "row"], "y")]] {
            let mut mixed = graph(1, nodes);
            mixed.initializer.push(whole_numbers("sizes", vec![1], &[1]).encode_to_vec().into());
            mixed.initializer.push(whole_numbers("first", vec![], &[0]).encode_to_vec().into());
            assert!(!mixed.open_batch(&model()).unwrap(), "{nodes:?}");
        }
        // An image may have two rows.
        let mut rows = graph(1, &[of("Reshape", &["x", "rows"], "y")]);
        assert!(rows.open_batch(&model()).unwrap());
        assert_eq!(last_constant(&rows), list_of_whole_numbers("orco.batch.y.sides", &[-1, 96]));
        // A list that takes what is left, and one that an image cannot have.
        for kept in [of("Reshape", &["x", "rows"], "y"), of("Expand", &["x", "row"], "y")] {
            let mut opened = graph(1, std::slice::from_ref(&kept));
            opened.initializer[1] = whole_numbers("rows", vec![2], &[-1, 96]).encode_to_vec().into();
            assert!(opened.open_batch(&model()).unwrap());
            assert_eq!(opened.nodes().unwrap(), [kept]);
        }
    }
}
