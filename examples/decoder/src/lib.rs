//! A decoder of Llama-style language models: GGUF or safetensors in, text out.
//!
//! A [`model`] is weights and sizes. An [`engine::Backend`] runs it: [`host`] in plain loops on the CPU, or [`kernels`], whose launches run on a
//! [`device`] or in the [simulator](simulated). The [`engine`] runs several sequences together, whose keys and values are in pages.

pub mod device;
pub mod engine;
pub mod gguf;
pub mod host;
pub mod kernels;
pub mod launch;
pub mod model;
pub mod random;
pub mod safetensors;
pub mod simulated;
pub mod tokenizer;
pub mod weights;

/// A result with the reason of a failure.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
