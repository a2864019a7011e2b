//! The laws of the algebra against brute force, and what people read of it. One program: each link takes seconds.

mod analysis;
mod common;
mod comparison;
mod distribution;
mod errors;
mod fuzz;
mod guide;
mod laws;
mod messages;
mod partition;
mod pictures;
mod vectors;
