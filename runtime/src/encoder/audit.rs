//! Looks through an ONNX model before any engine sees its bytes, and refuses what a feature extractor has no need of:
//! data outside the file, sparse tensors, subgraphs, functions, operators beyond a list, fields that the format's
//! description (onnx.proto, IR version 13) does not name, and sizes that make no sense.
//!
//! The walk has a fixed depth, copies nothing and takes memory for nothing but the sentence of a refusal. It bounds
//! what a model is. What it may compute is bounded by [`bounds`]: broadcasting can make large tensors out of small ones,
//! so the shape of every tensor is inferred, and the work and the memory are summed up, before an engine
//! opens the model and before it sees a batch of another size.

pub mod bounds;
mod call;
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

use wire::{WireError, WireFields, WireValue, varint};

/// Most nodes of a graph.
pub const MAX_NODES: usize = 20_000;
/// Most tensors of a graph.
pub const MAX_TENSORS: usize = 20_000;
/// Most numbers of a tensor, and the longest side that a value may declare.
pub const MAX_ELEMENTS: u64 = 1 << 28;
/// Most dimensions of a tensor.
pub const MAX_RANK: usize = 8;
/// Largest number among a layer's kernel sides, strides, paddings and dilations.
pub const MAX_STEP: u64 = 4096;

/// Why a model is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The bytes are no ONNX model, or damaged.
    #[error("it is no ONNX model, or damaged: its {part} cannot be read")]
    Damaged {
        /// The part that cannot be read.
        part: &'static str,
    },
    /// A part has a field that this program does not know, or in another form than it should have.
    #[error("its {part} has a field {field}, which is unknown or not of the form that it should have")]
    Field {
        /// The part.
        part: &'static str,
        /// Number of the field.
        field: u32,
    },
    /// A tensor's data lie in another file.
    #[error("the data of the tensor {tensor:?} lie outside the file; export the model into a single file")]
    ExternalData {
        /// Name of the tensor.
        tensor: String,
    },
    /// The model has sparse tensors.
    #[error("it has sparse tensors; export it with dense ones")]
    Sparse,
    /// A node is of an operator or a domain that is not on the list.
    #[error("the node {node:?} is of the operator {operator:?}, which is not on the list of allowed ones")]
    Operator {
        /// Name of the node.
        node: String,
        /// Its operator, with its domain if it is not ONNX's own.
        operator: String,
    },
    /// A node carries a graph of its own.
    #[error("the node {node:?} carries a graph of its own, as control flow does")]
    Subgraph {
        /// Name of the node.
        node: String,
    },
    /// The model brings functions or steps of training.
    #[error("it brings functions or steps of training; export it with functions inlined")]
    Program,
    /// A tensor makes no sense or is too large.
    #[error("the tensor {tensor:?} {reason}")]
    Tensor {
        /// Name of the tensor.
        tensor: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A setting of a node makes no sense.
    #[error("the setting {attribute:?} of the node {node:?} makes no sense or is too large")]
    Attribute {
        /// Name of the node.
        node: String,
        /// Name of the setting.
        attribute: String,
    },
    /// A value between nodes has a name that does not tell which one it is.
    #[error("the value {value:?} {reason}")]
    Value {
        /// Name of the value.
        value: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A field that may come once comes twice; engines differ in which one they read.
    #[error("its {part} has the field {field} twice")]
    Twice {
        /// The part.
        part: &'static str,
        /// Number of the field.
        field: u32,
    },
    /// The shape of what a node makes cannot be told before it runs.
    #[error("the shape of what the node {node:?} of the operator {operator:?} makes cannot be inferred: {reason}")]
    Shape {
        /// Name of the node.
        node: String,
        /// Its operator.
        operator: String,
        /// Why not.
        reason: &'static str,
    },
    /// A node passes a limit of memory or of work ([`limits`]).
    #[error("the node {node:?} of the operator {operator:?} {what} {actual}; at most {limit} are accepted")]
    Large {
        /// Name of the node.
        node: String,
        /// Its operator.
        operator: String,
        /// What it does.
        what: &'static str,
        /// How much it comes to; no less than that.
        actual: u64,
        /// How much is accepted.
        limit: u64,
    },
    /// There is too much of something.
    #[error("it has more than {limit} {what}")]
    TooMany {
        /// What it is.
        what: &'static str,
        /// How much is accepted.
        limit: usize,
    },
}

/// What the walk and the inference return.
type AuditResult<T = ()> = Result<T, AuditError>;

/// Whether an operator of a domain may stand in a model.
type Operators = fn(domain: &str, operator: &str) -> bool;

/// Looks through the bytes of an ONNX model.
///
/// # Errors
/// [`AuditError`] names what is refused.
pub fn audit(model: &[u8]) -> AuditResult {
    walk(model, operators::is_allowed)
}

/// Looks through a model whose constants are going to be folded ([`super::onnx::fold_constants`]): as [`audit`], but
/// operators that make constants may stand in it, too. What folding makes of it has to pass [`audit`].
///
/// # Errors
/// [`AuditError`] names what is refused.
#[cfg(feature = "onnx")]
pub(super) fn audit_unfolded(model: &[u8]) -> AuditResult {
    walk(model, operators::is_foldable)
}

fn walk(model: &[u8], allowed: Operators) -> AuditResult {
    const PART: &str = "model";
    // Engines tell their own formats by these marks and would not read the file as ONNX; flatbuffers of ONNX Runtime
    // can be made to look like protocol buffers.
    if model.starts_with(b"RTEN") || model.get(4..8) == Some(b"ORTM") {
        return Err(AuditError::Damaged { part: PART });
    }
    let mut graphs = 0;
    for field in WireFields::of(model) {
        match field.map_err(|WireError| AuditError::Damaged { part: PART })? {
            (1 | 5, WireValue::Number(_)) | (2..=4 | 6, WireValue::Bytes(_)) => {}
            (7, WireValue::Bytes(bytes)) => {
                graph(bytes, allowed)?;
                graphs += 1;
            }
            (8, WireValue::Bytes(set)) => flat(set, "operator set", &[2], &[1])?,
            (14, WireValue::Bytes(entry)) => flat(entry, "metadata", &[], &[1, 2])?,
            (20 | 25, _) => return Err(AuditError::Program),
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    // Protocol buffers would merge two of them into one.
    if graphs == 1 { Ok(()) } else { Err(AuditError::Damaged { part: "graph" }) }
}

/// A message of numbers and texts alone.
fn flat(message: &[u8], part: &'static str, numbers: &[u32], texts: &[u32]) -> AuditResult {
    for field in WireFields::of(message) {
        match field.map_err(|WireError| AuditError::Damaged { part })? {
            (field, WireValue::Number(_)) if numbers.contains(&field) => {}
            (field, WireValue::Bytes(_)) if texts.contains(&field) => {}
            (field, _) => return Err(AuditError::Field { part, field }),
        }
    }
    Ok(())
}

fn graph(message: &[u8], allowed: Operators) -> AuditResult {
    const PART: &str = "graph";
    let (mut nodes, mut tensors) = (0, 0);
    for field in WireFields::of(message) {
        match field.map_err(|WireError| AuditError::Damaged { part: PART })? {
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
            (16, WireValue::Bytes(entry)) => flat(entry, "metadata", &[], &[1, 2])?,
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

/// An input, an output or a value between nodes, with its type.
fn value(message: &[u8]) -> AuditResult {
    const PART: &str = "list of values";
    for field in WireFields::of(message) {
        match field.map_err(|WireError| AuditError::Damaged { part: PART })? {
            (1 | 3, WireValue::Bytes(_)) => {}
            (2, WireValue::Bytes(kind)) => type_of_value(kind, name(message, 1))?,
            (4, WireValue::Bytes(entry)) => flat(entry, "metadata", &[], &[1, 2])?,
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    Ok(())
}

/// A type, which must be that of a tensor, with sides within bounds.
fn type_of_value(message: &[u8], of: String) -> AuditResult {
    const PART: &str = "types of values";
    let damaged = |WireError| AuditError::Damaged { part: PART };
    for field in WireFields::of(message) {
        match field.map_err(damaged)? {
            (1, WireValue::Bytes(tensor)) => {
                for field in WireFields::of(tensor) {
                    match field.map_err(damaged)? {
                        (1, WireValue::Number(_)) => {}
                        (2, WireValue::Bytes(shape)) => sides(shape, &of)?,
                        (field, _) => return Err(AuditError::Field { part: PART, field }),
                    }
                }
            }
            (6, WireValue::Bytes(_)) => {}
            (8, _) => return Err(AuditError::Sparse),
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    Ok(())
}

/// The shape of a value.
fn sides(message: &[u8], of: &str) -> AuditResult {
    const PART: &str = "shapes of values";
    let damaged = |WireError| AuditError::Damaged { part: PART };
    for (index, field) in WireFields::of(message).enumerate() {
        if index >= MAX_RANK {
            return Err(AuditError::Tensor { tensor: of.into(), reason: "has too many dimensions" });
        }
        let (1, WireValue::Bytes(side)) = field.map_err(damaged)? else {
            return Err(AuditError::Damaged { part: PART });
        };
        for field in WireFields::of(side) {
            match field.map_err(damaged)? {
                // A side of -1 is an unknown one.
                (1, WireValue::Number(side)) if side <= MAX_ELEMENTS || side == u64::MAX => {}
                (1, _) => return Err(AuditError::Tensor { tensor: of.into(), reason: "is unreasonably large" }),
                (2 | 3, WireValue::Bytes(_)) => {}
                (field, _) => return Err(AuditError::Field { part: PART, field }),
            }
        }
    }
    Ok(())
}

fn quantisation(message: &[u8]) -> AuditResult {
    const PART: &str = "quantisation notes";
    for field in WireFields::of(message) {
        match field.map_err(|WireError| AuditError::Damaged { part: PART })? {
            (1, WireValue::Bytes(_)) => {}
            (2, WireValue::Bytes(entry)) => flat(entry, PART, &[], &[1, 2])?,
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    Ok(())
}

fn node(message: &[u8], allowed: Operators) -> AuditResult {
    const PART: &str = "node";
    // A field that comes twice counts for the engine with its last value; here each of them must pass.
    let of = || match name(message, 3) {
        unnamed if unnamed.is_empty() => name(message, 2),
        named => named,
    };
    let (mut operators, mut domain) = (0, "");
    for field in WireFields::of(message) {
        match field.map_err(|WireError| AuditError::Damaged { part: PART })? {
            (1..=4 | 6 | 8, WireValue::Bytes(_)) => {}
            (5, WireValue::Bytes(bytes)) => attribute(bytes, &of)?,
            (7, WireValue::Bytes(bytes)) if bytes.is_empty() || bytes == b"ai.onnx" => {}
            (7, WireValue::Bytes(bytes)) => domain = core::str::from_utf8(bytes).unwrap_or("?"),
            (9, WireValue::Bytes(entry)) => flat(entry, "metadata", &[], &[1, 2])?,
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    for field in WireFields::of(message) {
        let Ok((4, WireValue::Bytes(bytes))) = field else { continue };
        operators += 1;
        let operator = core::str::from_utf8(bytes).unwrap_or("?");
        if !allowed(domain, operator) {
            let dot = if domain.is_empty() { "" } else { "." };
            return Err(AuditError::Operator { node: of(), operator: short(&[domain, dot, operator].concat()) });
        }
    }
    if operators == 0 { Err(AuditError::Damaged { part: PART }) } else { Ok(()) }
}

/// A setting of a node.
fn attribute(message: &[u8], node: &dyn Fn() -> String) -> AuditResult {
    const PART: &str = "settings of a node";
    const STEPS: [&str; 5] = ["dilations", "kernel_shape", "output_padding", "pads", "strides"];
    let own = name(message, 1);
    let refused = || AuditError::Attribute { node: node(), attribute: own.clone() };
    let fits = |number: u64| !STEPS.contains(&own.as_str()) || number <= MAX_STEP;
    for field in WireFields::of(message) {
        match field.map_err(|WireError| AuditError::Damaged { part: PART })? {
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
            // Numbers out of range, types, and references to a function's settings.
            (3 | 8 | 14 | 15 | 21, _) => return Err(refused()),
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    Ok(())
}

/// A tensor with its data: as many numbers as its sides say, in the file itself.
fn tensor(message: &[u8]) -> AuditResult {
    const PART: &str = "tensor";
    let refused = |reason| AuditError::Tensor { tensor: name(message, 8), reason };
    let damaged = || AuditError::Damaged { part: PART };
    let (mut elements, mut rank, mut kind) = (1u64, 0, 0);
    let (mut raw, mut numbers) = (None, 0u64);
    let mut side = |side: u64| {
        rank += 1;
        elements = elements.checked_mul(side).filter(|elements| *elements <= MAX_ELEMENTS && side <= MAX_ELEMENTS)?;
        (rank <= MAX_RANK).then_some(())
    };
    const LARGE: &str = "is unreasonably large";
    for field in WireFields::of(message) {
        match field.map_err(|WireError| damaged())? {
            (1, WireValue::Number(number)) => side(number).ok_or_else(|| refused(LARGE))?,
            (1, WireValue::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    let number = varint(&mut packed).ok_or_else(damaged)?;
                    side(number).ok_or_else(|| refused(LARGE))?;
                }
            }
            (2, WireValue::Number(number)) => kind = number,
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
            (13, _) => return Err(AuditError::ExternalData { tensor: name(message, 8) }),
            (14, WireValue::Number(0)) => {}
            (14, _) => return Err(AuditError::ExternalData { tensor: name(message, 8) }),
            (16, WireValue::Bytes(entry)) => flat(entry, "metadata", &[], &[1, 2])?,
            (field, _) => return Err(AuditError::Field { part: PART, field }),
        }
    }
    let Some(bits) = tensor::DataType(kind).bits() else { return Err(refused("holds numbers of an unknown kind")) };
    let complete = match raw {
        Some(bytes) => numbers == 0 && bytes.checked_mul(8) == elements.checked_mul(bits),
        None => numbers == elements,
    };
    if complete { Ok(()) } else { Err(refused("has not as many numbers as its shape says")) }
}

/// The text in a field of a message, as a refusal shows it.
fn name(message: &[u8], field: u32) -> String {
    let found = WireFields::of(message).find_map(|found| match found {
        Ok((number, WireValue::Bytes(bytes))) if number == field => Some(bytes),
        _ => None,
    });
    short(&String::from_utf8_lossy(found.unwrap_or_default().get(..256).unwrap_or(found.unwrap_or_default())))
}

/// At most 80 letters of a text.
fn short(text: &str) -> String {
    text.chars().take(80).collect()
}
