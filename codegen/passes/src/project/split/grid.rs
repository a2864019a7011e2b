//! Blocks of a persistent kernel that share a loop: they divide the tiles of a last wave that is not full. Each stores its sums in
//! memory of the launch, and then counts itself. The last one to arrive adds the sums of all, in their order, and continues. No block
//! waits for another:
//!
//! ```text
//! for k in pipelined(0..n, …, split = blocks(4)) {    for k in n/4 · part..n/4 · (part + 1) { … }, or all of 0..n for a whole tile
//!     … gemm(sa, sb, &mut acc);                       let mut before = 3;
//! }                                                   if part < 4 {
//! copy(map((acc, gb), f), gc);                            copy(acc, parts[(_, _, part, block.x, block.y)]);
//!                                                         before = copy(1, arrived[(block.x, block.y)], how = "atomic_add");
//!                                                     }
//!                                                     if before == 3 {
//!                                                         if part < 4 {
//!                                                             acc = parts of all blocks, added
//!                                                             fill(arrived[(block.x, block.y)], 0);
//!                                                         }
//!                                                         copy(map((acc, gb), f), gc);
//!                                                     }
//! ```

use tilewright_layout::{Tuple, Value};

use super::AXIS;
use crate::build::Builder;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::{Bin, Change, MemoryOrder, Unroll};
use crate::tile::view::{At, View};
use crate::tile::{Expr, Op, Program, Purpose, Stmt, Update};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;
use crate::values::elem::Elem;

/// Columns of sums that are next to each other: lanes that have them write whole sectors.
const PANEL: i64 = 8;

/// The statements after the loop; only the last block to arrive executes `after`. A whole tile's part has the number `blocks`.
pub(super) fn added(
    program: &mut Program,
    shared: &Stmt,
    (part, blocks): (&Affine, i64),
    sums: &[View],
    after: Vec<Stmt>,
) -> std::result::Result<Vec<Stmt>, Diagnostic> {
    let number = part.submode(1, Some(blocks));
    let of = |op| Stmt::new(shared.span, shared.by, op);
    let only_parts = |then: Vec<Stmt>| {
        of(Op::If { test: Test::less(part.clone(), Value::Int(blocks)), then, other: Vec::new() })
    };
    let mut built = |make: &mut dyn FnMut(&mut Builder) -> Result<()>| {
        let (made, stmts) = Builder::resumed(std::mem::take(program), shared.span, shared.by, make);
        *program = made;
        stmts.map_err(|problem| problem.at(shared.span))
    };
    let last = Expr::lit(blocks - 1);
    let (mut stored, mut before, mut arrived) = (Vec::new(), None, None);
    // A whole tile is the last of its parts.
    let mut body = built(&mut |b| {
        let tile = b.distributed("before", Elem::I32, &[1])?;
        b.fill(&tile, last.clone())?;
        before = Some(tile);
        Ok(())
    })?;
    let Some(before) = before else { return Err(Problem::reported().at(shared.span)) };
    let arrive = built(&mut |b| {
        let tiles = Tiles::of(b.program(), blocks)?;
        for acc in sums {
            let all = Stored::new(b, acc, &tiles)?;
            b.copy(acc, &all.part(&number)?)?;
            stored.push(all);
        }
        let count =
            b.workspace("arrived", Elem::I32, &[&[Value::Int(1)], &tiles.extents[..]].concat(), true)?;
        let count = count.slice(&[&[At::All], &tiles.own[..]].concat())?;
        let [one, old] = ["one", "old"].map(|name| b.distributed(name, Elem::I32, &[1]));
        let (one, old) = (one?, old?);
        b.fill(&one, Expr::lit(1i64))?;
        let update = Update { old: Some(old.clone()), order: MemoryOrder::Both, ..Change::Add.into() };
        b.atomic(&one, &count, update)?;
        b.map(&[old], &before, Expr::In(0))?;
        arrived = Some(count);
        Ok(())
    })?;
    body.push(only_parts(arrive));
    let mut test = None;
    body.extend(built(&mut |b| {
        test = Some(Test::Equal(b.take("before", &before, Purpose::Value)?, (blocks - 1).into()));
        Ok(())
    })?);
    let add = built(&mut |b| {
        for (acc, stored) in sums.iter().zip(&stored) {
            b.copy(&stored.part(&0.into())?, acc)?;
            b.repeat_over("part", 1, blocks, Unroll::No, |b, part| {
                let sum = Expr::Bin(Bin::Add, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
                b.map(&[acc.clone(), stored.part(&part)?], acc, sum)
            })?;
        }
        arrived.iter().try_for_each(|count| b.fill(count, Expr::lit(0i64)))
    })?;
    let then = [vec![only_parts(add)], after].concat();
    body.extend(test.map(|test| of(Op::If { test, then, other: Vec::new() })));
    Ok(body)
}

/// The tiles of the grid.
struct Tiles {
    /// The blocks that share a tile.
    blocks: i64,
    /// How many tiles there are along each axis.
    extents: Vec<Value>,
    /// This block's.
    own: Vec<At>,
}

impl Tiles {
    fn of(program: &Program, blocks: i64) -> Result<Tiles> {
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
        Ok(Tiles { blocks, extents, own })
    }
}

/// The sums of all blocks.
struct Stored {
    all: View,
    /// A tile's rows and columns.
    tile: [i64; 2],
    /// The tile of the grid.
    own: Vec<At>,
}

impl Stored {
    fn new(b: &mut Builder, acc: &View, tiles: &Tiles) -> Result<Stored> {
        let extents = acc.extents().ok_or_else(Problem::reported)?;
        let &[rows, columns] = &extents[..] else { return Err(Problem::reported()) };
        let panel = if columns % PANEL == 0 { PANEL } else { columns };
        let own = [panel, rows, columns / panel, tiles.blocks].map(Value::Int);
        let (name, elem) = (format!("{}_parts", acc.name), b.elem(acc));
        let all = b.workspace(&name, elem, &[&own[..], &tiles.extents].concat(), false)?;
        Ok(Stored { all, tile: [rows, columns], own: tiles.own.clone() })
    }

    /// The sums of a block.
    fn part(&self, part: &Affine) -> Result<View> {
        let tile = [At::All, At::All, At::All, At::Index(part.clone())];
        let panels = self.all.slice(&[&tile[..], &self.own].concat())?;
        panels.permute(&[1, 0, 2])?.regroup(Tuple::flat(&self.tile))
    }
}
