//! Kernels drawn at random: each runs in the simulator, every variant on sizes of every kind, and is held against a plain
//! evaluation of its tile program. A kernel that disagrees is made as small as it stays wrong, and printed as text.

pub mod case;
pub mod change;
pub mod coverage;
pub mod draw;
pub mod judge;
pub mod number;
pub mod planted;
pub mod random;
pub mod reference;
pub mod run;
pub mod said;
pub mod shrink;
pub mod source;
