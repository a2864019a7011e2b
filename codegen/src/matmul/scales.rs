//! Scales of an operand in groups along K: those of narrow weights, an argument (N, groups), and of blocks (see
//! `block_scales`). Their tiles are copied to shared memory beside those of the operand. A step along K takes one or more
//! groups, or is part of one.

use tilewright_layout::{Composed, Layout, Value as Size};

use super::Config;
use super::block_scales::BLOCK;
use super::product::argument;
use crate::affine::Affine;
use crate::build::Builder;
use crate::elem::Elem;
use crate::problem::{Problem, Result};
use crate::view::{At, View};

/// Alignment in bytes of the shared memory to which a bulk copy writes.
const BULK: i64 = 128;

/// The sizes that a group may have: at least the K of an instruction.
pub(super) const GROUPS: [i64; 5] = [16, 32, 64, 128, 256];

/// Sizes of the scales in a step along K.
#[derive(Clone, Copy)]
pub(super) struct Grouped {
    /// Elements along K that have one scale.
    size: i64,
    /// K of a step.
    bk: i64,
}

/// The next multiple of an aligned slot.
fn aligned(bytes: i64) -> i64 {
    (bytes + BULK - 1) / BULK * BULK
}

impl Config {
    /// The scales in a step of this length, if there are any in groups.
    pub(super) fn grouped(&self, bk: i64) -> Option<Grouped> {
        self.group.map(|size| Grouped { size, bk })
    }

    /// The argument with the scales in groups.
    pub(super) fn group_scales(&self, b: &mut Builder) -> Result<Option<View>> {
        let Some(size) = self.group else { return Ok(None) };
        let count = Size::symbol("K").ceil_div(size).ok_or_else(|| Problem::new("no such groups"))?;
        let scales = argument(b, self, "scale", self.dtype, ([Size::symbol("N"), count], false), false)?;
        Ok(Some(scales))
    }

    /// Why a step does not consist of groups, nor a group of steps.
    pub(super) fn unfit_groups(&self, bk: i64) -> Option<(&'static str, Problem)> {
        let size = self.group.filter(|size| bk % size != 0 && size % bk != 0)?;
        let message = format!(
            "a step along K has whole groups or is part of one, and bk is {bk} with groups of {size}"
        );
        Some(("bk", Problem::new(message).help(format!("write bk = {size}"))))
    }

    /// Bytes of a slot of the scales of so many rows.
    pub(super) fn bytes_of_scales(&self, rows: i64, bk: i64) -> i64 {
        self.grouped(bk).map_or(0, |of| of.bytes(rows, self.dtype))
    }
}

impl Grouped {
    /// Scales of blocks of A.
    pub(super) fn of_blocks(bk: i64) -> Grouped {
        Grouped { size: BLOCK, bk }
    }

    /// Bytes of a slot of the scales of so many rows.
    pub(super) fn bytes(self, rows: i64, elem: Elem) -> i64 {
        aligned(self.elements(rows) * i64::from(elem.bytes()))
    }

    /// Groups in a step.
    pub(super) fn count(self) -> i64 {
        (self.bk / self.size).max(1)
    }

    /// Scales of so many rows in a step.
    pub(super) fn elements(self, rows: i64) -> i64 {
        rows * self.count()
    }

    /// The first group of a step, in units of those of a step.
    pub(super) fn at(self, step: &Affine) -> Affine {
        step.digit((self.size / self.bk).max(1), None)
    }

    /// The shared layout of slots of the scales of so many rows.
    pub(super) fn slots(self, rows: i64, bytes: i64, slots: i64) -> Result<Composed> {
        let apart = aligned(self.elements(rows) * bytes) / bytes;
        Ok(Layout::new((rows, self.count(), slots), (1i64, rows, apart))?.into())
    }

    /// Without the mode of groups if there is one group alone, as bulk copies take tiles.
    pub(super) fn boxed(self, b: &mut Builder, tile: &View) -> Result<View> {
        if self.count() > 1 { Ok(tile.clone()) } else { b.slice(tile, &[At::All, At::Index(0.into())]) }
    }

    /// The scales of the elements of a step, from a tile of them.
    pub(super) fn of_elements(self, b: &mut Builder, tile: &View) -> Result<View> {
        b.scales_of_groups(tile, self.size.min(self.bk))
    }
}
