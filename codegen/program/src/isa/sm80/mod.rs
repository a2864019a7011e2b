//! Ampere: products of a warp, copies of a thread that do not pass through registers, and loads of fragments.

pub(super) mod cp_async;
pub(super) mod ldmatrix;
pub(super) mod mma_sync;
