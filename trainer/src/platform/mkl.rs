//! Has MKL choose the kernels of its vector functions before several threads ask for them.
//!
//! libtorch computes exp, log, sqrt and their like with MKL, which chooses a function's kernel when it is first called.
//! In MKL 2024.2, a part of libtorch 2.11, threads that call it first at the same time can be given the kernel of the
//! lowest accuracy for that one call, though the highest is asked for
//! ([pytorch#188792](https://github.com/pytorch/pytorch/issues/188792)). So a loss could be wrong in its fifth digit
//! once, and a run differ from the same run repeated.

use std::sync::Once;

use tch::{Device, Kind, Tensor, no_grad};

/// What libtorch hands to MKL.
const FUNCTIONS: [fn(&Tensor) -> Tensor; 17] = [
    Tensor::acos,
    Tensor::asin,
    Tensor::atan,
    Tensor::cos,
    Tensor::erf,
    Tensor::erfc,
    Tensor::exp,
    Tensor::expm1,
    Tensor::log,
    Tensor::log10,
    Tensor::log1p,
    Tensor::log2,
    Tensor::sin,
    Tensor::sqrt,
    Tensor::tan,
    Tensor::tanh,
    Tensor::trunc,
];

/// Calls each function once, on one thread; whoever comes meanwhile waits. Only the first call does something.
///
/// Models do this when they are made; what computes without one calls it first.
pub fn warm_up() {
    static SETTLED: Once = Once::new();
    SETTLED.call_once(|| {
        no_grad(|| {
            for kind in [Kind::Float, Kind::Double] {
                // One number is computed where it is asked for, not by OpenMP's threads.
                let one = Tensor::ones([1], (kind, Device::Cpu));
                for function in FUNCTIONS {
                    let _ = function(&one);
                }
            }
        });
    });
}
