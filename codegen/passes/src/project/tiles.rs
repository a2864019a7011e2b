//! A kernel over the tiles of its grid, in a raster order: the body of a persistent kernel runs for each tile of a block.

use std::cell::Cell;

use tilewright_layout::Value;

use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::view::leaf::leaves;
use crate::tile::{LaunchRule, Op, Program, Raster, Space, Stmt, Var};
use crate::values::affine::{Affine, Arith, Coord};
use crate::values::condition::Test;

/// Rows of tiles in a band, which concurrent blocks compute together.
const BAND: u32 = 8;

/// Wraps the body, or each role's body, in a loop over tiles. Block indices become the tile's indices.
pub(super) fn over_tiles(program: &mut Program) -> std::result::Result<(), Diagnostic> {
    let span = program.body.first().map_or(Span::default(), |stmt| stmt.span);
    let given = program.grid.iter().flatten().count();
    // One tile along the last axes is the first.
    let one = |axis: usize| program.grid[axis] == Some(Value::Int(1)) && program.more[axis].is_empty();
    let axes = (1..given).rev().find(|axis| !one(*axis)).map_or(1, |last| last + 1);
    let blocks = program.cluster.iter().product::<u32>();
    let walks = [0, 1, 2].map(|axis| Walk::of(program, axis as u8));
    let untaken = |axis: usize| match program.grid[axis] {
        None => axis < given,
        Some(_) => !program.more[axis].is_empty() && (walks[axis].is_none() || axis == 0 && blocks > 1),
    };
    if (0..3).any(untaken) {
        return Err(numbers_tiles(span));
    }
    let first = program.vars.len() as Id;
    let far = || Problem::new("a coordinate passes 63 bits").at(span);
    // The blocks of a cluster take neighbouring tiles along x.
    guard_writes(program, blocks);
    if let Some(count) = &mut program.grid[0] {
        *count = count.ceil_div(blocks.into()).ok_or_else(far)?;
    }
    // A variable for each mode of tiles: for each axis one, and another for an axis that walks over two modes.
    let mut modes: Vec<(&str, Value)> = Vec::new();
    let mut own = Vec::new();
    for (axis, name) in ["tile_x", "tile_y", "tile_z"].into_iter().enumerate().take(axes) {
        own.push(Coord::Var(first + modes.len() as Id));
        modes.extend(
            program.grid[axis]
                .into_iter()
                .chain(program.more[axis].iter().copied())
                .map(|count| (name, count)),
        );
    }
    let divided = program.divided;
    if let (1.., Some((_, parts))) = (divided, modes.last_mut()) {
        *parts = Value::Int(i64::from(divided) + 1);
    }
    let (passes, is_left) = (Cell::new(false), Cell::new(false));
    let swap = |at: &mut Affine| {
        for axis in axes..given {
            match at.with(&Coord::Block(axis as u8), &0.into()) {
                Some(first) => *at = first,
                None => passes.set(true),
            }
        }
        for (axis, tile) in own.iter().enumerate() {
            let block = Coord::Block(axis as u8);
            if let (Some(walk), Coord::Var(var)) = (&walks[axis], tile) {
                *at = at.replaced(&walk.first, tile).replaced(&walk.second, &Coord::Var(var + 1));
                is_left.set(is_left.get() || at.any(&|coord| *coord == block));
                continue;
            }
            let tile = Affine::from(tile.clone());
            let of_tile = match axis {
                0 if blocks > 1 => {
                    tile.times(blocks.into()).and_then(|tile| tile.plus(&Coord::ClusterRank.into(), 1))
                }
                _ => Some(tile),
            };
            match of_tile.and_then(|tile| at.with(&block, &tile)) {
                Some(of_tile) => *at = of_tile,
                None => passes.set(true),
            }
        }
    };
    for var in &mut program.vars {
        swap(&mut var.from);
        swap(&mut var.to);
    }
    if program.launch == LaunchRule::PerTile && blocks > 1 {
        program.more[0].push(Value::Int(blocks.into()));
    }
    program.vars.extend(modes.iter().map(|&(name, extent)| Var::new(name, extent)));
    let vars: Vec<Id> = (first..first + modes.len() as Id).collect();
    let raster = raster(program.bands, blocks, modes.len());
    let wrap = |body: &mut Vec<Stmt>, by: Id| {
        let mut body = std::mem::take(body);
        body.iter_mut().for_each(|stmt| stmt.each_mut(&mut |stmt| stmt.each_affine_mut(&mut |at| swap(at))));
        let span = body.first().map_or(Span::default(), |stmt| stmt.span);
        vec![Stmt::new(span, by, Op::Tiles { vars: vars.clone(), raster, divided, body })]
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
    match (passes.get(), is_left.get()) {
        (true, _) => Err(far()),
        (false, true) => Err(numbers_tiles(span)),
        (false, false) => Ok(()),
    }
}

/// The order in which blocks take tiles with this number of modes.
fn raster(bands: u32, blocks: u32, modes: usize) -> Raster {
    match bands {
        _ if modes < 2 => Raster::Plain,
        0 => Raster::Bands(BAND.div_ceil(blocks)),
        bands => Raster::Bands(bands),
    }
}

fn numbers_tiles(span: Span) -> Diagnostic {
    Problem::new("the blocks of a persistent kernel take the tiles of one tensor in turn")
        .help("number tiles by block.x, then block.y, then block.z, each along one mode, or along two by walk((rows, columns), block.z)")
        .at(span)
}

/// An axis of the grid that walks over the tiles along two modes, the first one fastest.
struct Walk {
    first: Coord,
    second: Coord,
}

impl Walk {
    fn of(program: &Program, axis: u8) -> Option<Walk> {
        let (Some(count), [_]) = (program.grid[usize::from(axis)], &program.more[usize::from(axis)][..])
        else {
            return None;
        };
        let coord = |with: Arith| {
            let of = Affine::two(with, &Coord::Block(axis).into(), &count.into())?;
            of.terms.first().map(|(coord, _)| coord.clone())
        };
        Some(Walk { first: coord(Arith::Rem)?, second: coord(Arith::Div)? })
    }
}

/// Tiles along x are distributed in whole clusters, so blocks of the last cluster may have a tile outside of the grid.
/// These blocks continue, since the cluster's barriers and exchanges need all blocks, but they do not write to global
/// memory.
pub(super) fn guard_writes(program: &mut Program, blocks: u32) {
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
            let written = std::mem::replace(stmt, Stmt::new(span, by, op));
            if let Op::If { then, .. } = &mut stmt.op {
                then.push(written);
            }
        }
    }
}

/// Could a block whose index is at least the number of blocks along x write elements of this view? Not if the index
/// numbers the tiles of a mode: then its tile is out of bounds.
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
