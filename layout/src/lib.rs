//! The algebra of tensor layouts.
//!
//! A layout is a function from coordinates to offsets. This crate provides layouts as values: they are built,
//! composed, divided into tiles, partitioned over threads, swizzled, inverted, and analysed for bank
//! conflicts and coalescing. It does no IO, and knows no language, and of devices only the banks and sectors of
//! memory.
//!
//! Every operation is sound and explains why when it has no result: see [`LayoutError`]. New to layouts? The
//! [`guide`] teaches them from zero, with pictures.

mod access;
mod banks;
mod cast;
mod coalesce;
mod complement;
mod compose;
mod differences;
mod distribution;
mod divide;
pub mod draw;
mod error;
mod f2;
mod few;
pub mod guide;
mod inverse;
mod layout;
mod literal;
mod nearest;
mod obligation;
mod padding;
mod partition;
mod points;
mod profile;
mod sectors;
mod swizzle;
mod swizzling;
mod synthesis;
mod text;
mod tiler;
mod tuple;
mod tv;
mod value;

pub use access::{Transfer, WarpAccess};
pub use banks::{BankConflict, BankReport};
pub use distribution::{Distribution, Exchange, Submode};
pub use error::{Condition, LayoutError, Operand, Result};
pub use f2::BitMatrix;
pub use layout::Layout;
#[doc(hidden)]
pub use layout::Token as __Token;
pub use obligation::{Obligation, TileObligation};
pub use padding::Padding;
pub use sectors::SectorReport;
pub use swizzle::{Composed, Swizzle};
pub use swizzling::Swizzling;
pub use synthesis::{SharedTile, Synthesis};
pub use text::Reader;
pub use tiler::Tiler;
pub use tuple::{ALL, All, Tuple};
pub use tv::{MmaAtom, TiledCopy, TiledMma};
pub use value::{Path, Symbol, Value};
