//! The language of kernels: a guide, in the order in which to read it, and the functions that a kernel can call.
//!
//! - [Kernels](kernels): what a kernel is, its arguments, and how tiles determine its grid.
//! - [Whole tiles](tiles): statements whose elements the generator distributes over threads; indexing, broadcasting, views.
//! - [Parts of threads](parts): statements on the part of one thread, under a thread layout that the author chooses.
//! - [Closures](closures): functions of elements, functions that kernels share, coordinates, gathers and scatters.
//! - [Reductions and scans](reductions): over a thread, a warp, a block, a cluster, or a whole tile.
//! - [Control flow](control): loops, conditions, software pipelines, and the integers in them.
//! - [GEMM](products): tensor cores, warp specialization, split-K, narrow weights, explicit instructions, built-in products.
//! - [Keys of GEMM](keys): all keys of `matmul_kernel!`, by subject.
//! - [Types](types): conversions, literals, accumulators, and the accuracy of functions.
//! - [Lints](lints): warnings with names, and their levels.
//! - [Limits](limits): what the language leaves out, and what to write instead.
//! - [Quick reference](quick_reference): all of it on one page, with examples and frequent mistakes.
//!
//! The items below document the functions of the language, in an editor too. Inside `#[kernel]` the generator
//! evaluates them. Elsewhere they cannot be called, because their argument types have no values outside of a kernel.
//! If you know CUDA, Triton, CUTLASS or TileLang, begin with [`coming_from`](crate::coming_from).

pub(crate) mod functions;

pub use functions::*;

#[doc = include_str!("language/kernels.md")]
pub mod kernels {}
#[doc = include_str!("language/tiles.md")]
pub mod tiles {}
#[doc = include_str!("language/parts.md")]
pub mod parts {}
#[doc = include_str!("language/closures.md")]
pub mod closures {}
#[doc = include_str!("language/reductions.md")]
pub mod reductions {}
#[doc = include_str!("language/control.md")]
pub mod control {}
#[doc = include_str!("language/products.md")]
pub mod products {}
#[doc = include_str!("language/keys.md")]
pub mod keys {}
#[doc = include_str!("language/types.md")]
pub mod types {}
#[doc = include_str!("language/lints.md")]
pub mod lints {}
#[doc = include_str!("language/limits.md")]
pub mod limits {}
#[doc = include_str!("../llms.txt")]
pub mod quick_reference {}
