#![doc = include_str!("../README.md")]
#![deny(unsafe_op_in_unsafe_fn)]

mod attention;
#[cfg(feature = "cuda")]
mod device;
mod host;
pub mod kernels;
mod launch;
mod linear;
pub mod loss;
pub mod moe;
mod operator;
pub mod ops;
mod paged;
pub mod rotary_emb;
mod view;

pub use attention::{
    flash_attn, flash_attn_alibi, flash_attn_alibi_windowed, flash_attn_alibi_windowed_softcap,
    flash_attn_varlen, flash_attn_varlen_alibi_windowed_softcap, flash_attn_varlen_windowed,
    flash_attn_windowed,
};
#[cfg(feature = "cuda")]
pub use device::capture;
pub use host::simulated;
pub use launch::{Argument, Launch, specialized};
pub use linear::{QLinear, linear, matmul};
pub use operator::{Call, Gradients, Inputs, Operator, apply, apply_inplace, run};
pub use paged::flash_attn_varlen_paged_windowed;
pub use tilewright::matmul::Activation;
pub use view::View;
