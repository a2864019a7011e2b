//! Kernels of language models, of `examples/models`, in 16 bits with accumulators in f32. They serve any sizes, with a few limits.
//!
//! - Norms have at most 8192 or 16384 columns. Samples and the fused cross entropy have at most 262137 logits in a row.
//! - Attention in pages has at most 16 heads of queries for a head of keys. Attention without pages needs rows that begin at multiples
//!   of 16 bytes, and heads of 64, 128 or 256 elements.

#![allow(dead_code)]

use super::Shipped;

#[path = "../../examples/models/adamw.rs"]
pub mod adamw;
#[path = "../../examples/models/attention_backward.rs"]
pub mod attention_backward;
#[path = "../../examples/models/attention_forward.rs"]
pub mod attention_forward;
#[path = "../../examples/models/attention_ragged.rs"]
pub mod attention_ragged;
#[path = "../../examples/models/conv1d.rs"]
pub mod conv1d;
#[path = "../../examples/models/cross_entropy.rs"]
pub mod cross_entropy;
#[path = "../../examples/models/dropout.rs"]
pub mod dropout;
#[path = "../../examples/models/embed.rs"]
pub mod embed;
#[path = "../../examples/models/embed_backward.rs"]
pub mod embed_backward;
#[path = "../../examples/models/experts.rs"]
pub mod experts;
#[path = "../../examples/models/gated.rs"]
pub mod gated;
#[path = "../../examples/models/gated_gemm.rs"]
pub mod gated_gemm;
#[path = "../../examples/models/gated_linear_attention.rs"]
pub mod gated_linear_attention;
#[path = "../../examples/models/norm_gradients.rs"]
pub mod norm_gradients;
#[path = "../../examples/models/norms.rs"]
pub mod norms;
#[path = "../../examples/models/paged.rs"]
pub mod paged;
#[path = "../../examples/models/rms_norm.rs"]
pub mod rms_norm;
#[path = "../../examples/models/rope.rs"]
pub mod rope;
#[path = "../../examples/models/sample.rs"]
pub mod sample;
#[path = "../../examples/models/selective_scan.rs"]
pub mod selective_scan;
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
        adamw::adamw: "a step of AdamW, with moments in f32",
        attention_forward::attention_forward: "attention of a training step or a prompt, for Hopper",
        attention_backward::attention_delta: "sums of results times their gradients, for gradients of attention",
        attention_backward::attention_grad_keys: "gradients of keys and values of attention, for Hopper",
        attention_backward::attention_grad_queries: "gradients of queries of attention, for Hopper",
        attention_ragged::attention_ragged: "attention of sequences of several lengths, for Hopper",
        conv1d::conv1d_causal: "a causal convolution over time of each channel, and silu",
        conv1d::conv1d_causal_backward: "gradients of its input, and parts of the gradients of its weights",
        cross_entropy::cross_entropy: "cross entropy of rows of logits and their labels",
        cross_entropy::cross_entropy_backward: "gradients of the logits",
        cross_entropy::cross_entropy_fused: "cross entropy, and gradients that overwrite the logits, in one pass",
        dropout::dropout: "dropout by Philox 4x32-10, forward and backward",
        embed::embed: "rows of a table by their tokens",
        embed::embed_q8: "rows of a table of 8-bit integers with scales",
        embed_backward::embed_backward: "gradients of an embedding, by atomic additions",
        experts::route_tokens: "the experts of tokens and their shares, from logits",
        experts::arrange_pairs: "tokens and their experts in the order of experts",
        experts::spread_rows: "rows of tokens copied to the rows of their experts",
        experts::combine_rows: "results of experts added to tokens by their shares",
        experts::expert_tiles: "the tiles of the rows of experts, from their offsets",
        experts::experts: "GEMMs of experts, each of its own rows",
        gated::gated: "silu, gelu or gelu by tanh of a gate, times another factor",
        gated::gated_backward: "gradients of the gate and of the factor",
        gated_gemm::gated_gemm: "silu(x·wᵀ) · (x·uᵀ)",
        gated_linear_attention::gated_linear_attention: "linear attention with a gate for each head and time, by chunks",
        norm_gradients::rms_norm_backward: "gradients of an RMS norm, and parts of the gradients of its weights",
        norm_gradients::layer_norm_backward: "gradients of a layer norm, and parts of the gradients of its weights and bias",
        norm_gradients::sum_parts: "the sum of parts of gradients",
        norms::rms_norm_with_rstd: "RMS norm of rows in 16 bits, with the factor of each row",
        norms::add_rms_norm: "a branch added to a residual stream, and the RMS norm of its rows",
        norms::layer_norm: "layer norm of rows in 16 bits, with the statistics of each row",
        paged::rotate_and_store: "rotary embedding of queries and keys, and their pages",
        paged::paged_attention: "attention of new tokens to keys and values in pages",
        paged::paged_prefill: "attention of a prompt to keys and values in pages",
        rms_norm::rms_norm: "RMS norm of rows in f32, in 16 bits",
        rope::rope: "rotary embedding of the halves of heads",
        rope::rope_pairs: "rotary embedding of neighbouring pairs",
        sample::sample_top_p: "samples of tokens by temperature, top-k and top-p, without sorting",
        selective_scan::selective_scan: "the scan of a selective model of state spaces, with 16 states for each channel",
        weights::linear_q8: "a linear layer of few rows, weights of 8 bits with scales",
        weights::linear_q4: "a linear layer of few rows, weights of 4 bits with scales and offsets",
        weights::linear_q4_hopper: "a linear layer by wgmma, weights of 4 bits with scales and offsets",
    }
}
