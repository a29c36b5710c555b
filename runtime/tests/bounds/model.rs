//! ONNX models, field by field.

use crate::wire::{bytes, integer};

/// A model of one input `x` of images, `[batch, 3, 8, 8]` unless said otherwise, and of one output, the last node's.
#[derive(Clone, Default)]
pub struct Model {
    graph: Vec<u8>,
    last: String,
    /// Sides of the input; -1 leaves one open.
    pub input: Vec<i64>,
    /// The version of ONNX's operators.
    pub version: u64,
}

/// A setting of a node.
#[derive(Clone)]
pub enum Setting<'a> {
    Int(&'a str, i64),
    Ints(&'a str, &'a [i64]),
    Text(&'a str, &'a str),
}

pub use Setting::{Int, Ints, Text};

/// A field that holds a number with a sign.
fn signed(field: u32, value: i64) -> Vec<u8> {
    integer(field, value.cast_unsigned())
}

fn value(name: &str, sides: Option<&[i64]>) -> Vec<u8> {
    let side = |side: &i64| bytes(1, &if *side < 0 { bytes(2, b"open") } else { signed(1, *side) });
    let shape = sides.map(|sides| bytes(2, &sides.iter().flat_map(side).collect::<Vec<u8>>()));
    let kind = bytes(2, &bytes(1, &[integer(1, 1), shape.unwrap_or_default()].concat()));
    [bytes(1, name.as_bytes()), kind].concat()
}

impl Model {
    pub fn new() -> Self {
        Self { input: vec![-1, 3, 8, 8], version: 17, ..Self::default() }
    }

    /// The name of the newest node's output.
    pub fn last(&self) -> String {
        self.last.clone()
    }

    fn constant(&mut self, name: &str, kind: u64, sides: &[i64], raw: &[u8]) -> &mut Self {
        let sides: Vec<u8> = sides.iter().flat_map(|&side| signed(1, side)).collect();
        let tensor = [sides, integer(2, kind), bytes(8, name.as_bytes()), bytes(9, raw)].concat();
        self.graph.extend(bytes(5, &tensor));
        self
    }

    /// Floats of 0.01.
    pub fn floats(&mut self, name: &str, sides: &[i64]) -> &mut Self {
        let count = sides.iter().product::<i64>() as usize;
        self.constant(name, 1, sides, &0.01f32.to_le_bytes().repeat(count))
    }

    /// A list of floats.
    pub fn numbers(&mut self, name: &str, values: &[f32]) -> &mut Self {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, 1, &[values.len() as i64], &raw)
    }

    /// Half floats of zero.
    pub fn halves(&mut self, name: &str, sides: &[i64]) -> &mut Self {
        self.constant(name, 10, sides, &vec![0; 2 * sides.iter().product::<i64>() as usize])
    }

    /// A list of whole numbers.
    pub fn list(&mut self, name: &str, values: &[i64]) -> &mut Self {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, 7, &[values.len() as i64], &raw)
    }

    /// A node of one output with its own name.
    pub fn node(&mut self, operator: &str, inputs: &[&str], output: &str, settings: &[Setting<'_>]) -> &mut Self {
        self.node_of(operator, inputs, &[output], settings)
    }

    pub fn node_of(
        &mut self,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        settings: &[Setting<'_>],
    ) -> &mut Self {
        let ends =
            |field, names: &[&str]| names.iter().flat_map(|name| bytes(field, name.as_bytes())).collect::<Vec<u8>>();
        let setting = |setting: &Setting<'_>| {
            let (name, kind, value) = match *setting {
                Int(name, value) => (name, 2, signed(3, value)),
                Ints(name, values) => (name, 7, values.iter().flat_map(|&value| signed(8, value)).collect::<Vec<u8>>()),
                Text(name, text) => (name, 3, bytes(4, text.as_bytes())),
            };
            bytes(5, &[bytes(1, name.as_bytes()), value, integer(20, kind)].concat())
        };
        let settings: Vec<u8> = settings.iter().flat_map(setting).collect();
        let node = [ends(1, inputs), ends(2, outputs), bytes(4, operator.as_bytes()), settings].concat();
        self.graph.extend(bytes(1, &node));
        self.last = outputs[0].into();
        self
    }

    pub fn encode(&self) -> Vec<u8> {
        let values = [bytes(11, &value("x", Some(&self.input))), bytes(12, &value(&self.last, None))].concat();
        let graph = [&bytes(2, b"graph"), &self.graph[..], &values].concat();
        [integer(1, 8), bytes(8, &integer(2, self.version)), bytes(7, &graph)].concat()
    }
}
