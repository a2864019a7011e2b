//! What several tests share: kernels, what they are given and what must come of it, and crates as users have them.

pub mod casts;
pub mod choreography;
pub mod draw;
pub mod functions;
pub mod gallery;
pub mod hand;
pub mod integers;
pub mod memory;
pub mod number;
pub mod problem;
pub mod programs;
pub mod rows;
pub mod tensor;
mod user_crate;
pub mod views;

pub use user_crate::UserCrate;
