//! The graph of a model that passed the walk, read for shape inference: nodes with their attributes, names turned into
//! indices, and the shape of every constant, with its values where they are few. No weight is copied. Fields are
//! numbered as in onnx.proto; [`super`] names the messages.
//!
//! Protocol buffers let a field come twice, and readers differ in which one counts. Here that is refused.

use std::collections::HashMap;

use super::call::ShapeRule;
use super::tensor::{DataType, SHORT, TensorType};
use super::wire::{WireFields, WireValue, varint};
use super::{AuditError, AuditResult, all, fields, name, operators, short, shown};

/// Most values of a graph: inputs, constants and what nodes make.
pub const MAX_VALUES: usize = 65_536;
/// Most inputs of all nodes together; engines compare each with each in places.
pub const MAX_USES: usize = 65_536;
/// Most inputs, outputs or attributes of a node. DenseNet joins 64 tensors.
pub const MAX_ENTRIES: usize = 256;

/// An attribute of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    Int(i64),
    Ints(Vec<i64>),
    Text(String),
    Tensor(TensorType),
    /// Floats, on which no shape depends: how many.
    Floats(u64),
}

/// A node, whose inputs and outputs are indices of values; `None` stands for one that is left out.
pub struct Node {
    pub name: String,
    pub operator: String,
    pub rule: ShapeRule,
    pub inputs: Vec<Option<u32>>,
    pub outputs: Vec<Option<u32>>,
    pub attributes: Vec<(String, Attribute)>,
}

/// A graph with one input.
pub struct Graph {
    pub nodes: Vec<Node>,
    /// How many values there are.
    pub values: usize,
    pub constants: Vec<(u32, TensorType)>,
    pub input: u32,
    /// The shape that the model declares for its input, as far as it declares one.
    pub declared: Option<Vec<Option<u64>>>,
    pub outputs: Vec<u32>,
}

/// Indices of values by their names.
#[derive(Default)]
pub struct Names<'a>(HashMap<&'a [u8], u32>);

impl<'a> Names<'a> {
    /// Names with the indices of their values.
    #[cfg(feature = "onnx")]
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], u32)> {
        self.0.iter().map(|(name, index)| (*name, *index))
    }

    fn define(&mut self, name: &'a [u8]) -> AuditResult<u32> {
        if self.0.len() >= MAX_VALUES {
            return Err(AuditError::TooMany { what: "values", limit: MAX_VALUES });
        }
        let number = self.0.len() as u32;
        match self.0.insert(name, number) {
            None if !name.is_empty() => Ok(number),
            _ => Err(AuditError::Value { value: shown(name), reason: "has no name, or that of another one" }),
        }
    }

    fn find(&self, name: &[u8]) -> AuditResult<u32> {
        let missing = || AuditError::Value { value: shown(name), reason: "is used before something makes it" };
        self.0.get(name).copied().ok_or_else(missing)
    }
}

impl Graph {
    /// Reads a model that the walk has let through.
    ///
    /// # Errors
    /// [`AuditError`] names what engines might read in different ways.
    pub fn read(model: &[u8]) -> AuditResult<Self> {
        Self::read_with_names(model).map(|(graph, _)| graph)
    }

    /// As [`Self::read`], with what its values are called.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn read_with_names(model: &[u8]) -> AuditResult<(Self, Names<'_>)> {
        let message = bytes(model, 7, "graph")?.unwrap_or_default();
        let mut names = Names::default();
        let mut constants = Vec::new();
        for constant in all(message, 5) {
            constants.push((names.define(bytes(constant, 8, "tensor")?.unwrap_or_default())?, tensor(constant)?));
        }
        let mut input = None;
        for (position, value) in all(message, 11).enumerate() {
            let called = bytes(value, 1, "list of values")?.unwrap_or_default();
            // Old models list their weights among the inputs, behind the true one.
            if position > 0 && names.0.contains_key(called) {
                continue;
            }
            if input.is_some() {
                return Err(AuditError::Value { value: shown(called), reason: "is a second input of the model" });
            }
            input = Some((names.define(called)?, declared(value)?));
        }
        let (input, declared) = input.ok_or(AuditError::Damaged { part: "list of inputs" })?;
        let version = version(model)?;
        let (mut nodes, mut uses) = (Vec::new(), 0);
        for message in all(message, 1) {
            let node = node(message, version, &mut names)?;
            uses += node.inputs.len();
            if uses > MAX_USES {
                return Err(AuditError::TooMany { what: "inputs of nodes", limit: MAX_USES });
            }
            nodes.push(node);
        }
        let mut outputs = Vec::new();
        for value in all(message, 12) {
            outputs.push(names.find(bytes(value, 1, "list of values")?.unwrap_or_default())?);
        }
        if outputs.is_empty() {
            return Err(AuditError::Damaged { part: "list of outputs" });
        }
        Ok((Self { nodes, values: names.0.len(), constants, input, declared, outputs }, names))
    }
}

/// The version of ONNX's own operators; the earliest, should the model name several.
fn version(model: &[u8]) -> AuditResult<u64> {
    const PART: &str = "operator set";
    let mut earliest = u64::MAX;
    for set in all(model, 8) {
        let domain = bytes(set, 1, PART)?.unwrap_or_default();
        if let Some(WireValue::Number(version)) = one(set, 2, PART)?
            && (domain.is_empty() || domain == b"ai.onnx")
        {
            earliest = earliest.min(version);
        }
    }
    Ok(earliest)
}

fn node<'a>(message: &'a [u8], version: u64, names: &mut Names<'a>) -> AuditResult<Node> {
    const PART: &str = "node";
    let entries = |field| {
        let entries: Vec<&[u8]> = all(message, field).take(MAX_ENTRIES + 1).collect();
        let limit = MAX_ENTRIES;
        if entries.len() > limit {
            Err(AuditError::TooMany { what: "inputs, outputs or attributes of one node", limit })
        } else {
            Ok(entries)
        }
    };
    let (input_names, output_names) = (entries(1)?, entries(2)?);
    let own =
        bytes(message, 3, PART)?.filter(|own| !own.is_empty()).or(output_names.first().copied()).unwrap_or_default();
    let operator = bytes(message, 4, PART)?.unwrap_or_default();
    let operator = str::from_utf8(operator).map_err(|_| AuditError::Damaged { part: PART })?;
    let refused = || AuditError::Operator { node: shown(own), operator: short(operator) };
    let rule = operators::rule_in_version(version, operator).ok_or_else(refused)?;
    let given = |name: &&'a [u8]| (!name.is_empty()).then_some(*name);
    let inputs = input_names.iter().map(|name| given(name).map(|name| names.find(name)).transpose());
    let inputs = inputs.collect::<AuditResult<_>>()?;
    let outputs = output_names.iter().map(|name| given(name).map(|name| names.define(name)).transpose());
    let outputs = outputs.collect::<AuditResult<_>>()?;
    bytes(message, 7, PART)?;
    let mut attributes: Vec<(String, Attribute)> = Vec::new();
    for message in entries(5)? {
        let own_name = name(message, 1);
        let refused = || AuditError::Attribute { node: shown(own), attribute: own_name.clone() };
        let value = attribute(message)?.ok_or_else(refused)?;
        if attributes.iter().any(|(other, _)| *other == own_name) {
            return Err(refused());
        }
        attributes.push((own_name, value));
    }
    Ok(Node { name: shown(own), operator: operator.into(), rule, inputs, outputs, attributes })
}

/// An attribute; `None` if it has two values, or one of another type than it names.
fn attribute(message: &[u8]) -> AuditResult<Option<Attribute>> {
    const PART: &str = "attributes of a node";
    let present = |field| WireFields::of(message).any(|entry| entry.is_ok_and(|(number, _)| number == field));
    let kind = match one(message, 20, PART)? {
        Some(WireValue::Number(kind)) => Some(kind),
        _ => None,
    };
    // Fields of values with the types that stand for them.
    let forms = [(2, 1), (3, 2), (4, 3), (5, 4), (7, 6), (8, 7), (9, 8), (10, 9)];
    let mut given = forms.iter().filter(|(field, _)| present(*field)).map(|(_, kind)| *kind);
    let form = match (given.next(), given.next(), kind) {
        (Some(form), None, Some(kind)) if form == kind => form,
        (Some(form), None, None | Some(0)) => form,
        // Writers leave out zeros and empty lists.
        (None, None, Some(kind)) => kind,
        _ => return Ok(None),
    };
    Ok(match form {
        1 => {
            one(message, 2, PART)?;
            Some(Attribute::Floats(1))
        }
        2 => match one(message, 3, PART)? {
            Some(WireValue::Number(value)) => Some(Attribute::Int(value.cast_signed())),
            _ => Some(Attribute::Int(0)),
        },
        3 => {
            let text = bytes(message, 4, PART)?.unwrap_or_default();
            str::from_utf8(text).ok().map(|text| Attribute::Text(text.into()))
        }
        4 => match bytes(message, 5, PART)? {
            Some(constant) => Some(Attribute::Tensor(tensor(constant)?)),
            None => None,
        },
        6 => Some(Attribute::Floats(count_floats(message))),
        7 => Some(Attribute::Ints(numbers(message, 8))),
        _ => None,
    })
}

fn count_floats(message: &[u8]) -> u64 {
    let count = |entry| match entry {
        Ok((7, WireValue::Four(_))) => 1,
        Ok((7, WireValue::Bytes(packed))) => packed.len() as u64 / 4,
        _ => 0,
    };
    WireFields::of(message).map(count).sum()
}

/// A constant; the walk has found as many elements as its shape says.
fn tensor(message: &[u8]) -> AuditResult<TensorType> {
    const PART: &str = "tensor";
    let data_type = match one(message, 2, PART)? {
        Some(WireValue::Number(number)) => DataType(number),
        _ => return Err(AuditError::Damaged { part: PART }),
    };
    bytes(message, 8, PART)?;
    let shape: Vec<u64> = numbers(message, 1).into_iter().map(i64::cast_unsigned).collect();
    let constant = TensorType { constant: true, ..TensorType::of(shape, data_type) };
    if constant.elements() > SHORT {
        return Ok(constant);
    }
    let raw = bytes(message, 9, PART)?;
    if data_type == DataType::FLOAT {
        let floats = raw.map_or_else(|| floats(message, 4), |raw| raw_numbers(raw, f32::from_le_bytes));
        return Ok(TensorType { floats: Some(floats), ..constant });
    }
    let values = match (raw, data_type) {
        (Some(raw), DataType::INT64) => raw_numbers(raw, i64::from_le_bytes),
        (Some(raw), DataType::INT32) => raw_numbers(raw, i32::from_le_bytes),
        (Some(raw), DataType::INT16) => raw_numbers(raw, i16::from_le_bytes),
        (Some(raw), DataType::UINT16) => raw_numbers(raw, u16::from_le_bytes),
        (Some(raw), DataType::INT8) => raw_numbers(raw, i8::from_le_bytes),
        (Some(raw), DataType::UINT8 | DataType::BOOL) => raw_numbers(raw, u8::from_le_bytes),
        (None, DataType::INT64) => numbers(message, 7),
        (None, _) => numbers(message, 5),
        _ => return Ok(constant),
    };
    Ok(constant.with_values(Some(values)))
}

/// The numbers of a constant that are given as their bytes; `from_bytes` reads one.
fn raw_numbers<const N: usize, T, To: From<T>>(raw: &[u8], from_bytes: fn([u8; N]) -> T) -> Vec<To> {
    raw.as_chunks::<N>().0.iter().map(|&bytes| from_bytes(bytes).into()).collect()
}

/// The shape that a value declares; `None` if it declares none.
fn declared(value: &[u8]) -> AuditResult<Option<Vec<Option<u64>>>> {
    const PART: &str = "types of values";
    let kind = bytes(value, 2, PART)?.unwrap_or_default();
    let tensor = bytes(kind, 1, PART)?.unwrap_or_default();
    let Some(shape) = bytes(tensor, 2, PART)? else { return Ok(None) };
    let mut sides = Vec::new();
    for side in all(shape, 1) {
        sides.push(match one(side, 1, PART)? {
            Some(WireValue::Number(length)) if length != u64::MAX => Some(length),
            _ => None,
        });
    }
    Ok(Some(sides))
}

/// A field that may come once.
fn one<'a>(message: &'a [u8], field: u32, part: &'static str) -> AuditResult<Option<WireValue<'a>>> {
    let mut found = None;
    for entry in fields(message, part) {
        let (number, value) = entry?;
        if number == field && found.replace(value).is_some() {
            return Err(AuditError::Twice { part, field });
        }
    }
    Ok(found)
}

fn bytes<'a>(message: &'a [u8], field: u32, part: &'static str) -> AuditResult<Option<&'a [u8]>> {
    match one(message, field, part)? {
        None => Ok(None),
        Some(WireValue::Bytes(bytes)) => Ok(Some(bytes)),
        Some(_) => Err(AuditError::Field { part, field }),
    }
}

/// The integers of a field, packed or not.
fn numbers(message: &[u8], field: u32) -> Vec<i64> {
    let mut numbers = Vec::new();
    for entry in WireFields::of(message) {
        match entry {
            Ok((number, WireValue::Number(value))) if number == field => numbers.push(value.cast_signed()),
            Ok((number, WireValue::Bytes(mut packed))) if number == field => {
                while let Some(value) = varint(&mut packed) {
                    numbers.push(value.cast_signed());
                }
            }
            _ => {}
        }
    }
    numbers
}

/// The floats of a field, packed or not.
fn floats(message: &[u8], field: u32) -> Vec<f32> {
    let mut floats = Vec::new();
    for entry in WireFields::of(message) {
        match entry {
            Ok((number, WireValue::Four(value))) if number == field => floats.push(f32::from_le_bytes(value)),
            Ok((number, WireValue::Bytes(packed))) if number == field => {
                floats.append(&mut raw_numbers(packed, f32::from_le_bytes));
            }
            _ => {}
        }
    }
    floats
}
