//! Scales of blocks, for operands that were quantised in blocks of 128 along K: blocks of A have one row, blocks of B have
//! 128 rows. The sums of each block are multiplied by its scales before they are added to the accumulators.

use tilewright_layout::{Layout, Value as Size};

use super::Config;
use super::product::{argument, of_batch};
use crate::build::Builder;
use crate::source::problem::{Problem, Result};
use crate::thread::Bin;
use crate::tile::Expr;
use crate::tile::view::{At, View};
use crate::values::affine::Affine;

/// Elements of a block along K, and rows of one of B.
pub(super) const BLOCK: i64 = 128;

/// The arguments.
pub(super) struct BlockScales {
    of_a: View,
    of_b: View,
}

impl BlockScales {
    /// Declares the arguments, if the product has any. Scales of A are contiguous within a block along K, so that a
    /// warp loads them together; scales of B are contiguous along K.
    pub(super) fn of(b: &mut Builder, c: &Config) -> Result<Option<BlockScales>> {
        if !c.block_scales {
            return Ok(None);
        }
        let blocks = |size: &str| {
            Size::symbol(size)
                .ceil_div(BLOCK)
                .ok_or_else(|| Problem::new("there is no such number of blocks"))
        };
        let (m, n, k) = (Size::symbol("M"), blocks("N")?, blocks("K")?);
        let of_a = argument(b, c, "scale_a", c.acc, ([m, k], false), false)?;
        let of_b = argument(b, c, "scale_b", c.acc, ([n, k], true), false)?;
        Ok(Some(BlockScales { of_a, of_b }))
    }

    /// The scales of one batch.
    pub(super) fn of_batch(&self, b: &mut Builder, c: &Config, batch: &Affine) -> Result<BlockScales> {
        let [of_a, of_b] = [&self.of_a, &self.of_b].map(|all| of_batch(b, c, all, batch.clone()));
        Ok(BlockScales { of_a: of_a?, of_b: of_b? })
    }

    /// The scales of A's rows for a tile of C at one block along K, broadcast over the tile. Out-of-bounds rows are clamped:
    /// their sums are not stored.
    pub(super) fn of_rows(
        &self,
        b: &mut Builder,
        [bm, bn]: [i64; 2],
        row: &Affine,
        block: &Affine,
    ) -> Result<View> {
        let at = |index: &Affine| At::Index(index.clone());
        let rows = b.tile(&self.of_a, (bm, 1i64), &[at(row), at(block)])?;
        let rows = b.slice(&rows, &[At::All, at(&0.into())])?.clamped(0);
        over_columns(b, &rows, bn)
    }

    /// The scale of B's rows, the columns of a tile of C, broadcast over the tile. These rows are in one block, so their
    /// number divides [`BLOCK`]. Past the end of K it is clamped to the last block's.
    pub(super) fn of_columns(
        &self,
        b: &mut Builder,
        [bm, bn]: [i64; 2],
        column: &Affine,
        block: &Affine,
    ) -> Result<View> {
        let place = [column.submode(BLOCK / bn, None), block.clone()].map(At::Index);
        let one = b.slice(&self.of_b, &place)?.clamped(0);
        Ok(one.rearranged(Layout::new((bm, bn), (0i64, 0i64))?).with_name("scale_b"))
    }
}

/// Scales of rows, broadcast over the columns of a tile.
fn over_columns(b: &mut Builder, rows: &View, bn: i64) -> Result<View> {
    Ok(b.broadcast(rows, &[None, Some(bn)])?.with_name("scales_a"))
}

/// Adds the sums of a block, times its scales, to the accumulators.
pub(super) fn add_scaled(b: &mut Builder, partial: &View, scales: &[View; 2], acc: &View) -> Result<()> {
    let [of_a, of_b] = scales;
    let scale = Expr::Bin(Bin::Mul, Box::new(Expr::In(2)), Box::new(Expr::In(3)));
    let sum = Expr::Fma(Box::new([Expr::In(1), scale, Expr::In(0)]));
    b.map(&[acc.clone(), partial.clone(), of_a.clone(), of_b.clone()], acc, sum)
}
