//! Kernels on whole tiles, without any thread layout, compared with plain loops.

mod accumulators;
mod attention;
mod between;
mod bulk_stores;
mod causal;
mod elements;
mod linear;
mod nested;
mod operands;
mod reductions;
mod short;
mod split;
mod staged;
