//! Tests of `orco-train-lab`, all in one program: each program of its own would link the trainer again.

mod ablate;
mod rival;
mod support;
