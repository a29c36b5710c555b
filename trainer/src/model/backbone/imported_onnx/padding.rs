//! Writes padding as `pads` where a file leaves it to `auto_pad` and engines differ: `SAME_LOWER` puts an odd pixel in
//! front of a map, and rten puts it behind; ONNX Runtime does not pad dilated windows by itself.

use orco_runtime::encoder::audit::bounds::check_declared;
use prost::{DecodeError, Message};

use super::parts::{GraphParts, ModelParts, is_onnx_domain};
use crate::model::onnx_proto::{AttributeProto, NodeProto, ValueInfoProto, ints, text};

impl GraphParts {
    /// Writes out the padding of windows whose odd pixel stands in front, and of dilated ones, where the audit infers
    /// the sizes of their maps. Returns whether a node was changed.
    pub(super) fn spell_out_padding(&mut self, model: &ModelParts) -> Result<bool, DecodeError> {
        let nodes = self.nodes()?;
        let padded: Vec<usize> = (0..nodes.len()).filter(|&at| needs_pads(&nodes[at])).collect();
        let Some(&last) = padded.last() else { return Ok(false) };
        // `SAME_UPPER` gives maps of the same sizes, and the audit takes it: it stands in for those before the last
        // while sizes are inferred.
        let mut before = Self { node: self.node[..last].to_vec(), ..Self::default() };
        for &at in &padded {
            let map = ValueInfoProto { name: nodes[at].input[0].clone(), r#type: None };
            before.output.push(map.encode_to_vec());
            if at < last {
                before.node[at] = with_padding(&nodes[at], text("auto_pad", "SAME_UPPER")).encode_to_vec();
            }
        }
        let model = ModelParts { graph: Some(self.with_what_is_read(before)?), ..model.clone() };
        // What cannot be inferred is refused later.
        let Ok(inferred) = check_declared(&model.encode_to_vec()) else { return Ok(false) };
        let mut is_changed = false;
        for (at, map) in padded.into_iter().zip(inferred.outputs) {
            let Some(pads) = pads_of(&nodes[at], &map) else { continue };
            self.node[at] = with_padding(&nodes[at], ints("pads", pads)).encode_to_vec();
            is_changed = true;
        }
        Ok(is_changed)
    }
}

/// Whether a node slides a window over its first input whose padding engines may compute in different ways.
fn needs_pads(node: &NodeProto) -> bool {
    let mut padding = node.attribute.iter().filter(|own| own.name == "auto_pad");
    let is_left_to_engine = match padding.next().and_then(|own| own.s.as_deref()) {
        Some(b"SAME_LOWER") => true,
        Some(b"SAME_UPPER") => is_dilated(node),
        _ => false,
    };
    // The audit refuses a node with two.
    let is_left_to_engine = is_left_to_engine && padding.next().is_none();
    let slides = matches!(node.op_type.as_str(), "AveragePool" | "Conv" | "MaxPool" | "QLinearConv");
    let rounds_up = node.named("ceil_mode").is_some_and(|own| own.i.unwrap_or(0) != 0);
    slides && is_left_to_engine && !rounds_up && !node.input.is_empty() && is_onnx_domain(&node.domain)
}

fn is_dilated(node: &NodeProto) -> bool {
    node.named("dilations").is_some_and(|own| own.ints.iter().any(|&dilation| dilation != 1))
}

/// The padding of a node's window on a map `[images, channels, ...]`: of all axes in front, then behind. None where it
/// is even and the window not dilated, which engines compute alike, or nothing says how large the window is.
fn pads_of(node: &NodeProto, map: &[u64]) -> Option<Vec<i64>> {
    let (sides, kernel) = (map.get(2..)?, &node.named("kernel_shape")?.ints);
    let count = sides.len();
    let lengths = |name: &str| node.named(name).map_or_else(|| vec![1; count], |own| own.ints.clone());
    let (strides, dilations) = (lengths("strides"), lengths("dilations"));
    if [kernel.len(), strides.len(), dilations.len()] != [count; 3] || strides.iter().any(|&stride| stride < 1) {
        return None;
    }
    let missing = |axis: usize| {
        let side = i64::try_from(sides[axis]).ok()?;
        let window = kernel[axis].checked_sub(1)?.checked_mul(dilations[axis])?.checked_add(1)?;
        // Where the last place starts, of as many as strides that begin on the map.
        let start = side.checked_sub(1)? / strides[axis] * strides[axis];
        Some(start.checked_add(window)?.checked_sub(side)?.max(0))
    };
    let missing = (0..count).map(missing).collect::<Option<Vec<i64>>>()?;
    let is_wanted = is_dilated(node) || missing.iter().any(|pad| pad % 2 == 1);
    let (less, more) = (missing.iter().map(|pad| pad / 2), missing.iter().map(|pad| pad - pad / 2));
    let is_upper = node.named("auto_pad").is_some_and(|own| matches!(own.s.as_deref(), Some(b"SAME_UPPER")));
    is_wanted.then(|| if is_upper { less.chain(more).collect() } else { more.chain(less).collect() })
}

/// A node with this padding in place of its own.
fn with_padding(node: &NodeProto, padding: AttributeProto) -> NodeProto {
    let mut node = node.clone();
    node.attribute.retain(|own| !matches!(own.name.as_str(), "auto_pad" | "pads"));
    node.attribute.push(padding);
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::onnx_proto::{int, node};

    fn window(kernel: [i64; 2], strides: [i64; 2]) -> NodeProto {
        let attributes = vec![
            ints("kernel_shape", kernel.to_vec()),
            text("auto_pad", "SAME_LOWER"),
            // ONNX lets `auto_pad` win.
            ints("pads", vec![0; 4]),
            ints("strides", strides.to_vec()),
        ];
        node("MaxPool", vec!["x".into()], "y", attributes)
    }

    #[test]
    fn an_odd_pixel_of_padding_stands_in_front() {
        for (kernel, strides, map, expected) in [
            ([3, 3], [2, 2], [8, 8], Some(vec![1, 1, 0, 0])),
            ([2, 3], [1, 1], [7, 9], Some(vec![1, 1, 0, 1])),
            ([5, 4], [2, 3], [24, 23], Some(vec![2, 1, 1, 1])),
            ([3, 3], [2, 2], [9, 9], None),
            ([1, 1], [2, 2], [8, 8], None),
            ([3, 3], [0, 2], [8, 8], None),
            ([i64::MIN, 2], [1, 1], [8, 8], None),
        ] {
            let pads = pads_of(&window(kernel, strides), &[&[1_u64, 3][..], &map].concat());
            assert_eq!(pads, expected, "{kernel:?} by {strides:?} on {map:?}");
        }
        assert_eq!(pads_of(&window([3, 3], [2, 2]), &[1, 3, 8]), None, "a map of one axis");
        let window = window([3, 3], [2, 2]);
        let written = with_padding(&window, ints("pads", vec![1, 1, 0, 0]));
        let names: Vec<String> = written.attribute.into_iter().map(|own| own.name).collect();
        assert_eq!(names, ["kernel_shape", "strides", "pads"]);
        assert!(needs_pads(&window));
        for other in [int("ceil_mode", 1), text("auto_pad", "SAME_UPPER")] {
            let mut changed = window.clone();
            changed.attribute.push(other);
            assert!(!needs_pads(&changed), "{changed:?}");
        }
    }

    #[test]
    fn padding_of_dilated_windows_is_written_out() {
        for (padding, dilations, expected) in [
            ("SAME_UPPER", vec![3, 2], Some(vec![4, 1, 5, 1])),
            ("SAME_LOWER", vec![3, 2], Some(vec![5, 1, 4, 1])),
            // Even padding, too.
            ("SAME_UPPER", vec![2, 2], Some(vec![3, 1, 3, 1])),
            ("SAME_UPPER", vec![1, 1], None),
        ] {
            let attributes = vec![
                ints("kernel_shape", vec![4, 2]),
                text("auto_pad", padding),
                ints("dilations", dilations),
                ints("strides", vec![1, 1]),
            ];
            let window = node("Conv", vec!["x".into(), "w".into()], "y", attributes);
            assert_eq!(needs_pads(&window), expected.is_some(), "{window:?}");
            if expected.is_some() {
                assert_eq!(pads_of(&window, &[1, 3, 24, 24]), expected, "{window:?}");
            }
        }
    }
}
