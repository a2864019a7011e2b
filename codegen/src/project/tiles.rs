//! A persistent kernel over its whole grid: its body runs for each tile of a block.

use std::cell::Cell;

use super::each_integer;
use crate::affine::{Affine, Coord};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::problem::Problem;
use crate::thread::Id;
use crate::tile::{Op, Program, Raster, Stmt, Var};

/// Rows of tiles in a band, which concurrent blocks compute together.
const BAND: u32 = 8;

/// Wraps the body, or that of each role, in a loop over tiles. Block indices become those of the tile.
pub(super) fn over_tiles(program: &mut Program) -> std::result::Result<(), Diagnostic> {
    let span = program.body.first().map_or(Span::default(), |stmt| stmt.span);
    let axes = program.grid.iter().flatten().count();
    if program.more.iter().any(|more| !more.is_empty()) || program.grid[..axes].iter().any(Option::is_none) {
        let problem = Problem::new("the blocks of a persistent kernel take the tiles of one tensor in turn");
        let help = "number tiles by block.x, then block.y, then block.z, each along one mode";
        return Err(problem.help(help).at(span));
    }
    let first = program.vars.len() as Id;
    let far = || Problem::new("a coordinate passes 63 bits").at(span);
    // The blocks of a cluster take neighbouring tiles along x.
    let blocks = program.cluster.iter().product::<u32>();
    if let Some(count) = &mut program.grid[0] {
        *count = count.ceil_div(blocks.into()).ok_or_else(far)?;
    }
    let tile_of = |axis: u8| {
        let own = Affine::from(Coord::Var(first + Id::from(axis)));
        match axis {
            0 if blocks > 1 => own.times(blocks.into())?.plus(&Coord::ClusterRank.into(), 1),
            _ => Some(own),
        }
    };
    let passes = Cell::new(false);
    let swap = |at: &mut Affine| {
        for axis in 0..axes as u8 {
            match tile_of(axis).and_then(|tile| at.with(&Coord::Block(axis), &tile)) {
                Some(of_tile) => *at = of_tile,
                None => passes.set(true),
            }
        }
    };
    for var in &mut program.vars {
        swap(&mut var.from);
        swap(&mut var.to);
    }
    for (extent, name) in program.grid.iter().flatten().zip(["tile_x", "tile_y", "tile_z"]) {
        program.vars.push(Var::new(name, *extent));
    }
    let vars: Vec<Id> = (first..first + axes as Id).collect();
    let raster = if axes > 1 { Raster::Bands(BAND.div_ceil(blocks)) } else { Raster::Plain };
    let wrap = |body: &mut Vec<Stmt>, by: Id| {
        let mut body = std::mem::take(body);
        body.iter_mut().for_each(|stmt| stmt.each_mut(&mut |stmt| each_integer(stmt, &mut |at| swap(at))));
        let span = body.first().map_or(Span::default(), |stmt| stmt.span);
        vec![Stmt { id: 0, span, by, op: Op::Tiles { vars: vars.clone(), raster, body } }]
    };
    let mut body = std::mem::take(&mut program.body);
    match &mut body[..] {
        [Stmt { op: Op::Roles(roles), .. }] => {
            for (by, body) in roles {
                *body = wrap(body, *by);
            }
        }
        _ => body = wrap(&mut body, 0),
    }
    program.body = body;
    if passes.get() { Err(far()) } else { Ok(()) }
}
