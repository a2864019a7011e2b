//! The driver, which runs the passes in their order; and kernels as values, which compiled programs contain.

pub mod explain;
pub(crate) mod generate;
pub mod kernel_def;
pub mod kernel_value;
pub mod text;
