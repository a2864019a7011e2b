//! The algebra of tensor layouts: CuTe's shapes, strides, composition, division and products, in Rust.
//!
//! A [`Layout`] is a function from coordinates to offsets, written `shape:stride`. Layouts are values: they are composed, divided into
//! tiles, partitioned over threads, swizzled and inverted. The crate has no dependencies, does no IO, and needs no GPU.
//!
//! ```
//! use tilewright_layout::{ALL, layout};
//! let matrix = layout!((128, 64) : (64, 1)); // row-major
//! let (tile, begin) = matrix.tile((32, 16), (1, 2))?; // the tile at (1, 2)
//! assert_eq!((tile.to_string(), begin.int()), ("(32,16):(64,1)".to_owned(), Some(32 * 64 + 2 * 16)));
//! let (part, offset) = tile.parallelize(&layout!((8, 16) : (16, 1)), 17, None)?; // of thread 17
//! assert_eq!((part.to_string(), offset.int()), ("(4,1):(512,16)".to_owned(), Some(64 + 1)));
//! let (row, _) = tile.slice((3, ALL))?;
//! assert_eq!(row, layout!(16 : 1));
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```
//!
//! The picture is an 8x4 matrix in tiles of 4x2. [`draw`] made it, and lines separate the tiles:
//!
#![doc = include_str!("pictures/divided.svg")]
//!
//! New to layouts? The [`guide`] teaches them from zero, with pictures. It ends with a table of what you want and which function does it.
//!
//! # Types
//!
//! | type | is |
//! |---|---|
//! | [`Layout`] | a shape and a stride; most operations are its methods |
//! | [`Tuple`], [`Value`] | a nested tuple, and its leaves: integers, names of sizes, basis elements, `_` |
//! | [`Tiler`] | the right operand of an operation: a layout, a shape, or one of them for each mode |
//! | [`Swizzle`], [`Composed`] | an XOR of bits of the offset, and a layout seen through it |
//! | [`TiledCopy`], [`TiledMma`], [`MmaAtom`] | thread-value layouts of copies and of matrix instructions |
//! | [`Distribution`], [`Exchange`] | a tile over threads, mode by mode, and what two distributions exchange |
//! | [`WarpAccess`], [`BankReport`], [`SectorReport`] | the access of a warp, and its cost in shared and in global memory |
//! | [`SharedTile`], [`Synthesis`] | a tile with its accesses, and the padding or the swizzle without bank conflicts |
//! | [`Obligation`], [`TileObligation`] | what must be true of sizes that are known later |
//! | [`draw::Picture`] | a layout or a thread-value layout as text and as SVG |
//! | [`Reader`] | text that contains layouts |
//! | [`LayoutError`], [`Condition`] | why an operation has no result |
//!
//! # Errors
//!
//! Each operation returns the right result or a [`LayoutError`]. The error has the operands, the condition that failed, a
//! counterexample, and often the nearest operand that works. Overflow is an error too, and no operation enumerates a domain.
//!
//! ```
//! use tilewright_layout::layout;
//! let error = layout!((2, 2) : (1, 1)).complement(8).unwrap_err();
//! assert!(error.to_string().contains("its coordinates 1 and 2 share the offset 1"), "{error}");
//! ```
//!
//! # What it knows of devices
//!
//! Of GPUs, the crate knows the banks of shared memory and the sectors of global memory. It knows no language and no instruction. The
//! [README](https://github.com/tilewright/tilewright/blob/main/layout/README.md) compares it with other implementations of the algebra.

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

/// The examples of the README compile and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
