//! How the weights of a convolution lie in a file: as f32, as f16, or as int8 with a scale for each output channel.
//!
//! Smaller ones are brought back to f32 by `Cast` (and `Mul` by the scales), nodes over constants alone, which an
//! engine computes once when it loads the file. `DequantizeLinear` would say the same in one node, but ONNX Runtime
//! keeps it for its integer kernels and computes it at every image, which took twice the time.

use orco_runtime::manifest::WeightFormat;

use super::graph::OnnxGraph;
use crate::model::onnx_proto::{FLOAT, FLOAT16, INT8, int};

impl OnnxGraph {
    /// Adds the weight of a convolution, `dims` = `[outputs, ..]` row-major, and returns the name of its f32 value.
    pub(super) fn weight(&mut self, name: &str, dims: &[i64], numbers: &[f32], stored: WeightFormat) -> String {
        match stored {
            WeightFormat::F32 => {
                self.floats(name, dims, numbers);
                name.to_owned()
            }
            WeightFormat::F16 => {
                let bytes = numbers.iter().flat_map(|&number| half::f16::from_f32(number).to_le_bytes());
                let bytes = bytes.collect();
                self.cast(name, FLOAT16, dims, bytes)
            }
            WeightFormat::Int8 => {
                let rows = numbers.chunks_exact(numbers.len() / dims[0] as usize);
                // A channel of zeros has any scale.
                let scales: Vec<f32> = rows.map(|row| (largest(row) / 127.0).max(f32::MIN_POSITIVE)).collect();
                let whole = self.cast(name, INT8, dims, to_int8(numbers, &scales));
                let scale = format!("{name}.scale");
                let mut broadcast = vec![1; dims.len()];
                broadcast[0] = dims[0];
                self.floats(&scale, &broadcast, &scales);
                self.node("Mul", &format!("{name}.scaled"), vec![whole, scale], vec![])
            }
        }
    }

    /// Adds a tensor of another kind and the node that makes it f32.
    fn cast(&mut self, name: &str, data_type: i32, dims: &[i64], bytes: Vec<u8>) -> String {
        self.tensor(name, data_type, dims, bytes);
        self.node("Cast", &format!("{name}.float"), vec![name.to_owned()], vec![int("to", i64::from(FLOAT))])
    }
}

/// The largest magnitude.
pub(super) fn largest(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0, |largest, number| largest.max(number.abs()))
}

/// Bytes of numbers in rows, each divided by its row's scale and rounded to -127..127.
pub(super) fn to_int8(numbers: &[f32], scales: &[f32]) -> Vec<u8> {
    let round = |value: f32| (value.round().clamp(-127.0, 127.0) as i8).cast_unsigned();
    let rows = numbers.chunks_exact(numbers.len() / scales.len().max(1)).zip(scales);
    rows.flat_map(|(row, scale)| row.iter().map(move |number| round(number / scale))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_use_the_whole_range_and_zeros_stay() {
        let numbers = [0.5, -1.0, 0.0, 0.25, 0.0, 0.0];
        let scales = [1.0 / 127.0, 0.25 / 127.0, f32::MIN_POSITIVE];
        let whole: Vec<i8> = to_int8(&numbers, &scales).into_iter().map(u8::cast_signed).collect();
        assert_eq!(whole, [64, -127, 0, 127, 0, 0]);
        assert_eq!(largest(&numbers), 1.0);
    }
}
