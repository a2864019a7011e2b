//! Kernels that several tests share.

pub mod gallery;
pub mod programs;
