//! Tests of `orco-train`, all in one program: each program of its own would link the trainer again.

mod align;
mod command;
mod damage;
mod distributed;
mod look;
mod mini_imagenet;
mod paper;
mod signing;
mod support;
mod synthetic;
mod waiting;
