//! Kernels of language models, of `examples/models`, in 16 bits with accumulators in f32. They serve any sizes, but for norms of at most
//! 8192 columns, and at most 16 heads of queries for a head of keys in pages. Attention without pages needs rows that begin at multiples
//! of 16 bytes, and heads of 64, 128 or 256 elements.

#![allow(dead_code)]

use super::Shipped;

#[path = "../../examples/models/attention_backward.rs"]
pub mod attention_backward;
#[path = "../../examples/models/attention_forward.rs"]
pub mod attention_forward;
#[path = "../../examples/models/attention_ragged.rs"]
pub mod attention_ragged;
#[path = "../../examples/models/embed.rs"]
pub mod embed;
#[path = "../../examples/models/gate.rs"]
pub mod gate;
#[path = "../../examples/models/paged.rs"]
pub mod paged;
#[path = "../../examples/models/rms_norm.rs"]
pub mod rms_norm;
#[path = "../../examples/models/weights.rs"]
pub mod weights;

/// All of them.
///
/// ```
/// use tilewright::kernels;
/// assert!(kernels::models::all().iter().any(|kernel| kernel.name == "paged_attention"));
/// ```
pub fn all() -> Vec<Shipped> {
    shipped! {
        attention_forward::attention_forward: "attention of a training step or a prompt, for Hopper",
        attention_backward::attention_delta: "sums of results times their gradients, for gradients of attention",
        attention_backward::attention_grad_keys: "gradients of keys and values of attention, for Hopper",
        attention_backward::attention_grad_queries: "gradients of queries of attention, for Hopper",
        attention_ragged::attention_ragged: "attention of sequences of several lengths, for Hopper",
        embed::embed: "rows of a table by their tokens",
        embed::embed_q8: "rows of a table of 8-bit integers with scales",
        gate::gate: "silu(gate) · up",
        paged::rotate_and_store: "rotary embedding of queries and keys, and their pages",
        paged::paged_attention: "attention of new tokens to keys and values in pages",
        paged::paged_prefill: "attention of a prompt to keys and values in pages",
        rms_norm::rms_norm: "RMS norm of rows in f32, in 16 bits",
        weights::linear_half: "a linear layer of few rows, weights of 16 bits",
        weights::linear_q8: "a linear layer of few rows, weights of 8 bits with scales",
        weights::linear_q4: "a linear layer of few rows, weights of 4 bits with scales and offsets",
    }
}
