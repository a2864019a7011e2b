//! Shared parts of the tests: kernels, their inputs and expected results, and user crates.

pub mod arithmetic;
#[path = "../../examples/between_blocks.rs"]
pub mod between;
pub mod breaks;
pub mod casts;
pub mod choreography;
mod compiler;
pub mod configuration;
pub mod contended;
mod cores;
pub mod draw;
#[cfg(target_os = "linux")]
pub mod fake;
pub mod functions;
pub mod gallery;
pub mod gathers;
pub mod hand;
pub mod inputs;
pub mod integers;
pub mod lanes;
pub mod lists;
pub mod masks;
pub mod memory;
pub mod number;
pub mod one_call;
pub mod overflow;
pub mod packed;
pub mod pairs;
pub mod problem;
pub mod programs;
pub mod ptx;
pub mod rows;
pub mod sweep;
pub mod tensor;
pub mod types;
mod user_crate;
pub mod views;

pub use compiler::Compiler;
pub use cores::by_all_cores;
pub use user_crate::UserCrate;
