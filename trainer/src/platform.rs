//! What training needs of the machine: devices, threads, other processes, signals, and errors in words.

pub mod device;
pub mod distributed;
pub mod doctor;
pub mod failure;
pub mod gpu;
pub mod interrupt;
pub mod mkl;
pub mod speed;
pub mod system;
pub mod waiting;
