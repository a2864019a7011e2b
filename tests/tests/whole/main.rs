//! Kernels on whole tiles, without any thread layout, compared with plain loops.

mod attention;
mod elements;
mod linear;
mod reductions;
