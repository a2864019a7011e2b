//! Kernels on whole tiles, without a single thread layout, against plain loops.

mod elements;
mod reductions;
