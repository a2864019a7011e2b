//! A persistent kernel over its whole grid: its body runs for each tile of a block.

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
    let axes = program.grid.iter().flatten().count();
    if program.more.iter().any(|more| !more.is_empty()) || program.grid[..axes].iter().any(Option::is_none) {
        let problem = Problem::new("the blocks of a persistent kernel take the tiles of one tensor in turn");
        let help = "number tiles by block.x, then block.y, then block.z, each along one mode";
        return Err(problem.help(help).at(program.body.first().map_or(Span::default(), |stmt| stmt.span)));
    }
    let first = program.vars.len() as Id;
    let tile_of = |axis: u8| Coord::Var(first + Id::from(axis));
    let swap = |at: &mut Affine| {
        (0..axes as u8).for_each(|axis| *at = at.replaced(&Coord::Block(axis), &tile_of(axis)));
    };
    for var in &mut program.vars {
        swap(&mut var.from);
        swap(&mut var.to);
    }
    for (extent, name) in program.grid.iter().flatten().zip(["tile_x", "tile_y", "tile_z"]) {
        program.vars.push(Var::new(name, *extent));
    }
    let vars: Vec<Id> = (first..first + axes as Id).collect();
    let raster = if axes > 1 { Raster::Bands(BAND) } else { Raster::Plain };
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
    Ok(())
}
