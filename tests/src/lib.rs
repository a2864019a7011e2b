//! What several tests share: kernels, and crates as users have them.

pub mod gallery;
pub mod programs;
mod user_crate;

pub use user_crate::UserCrate;
