//! Kernels on whole tiles, without a single thread layout, against plain loops.

mod attention;
mod elements;
mod linear;
mod reductions;
