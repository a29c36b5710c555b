//! Shape rules: functions that infer the output shapes and the cost of operators, in one file for each family. A rule
//! has the name of its operator in ONNX, unless several operators share it ([`super::operators`]). It refuses what it
//! is not sure of.

pub mod elementwise;
pub mod fill;
pub mod index;
pub mod layout;
pub mod matrix;
pub mod reduce;
pub mod window;
