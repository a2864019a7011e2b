//! Kernels as values, which compiled programs contain, and as loop nests.

pub mod explain;
pub mod kernel_def;
pub mod kernel_value;
