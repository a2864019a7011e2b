//! Kernels that several tests share, written with the builder.

pub mod programs;
