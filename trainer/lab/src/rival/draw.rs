//! Random numbers of rivals, drawn on the processor from torch's generator.

use tch::{Device, Kind, Tensor};

/// The numbers below a count, in random order.
pub(super) fn permuted(count: usize) -> Vec<usize> {
    let order = Tensor::randperm(count as i64, (Kind::Int64, Device::Cpu));
    Vec::<i64>::try_from(order).expect("numbers").into_iter().map(|number| number as usize).collect()
}

/// `count` of the numbers below `below`, drawn with replacement.
pub(super) fn drawn(below: usize, count: usize) -> Vec<usize> {
    let rows = Tensor::randint(below as i64, [count as i64], (Kind::Int64, Device::Cpu));
    Vec::<i64>::try_from(rows).expect("numbers").into_iter().map(|number| number as usize).collect()
}

/// A number between 0 and 1, drawn uniformly.
pub(super) fn uniform() -> f64 {
    Tensor::rand([1], (Kind::Double, Device::Cpu)).double_value(&[0])
}
