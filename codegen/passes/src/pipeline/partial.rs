//! The partial K tile. A product takes its k-steps in any order, so if tiles do not divide K, the partial tile can come
//! first: then only copies of the prologue are predicated. In the program, tiles begin at the coordinates [`Coord::Begin`],
//! which are 0 for the first tile, instead of at multiples of the iteration.

use tilewright_layout::Value;

use crate::thread::Id;
use crate::tile::visit::preorder;
use crate::tile::{Op, Program, Stmt};
use crate::values::affine::{Affine, Coord};

/// If every copy fetches the next tile along the same mode of one extent, and the work reads no other tiles, the partial
/// tile comes first: tiles begin at the returned coordinate, instead of at multiples of the iteration. Every k-step then
/// has another position in its tile. The thread that multiplies it must not depend on this position, unless
/// threads divide the loop and add their sums.
pub(super) fn first(
    program: &Program,
    var: Id,
    work: &[Stmt],
    copies: &mut [Stmt],
    threads_divide: bool,
) -> Option<Coord> {
    let (mode, begin) = along(program, var, copies)?;
    let Coord::Begin { tile, .. } = begin else { return None };
    if !threads_divide && !work.iter().all(|stmt| multiplies_all(stmt, tile)) {
        return None;
    }
    // A tile that the loop does not fetch, such as one with all of K, is read at the iteration's coordinate.
    let fetched = |id: Id| copies.iter().flat_map(Stmt::writes).any(|to| to.tensor == id);
    let mut others = preorder(work).flat_map(Stmt::reads).filter(|view| !fetched(view.tensor));
    if others.any(|view| view.base.iter().any(|at| at.any(&|of| *of == Coord::Var(var)))) {
        return None;
    }
    for stmt in copies {
        if let Op::Copy { from, .. } = &mut stmt.op {
            let base = &mut from.base[mode];
            base.terms.retain(|(coord, _)| *coord != Coord::Var(var));
            *base = base.plus(&begin.clone().into(), 1).unwrap_or_default();
        }
    }
    Some(begin)
}

/// Does each thread multiply every position along K of the tile, once?
fn multiplies_all(stmt: &Stmt, tile: i64) -> bool {
    let Op::Gemm { a, b, .. } = &stmt.op else { return false };
    [a, b].into_iter().all(|operand| {
        let Ok(k_steps) = operand.layout.mode(1) else { return false };
        let steps = k_steps.leaves().map(|(extent, step)| match step {
            Value::Basis { times, .. } => Some((times, extent.int()?)),
            _ => None,
        });
        steps.collect::<Option<Vec<_>>>().is_some_and(|steps| covers(steps, tile))
    })
}

/// Do modes of these strides and extents cover a range of this length, without overlap?
fn covers(mut modes: Vec<(i64, i64)>, length: i64) -> bool {
    modes.retain(|(_, n)| *n > 1);
    modes.sort_unstable();
    let next = |below: i64, &(by, n): &(i64, i64)| (by == below).then(|| below.checked_mul(n)).flatten();
    modes.iter().try_fold(1, next) == Some(length)
}

/// Do copies fetch tiles that begin at multiples of the iteration, or after them, along an extent?
pub(super) fn ascends(program: &Program, var: Id, copies: &[Stmt]) -> bool {
    let Some(Value::Sym { over, .. }) = program.vars[var as usize].extent() else { return false };
    let iteration = Coord::Var(var);
    let after = |base: &Affine| {
        let by = base.terms.iter().find(|(coord, _)| *coord == iteration).map_or(0, |(_, by)| *by);
        let others = base.terms.iter().filter(|(coord, _)| *coord != iteration);
        let positive = |(coord, by): &(Coord, i64)| program.range_of(coord).times(*by).lo >= 0;
        by >= i64::from(over) && base.constant >= 0 && others.clone().all(positive)
    };
    copies.iter().all(|stmt| match &stmt.op {
        Op::Copy { from, .. } => {
            from.base.iter().filter(|base| base.any(&|coord| *coord == iteration)).all(after)
        }
        _ => true,
    })
}

/// The mode along which every copy fetches the next tile, and the coordinate where tiles begin if the partial tile
/// comes first.
fn along(program: &Program, var: Id, copies: &[Stmt]) -> Option<(usize, Coord)> {
    let iteration = Coord::Var(var);
    let one = |stmt: &Stmt| {
        let Op::Copy { from, to, .. } = &stmt.op else { return None };
        let moves = |mode: &usize| from.base[*mode].any(&|coord| *coord == iteration);
        let mut moved = (0..from.base.len()).filter(moves);
        let (Some(mode), None) = (moved.next(), moved.next()) else { return None };
        let extent = program.tensor(from.tensor).plain().leaves().nth(mode)?.0;
        let Value::Sym { times: 1, of, over: 1 } = extent else { return None };
        let base = &from.base[mode];
        let (_, tile) = *base.terms.iter().find(|(coord, _)| *coord == iteration)?;
        // All of the tile is copied: the other terms of the coordinate must be the digits of a position in
        // it.
        let submodes =
            base.terms.iter().filter(|(coord, _)| *coord != iteration).map(|(coord, by)| match coord {
                Coord::Submode { extent, .. } => extent.map(|n| (*by, n)),
                // Blocks share a tile.
                Coord::Block(axis) => {
                    match (program.grid[usize::from(*axis)], &program.more[usize::from(*axis)][..]) {
                        (Some(blocks), []) => Some((*by, blocks.int()?)),
                        _ => None,
                    }
                }
                Coord::ClusterRank => Some((*by, program.cluster.iter().map(|&n| i64::from(n)).product())),
                _ => None,
            });
        let steps = from.layout.leaves().filter_map(|(extent, step)| match step {
            Value::Basis { times, path } if usize::from(path.steps()[0]) == mode => {
                Some(extent.int().map(|n| (times, n)))
            }
            _ => None,
        });
        let submodes: Vec<(i64, i64)> = submodes.chain(steps).collect::<Option<_>>()?;
        let all = base.constant == 0 && covers(submodes, tile);
        let covers = extent.ceil_div(tile) == program.vars[var as usize].extent();
        let whole = from.limits.get(mode).is_none_or(Option::is_none);
        // Other coordinates of an element do not depend on its position in the tile along K, which differs from tile to
        // tile: threads have positions in the tile, and no rows.
        let is_base = |term: &(Coord, i64)| to.base.iter().any(|base| base.terms.contains(term));
        let others =
            (0..from.base.len()).filter(|other| *other != mode).flat_map(|other| &from.base[other].terms);
        let places = others.filter(|(coord, _)| Affine::from(coord.clone()).per_thread()).all(is_base);
        let begin = Coord::Begin { iteration: Box::new(iteration.clone().into()), of, tile };
        (all && covers && whole && places).then_some((mode, begin))
    };
    let mut all = copies.iter().map(one);
    let first = all.next()??;
    all.all(|next| next.as_ref() == Some(&first)).then_some(first)
}
