//! The warps of a product by mma.sync, and how they share a tile.

use tilewright_layout::Layout;

use super::blame::{checks, nearest};
use super::{Config, Reader};
use crate::build::tiled::TiledMma;
use crate::isa::atom::{Atom, Effect};
use crate::source::ast::ExprKind;
use crate::source::problem::{Problem, Result};
use crate::values::target::{BLOCK_THREADS, WARP};

/// The warps of the key `warps`.
pub(super) enum Warps {
    /// This number of warps.
    Count(i64),
    /// Over rows, columns and K.
    Arranged([i64; 3]),
}

impl Reader<'_> {
    /// The warps of the key.
    pub(super) fn warps(&mut self, c: &Config, row: &'static Atom) -> Result<Option<Warps>> {
        let Some(expr) = self.find("warps").cloned() else { return Ok(None) };
        if !matches!(expr.kind, ExprKind::Tuple(_)) {
            return Ok(Some(Warps::Count(self.positive("warps", 4))));
        }
        let layout = self.keys.layout(&expr).ok_or_else(Problem::reported)?;
        let groups = layout.as_layout().ok_or_else(|| Problem::new("warps have no swizzle"))?;
        let over_k = if groups.rank() == 3 { groups.mode(2)?.size()? } else { 1 };
        if !(2..=3).contains(&groups.rank()) {
            let message = format!("{groups} does not number warps over rows and columns of C");
            return Err(Problem::new(message)
                .help("write warps = (2, 4), or warps = (1, 1, 8) for warps that share K"));
        }
        let own = c.operands_of([groups.mode(0)?, groups.mode(1)?]);
        let [rows, columns] = groups_of(&TiledMma::new(row.name, &Layout::from_modes(own)?)?)?;
        Ok(Some(Warps::Arranged([rows, columns, over_k])))
    }
}

/// Warps over rows and columns.
pub(super) fn groups_of(mma: &TiledMma) -> Result<[i64; 2]> {
    Ok([mma.groups.mode(0)?.size()?, mma.groups.mode(1)?.size()?])
}

impl Config {
    /// The least rows and columns of instructions that a warp multiplies: for 4-bit numbers in the right operand, two
    /// fragments are converted at once.
    fn least(&self, row: &Atom) -> Result<[i64; 2]> {
        let Effect::Mma { m, n, .. } = row.effect else { return Err(Problem::new("not a matrix product")) };
        Ok([
            m.into(),
            if self.packed.is_some() && self.a_left_by_warps() { 2 * i64::from(n) } else { n.into() },
        ])
    }

    /// Arranges `warps` warps over the tile of both operands.
    pub(super) fn arranged(&self, row: &'static Atom, sides: [i64; 2], warps: i64) -> Result<[i64; 3]> {
        let [rows, columns] = groups_of(&TiledMma::arranged(row, sides, warps)?)?;
        let [m, n] = self.least(row)?;
        if (sides[1] / columns) % n == 0 {
            return Ok([rows, columns, 1]);
        }
        let fits = |over: &i64| {
            warps % over == 0 && sides[0] % (over * m) == 0 && sides[1] % (warps / over * n) == 0
        };
        let over = (1..=warps).rev().find(fits);
        over.map(|over| [over, warps / over, 1])
            .ok_or_else(|| Problem::new(format!("{warps} warps cannot share such a tile")))
    }
}

/// Warps as the key arranges them, if they share the tile evenly and a block has room for them; or an error in terms of the keys.
pub(super) fn sharing(c: &Config, row: &Atom, groups: [i64; 3], tile: [i64; 3]) -> Result<[i64; 3]> {
    let (most, warps): (i64, i64) = ((BLOCK_THREADS / WARP).into(), groups.iter().product());
    let (least, sides) = (c.least(row)?, c.operands_of([tile[0], tile[1]]));
    // The transposed product swaps rows and columns.
    let names = c.operands_of([("rows", "bm"), ("columns", "bn")]);
    let too_many = checks! {
        warps > most => "warps", format!("a block has at most {most} warps, and these are {warps}"),
            format!("write {most} warps or fewer");
    };
    let uneven = names.into_iter().enumerate().flat_map(|(mode, (along, key))| {
        let (over, least, side) = (groups[mode], least[mode], sides[mode]);
        let count = if over == 1 { "1 warp has".into() } else { format!("{over} warps share") };
        checks! {
            side % (over * least) != 0 => key,
                format!("{count} the {along} of a tile of C, {least} of them at once, and {key} is {side}"),
                format!("write {key} = {}, or other warps", nearest(side, over * least));
        }
    });
    too_many.chain(uneven).next().map_or(Ok(groups), |(_, problem)| Err(problem))
}

/// Warps arranged over the rows and columns of a tile, and over K where these are too few; or an error in terms of the keys.
pub(super) fn arranged(c: &Config, row: &'static Atom, tile: [i64; 3], warps: i64) -> Result<[i64; 3]> {
    let (sides, [m, n]) = (c.operands_of([tile[0], tile[1]]), c.least(row)?);
    let over_k = |parts: &i64| {
        let k = TiledMma::arranged(row, [m, n], 1).ok()?.shape()[2];
        let fits = warps % parts == 0 && tile[2] % (k * parts) == 0;
        let [rows, columns, _] = c.arranged(row, sides, warps / parts).ok()?;
        fits.then_some([rows, columns, *parts])
    };
    // Warps that share K would have sums with different scales.
    let parts = if c.block_scales { &[1][..] } else { &[1, 2, 4, 8] };
    parts.iter().find_map(over_k).ok_or_else(|| {
        // The transposed product swaps rows and columns.
        let [m, n] = c.operands_of([m, n]);
        let count =
            if warps == 1 { "1 warp cannot compute".into() } else { format!("{warps} warps cannot share") };
        Problem::new(format!("{count} a tile of {}x{} by products of {m}x{n}", tile[0], tile[1]))
            .help(format!("write bm and bn as multiples of {m} and {n}, at least one product for each warp"))
    })
}
