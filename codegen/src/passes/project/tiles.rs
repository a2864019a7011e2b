//! A persistent kernel over its whole grid: its body runs for each tile of a block.

use std::cell::Cell;

use tilewright_layout::Value;

use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::view::leaf::leaves;
use crate::tile::{Op, Program, Raster, Space, Stmt, Var};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;

/// Rows of tiles in a band, which concurrent blocks compute together.
const BAND: u32 = 8;

/// Wraps the body, or each role's body, in a loop over tiles. Block indices become the tile's indices.
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
    guard_writes(program, blocks);
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
        body.iter_mut().for_each(|stmt| stmt.each_mut(&mut |stmt| stmt.each_affine_mut(&mut |at| swap(at))));
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

/// Tiles along x are distributed in whole clusters, so blocks of the last one may have a tile outside of the grid. They go
/// on, as the cluster's barriers and exchanges need all blocks, but do not write to global memory.
fn guard_writes(program: &mut Program, blocks: u32) {
    let Some(count) = program.grid[0] else { return };
    if blocks < 2 || count.factor() % i64::from(blocks) == 0 {
        return;
    }
    let mut body = std::mem::take(&mut program.body);
    guard_all(program, count, &mut body);
    program.body = body;
}

fn guard_all(program: &Program, count: Value, body: &mut [Stmt]) {
    for stmt in body {
        stmt.bodies_mut().into_iter().for_each(|body| guard_all(program, count, body));
        if stmt.writes().into_iter().any(|to| reaches_surplus(program, count, to)) {
            let inside = Test::less(Coord::Block(0), count);
            let Stmt { span, by, .. } = *stmt;
            let op = Op::If { test: inside, then: Vec::new(), other: Vec::new() };
            let written = std::mem::replace(stmt, Stmt { id: 0, span, by, op });
            if let Op::If { then, .. } = &mut stmt.op {
                then.push(written);
            }
        }
    }
}

/// Could a block whose index is the count of blocks along x, or greater, write elements of this view? Not where the index
/// numbers the tiles of a mode: these are out of bounds.
fn reaches_surplus(program: &Program, count: Value, to: &View) -> bool {
    let tensor = program.tensor(to.tensor);
    if !matches!(tensor.space, Space::Global { .. }) {
        return false;
    }
    let same = |tiles: Value| program.canonical(tiles) == program.canonical(count);
    let inner = leaves(to);
    let numbered = |(mode, (base, (extent, _))): (usize, (&Affine, (Value, Value)))| {
        let forward = inner.iter().all(|leaf| leaf.mode != mode || leaf.step >= 0);
        let tile_of = |(coord, by): &&(Coord, i64)| *coord == Coord::Block(0) && *by > 0;
        let Some((coord, by)) = base.terms.iter().find(tile_of) else { return false };
        let rest = base.plus(&coord.clone().into(), -by);
        let after = forward && rest.is_some_and(|rest| program.range(&rest).lo >= 0);
        after && extent.ceil_div(*by).is_some_and(same)
    };
    !to.base.iter().zip(tensor.plain().leaves()).enumerate().any(numbered)
}
