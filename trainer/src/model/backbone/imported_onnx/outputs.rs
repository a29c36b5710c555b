//! What a model gives: outputs that say their type and their shape.

use orco_runtime::encoder::audit::bounds::check_declared;
use prost::{DecodeError, Message};

use super::parts::{GraphParts, ModelParts};
use crate::model::onnx_proto::{DimensionProto, FLOAT, ValueInfoProto};

impl GraphParts {
    /// Declares outputs that are declared without a type or sides, as where somebody cut a classifier, and maps whose
    /// sides are open, as the audit infers them. Returns whether anything was changed.
    pub(super) fn declare_outputs(&mut self, parts: &ModelParts) -> Result<bool, DecodeError> {
        let outputs = self.outputs()?;
        if !outputs.iter().any(is_open) {
            return Ok(false);
        }
        let model = ModelParts { graph: Some(self.clone()), ..parts.clone() };
        // What cannot be inferred is refused later.
        let Ok(inferred) = check_declared(&model.encode_to_vec()) else { return Ok(false) };
        let mut is_declared = false;
        for ((bytes, value), sides) in self.output.iter_mut().zip(outputs).zip(inferred.outputs) {
            if is_open(&value) {
                *bytes = declared(value.name, &sides).encode_to_vec();
                is_declared = true;
            }
        }
        Ok(is_declared)
    }

    /// Its outputs, as it declares them.
    pub(super) fn outputs(&self) -> Result<Vec<ValueInfoProto>, DecodeError> {
        self.output.iter().map(|value| ValueInfoProto::decode(value.as_slice())).collect()
    }
}

/// Whether an output of floats, or of what is not said, lacks sides, or is a map of which more than the batch is open.
pub fn is_open(output: &ValueInfoProto) -> bool {
    const UNDEFINED: i32 = 0;
    let Some(tensor) = output.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref()) else {
        return output.r#type.is_none();
    };
    if !matches!(tensor.elem_type, FLOAT | UNDEFINED) {
        return false;
    }
    match output.sizes().as_deref() {
        Some([_, map @ ..]) => map.len() == 3 && map.contains(&None),
        _ => true,
    }
}

/// Declares floats of these sides for each image.
pub fn declared(name: String, sides: &[u64]) -> ValueInfoProto {
    let side = |(axis, &side): (usize, &u64)| DimensionProto {
        dim_value: i64::try_from(side).ok().filter(|_| axis > 0),
        dim_param: None,
    };
    ValueInfoProto::new(name, FLOAT, sides.iter().enumerate().map(side).collect())
}

/// The names of values, for people.
pub fn names<'a>(values: impl IntoIterator<Item = &'a ValueInfoProto>) -> String {
    values.into_iter().map(|value| format!("{:?}", value.name)).collect::<Vec<_>>().join(", ")
}
