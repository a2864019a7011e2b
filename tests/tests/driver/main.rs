//! Programs that launch kernels, run where a library stands in for the driver (`tests/fake_driver`): what is called, in
//! which order, and what happens when calls fail. Nothing is computed.
#![cfg(target_os = "linux")]
// What only an unsafe function of cudarc lets happen must be refused or survived too.
#![allow(unsafe_code)]

mod captures;
mod compiler;
mod faults;
mod harness;
mod hopper;
mod machine;
mod order;
mod refusals;
mod watching;
