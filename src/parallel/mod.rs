#![doc = include_str!("../parallel.md")]

mod board;
mod error;
mod group;
mod rank;
mod remote;
mod shard;

use std::time::Duration;

pub use crate::runtime::nccl::Combine;
pub use error::Error;
pub use group::Group;
pub use rank::Rank;
pub use remote::Meeting;
pub use shard::{HeadPart, Heads, Shards, chunks};

/// Options of a group.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a rank waits for the others in a call. A rank that does not come is lost.
    pub timeout: Duration,
    /// How long ranks wait until all have come the first time.
    pub meeting_timeout: Duration,
    /// The most blocks of a transfer, each of which takes a multiprocessor; NCCL's choice if it is not given.
    pub blocks: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            timeout: Duration::from_secs(10),
            meeting_timeout: Duration::from_secs(60),
            blocks: None,
        }
    }
}
