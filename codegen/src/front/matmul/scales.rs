//! Scales of narrow weights in groups along K, with their zero points, as arguments (N, groups). Their tiles are copied to shared memory beside the operand's tiles. A step along K has one or more
//! groups, or is part of one group. Otherwise it has a column of scales for each of its parts that lies in one group.

use tilewright_layout::{Composed, Layout, Value as Size};

use super::Config;
use super::bulk::{last, shifted, times};
use super::product::argument;
use crate::build::Builder;
use crate::source::problem::{Problem, Result};
use crate::tile::How;
use crate::tile::view::{At, View};
use crate::values::affine::Affine;
use crate::values::elem::Elem;

/// Alignment in bytes of the shared memory to which a bulk copy writes.
const BULK: i64 = 128;

/// The sizes that a group may have: at least the K of an instruction.
pub(super) const GROUPS: [i64; 5] = [16, 32, 64, 128, 256];

/// Sizes of the scales in a step along K.
#[derive(Clone, Copy)]
pub(super) struct Grouped {
    /// Elements along K that have one scale.
    pub(super) size: i64,
    /// K of a step.
    bk: i64,
    /// Elements along K for which a step has one column of scales.
    pub(super) each: i64,
}

/// An argument with scales or zero points of groups.
pub(super) struct OfGroups {
    pub(super) view: View,
    /// Names of the part that a block takes, and of its tiles in shared memory.
    pub(super) names: [&'static str; 2],
}

/// The next multiple of an aligned slot.
fn aligned(bytes: i64) -> i64 {
    (bytes + BULK - 1) / BULK * BULK
}

impl Config {
    /// The scales in a step of length `bk` that `parts` warps share, if there are any in groups.
    pub(super) fn grouped(&self, bk: i64, parts: i64) -> Option<Grouped> {
        self.group.map(|size| Grouped::new(size, bk, parts))
    }

    /// The arguments with the scales in groups, and with zero points.
    pub(super) fn group_scales(&self, b: &mut Builder) -> Result<Vec<OfGroups>> {
        let Some(size) = self.group else { return Ok(Vec::new()) };
        let count = Size::symbol("K").ceil_div(size).ok_or_else(|| Problem::new("no such groups"))?;
        let all = [("scale", ["gscale", "scales"]), ("zero", ["gzero", "zeros"])];
        let argument = |(name, names): (&str, [&'static str; 2])| {
            let view = argument(b, self, name, self.dtype, ([Size::symbol("N"), count], false), false)?;
            Ok(OfGroups { view, names })
        };
        all.into_iter().take(self.of_groups()).map(argument).collect()
    }

    /// How many such arguments there are.
    pub(super) fn of_groups(&self) -> usize {
        usize::from(self.group.is_some()) + usize::from(self.zeros)
    }

    /// Bytes of a slot of the scales and zero points of `rows` rows.
    pub(super) fn bytes_of_scales(&self, rows: i64, bk: i64, parts: i64) -> i64 {
        let bytes = self.grouped(bk, parts).map_or(0, |of| of.bytes(rows, self.dtype));
        bytes * self.of_groups() as i64
    }
}

impl Grouped {
    /// Groups of `size` elements in steps of length `bk` that `parts` warps share.
    fn new(size: i64, bk: i64, parts: i64) -> Grouped {
        let divides = |x: i64, y: i64| x % y == 0 || y % x == 0;
        let (one, part) = (size.min(bk), bk / parts);
        let each = if divides(bk, size) && divides(part, one) { one } else { common_divisor(part, size) };
        Grouped { size, bk, each }
    }

    /// Bytes of a slot of the scales of `rows` rows.
    pub(super) fn bytes(self, rows: i64, elem: Elem) -> i64 {
        aligned(self.elements(rows) * i64::from(elem.bytes()))
    }

    /// Columns of scales in a step.
    pub(super) fn count(self) -> i64 {
        self.bk / self.each
    }

    /// Scales of `rows` rows in a step.
    pub(super) fn elements(self, rows: i64) -> i64 {
        rows * self.count()
    }

    /// Does a step consist of groups, or is it part of one?
    pub(super) fn is_whole(self) -> bool {
        self.each == self.size.min(self.bk)
    }

    /// Columns of scales that are copied at once.
    pub(super) fn wide(self) -> i64 {
        if self.is_whole() { self.count() } else { 1 }
    }

    /// The copies of the columns of a step: from which tile of the tensor, to which column of the step.
    pub(super) fn copies(self, step: &Affine) -> Result<Vec<(Affine, Affine)>> {
        if self.is_whole() {
            return Ok(vec![(step.submode((self.size / self.bk).max(1), None), 0.into())]);
        }
        let first = times(step, self.count())?;
        let group = |column: i64| -> Result<(Affine, Affine)> {
            let part = shifted(&first, &column.into())?;
            Ok((part.submode(self.size / self.each, None), column.into()))
        };
        (0..self.count()).map(group).collect()
    }

    /// The shared layout of slots of the scales of `rows` rows.
    pub(super) fn slots(self, rows: i64, bytes: i64, slots: i64) -> Result<Composed> {
        let apart = aligned(self.elements(rows) * bytes) / bytes;
        Ok(Layout::new((rows, self.count(), slots), (1i64, rows, apart))?.into())
    }

    /// Without the mode of groups if there is one group alone, as bulk copies take tiles.
    pub(super) fn boxed(self, b: &mut Builder, tile: &View) -> Result<View> {
        if self.wide() > 1 { Ok(tile.clone()) } else { b.slice(tile, &[At::All, At::Index(0.into())]) }
    }

    /// Copies a tensor's tiles of scales of `rows` rows to a step's, in bulk.
    pub(super) fn copy(
        self,
        b: &mut Builder,
        (tiles, to, rows): (&View, &View, i64),
        step: &Affine,
        load: How,
    ) -> Result<()> {
        for (from, column) in self.copies(step)? {
            let source = last(b, tiles, &from)?;
            let target = match self.is_whole() {
                true => to.clone(),
                false => b.tile(to, (rows, 1i64), &[At::Index(0.into()), At::Index(column)])?,
            };
            let (source, target) = (self.boxed(b, &source)?, self.boxed(b, &target)?);
            b.copy_how(&source, &target, load, None)?;
        }
        Ok(())
    }

    /// The scales of the elements of a step, from a tile of them.
    pub(super) fn of_elements(self, b: &mut Builder, tile: &View) -> Result<View> {
        b.scales_of_groups(tile, self.each)
    }
}

fn common_divisor(x: i64, y: i64) -> i64 {
    if y == 0 { x } else { common_divisor(y, x % y) }
}
