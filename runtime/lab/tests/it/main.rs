//! Tests of the laboratory, all in one program: each program of its own would link the laboratory again.

mod answers;
mod eval;
mod looking;
mod report;
mod scenes;
mod seeds;
mod shipped;
mod support;
