//! The driver, which runs the passes in their order; and kernels as values, which compiled programs contain.

pub mod explain;
#[cfg(feature = "generator")]
pub(crate) mod generate;
pub mod kernel_def;
pub mod kernel_value;
#[cfg(feature = "generator")]
mod specialize;
#[cfg(feature = "generator")]
pub mod text;
