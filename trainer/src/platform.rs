//! What training needs of the machine: devices, threads, other processes, signals, and errors in words.

#[cfg(test)]
pub(crate) mod alone;
pub mod device;
pub mod distributed;
pub mod doctor;
pub mod failure;
pub mod gpu;
pub mod interrupt;
pub mod kernels;
pub mod speed;
pub mod system;
pub mod waiting;
