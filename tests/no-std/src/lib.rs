//! A session without std and without an allocator: the program `orco-bare` runs one on the host, as a microcontroller
//! would. [`tables`] is what such a program needs beside `orco-core`.
#![no_std]

pub mod tables;
