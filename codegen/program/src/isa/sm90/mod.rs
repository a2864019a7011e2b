//! Hopper: products of a warpgroup, bulk copies of boxes (TMA), and stores to the shared memory of other blocks.

mod roles;
pub(super) mod st_async;
pub(super) mod tma;
pub(super) mod wgmma;

pub use roles::{REGISTER_POOL, RegisterPool};
