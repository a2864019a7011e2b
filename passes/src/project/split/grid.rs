//! Blocks of a persistent kernel that share a loop: they divide the tiles of a last wave that is not full. Each stores its sums in
//! memory of the launch, and waits for the others of its tile. Then it adds the sums of all, in their order, and continues with some
//! rows or columns of them:
//!
//! ```text
//! for k in pipelined(0..n, …, split = blocks(4)) {    for k in n/4 · part..n/4 · (part + 1) { … }, or all of 0..n for a whole tile
//!     … gemm(sa, sb, &mut acc);                       if part == 4 {
//! }                                                       copy(map((acc, gb), f), gc);
//! copy(map((acc, gb), f), gc);                        } else {
//!                                                         copy(acc, sums[(_, _, part, block.x, block.y)]);
//!                                                         signal(arrived[(block.x, block.y)]); wait(arrived[(block.x, block.y)], 4);
//!                                                         total = rows of sums of all parts, added
//!                                                         copy(map((total, rows of gb), f), rows of gc);
//!                                                     }
//! ```
//!
//! The parts of a tile belong to neighbouring blocks of one wave ([`crate::tile::Program::divided`]), so they run at the same time.

use std::collections::BTreeMap;

use tilewright_layout::Value;

use super::{AXIS, Parts, along, divisible, written};
use crate::build::Builder;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::{Bin, Change, MemoryOrder};
use crate::tile::view::{At, View};
use crate::tile::{Expr, Op, Program, Stmt, Update};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;
use crate::values::elem::Elem;

/// The statements after the loop.
pub(super) fn added(
    program: &mut Program,
    shared: &Stmt,
    (part, blocks): (&Affine, i64),
    sums: &[View],
    after: Vec<Stmt>,
) -> std::result::Result<Stmt, Diagnostic> {
    let mode = divisible(blocks, sums).map_err(|problem| problem.at(shared.span))?;
    let number = part.submode(1, Some(blocks));
    let mut own = Parts {
        blocks,
        number,
        mode,
        tiles: BTreeMap::new(),
        written: written(&after),
        targets: BTreeMap::new(),
    };
    let mut built = |stmt: &Stmt, make: &mut dyn FnMut(&mut Builder) -> Result<()>| {
        let (made, stmts) = Builder::resumed(std::mem::take(program), stmt.span, stmt.by, make);
        *program = made;
        stmts.map_err(|problem| problem.at(stmt.span))
    };
    let mut other = built(shared, &mut |b| exchanged(b, &mut own, sums, &after))?;
    for stmt in &after {
        let mut of_part = None;
        built(stmt, &mut |b| {
            of_part = Some(own.statement(b, stmt)?);
            Ok(())
        })?;
        other.extend(of_part);
    }
    let is_whole = Test::Equal(part.clone(), blocks.into());
    Ok(Stmt::new(shared.span, shared.by, Op::If { test: is_whole, then: after, other }))
}

/// Adds the sums of all parts, each block of some rows or columns.
fn exchanged(b: &mut Builder, own: &mut Parts, sums: &[View], after: &[Stmt]) -> Result<()> {
    let (extents, tile) = tiles(b.program())?;
    let mut stored = Vec::new();
    for acc in sums {
        let of_tile = acc.extents().ok_or_else(Problem::reported)?;
        // Contiguous along the target's contiguous mode, so that lanes read a row in one piece.
        let order = if along(b.program(), after) == Some(0) { [0, 1] } else { [1, 0] };
        let all = [order.map(|mode| Value::Int(of_tile[mode])), [Value::Int(own.blocks); 2]].concat();
        let (name, elem) = (format!("{}_sums", acc.name), b.elem(acc));
        let all = b.workspace(&name, elem, &[&all[..3], &extents].concat(), false)?;
        let tile = tile.clone();
        let part = move |part: Affine| {
            let at = [&[At::All, At::All, At::Index(part)], &tile[..]].concat();
            all.slice(&at)?.permute(&order)
        };
        b.copy(acc, &part(own.number.clone())?)?;
        stored.push(part);
    }
    let arrived = b.workspace("arrived", Elem::I32, &[&[Value::Int(1)], &extents[..]].concat(), true)?;
    let arrived = arrived.slice(&[&[At::All], &tile[..]].concat())?;
    b.signal(&arrived, 1)?;
    b.await_flag(&arrived, &own.blocks.into())?;
    let mut all_loaded = Vec::new();
    for (acc, part) in sums.iter().zip(stored) {
        let mut tile = acc.extents().ok_or_else(Problem::reported)?;
        tile[own.mode] /= own.blocks;
        let elem = b.elem(acc);
        let mut loaded = Vec::new();
        for next in 0..own.blocks {
            let to = b.distributed(&format!("{}_part_{next}", acc.name), elem, &tile)?;
            b.copy(&own.of(&part(next.into())?)?, &to)?;
            loaded.push(to);
        }
        all_loaded.push((acc, tile, loaded));
    }
    // The last block to leave sets the count to 0 for the next launch.
    let [one, before] = ["one", "before"].map(|name| b.distributed(name, Elem::I32, &[1]));
    let (one, before) = (one?, before?);
    b.fill(&one, Expr::lit(1i64))?;
    let update = Update { old: Some(before.clone()), order: MemoryOrder::Both, ..Change::Add.into() };
    b.atomic(&one, &arrived, update)?;
    let before = b.take("before", &before)?;
    let is_last = Test::Equal(before, (2 * own.blocks - 1).into());
    b.branch(is_last, |b| b.fill(&arrived, Expr::lit(0i64)), |_| Ok(()))?;
    for (acc, tile, loaded) in all_loaded {
        let elem = b.elem(acc);
        let total = b.distributed(&format!("{}_total", acc.name), elem, &tile)?;
        let sum = (1..loaded.len() as u8)
            .fold(Expr::In(0), |sum, next| Expr::Bin(Bin::Add, Box::new(sum), Box::new(Expr::In(next))));
        b.map(&loaded, &total, sum)?;
        own.tiles.insert(acc.tensor, total);
    }
    Ok(())
}

/// The number of tiles along each axis, and this block's.
fn tiles(program: &Program) -> Result<(Vec<Value>, Vec<At>)> {
    let (mut extents, mut own) = (Vec::new(), Vec::new());
    for axis in 0..AXIS {
        let factors = program.grid[axis].iter().chain(&program.more[axis]);
        let extent = factors.copied().try_fold(Value::Int(1), Value::times);
        extents.push(extent.ok_or_else(|| {
            Problem::new(
                "blocks of the grid divide a loop, and an axis of the grid is a product of two sizes",
            )
            .help("write split = cluster(4), or leave `split` out")
        })?);
        own.push(At::Index(Coord::Block(axis as u8).into()));
    }
    Ok((extents, own))
}
