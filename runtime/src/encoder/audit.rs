//! Audits an ONNX model before any engine sees its bytes, and refuses what a feature extractor does not need: data
//! outside the file, sparse tensors, subgraphs, functions, operators beyond a list, fields that the format's
//! description (onnx.proto, IR version 13) does not name, and sizes that make no sense.
//!
//! Fields are numbered as in the message of onnx.proto that a function's comment names.
//!
//! The walk through the bytes has a fixed depth, copies nothing, and takes memory only for the sentence of a refusal.
//! It bounds what a model is. [`bounds`] bounds what it may compute: broadcasting can make large tensors out of small
//! ones. So it infers the shape of every tensor, and sums up work and memory, before an engine opens the model and
//! before it gets a batch of another size.

pub mod bounds;
mod call;
mod error;
mod floats;
mod graph;
mod inference;
pub mod limits;
mod memory;
mod operators;
mod rules;
mod tensor;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

pub use error::AuditError;
use error::AuditResult;
use wire::{WireError, WireFields, WireValue, varint};

/// Most nodes of a graph.
pub const MAX_NODES: usize = 20_000;
/// Most tensors of a graph.
pub const MAX_TENSORS: usize = 20_000;
/// Most elements of a tensor, and the longest dimension that a value may declare.
pub const MAX_ELEMENTS: u64 = 1 << 28;
/// Most dimensions of a tensor.
pub const MAX_RANK: usize = 8;
/// Largest kernel side, stride, padding or dilation of a layer.
pub const MAX_STEP: u64 = 4096;

/// Why a tensor or a value is refused.
const TOO_LARGE: &str = "is unreasonably large";

/// Whether a model may use an operator of a domain.
type OperatorFilter = fn(domain: &str, operator: &str) -> bool;

/// Audits the bytes of an ONNX model.
///
/// # Errors
/// [`AuditError`] names what is refused.
pub fn audit(model: &[u8]) -> AuditResult {
    walk(model, operators::is_allowed)
}

/// Audits a model as [`audit`] does, and refuses the operators by which exporters compute constants, too. A model of
/// which this refuses one is worth folding ([`super::onnx::fold_constants`]).
///
/// # Errors
/// [`AuditError`] names what is refused.
pub fn audit_layers(model: &[u8]) -> AuditResult {
    walk(model, operators::is_layer)
}

/// Audits a model whose constants are going to be folded ([`super::onnx::fold_constants`]): as [`audit`], but allows
/// operators that make constants. The folded model has to pass [`audit`].
///
/// # Errors
/// [`AuditError`] names what is refused.
#[cfg(feature = "onnx")]
pub(super) fn audit_unfolded(model: &[u8]) -> AuditResult {
    walk(model, operators::is_foldable)
}

/// `ModelProto`.
fn walk(model: &[u8], allowed: OperatorFilter) -> AuditResult {
    const PART: &str = "model";
    // Engines tell their own formats by these marks and would not read the file as ONNX; flatbuffers of ONNX Runtime
    // can be made to look like protocol buffers.
    if model.starts_with(b"RTEN") || model.get(4..8) == Some(b"ORTM") {
        return Err(AuditError::Damaged { part: PART });
    }
    // Nodes that call a function look like those of an unknown operator.
    if WireFields::of(model).any(|field| matches!(field, Ok((20 | 25, _)))) {
        return Err(AuditError::Program);
    }
    let mut graphs = 0;
    for field in fields(model, PART) {
        match field? {
            (1 | 5, WireValue::Number(_)) | (2..=4 | 6, WireValue::Bytes(_)) => {}
            (7, WireValue::Bytes(bytes)) => {
                graph(bytes, allowed)?;
                graphs += 1;
            }
            (8, WireValue::Bytes(set)) => flat_message(set, "operator set", &[2], &[1])?,
            (14, WireValue::Bytes(entry)) => metadata_entry(entry, METADATA)?,
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    // Protocol buffers would merge two of them into one.
    if graphs == 1 { Ok(()) } else { Err(AuditError::Damaged { part: "graph" }) }
}

/// The fields of a message; an error names the `part` of the model that is damaged.
fn fields<'a>(message: &'a [u8], part: &'static str) -> impl Iterator<Item = AuditResult<(u32, WireValue<'a>)>> {
    WireFields::of(message).map(move |field| field.map_err(|WireError| AuditError::Damaged { part }))
}

/// Where metadata are audited, as errors name it.
const METADATA: &str = "metadata";

/// A key and its value (`StringStringEntryProto`).
fn metadata_entry(message: &[u8], part: &'static str) -> AuditResult {
    flat_message(message, part, &[], &[1, 2])
}

/// A message whose fields are numbers and texts alone.
fn flat_message(message: &[u8], part: &'static str, numbers: &[u32], texts: &[u32]) -> AuditResult {
    for field in fields(message, part) {
        match field? {
            (field, WireValue::Number(_)) if numbers.contains(&field) => {}
            (field, WireValue::Bytes(_)) if texts.contains(&field) => {}
            (field, _) => return Err(AuditError::Field { part, field }),
        }
    }
    Ok(())
}

/// `GraphProto`.
fn graph(message: &[u8], allowed: OperatorFilter) -> AuditResult {
    const PART: &str = "graph";
    let (mut nodes, mut tensors) = (0, 0);
    for field in fields(message, PART) {
        match field? {
            (1, WireValue::Bytes(bytes)) => {
                nodes += 1;
                node(bytes, allowed)?;
            }
            (2 | 10, WireValue::Bytes(_)) => {}
            (5, WireValue::Bytes(bytes)) => {
                tensors += 1;
                tensor(bytes)?;
            }
            (11..=13, WireValue::Bytes(bytes)) => value(bytes)?,
            (14, WireValue::Bytes(annotation)) => quantisation(annotation)?,
            (15, _) => return Err(AuditError::Sparse),
            (16, WireValue::Bytes(entry)) => metadata_entry(entry, METADATA)?,
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
        if nodes > MAX_NODES {
            return Err(AuditError::TooMany { what: "nodes", limit: MAX_NODES });
        }
        if tensors > MAX_TENSORS {
            return Err(AuditError::TooMany { what: "tensors", limit: MAX_TENSORS });
        }
    }
    Ok(())
}

/// An input, an output or a value between nodes, with its type (`ValueInfoProto`).
fn value(message: &[u8]) -> AuditResult {
    const PART: &str = "list of values";
    for field in fields(message, PART) {
        match field? {
            (1 | 3, WireValue::Bytes(_)) => {}
            (2, WireValue::Bytes(declared)) => value_type(declared, name(message, 1))?,
            (4, WireValue::Bytes(entry)) => metadata_entry(entry, METADATA)?,
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    Ok(())
}

/// Where the types of values are audited, as errors name it.
const VALUE_TYPES: &str = "types of values";

/// A type, which must be that of a tensor, with a shape within bounds (`TypeProto`).
fn value_type(message: &[u8], of: String) -> AuditResult {
    for field in fields(message, VALUE_TYPES) {
        match field? {
            (1, WireValue::Bytes(tensor)) => tensor_type(tensor, &of)?,
            (6, WireValue::Bytes(_)) => {}
            (8, _) => return Err(AuditError::Sparse),
            (field, _) => return Err(AuditError::Field { part: VALUE_TYPES, field }),
        }
    }
    Ok(())
}

/// The type of a tensor: of its elements, and its shape (`TypeProto.Tensor`).
fn tensor_type(message: &[u8], of: &str) -> AuditResult {
    for field in fields(message, VALUE_TYPES) {
        match field? {
            (1, WireValue::Number(_)) => {}
            (2, WireValue::Bytes(shape)) => value_shape(shape, of)?,
            (field, _) => return Err(AuditError::Field { part: VALUE_TYPES, field }),
        }
    }
    Ok(())
}

/// The shape of a value (`TensorShapeProto`).
fn value_shape(message: &[u8], of: &str) -> AuditResult {
    const PART: &str = "shapes of values";
    for (index, field) in fields(message, PART).enumerate() {
        if index >= MAX_RANK {
            return Err(AuditError::Tensor { tensor: of.into(), reason: "has too many dimensions" });
        }
        let (1, WireValue::Bytes(side)) = field? else {
            return Err(AuditError::Damaged { part: PART });
        };
        for field in fields(side, PART) {
            match field? {
                // -1 stands for an unknown length.
                (1, WireValue::Number(side)) if side <= MAX_ELEMENTS || side == u64::MAX => {}
                (1, _) => return Err(AuditError::Tensor { tensor: of.into(), reason: TOO_LARGE }),
                (2 | 3, WireValue::Bytes(_)) => {}
                (field, _) => return Err(AuditError::Field { part: PART, field }),
            }
        }
    }
    Ok(())
}

/// `TensorAnnotation`.
fn quantisation(message: &[u8]) -> AuditResult {
    const PART: &str = "quantisation notes";
    for field in fields(message, PART) {
        match field? {
            (1, WireValue::Bytes(_)) => {}
            (2, WireValue::Bytes(entry)) => metadata_entry(entry, PART)?,
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    Ok(())
}

/// `NodeProto`.
fn node(message: &[u8], allowed: OperatorFilter) -> AuditResult {
    const PART: &str = "node";
    // A field that comes twice counts for the engine with its last value; here each of them must pass.
    let of = || match name(message, 3) {
        unnamed if unnamed.is_empty() => name(message, 2),
        named => named,
    };
    let (mut operators, mut domain) = (0, "");
    for field in fields(message, PART) {
        match field? {
            (1..=4 | 6 | 8, WireValue::Bytes(_)) => {}
            (5, WireValue::Bytes(bytes)) => attribute(bytes, &of)?,
            (7, WireValue::Bytes(bytes)) if bytes.is_empty() || bytes == b"ai.onnx" => {}
            (7, WireValue::Bytes(bytes)) => domain = core::str::from_utf8(bytes).unwrap_or("?"),
            (9, WireValue::Bytes(entry)) => metadata_entry(entry, METADATA)?,
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    for bytes in all(message, 4) {
        operators += 1;
        let operator = core::str::from_utf8(bytes).unwrap_or("?");
        if !allowed(domain, operator) {
            let dot = if domain.is_empty() { "" } else { "." };
            return Err(AuditError::Operator { node: of(), operator: short(&[domain, dot, operator].concat()) });
        }
    }
    if operators == 0 { Err(AuditError::Damaged { part: PART }) } else { Ok(()) }
}

/// An attribute of a node (`AttributeProto`).
fn attribute(message: &[u8], node: &dyn Fn() -> String) -> AuditResult {
    const PART: &str = "attributes of a node";
    const STEPS: [&str; 5] = ["dilations", "kernel_shape", "output_padding", "pads", "strides"];
    let own = name(message, 1);
    let refused = || AuditError::Attribute { node: node(), attribute: own.clone() };
    let fits = |number: u64| !STEPS.contains(&own.as_str()) || number <= MAX_STEP;
    for field in fields(message, PART) {
        match field? {
            (1 | 4 | 9 | 13, WireValue::Bytes(_)) | (2 | 7, WireValue::Four(_)) | (20, WireValue::Number(_)) => {}
            (7, WireValue::Bytes(floats)) if floats.len().is_multiple_of(4) => {}
            (3 | 8, WireValue::Number(number)) if fits(number) => {}
            (8, WireValue::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    let number = varint(&mut packed).ok_or(AuditError::Damaged { part: PART })?;
                    if !fits(number) {
                        return Err(refused());
                    }
                }
            }
            (5 | 10, WireValue::Bytes(bytes)) => tensor(bytes)?,
            (6 | 11, _) => return Err(AuditError::Subgraph { node: node() }),
            (22 | 23, _) => return Err(AuditError::Sparse),
            // Numbers out of range, types, and references to a function's attributes.
            (3 | 8 | 14 | 15 | 21, _) => return Err(refused()),
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    Ok(())
}

/// A tensor with its data: as many elements as its shape says, in the file itself (`TensorProto`).
fn tensor(message: &[u8]) -> AuditResult {
    const PART: &str = "tensor";
    let refused = |reason| AuditError::Tensor { tensor: name(message, 8), reason };
    let damaged = || AuditError::Damaged { part: PART };
    let (mut elements, mut rank, mut data_type) = (1u64, 0, 0);
    let (mut raw, mut numbers) = (None, 0u64);
    let mut side = |side: u64| {
        rank += 1;
        elements = elements.checked_mul(side).filter(|elements| *elements <= MAX_ELEMENTS && side <= MAX_ELEMENTS)?;
        (rank <= MAX_RANK).then_some(())
    };
    for field in fields(message, PART) {
        match field? {
            (1, WireValue::Number(number)) => side(number).ok_or_else(|| refused(TOO_LARGE))?,
            (1, WireValue::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    let number = varint(&mut packed).ok_or_else(damaged)?;
                    side(number).ok_or_else(|| refused(TOO_LARGE))?;
                }
            }
            (2, WireValue::Number(number)) => data_type = number,
            (4, WireValue::Four(_)) | (5 | 7 | 11, WireValue::Number(_)) | (10, WireValue::Eight(_)) => numbers += 1,
            (4, WireValue::Bytes(packed)) if packed.len().is_multiple_of(4) => numbers += packed.len() as u64 / 4,
            (10, WireValue::Bytes(packed)) if packed.len().is_multiple_of(8) => numbers += packed.len() as u64 / 8,
            // A number ends with a byte below 128.
            (5 | 7 | 11, WireValue::Bytes(packed)) if packed.last().is_none_or(|last| *last < 0x80) => {
                numbers += packed.iter().filter(|byte| **byte < 0x80).count() as u64;
            }
            (6, _) => return Err(refused("holds texts")),
            (8 | 12, WireValue::Bytes(_)) => {}
            (9, WireValue::Bytes(bytes)) if raw.is_none() => raw = Some(bytes.len() as u64),
            (14, WireValue::Number(0)) => {}
            (13 | 14, _) => return Err(AuditError::ExternalData { tensor: name(message, 8) }),
            (16, WireValue::Bytes(entry)) => metadata_entry(entry, METADATA)?,
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    let Some(bits) = tensor::DataType(data_type).bits() else {
        return Err(refused(match data_type {
            // Float8, and numbers of 2 and 4 bits.
            17..=26 => "has elements of float8 or of fewer than 8 bits; quantise the model to int8 or uint8",
            _ => "has elements of an unknown type",
        }));
    };
    let complete = match raw {
        Some(bytes) => numbers == 0 && bytes.checked_mul(8) == elements.checked_mul(bits),
        None => numbers == elements,
    };
    if complete { Ok(()) } else { Err(refused("has not as many elements as its shape says")) }
}

/// Every message or text of a field.
fn all(message: &[u8], field: u32) -> impl Iterator<Item = &[u8]> {
    WireFields::of(message).filter_map(move |entry| match entry {
        Ok((number, WireValue::Bytes(bytes))) if number == field => Some(bytes),
        _ => None,
    })
}

/// The text in a field of a message, as an error shows it.
fn name(message: &[u8], field: u32) -> String {
    shown(all(message, field).next().unwrap_or_default())
}

/// A name as an error shows it.
fn shown(name: &[u8]) -> String {
    short(&String::from_utf8_lossy(name.get(..256).unwrap_or(name)))
}

/// At most 80 letters of a text.
fn short(text: &str) -> String {
    text.chars().take(80).collect()
}
