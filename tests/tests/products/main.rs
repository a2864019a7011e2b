//! The product family on tensor cores, in the simulator.

mod architectures;
mod hopper;
mod precision;
mod tensor;
mod tensor_drawn;
mod tensor_epilogues;
mod tensor_keys;
mod tensor_weights;
