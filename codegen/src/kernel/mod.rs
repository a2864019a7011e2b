//! The driver, which runs the passes in their order; kernels with other constants, and programs as text.

pub(crate) mod generate;
pub(crate) mod specialize;
#[cfg(test)]
mod tests;
pub mod text;
mod words;
