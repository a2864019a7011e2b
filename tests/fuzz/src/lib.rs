//! Random kernels: each runs in the simulator, every variant on sizes of every kind, and is compared with the meaning of its text. A
//! failing kernel is shrunk while it fails in the same way, and printed as text.

pub mod case;
pub mod coverage;
pub mod draw;
pub mod judge;
pub mod matmul;
pub mod mutation;
pub mod number;
pub mod options;
pub mod planted;
pub mod random;
pub mod run;
pub mod shrink;
pub mod source;
pub mod whole;
mod written;

pub use written::{Written, near, written, written_with};
