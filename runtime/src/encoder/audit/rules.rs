//! What operators make of shapes, and what they cost: a function for each kind of operator, in one file for each
//! family. [`super::operators`] says which rule an operator has. A rule refuses what it is not sure of.

pub mod elementwise;
pub mod fill;
pub mod index;
pub mod layout;
pub mod matrix;
pub mod reduce;
pub mod window;
