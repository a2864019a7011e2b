#![doc = include_str!("../parallel.md")]

mod attention;
mod board;
mod column;
mod entropy;
mod error;
mod experts;
mod group;
mod linear;
mod peers;
#[cfg(test)]
mod plain;
mod rank;
mod remote;
mod row;
mod shard;

use std::time::Duration;

pub use crate::runtime::nccl::Combine;
pub use attention::attention;
pub use column::Column;
pub use entropy::{CrossEntropy, Losses};
pub use error::Error;
pub use experts::Experts;
pub use group::Group;
pub use rank::Rank;
pub use remote::Meeting;
pub use row::Row;
pub use shard::{HeadPart, Heads, Shards, chunks};

use crate::matmul::Factor;
use crate::{bf16, f16};

/// Elements of layers: `f32`, `f16` and `bf16`.
pub trait Float: Factor<Product = Self> + sealed::Float {
    /// Have they 16 bits?
    #[doc(hidden)]
    const IS_HALF: bool;
}

mod sealed {
    pub trait Float {}
}

macro_rules! floats {
    ($($float:ty: $half:literal),*) => {
        $(impl sealed::Float for $float {} impl Float for $float { const IS_HALF: bool = $half; })*
    };
}

floats!(f32: false, f16: true, bf16: true);

/// Options of a group.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a rank waits for the others in a call. A rank that does not come is lost.
    pub timeout: Duration,
    /// How long ranks wait until all have come the first time.
    pub meeting_timeout: Duration,
    /// The most blocks of a transfer that runs beside products. Each takes a multiprocessor, which products leave free. NCCL's choice if it is
    /// not given.
    pub blocks: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options { timeout: Duration::from_secs(10), meeting_timeout: Duration::from_secs(60), blocks: None }
    }
}
