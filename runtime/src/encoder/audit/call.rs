//! What the shape rule of an operator gets, a node with the types of its inputs, and what it returns.

use super::graph::{Attribute, Node};
use super::tensor::{DataType, SHORT, TensorType, axis_of, product};

/// Why the output shape of a node cannot be inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleError(pub &'static str);

/// What a rule returns.
pub type RuleResult<T = NodeOutput> = Result<T, RuleError>;

/// Infers the outputs and the cost of a node from its inputs.
pub type ShapeRule = fn(&NodeCall<'_>) -> RuleResult;

const MISSING: RuleError = RuleError("an input is missing");
const ATTRIBUTE: RuleError = RuleError("an attribute is missing, or makes no sense");
/// Shapes that cannot be used together.
pub const MISMATCH: RuleError = RuleError("the shapes of its inputs do not fit");
/// A shape that comes from values which are known only when the model runs.
pub const UNKNOWN: RuleError = RuleError(
    "it depends on values that are not known beforehand; onnxslim may compute them, or PyTorch's newer exporter",
);

/// Cost of one element in multiply-adds: reading, changing and writing it.
pub const ELEMENT_COST: u64 = 4;
/// Cost of one element of an exponential, a power or a similar function.
pub const FUNCTION_COST: u64 = 32;
/// Cost of one element in a window that slides over an image.
pub const WINDOW_COST: u64 = 8;

/// A node and its inputs.
pub struct NodeCall<'a> {
    pub node: &'a Node,
    pub inputs: &'a [Option<&'a TensorType>],
    /// Whether constants are going to be folded, and what is left of the model audited again.
    pub folds: bool,
}

/// The outputs of a node, and what computing them costs.
pub struct NodeOutput {
    pub outputs: Vec<TensorType>,
    /// What computing it takes, in multiply-adds of a matrix product.
    pub work: u64,
    /// Memory beside inputs and outputs while it runs, in bytes.
    pub scratch: u64,
}

impl NodeOutput {
    /// One output, each of whose elements has this cost.
    pub fn of(output: TensorType, cost: u64) -> Self {
        let work = output.elements().saturating_mul(cost);
        Self { outputs: vec![output], work, scratch: 0 }
    }

    /// This output with other work.
    pub fn with_work(self, work: u64) -> Self {
        Self { work, ..self }
    }
}

impl<'a> NodeCall<'a> {
    /// An input that may be left out.
    pub fn optional(&self, index: usize) -> Option<&'a TensorType> {
        self.inputs.get(index).copied().flatten()
    }

    pub fn input(&self, index: usize) -> RuleResult<&'a TensorType> {
        self.optional(index).ok_or(MISSING)
    }

    /// All inputs, at least one, none of which may be left out.
    pub fn all(&self) -> RuleResult<Vec<&'a TensorType>> {
        let all: Vec<&TensorType> = self.inputs.iter().copied().collect::<Option<_>>().ok_or(MISSING)?;
        if all.is_empty() { Err(MISSING) } else { Ok(all) }
    }

    /// The values of an input.
    pub fn values(&self, index: usize) -> RuleResult<&'a [i64]> {
        self.input(index)?.values.as_deref().ok_or(UNKNOWN)
    }

    /// How many outputs the node names.
    pub fn output_count(&self) -> usize {
        self.node.outputs.len()
    }

    fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        self.node.attributes.iter().find(|(own, _)| own == name).map(|(_, attribute)| attribute)
    }

    pub fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    pub fn int(&self, name: &str) -> RuleResult<Option<i64>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Int(value)) => Ok(Some(*value)),
            Some(_) => Err(ATTRIBUTE),
        }
    }

    pub fn int_or(&self, name: &str, default: i64) -> RuleResult<i64> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    pub fn flag(&self, name: &str, default: bool) -> RuleResult<bool> {
        Ok(self.int_or(name, default.into())? != 0)
    }

    pub fn ints(&self, name: &str) -> RuleResult<Option<&'a [i64]>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(_) => Err(ATTRIBUTE),
        }
    }

    /// How many floats an attribute has.
    pub fn float_count(&self, name: &str) -> RuleResult<u64> {
        match self.attribute(name) {
            Some(Attribute::Floats(count)) => Ok(*count),
            _ => Err(ATTRIBUTE),
        }
    }

    pub fn text(&self, name: &str) -> RuleResult<Option<&'a str>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Text(text)) => Ok(Some(text)),
            Some(_) => Err(ATTRIBUTE),
        }
    }

    pub fn tensor(&self, name: &str) -> RuleResult<Option<&'a TensorType>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Tensor(tensor)) => Ok(Some(tensor)),
            Some(_) => Err(ATTRIBUTE),
        }
    }

    /// An attribute of `count` positive integers, by default `default` each; a default of 0 allows zeros.
    pub fn lengths(&self, name: &str, count: usize, default: u64) -> RuleResult<Vec<u64>> {
        let Some(values) = self.ints(name)? else { return Ok(vec![default; count]) };
        if values.len() != count {
            return Err(ATTRIBUTE);
        }
        let length = |value: &i64| u64::try_from(*value).ok().filter(|&value| value > 0 || default == 0);
        values.iter().map(length).collect::<Option<_>>().ok_or(ATTRIBUTE)
    }

    /// A list of integers that old models give as an attribute and newer ones as an input; not as both.
    pub fn attribute_or_input(&self, name: &str, index: usize) -> RuleResult<Option<&'a [i64]>> {
        match (self.ints(name)?, self.optional(index)) {
            (Some(_), Some(_)) => Err(ATTRIBUTE),
            (Some(values), None) => Ok(Some(values)),
            (None, Some(list)) if list.rank() > 1 => Err(MISMATCH),
            (None, Some(_)) => self.values(index).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// A flag for each axis of a tensor: whether `axes` names it, which it may do once.
    pub fn axes(&self, axes: &[i64], rank: usize) -> RuleResult<Vec<bool>> {
        let mut flags = vec![false; rank];
        for &axis in axes {
            let axis = axis_of(axis, rank).ok_or(ATTRIBUTE)?;
            if std::mem::replace(&mut flags[axis], true) {
                return Err(ATTRIBUTE);
            }
        }
        Ok(flags)
    }

    /// The axis of a tensor that an attribute names.
    pub fn axis(&self, name: &str, default: i64, of: &TensorType) -> RuleResult<usize> {
        of.axis(self.int_or(name, default)?).ok_or(ATTRIBUTE)
    }

    /// The data type of an input.
    pub fn data_type_of(&self, index: usize, default: DataType) -> DataType {
        self.optional(index).map_or(default, |tensor| tensor.data_type)
    }
}

/// A shape from values, none of which may be negative.
pub fn to_shape(values: &[i64]) -> RuleResult<Vec<u64>> {
    values.iter().map(|&value| u64::try_from(value).ok()).collect::<Option<_>>().ok_or(RuleError("a side is negative"))
}

/// The shape to which two shapes are broadcast, as NumPy does it.
pub fn broadcast(a: &[u64], b: &[u64]) -> RuleResult<Vec<u64>> {
    let rank = a.len().max(b.len());
    let side = |shape: &[u64], at: usize| (at + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    let both = |at| match (side(a, at), side(b, at)) {
        (a, b) if a == b => Ok(a),
        (1, side) | (side, 1) => Ok(side),
        _ => Err(MISMATCH),
    };
    (0..rank).map(both).collect()
}

/// For every element of a tensor of `shape`, the index of its source in a tensor that is broadcast to that shape.
pub fn broadcast_indices(shape: &[u64], source: &[u64]) -> impl Iterator<Item = usize> {
    let shift = shape.len() - source.len();
    let (shape, source) = (shape.to_vec(), source.to_vec());
    (0..product(&shape)).map(move |mut index| {
        let (mut place, mut step) = (0, 1);
        for axis in (0..shape.len()).rev() {
            let at = index % shape[axis];
            index /= shape[axis];
            if let Some(own) = axis.checked_sub(shift).map(|axis| source[axis]) {
                place += if own == 1 { 0 } else { at * step };
                step *= own;
            }
        }
        place as usize
    })
}

/// What `value` makes of the elements at each position of inputs that are broadcast to `shape`, each a shape with its
/// elements; none if it makes nothing of some.
pub fn at_each_position<T: Copy>(
    shape: &[u64],
    inputs: &[(&[u64], &[T])],
    value: impl Fn(&[T]) -> Option<T>,
) -> Option<Vec<T>> {
    let mut places: Vec<_> = inputs.iter().map(|(source, _)| broadcast_indices(shape, source)).collect();
    let mut each = || {
        let at = places.iter_mut().map(Iterator::next).collect::<Option<Vec<usize>>>()?;
        value(&at.iter().zip(inputs).map(|(&at, (_, elements))| elements[at]).collect::<Vec<T>>())
    };
    (0..product(shape)).map(|_| each()).collect()
}

/// The values of a tensor of `shape`: `position` maps the position of each to that of its source in the input.
pub fn gather_values(
    input: &TensorType,
    shape: &[u64],
    position: impl Fn(&[u64]) -> Option<Vec<u64>>,
) -> Option<Vec<i64>> {
    let values = input.values.as_ref()?;
    let count = product(shape);
    let pick = |mut index: u64| {
        let mut own = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            (own[axis], index) = (index % shape[axis], index / shape[axis]);
        }
        let at = position(&own)?.iter().zip(&input.shape).try_fold(0u64, |at, (place, side)| {
            if place < side { at.checked_mul(*side)?.checked_add(*place) } else { None }
        });
        values.get(usize::try_from(at?).ok()?).copied()
    };
    if count > SHORT { None } else { (0..count).map(pick).collect() }
}
