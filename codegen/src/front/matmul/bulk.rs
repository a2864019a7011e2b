//! Shared parts of kernels with a ring that bulk copies fill: its slots, in rows of at most 128 bytes with the
//! hardware swizzle.

use super::Config;
use crate::build::Builder;
use crate::build::tiled::swizzled_tile;
pub(super) use crate::build::tiled::{SWIZZLED, row_of, swizzled};
use crate::passes::pipeline::with_slots;
use crate::source::problem::{Problem, Result};
use crate::thread::atoms;
use crate::tile::How;
use crate::tile::view::{At, View};
use crate::values::affine::Affine;
use crate::values::elem::Elem;

/// The ring slots of an operand's tile of (rows, K): the contiguous mode in blocks of a swizzled row.
pub(super) fn slots(
    b: &mut Builder,
    name: &str,
    elem: Elem,
    (tile, along_k): ([i64; 2], bool),
    stages: i64,
) -> Result<View> {
    let tile = swizzled_tile(elem, tile, usize::from(along_k))?;
    b.shared(name, elem, with_slots(&tile, stages)?)
}

/// A view at one index of its last mode.
pub(super) fn last(b: &mut Builder, view: &View, at: &Affine) -> Result<View> {
    let mut coord = vec![At::All; view.rank() - 1];
    coord.push(At::Index(at.clone()));
    b.slice(view, &coord)
}

/// The copy of boxes of an operand into shared memory, of several blocks of a cluster on request.
pub(super) fn bulk_load(c: &Config, multicast: bool) -> Result<How> {
    atoms::bulk_load(rank(c), multicast).map(How::Atom).ok_or_else(Problem::reported)
}

/// The copy of boxes from shared memory to C.
pub(super) fn bulk_store(c: &Config) -> Result<How> {
    atoms::bulk_store(rank(c)).map(How::Atom).ok_or_else(Problem::reported)
}

/// Modes of the tensors.
fn rank(c: &Config) -> usize {
    if c.batched { 3 } else { 2 }
}

/// The batch of a tile of (row, column, batch).
pub(super) fn batch_of(at: &[Affine]) -> Affine {
    at.get(2).cloned().unwrap_or_default()
}

/// A sum of coordinates.
pub(super) fn shifted(x: &Affine, by: &Affine) -> Result<Affine> {
    x.plus(by, 1).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))
}

/// A multiple of a coordinate.
pub(super) fn times(x: &Affine, by: i64) -> Result<Affine> {
    x.times(by).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))
}
