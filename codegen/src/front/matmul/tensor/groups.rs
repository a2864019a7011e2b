//! Scales of weights in groups along K, and their zero points, beside the tiles that threads copy.

use tilewright_layout::Layout;

use super::{Plan, Side, fill};
use crate::build::Builder;
use crate::front::matmul::Config;
use crate::front::matmul::product::of_batch;
use crate::front::matmul::scales::{Grouped, OfGroups};
use crate::source::problem::{Problem, Result};
use crate::tile::view::At;
use crate::values::affine::{Affine, Coord};

/// The scales of weights in groups, or their zero points, at the columns of C of a block.
pub(super) fn scales_side(
    b: &mut Builder,
    c: &Config,
    plan: &Plan,
    (all, columns): (&OfGroups, At),
    width: i64,
) -> Result<(Grouped, Side)> {
    let ([_, rows, bk], [of_block, of_tiles]) = (plan.tile, all.names);
    let of = c.grouped(bk, plan.parts()).ok_or_else(|| Problem::new("there are no groups"))?;
    let all = of_batch(b, c, &all.view, Coord::Block(2).into())?;
    let from = b.tile(&all, (rows, of.wide()), &[columns, At::All])?.with_name(of_block).clamped(0);
    let width = width.max(c.dtype.bytes().into());
    let fill = fill(c.dtype, plan, [rows, of.wide()], false, width)?;
    let to = b.shared(of_tiles, c.dtype, Layout::compact((rows, of.count()))?)?;
    Ok((of, Side { from, to, fill }))
}

/// Copies the scales of a step.
pub(super) fn fill_scales(
    b: &mut Builder,
    (of, side, rows): (Grouped, &Side, i64),
    k: &Affine,
) -> Result<()> {
    for (from, column) in of.copies(k)? {
        let from = b.slice(&side.from, &[At::All, At::All, At::Index(from)])?;
        let to = match of.wide() == of.count() {
            true => side.to.clone(),
            false => b.tile(&side.to, (rows, 1i64), &[At::Index(0.into()), At::Index(column)])?,
        };
        b.fill_tile(&side.fill, &from, &to)?;
    }
    Ok(())
}
