//! What kernels with a ring that bulk copies fill have in common: its slots, in rows of at most 128 bytes with the
//! hardware swizzle.

use tilewright_layout::{Composed, Layout, Swizzle};

use crate::affine::Affine;
use crate::build::Builder;
use crate::elem::Elem;
use crate::problem::{Problem, Result};
use crate::view::{At, View};

/// Bytes of the longest row of shared memory that bulk copies swizzle.
pub(super) const SWIZZLED: i64 = 128;

/// Rows of so many bytes, with the hardware swizzle of bulk copies and wgmma: groups of 16 bytes are
/// exchanged among rows.
pub(super) fn swizzled(elem: Elem, bytes: i64, layout: Layout) -> Result<Composed> {
    let group = (16 / elem.bytes()).trailing_zeros();
    Ok(Composed::new(Swizzle::new((bytes / 16).trailing_zeros(), group, 3)?, 0, layout))
}

/// The ring slots of an operand's tile of (rows, K): the contiguous mode in blocks of a swizzled row.
pub(super) fn slots(
    b: &mut Builder,
    name: &str,
    elem: Elem,
    ([rows, k], along_k): ([i64; 2], bool),
    stages: i64,
) -> Result<View> {
    let bytes = i64::from(elem.bytes());
    let run = row_of(if along_k { k } else { rows }, bytes);
    let layout = match along_k {
        true if run == k => Layout::new((rows, k, stages), (k, 1i64, rows * k))?,
        true => Layout::new((rows, (run, k / run), stages), (run, (1i64, rows * run), rows * k))?,
        false => Layout::new(((run, rows / run), k, stages), ((1i64, run * k), run, rows * k))?,
    };
    b.shared(name, elem, swizzled(elem, run * bytes, layout)?)
}

/// Elements of a row: as many as the widest swizzle that divides the extent; 16 bytes where none does.
pub(super) fn row_of(extent: i64, bytes: i64) -> i64 {
    let widths = [SWIZZLED, SWIZZLED / 2, SWIZZLED / 4].map(|width| width / bytes);
    widths.into_iter().find(|width| extent % width == 0).unwrap_or(16 / bytes)
}

/// A view at one index of its last mode.
pub(super) fn last(b: &mut Builder, view: &View, at: &Affine) -> Result<View> {
    let mut coord = vec![At::All; view.rank() - 1];
    coord.push(At::Index(at.clone()));
    b.slice(view, &coord)
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
