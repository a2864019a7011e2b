//! What happens on the user's machine: NVRTC makes a binary of the generated source.
//!
//! Only this crate and the command can fail because of the machine that they run on. What is missing there is an
//! ordinary error that says how to get it.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod cache;
pub mod nvrtc;
pub mod report;
