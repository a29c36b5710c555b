//! A backbone in int8, by static quantisation in ONNX's QDQ form: every value between layers passes through
//! `QuantizeLinear` and `DequantizeLinear`, which an engine fuses with the layer between them into integer arithmetic.
//!
//! Weights are int8, symmetric, with a scale for each output channel; activations uint8, asymmetric, one scale for each
//! value; biases int32 with the product of both scales (Jacob et al. 2018). ReLU and ReLU6 are part of the convolution
//! before them. The average over the image at the end stays in f32.

use std::collections::{BTreeMap, HashMap};

use tch::Tensor;

use super::graph::{INPUT, OnnxGraph, folded};
use super::weights::{largest, to_int8};
use crate::model::backbone::{Activation, Builder, ConvNorm, Network};
use crate::model::onnx_proto::{INT8, INT32, UINT8, int};
use crate::platform::device::values;

/// Share of a batch's values that may lie outside the range of an activation, on either side.
const TAIL: f64 = 1e-4;

/// Lowest and highest number of every value between layers, by name, from calibration images.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges(BTreeMap<String, (f32, f32)>);

impl Ranges {
    /// Measures a network on batches of images: of each batch the quantiles 0.01 % and 99.99 % of a value, of all
    /// batches the widest; 0 is always inside.
    ///
    /// # Shapes
    /// Each batch f32 `[n, 3, h, w]`, normalised.
    pub fn measure(network: &Network, batches: impl Iterator<Item = Tensor>) -> Self {
        let mut ranges = Self::default();
        tch::no_grad(|| {
            for batch in batches {
                ranges.include(INPUT, &batch);
                network.observe(&batch, &mut |name, value| ranges.include(name, value));
            }
        });
        ranges
    }

    fn include(&mut self, name: &str, value: &Tensor) {
        let flat = value.reshape([-1]);
        let outside = ((flat.numel() as f64 * TAIL) as i64).max(1);
        let bound = |largest: bool| {
            let (extremes, _) = flat.topk(outside, 0, largest, true);
            extremes.double_value(&[outside - 1]) as f32
        };
        let (low, high) = self.0.entry(name.to_owned()).or_default();
        *low = low.min(bound(false));
        *high = high.max(bound(true));
    }

    /// Scale and zero point of a value in uint8.
    fn scale(&self, name: &str) -> (f32, u8) {
        let (low, high) = self.0.get(name).copied().unwrap_or_default();
        let scale = ((high - low) / 255.0).max(1e-8);
        (scale, (-low / scale).round().clamp(0.0, 255.0) as u8)
    }
}

/// Bytes of the int8 ONNX file of a network in inference mode; the same network and ranges give the same bytes.
pub fn encode_int8(network: &Network, ranges: &Ranges, metadata: &[(&str, String)]) -> Vec<u8> {
    let graph = OnnxGraph::default();
    let mut writer = Int8Writer { network, ranges, graph, done: HashMap::new(), same: HashMap::new() };
    let x = writer.graph.start(&network.description);
    // Mirror images have the same range.
    writer.same.insert(x.clone(), INPUT.to_owned());
    let x = network.description.build(x, &mut writer);
    let x = writer.quantised(&x);
    writer.graph.finish(x, &network.description, metadata)
}

/// Writes a network with every value quantised where a layer takes it in.
struct Int8Writer<'a> {
    network: &'a Network,
    ranges: &'a Ranges,
    graph: OnnxGraph,
    /// Names of values after quantising, by name before.
    done: HashMap<String, String>,
    /// Values that share the scale of another: pooling makes no new numbers.
    same: HashMap<String, String>,
}

impl Int8Writer<'_> {
    fn scale(&self, name: &str) -> (f32, u8) {
        self.ranges.scale(self.same.get(name).map_or(name, String::as_str))
    }

    /// The value after `QuantizeLinear` and `DequantizeLinear`.
    fn quantised(&mut self, x: &str) -> String {
        if let Some(done) = self.done.get(x) {
            return done.clone();
        }
        let (scale, zero) = self.scale(x);
        let parameters = [format!("{x}.scale"), format!("{x}.zero")];
        self.graph.floats(&parameters[0], &[], &[scale]);
        self.graph.tensor(&parameters[1], UINT8, &[], vec![zero]);
        let [scale, zero] = parameters;
        let inputs = vec![x.to_owned(), scale.clone(), zero.clone()];
        let integers = self.graph.node("QuantizeLinear", &format!("{x}.quantised"), inputs, vec![]);
        let inputs = vec![integers, scale, zero];
        let name = self.graph.node("DequantizeLinear", &format!("{x}.dequantised"), inputs, vec![]);
        self.done.insert(x.to_owned(), name.clone());
        name
    }

    /// [`Self::quantised`] for an operator whose output, of this name, has the range of its input.
    fn quantised_alike(&mut self, x: String, name: &str) -> String {
        let quantised = self.quantised(&x);
        let shared = self.same.get(&x).cloned().unwrap_or(x);
        self.same.insert(name.to_owned(), shared);
        quantised
    }

    /// Adds a constant of integers with a scale for each row, and its `DequantizeLinear`.
    fn constant(&mut self, name: &str, data_type: i32, dims: &[i64], bytes: Vec<u8>, scales: &[f32]) -> String {
        let rows = [scales.len() as i64];
        let zeros = bytes.len() / dims.iter().product::<i64>().max(1) as usize * scales.len();
        let [integers, scale, zero] = ["", ".scale", ".zero"].map(|part| format!("{name}{part}"));
        self.graph.tensor(&integers, data_type, dims, bytes);
        self.graph.floats(&scale, &rows, scales);
        self.graph.tensor(&zero, data_type, &rows, vec![0; zeros]);
        let inputs = vec![integers, scale, zero];
        self.graph.node("DequantizeLinear", &format!("{name}.dequantised"), inputs, vec![int("axis", 0)])
    }
}

impl Builder for Int8Writer<'_> {
    type Value = String;

    fn convolution(&mut self, x: &String, conv: &ConvNorm) -> String {
        let (input_scale, _) = self.scale(x);
        let (weight, bias) = folded(self.network, conv);
        let bias = values(&bias);
        let weights = values(&weight);
        let channels = weights.chunks_exact(weights.len() / conv.outputs as usize);
        let scales: Vec<f32> = channels.zip(&bias).map(|(row, &bias)| row_scale(row, bias, input_scale)).collect();
        let bytes = to_int8(&weights, &scales);
        let weight = self.constant(&format!("{}.weight", conv.name), INT8, &conv.shape(), bytes, &scales);
        let scales: Vec<f32> = scales.iter().map(|scale| scale * input_scale).collect();
        let bytes = bias.iter().zip(&scales).flat_map(|(value, scale)| ((value / scale).round() as i32).to_le_bytes());
        let bias = self.constant(&format!("{}.bias", conv.name), INT32, &[conv.outputs], bytes.collect(), &scales);
        let x = self.quantised(x);
        self.graph.convolution(vec![x, weight, bias], conv)
    }

    fn activation(&mut self, x: String, name: &str) -> String {
        let activation = self.network.description.activation;
        let x = match activation {
            Activation::Relu | Activation::Relu6 => x,
            Activation::LeakyRelu(_) => self.quantised(&x),
        };
        self.graph.activation(x, name, activation)
    }

    fn sum(&mut self, x: String, shortcut: &String, name: &str) -> String {
        let inputs = vec![self.quantised(&x), self.quantised(shortcut)];
        self.graph.node("Add", name, inputs, vec![])
    }

    fn pool(&mut self, x: String, side: i64, name: &str) -> String {
        let quantised = self.quantised_alike(x, name);
        self.graph.pool(quantised, side, name)
    }

    fn stem_pool(&mut self, x: String, name: &str) -> String {
        let quantised = self.quantised_alike(x, name);
        self.graph.stem_pool(quantised, name)
    }
}

/// Scale of a channel's weights, wide enough for the bias to fit into 31 bits too.
fn row_scale(weights: &[f32], bias: f32, input_scale: f32) -> f32 {
    (largest(weights) / 127.0).max(bias.abs() / input_scale / (1u32 << 30) as f32).max(f32::MIN_POSITIVE.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_represented_exactly_and_tails_are_cut() {
        let mut ranges = Ranges::default();
        let values = Tensor::arange(20_001, (tch::Kind::Float, tch::Device::Cpu)) / 10_000.0 - 0.5;
        ranges.include("x", &values);
        let (low, high) = ranges.0["x"];
        assert!((low + 0.4999).abs() < 1e-4 && (high - 1.4999).abs() < 1e-4, "{low} {high}");
        let (scale, zero) = ranges.scale("x");
        assert!((scale - 2.0 / 255.0).abs() < 1e-5);
        assert_eq!(zero, 64);
        assert_eq!(ranges.scale("unseen").1, 0);
    }

    #[test]
    fn a_channel_without_weights_keeps_its_bias() {
        let scale = row_scale(&[0.0, 0.0], 3.0, 0.02);
        assert!((3.0 / (scale * 0.02)).abs() <= (1u32 << 30) as f32 * 1.01);
    }
}
