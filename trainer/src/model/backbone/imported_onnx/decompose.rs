//! Writes operators that an engine lacks, or computes in another way, as several that both have: `Attention` and
//! `RMSNormalization` of opset 23, `GroupNormalization` of opset 21, weight standardisation (Qiao et al., 2019), and functions such as `Celu`. tf2onnx
//! leaves some of TensorFlow's own, such as the `Erfc` of GELU. A further one is a function here and an arm of
//! [`rule_of`].

use std::collections::{HashMap, HashSet};

use prost::{DecodeError, Message};

use super::lists::Lists;
use super::parts::{GraphParts, TensorHeader, is_onnx_domain};
use super::pixels::MOVES;
use crate::model::onnx_proto::{
    AttributeProto, BOOL, FLOAT, NodeProto, TensorProto, int, ints, list_of_whole_numbers, node,
};

/// What takes a node's place.
#[derive(Default)]
struct Pieces {
    /// What the names of values between the nodes begin with.
    prefix: String,
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
}

impl Pieces {
    /// Pieces of the node that gives this value.
    fn of(output: &str) -> Self {
        Self { prefix: format!("{output}.orco"), ..Self::default() }
    }

    /// Adds a node and returns the name of its output.
    fn node(&mut self, operator: &str, inputs: &[&str], settings: Vec<AttributeProto>) -> String {
        let name = format!("{}.{}", self.prefix, self.nodes.len());
        let inputs = inputs.iter().map(|&input| input.to_owned()).collect();
        self.nodes.push(node(operator, inputs, &name, settings));
        name
    }

    fn constant(&mut self, make: impl FnOnce(&str) -> TensorProto) -> String {
        let name = format!("{}.constant.{}", self.prefix, self.constants.len());
        self.constants.push(make(&name));
        name
    }

    fn number(&mut self, value: f32) -> String {
        let raw_data = value.to_le_bytes().into();
        self.constant(|name| TensorProto { dims: vec![], data_type: FLOAT, name: name.into(), raw_data })
    }

    fn list(&mut self, values: &[i64]) -> String {
        self.constant(|name| list_of_whole_numbers(name, values))
    }

    /// The pieces, the last of which gives the value that the node gave.
    fn giving(mut self, output: &str) -> Self {
        if let Some(last) = self.nodes.last_mut() {
            last.output = vec![output.to_owned()];
        }
        self
    }
}

/// What is known of a graph's values, by name.
struct Values {
    types: HashMap<String, i32>,
    ranks: HashMap<String, usize>,
    /// Numbers in weights of one axis.
    lengths: HashMap<String, i64>,
    /// Weights of three axes and more, the first of which is of length 1: what weight standardisation reshapes to.
    single: HashSet<String>,
    /// Constants that are lists of whole numbers.
    lists: Lists,
}

impl Values {
    fn of(graph: &GraphParts) -> Result<Self, DecodeError> {
        let (mut types, mut ranks) = (HashMap::new(), HashMap::new());
        let (mut lengths, mut single) = (HashMap::new(), HashSet::new());
        for value in graph.values()? {
            let Some(tensor) = value.r#type.and_then(|kind| kind.tensor_type) else { continue };
            ranks.extend(tensor.shape.map(|shape| (value.name.clone(), shape.dim.len())));
            types.insert(value.name, tensor.elem_type);
        }
        for bytes in &graph.initializer {
            let TensorHeader { dims, data_type, name } = TensorHeader::decode(&bytes[..])?;
            if matches!(dims[..], [1, _, _, ..]) {
                single.insert(name.clone());
            }
            if let [length] = dims[..] {
                lengths.insert(name.clone(), length);
            }
            types.insert(name, data_type);
        }
        // With `optimize=False`, PyTorch's newer exporter declares the values between its layers alone.
        for node in graph.nodes()?.iter().filter(|node| is_onnx_domain(&node.domain)) {
            let ([from, ..], [to]) = (&node.input[..], &node.output[..]) else { continue };
            if let (true, Some(&data_type)) = (MOVES.contains(&node.op_type.as_str()), types.get(from)) {
                types.entry(to.clone()).or_insert(data_type);
            }
        }
        Ok(Self { types, ranks, lengths, single, lists: graph.lists(&[])? })
    }
}

/// Makes the pieces of a node, if it covers that.
type Rule = fn(&NodeProto, &Values) -> Option<Pieces>;

fn rule_of(node: &NodeProto) -> Option<Rule> {
    let rule: Rule = match node.op_type.as_str() {
        "Attention" => attention,
        "BatchNormalization" => standardised_weight,
        "CastLike" => cast_like,
        "Celu" => celu,
        "Col2Im" => blocks_side_by_side,
        "Erfc" => erfc,
        "Expm1" => expm1,
        "GroupNormalization" => group_normalization,
        "Mean" => mean,
        "Mish" => mish,
        "RMSNormalization" => rms_normalization,
        "Tan" => tan,
        "ThresholdedRelu" => thresholded_relu,
        _ => return None,
    };
    is_onnx_domain(&node.domain).then_some(rule)
}

impl GraphParts {
    /// Writes attention, norms of groups, RMS norms and some functions as the operators that they are made of, and batch norm of a
    /// weight as instance norm. What a rule does not cover stays as it is. Returns whether anything was changed.
    pub(super) fn decompose(&mut self) -> Result<bool, DecodeError> {
        let mut values = None;
        let mut is_decomposed = false;
        for bytes in std::mem::take(&mut self.node) {
            let node = NodeProto::decode(bytes.as_slice())?;
            let Some(rule) = rule_of(&node) else {
                self.node.push(bytes);
                continue;
            };
            let values = match &values {
                Some(values) => values,
                None => values.insert(Values::of(self)?),
            };
            match rule(&node, values) {
                Some(pieces) => {
                    self.append(&pieces.nodes, &pieces.constants);
                    is_decomposed = true;
                }
                None => self.node.push(bytes),
            }
        }
        Ok(is_decomposed)
    }
}

/// A whole number among a node's attributes, 0 where there is none.
fn number(node: &NodeProto, name: &str) -> i64 {
    node.whole_number(name).unwrap_or(0)
}

fn float(node: &NodeProto, name: &str) -> Option<f32> {
    node.named(name).and_then(|attribute| attribute.f)
}

/// `Attention`: softmax(Q K^T scale + mask) V for each head (Vaswani et al., 2017). Heads may lie one after the other
/// in a token, `[batch, tokens, heads * size]`, or apart, `[batch, heads, tokens, size]`. None where it has a cache of
/// keys and values, a causal mask, a soft cap, key heads that queries share, or more outputs.
fn attention(node: &NodeProto, values: &Values) -> Option<Pieces> {
    let given = |at: usize| node.input.get(at).filter(|name| !name.is_empty());
    let (query, key, value) = (given(0)?, given(1)?, given(2)?);
    let has_cache = (4..node.input.len()).any(|at| given(at).is_some());
    let gives_more = node.output.iter().skip(1).any(|name| !name.is_empty());
    let is_causal_or_capped = number(node, "is_causal") != 0 || float(node, "softcap").unwrap_or(0.0) != 0.0;
    let heads = number(node, "q_num_heads");
    if has_cache || gives_more || is_causal_or_capped || heads != number(node, "kv_num_heads") {
        return None;
    }
    let output = node.output.first().filter(|name| !name.is_empty())?;
    let mut pieces = Pieces::of(output);
    let is_apart = match values.ranks.get(query) {
        Some(4) => true,
        Some(3) if heads > 0 => false,
        None if heads <= 0 => true,
        _ => return None,
    };
    let [query, key, value] =
        [query, key, value].map(|name| if is_apart { name.clone() } else { heads_apart(&mut pieces, name, heads) });
    let scaled = scaled(&mut pieces, &query, float(node, "scale"));
    let turned = pieces.node("Transpose", &[&key], vec![ints("perm", vec![0, 1, 3, 2])]);
    let mut scores = pieces.node("MatMul", &[&scaled, &turned], vec![]);
    if let Some(mask) = given(3) {
        let added = match *values.types.get(mask)? {
            FLOAT => mask.clone(),
            BOOL => {
                let (seen, hidden) = (pieces.number(0.0), pieces.number(f32::NEG_INFINITY));
                pieces.node("Where", &[mask, &seen, &hidden], vec![])
            }
            _ => return None,
        };
        scores = pieces.node("Add", &[&scores, &added], vec![]);
    }
    let shares = pieces.node("Softmax", &[&scores], vec![int("axis", -1)]);
    let mixed = pieces.node("MatMul", &[&shares, &value], vec![]);
    if !is_apart {
        let turned = pieces.node("Transpose", &[&mixed], vec![ints("perm", vec![0, 2, 1, 3])]);
        let shape = pieces.list(&[0, 0, -1]);
        pieces.node("Reshape", &[&turned, &shape], vec![]);
    }
    Some(pieces.giving(output))
}

/// Tokens `[batch, tokens, heads * size]` as `[batch, heads, tokens, size]`.
fn heads_apart(pieces: &mut Pieces, tokens: &str, heads: i64) -> String {
    let shape = pieces.list(&[0, 0, heads, -1]);
    let split = pieces.node("Reshape", &[tokens, &shape], vec![]);
    pieces.node("Transpose", &[&split], vec![ints("perm", vec![0, 2, 1, 3])])
}

/// Queries by a scale, or divided by the root of their length.
fn scaled(pieces: &mut Pieces, query: &str, scale: Option<f32>) -> String {
    if let Some(scale) = scale {
        let scale = pieces.number(scale);
        return pieces.node("Mul", &[query, &scale], vec![]);
    }
    let length = pieces.node("Shape", &[query], vec![int("start", -1)]);
    let length = pieces.node("Cast", &[&length], vec![int("to", FLOAT.into())]);
    let root = pieces.node("Sqrt", &[&length], vec![]);
    pieces.node("Div", &[query, &root], vec![])
}

/// `BatchNormalization` in training mode, of a weight: so PyTorch's older exporter writes weight standardisation, which
/// BiT and NFNets have. The statistics of a batch of one are those of its only instance. None where it norms anything
/// else.
fn standardised_weight(node: &NodeProto, values: &Values) -> Option<Pieces> {
    let [weight, scale, shift, ..] = &node.input[..] else { return None };
    let is_as_in_training = number(node, "training_mode") != 0 || node.output.len() > 1;
    if !is_as_in_training || !values.single.contains(weight) {
        return None;
    }
    let output = node.output.first()?;
    let mut pieces = Pieces::of(output);
    let epsilon = node.named("epsilon").cloned();
    pieces.node("InstanceNormalization", &[weight, scale, shift], epsilon.into_iter().collect());
    Some(pieces.giving(output))
}

/// `RMSNormalization`: x / sqrt(mean(x^2) + epsilon) * scale, with the mean over the last axes. None where nothing says
/// which these are.
fn rms_normalization(node: &NodeProto, values: &Values) -> Option<Pieces> {
    const EPSILON: f32 = 1e-5;
    let (x, scale, output) = (node.input.first()?, node.input.get(1)?, node.output.first()?);
    let axis = node.whole_number("axis").unwrap_or(-1);
    let first = if axis < 0 { axis } else { axis - i64::try_from(*values.ranks.get(x)?).ok()? };
    // As many as a tensor may have.
    if !(-8..0).contains(&first) {
        return None;
    }
    let mut pieces = Pieces::of(output);
    let axes = pieces.list(&(first..0).collect::<Vec<i64>>());
    let epsilon = pieces.number(float(node, "epsilon").unwrap_or(EPSILON));
    let square = pieces.node("Mul", &[x, x], vec![]);
    let mean = pieces.node("ReduceMean", &[&square, &axes], vec![int("keepdims", 1)]);
    let above_zero = pieces.node("Add", &[&mean, &epsilon], vec![]);
    let root = pieces.node("Sqrt", &[&above_zero], vec![]);
    let normed = pieces.node("Div", &[x, &root], vec![]);
    pieces.node("Mul", &[&normed, scale], vec![]);
    Some(pieces.giving(output))
}

/// `CastLike`: a cast to the type of its second input. None where nothing says which that is.
fn cast_like(node: &NodeProto, values: &Values) -> Option<Pieces> {
    let (x, output) = (node.input.first()?, node.output.first()?);
    let to = *values.types.get(node.input.get(1)?)?;
    let mut pieces = Pieces::of(output);
    pieces.node("Cast", &[x], vec![int("to", to.into())]);
    Some(pieces.giving(output))
}

/// The pieces of a function of one input, the last of which gives its output.
fn of_one_input(node: &NodeProto, write: impl FnOnce(&mut Pieces, &str)) -> Option<Pieces> {
    let (x, output) = (node.input.first()?, node.output.first()?);
    let mut pieces = Pieces::of(output);
    write(&mut pieces, x);
    Some(pieces.giving(output))
}

/// `Celu`: alpha elu(x / alpha).
fn celu(node: &NodeProto, _: &Values) -> Option<Pieces> {
    of_one_input(node, |pieces, x| {
        let alpha = pieces.number(float(node, "alpha").unwrap_or(1.0));
        let divided = pieces.node("Div", &[x, &alpha], vec![]);
        let bent = pieces.node("Elu", &[&divided], vec![]);
        pieces.node("Mul", &[&bent, &alpha], vec![]);
    })
}

/// `Erfc`: 1 - erf(x).
fn erfc(node: &NodeProto, _: &Values) -> Option<Pieces> {
    of_one_input(node, |pieces, x| {
        let (one, erf) = (pieces.number(1.0), pieces.node("Erf", &[x], vec![]));
        pieces.node("Sub", &[&one, &erf], vec![]);
    })
}

/// `Expm1`: exp(x) - 1.
fn expm1(node: &NodeProto, _: &Values) -> Option<Pieces> {
    of_one_input(node, |pieces, x| {
        let (one, exponential) = (pieces.number(1.0), pieces.node("Exp", &[x], vec![]));
        pieces.node("Sub", &[&exponential, &one], vec![]);
    })
}

/// `GroupNormalization`: of each group of channels, (x - mean) / sqrt(variance + epsilon), then scale and shift of each
/// channel, as of opset 21, or of each group, as before it. None where nothing says how many axes x has, or how long
/// the scale is.
fn group_normalization(node: &NodeProto, values: &Values) -> Option<Pieces> {
    const EPSILON: f32 = 1e-5;
    let ([x, scale, shift], [output]) = (&node.input[..], &node.output[..]) else { return None };
    let (groups, length) = (number(node, "num_groups"), *values.lengths.get(scale)?);
    // An image is one axis of the batch and one of channels, and has sides.
    let sides = values.ranks.get(x)?.checked_sub(2).filter(|sides| (1..=3).contains(sides))?;
    if groups < 1 || length < groups || length % groups != 0 {
        return None;
    }
    let mut pieces = Pieces::of(output);
    let (shape, axes) = (pieces.list(&[0, groups, -1]), pieces.list(&[-1]));
    let epsilon = pieces.number(float(node, "epsilon").unwrap_or(EPSILON));
    let apart = pieces.node("Reshape", &[x, &shape], vec![]);
    let mean = pieces.node("ReduceMean", &[&apart, &axes], vec![int("keepdims", 1)]);
    let centred = pieces.node("Sub", &[&apart, &mean], vec![]);
    let square = pieces.node("Mul", &[&centred, &centred], vec![]);
    let variance = pieces.node("ReduceMean", &[&square, &axes], vec![int("keepdims", 1)]);
    let above_zero = pieces.node("Add", &[&variance, &epsilon], vec![]);
    let root = pieces.node("Sqrt", &[&above_zero], vec![]);
    let mut normed = pieces.node("Div", &[&centred, &root], vec![]);
    let whole = pieces.node("Shape", &[x], vec![]);
    // Groups of one channel have as many scales either way.
    let is_by_group = length == groups;
    if !is_by_group {
        normed = pieces.node("Reshape", &[&normed, &whole], vec![]);
    }
    let mut along = vec![1; if is_by_group { 2 } else { 1 + sides }];
    along[0] = -1;
    let along = pieces.list(&along);
    let [scale, shift] = [scale, shift].map(|one| pieces.node("Reshape", &[one, &along], vec![]));
    let scaled = pieces.node("Mul", &[&normed, &scale], vec![]);
    let shifted = pieces.node("Add", &[&scaled, &shift], vec![]);
    if is_by_group {
        pieces.node("Reshape", &[&shifted, &whole], vec![]);
    }
    Some(pieces.giving(output))
}

/// `Mean` of its inputs, element by element.
fn mean(node: &NodeProto, _: &Values) -> Option<Pieces> {
    let output = node.output.first()?;
    let mut pieces = Pieces::of(output);
    let inputs: Vec<&str> = node.input.iter().map(String::as_str).collect();
    let (count, sum) = (pieces.number(inputs.len() as f32), pieces.node("Sum", &inputs, vec![]));
    pieces.node("Div", &[&sum, &count], vec![]);
    Some(pieces.giving(output))
}

/// `Mish`: x tanh(softplus(x)).
fn mish(node: &NodeProto, _: &Values) -> Option<Pieces> {
    of_one_input(node, |pieces, x| {
        let above_zero = pieces.node("Softplus", &[x], vec![]);
        let gate = pieces.node("Tanh", &[&above_zero], vec![]);
        pieces.node("Mul", &[x, &gate], vec![]);
    })
}

/// `Col2Im` of blocks that lie side by side, by which Hugging Face's MobileViTv2 makes a map of patches. None where
/// they overlap, have space between them or around them, or nothing says beforehand how large they are.
fn blocks_side_by_side(node: &NodeProto, values: &Values) -> Option<Pieces> {
    let ([blocks, image, block], [output]) = (&node.input[..], &node.output[..]) else { return None };
    let (&[height, width], &[rows, columns]) = (&values.lists.get(image)?[..], &values.lists.get(block)?[..]) else {
        return None;
    };
    let is_all = |name: &str, number: i64| {
        node.named(name).is_none_or(|attribute| attribute.ints.iter().all(|&other| other == number))
    };
    let fits = rows > 0 && columns > 0 && height % rows == 0 && width % columns == 0;
    let strides = node.named("strides").map_or(&[1i64, 1][..], |attribute| &attribute.ints[..]);
    if !fits || strides != [rows, columns] || !is_all("pads", 0) || !is_all("dilations", 1) {
        return None;
    }
    let mut pieces = Pieces::of(output);
    let apart = pieces.list(&[0, -1, rows, columns, height / rows, width / columns]);
    let apart = pieces.node("Reshape", &[blocks, &apart], vec![]);
    let turned = pieces.node("Transpose", &[&apart], vec![ints("perm", vec![0, 1, 4, 2, 5, 3])]);
    let map = pieces.list(&[0, -1, height, width]);
    pieces.node("Reshape", &[&turned, &map], vec![]);
    Some(pieces.giving(output))
}

/// `Tan`: sin(x) / cos(x).
fn tan(node: &NodeProto, _: &Values) -> Option<Pieces> {
    of_one_input(node, |pieces, x| {
        let (sine, cosine) = (pieces.node("Sin", &[x], vec![]), pieces.node("Cos", &[x], vec![]));
        pieces.node("Div", &[&sine, &cosine], vec![]);
    })
}

/// `ThresholdedRelu`: x where it is greater than alpha, else 0.
fn thresholded_relu(node: &NodeProto, _: &Values) -> Option<Pieces> {
    of_one_input(node, |pieces, x| {
        let alpha = pieces.number(float(node, "alpha").unwrap_or(1.0));
        let above = pieces.node("Sub", &[x, &alpha], vec![]);
        let sign = pieces.node("Sign", &[&above], vec![]);
        let gate = pieces.node("Relu", &[&sign], vec![]);
        pieces.node("Mul", &[x, &gate], vec![]);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::onnx_proto::ValueInfoProto;

    #[test]
    fn functions_are_written_as_others() {
        let operators = |operator: &str, inputs: &[&str], domain: &str| {
            let weight = TensorProto { dims: vec![], data_type: BOOL, name: "w".into(), raw_data: vec![1] };
            let mut node = node(operator, inputs.iter().map(|&name| name.into()).collect(), "y", vec![]);
            node.domain = domain.into();
            let mut graph = GraphParts {
                node: vec![node.encode_to_vec()],
                initializer: vec![weight.encode_to_vec().into()],
                ..GraphParts::default()
            };
            graph.decompose().unwrap();
            let nodes = graph.nodes().unwrap();
            assert_eq!(nodes.last().unwrap().output, ["y"]);
            nodes.into_iter().map(|node| node.op_type).collect::<Vec<_>>()
        };
        for (operator, inputs, expected) in [
            ("CastLike", &["x", "w"][..], &["Cast"][..]),
            ("CastLike", &["x", "unknown"], &["CastLike"]),
            ("Celu", &["x"], &["Div", "Elu", "Mul"]),
            ("Erfc", &["x"], &["Erf", "Sub"]),
            ("Expm1", &["x"], &["Exp", "Sub"]),
            ("Mean", &["x", "x", "x"], &["Sum", "Div"]),
            ("Mish", &["x"], &["Softplus", "Tanh", "Mul"]),
            ("Tan", &["x"], &["Sin", "Cos", "Div"]),
            ("ThresholdedRelu", &["x"], &["Sub", "Sign", "Relu", "Mul"]),
        ] {
            assert_eq!(operators(operator, inputs, ""), expected);
            assert_eq!(operators(operator, inputs, "com.microsoft"), [operator]);
        }
    }

    #[test]
    fn values_that_were_moved_keep_their_type() {
        let of = |operator: &str, inputs: &[&str], output: &str| {
            node(operator, inputs.iter().map(|&name| name.into()).collect(), output, vec![]).encode_to_vec()
        };
        let weight = TensorProto { dims: vec![], data_type: BOOL, name: "w".into(), raw_data: vec![1] };
        let cast_like = |operator: &str| {
            let mut graph = GraphParts {
                node: vec![
                    of(operator, &["w", "sides"], "reshaped"),
                    of("Transpose", &["reshaped"], "turned"),
                    of("CastLike", &["x", "turned"], "y"),
                ],
                initializer: vec![weight.encode_to_vec().into()],
                ..GraphParts::default()
            };
            graph.decompose().unwrap();
            graph.nodes().unwrap().pop().unwrap()
        };
        let cast = cast_like("Reshape");
        assert_eq!((&*cast.op_type, cast.whole_number("to")), ("Cast", Some(BOOL.into())));
        assert_eq!(cast_like("Quantised").op_type, "CastLike");
    }

    #[test]
    fn blocks_side_by_side_become_a_map() {
        let decomposed = |width: i64, strides: &[i64], pads: &[i64]| {
            let settings = vec![ints("strides", strides.to_vec()), ints("pads", pads.to_vec())];
            let inputs = ["x", "image", "block"].map(str::to_owned).to_vec();
            let lists = [list_of_whole_numbers("image", &[8, width]), list_of_whole_numbers("block", &[2, 3])];
            let mut graph = GraphParts {
                node: vec![node("Col2Im", inputs, "y", settings).encode_to_vec()],
                initializer: lists.into_iter().map(|list| list.encode_to_vec().into()).collect(),
                ..GraphParts::default()
            };
            let is_decomposed = graph.decompose().unwrap();
            is_decomposed.then(|| (graph.nodes().unwrap(), graph.lists(&[]).unwrap()))
        };
        let (nodes, lists) = decomposed(21, &[2, 3], &[0; 4]).unwrap();
        let operators: Vec<&str> = nodes.iter().map(|node| node.op_type.as_str()).collect();
        assert_eq!(operators, ["Reshape", "Transpose", "Reshape"]);
        assert_eq!((&*nodes[0].input[0], &*nodes[2].output[0]), ("x", "y"));
        assert_eq!(lists[&nodes[0].input[1]], [0, -1, 2, 3, 4, 7]);
        assert_eq!(lists[&nodes[2].input[1]], [0, -1, 8, 21]);
        for (width, strides, pads) in [(20, &[2, 3][..], &[0; 4]), (21, &[1, 1], &[0; 4]), (21, &[2, 3], &[0, 1, 0, 1])]
        {
            assert_eq!(decomposed(width, strides, pads), None, "{width}, {strides:?}, {pads:?}");
        }
    }

    #[test]
    fn a_norm_of_groups_needs_axes_and_scales_that_are_known() {
        let decomposed = |groups: i64, length: i64, sides: &[i64]| {
            let weight = TensorProto { dims: vec![length], data_type: FLOAT, name: "w".into(), raw_data: vec![] };
            let inputs = ["x", "w", "w"].map(str::to_owned).to_vec();
            let norm = node("GroupNormalization", inputs, "y", vec![int("num_groups", groups)]);
            let mut graph = GraphParts {
                node: vec![norm.encode_to_vec()],
                initializer: vec![weight.encode_to_vec().into()],
                input: vec![ValueInfoProto::of_sides("x", FLOAT, sides).encode_to_vec()],
                ..GraphParts::default()
            };
            graph.decompose().unwrap().then(|| (graph.nodes().unwrap(), graph.lists(&[]).unwrap()))
        };
        for (groups, length, sides, last, along) in [
            (4, 8, &[0, 8, 5, 5][..], "Add", &[-1, 1, 1][..]),
            (4, 8, &[0, 8, 5], "Add", &[-1, 1]),
            (8, 8, &[0, 8, 5, 5], "Reshape", &[-1, 1]),
            // As before opset 21.
            (4, 4, &[0, 8, 5, 5], "Reshape", &[-1, 1]),
        ] {
            let (nodes, lists) = decomposed(groups, length, sides).unwrap();
            let made = nodes.last().unwrap();
            assert_eq!((&*made.op_type, &*made.output[0]), (last, "y"), "{groups} {length} {sides:?}");
            let of_weight = nodes.iter().find(|node| node.input[0] == "w").unwrap();
            assert_eq!(lists[&of_weight.input[1]], along, "{groups} {length} {sides:?}");
        }
        for (groups, length, sides) in
            [(0, 8, &[0, 8, 5, 5][..]), (3, 8, &[0, 8, 5, 5]), (8, 4, &[0, 8, 5, 5]), (4, 8, &[0, 8]), (4, 8, &[])]
        {
            assert_eq!(decomposed(groups, length, sides), None, "{groups} {length} {sides:?}");
        }
    }

    #[test]
    fn only_a_norm_of_a_weight_becomes_one_of_an_instance() {
        let decomposed = |dims: &[i64], training: i64| {
            let weight = TensorProto { dims: dims.to_vec(), data_type: FLOAT, name: "w".into(), raw_data: vec![] };
            let inputs = ["w", "scale", "shift", "mean", "variance"].map(str::to_owned).to_vec();
            let norm = node("BatchNormalization", inputs, "y", vec![int("training_mode", training)]);
            let mut graph = GraphParts {
                node: vec![norm.encode_to_vec()],
                initializer: vec![weight.encode_to_vec().into()],
                ..GraphParts::default()
            };
            graph.decompose().unwrap().then(|| graph.nodes().unwrap())
        };
        let [instance] = &decomposed(&[1, 8, 27], 1).unwrap()[..] else { panic!("one node") };
        assert_eq!((&*instance.op_type, &*instance.output[0]), ("InstanceNormalization", "y"));
        assert_eq!(instance.input, ["w", "scale", "shift"]);
        for (dims, training) in [(&[2, 8, 27][..], 1), (&[1, 8][..], 1), (&[1, 8, 27][..], 0)] {
            assert_eq!(decomposed(dims, training), None, "{dims:?} {training}");
        }
    }
}
