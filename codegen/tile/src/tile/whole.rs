//! Tests whether statements and views are about whole tiles.

use super::visit::beside_tiles;
use super::{Across, Expr, How, Multiply, Op, Program, Space, Stmt};
use crate::isa::atom::{Atom, Effect};
use crate::source::problem::Problem;
use crate::tile::view::View;
use crate::values::id::Id;

/// The kind of a view.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A whole tile in registers.
    Tile,
    /// A whole tile in memory.
    Memory,
    /// One thread's part, in registers or of memory.
    Part,
}

/// The kind of a view in its program.
pub fn kind(program: &Program, view: &View) -> Kind {
    if program.forms.contains_key(&view.tensor) {
        return Kind::Tile;
    }
    match program.tensor(view.tensor).space {
        Space::Registers { .. } => Kind::Part,
        _ if view.of_thread || view.per_thread() => Kind::Part,
        _ => Kind::Memory,
    }
}

/// Is it a whole tile, whose parts belong to threads?
pub fn is_whole(program: &Program, view: &View) -> bool {
    kind(program, view) != Kind::Part
}

/// Do these statements leave the same elements of a tile in all threads of the block, as reductions over the block do?
pub(crate) fn is_combined<'s>(tile: Id, statements: impl Iterator<Item = &'s Stmt>) -> bool {
    let (mut combined, mut others) = (false, false);
    for stmt in statements.flat_map(Stmt::preorder) {
        if stmt.writes().iter().all(|view| view.tensor != tile) {
            continue;
        }
        match &stmt.op {
            Op::Fold { across: Across::Block, .. } => combined = true,
            Op::Map { value: Expr::Lit(_), .. } if !combined => {}
            _ => others = true,
        }
    }
    combined && !others
}

/// The instruction of a statement that unpacks numbers of four bits.
pub fn unpacks(op: &Op) -> Option<&'static Atom> {
    match op {
        Op::Copy { how: How::Atom(row), .. } if matches!(row.effect, Effect::Unpack(_)) => Some(row),
        _ => None,
    }
}

/// The views of a statement that computes or moves elements of tiles; the one that it writes is last.
pub fn views(op: &Op) -> Vec<&View> {
    match op {
        Op::Copy { how: How::Atom(_), .. } if unpacks(op).is_none() => Vec::new(),
        Op::Gemm { how: Multiply::Atom(_), .. } | beside_tiles!() => Vec::new(),
        // The elements in memory that indices select belong to no tile.
        Op::Gather { at, to: own, .. } => at.iter().map(|(_, at)| at).chain([own]).collect(),
        Op::Scatter { at, from: own, update, .. } => {
            let old = update.iter().flat_map(|update| update.tiles());
            at.iter().map(|(_, at)| at).chain(old).chain([own]).collect()
        }
        _ => {
            let (mut all, writes) = (op.reads(), op.writes());
            all.retain(|view| !writes.iter().any(|written| std::ptr::eq(*view, *written)));
            all.extend(writes);
            all
        }
    }
}

/// Is this a statement about whole tiles?
pub fn is_cooperative(program: &Program, by: Id, op: &Op) -> bool {
    let views = views(op);
    let tile = |view: &&View| kind(program, view) == Kind::Tile;
    if views.iter().any(tile) {
        // A tile of one element is replicated in all threads, and each may use it with its own part.
        let (to, ins) = (&views[views.len() - 1], &views[..views.len() - 1]);
        let single = |view: &View| program.tensor(view.tensor).plain().size() == Ok(1);
        let one =
            |view: &&&View| kind(program, view) != Kind::Tile || view.layout.size() == Ok(1) || single(view);
        let apart = views.iter().any(|view| kind(program, view) == Kind::Part);
        return !(apart && kind(program, to) != Kind::Tile && ins.iter().all(|view| one(&view)));
    }
    // A group of one thread owns whole tiles.
    let alone = program.groups[by as usize].threads == 1;
    let memory = |view: &&View| kind(program, view) == Kind::Memory;
    let moves = op.stores().is_some() || matches!(op, Op::Atomic { .. });
    moves && !alone && !views.is_empty() && views.iter().all(memory)
}

/// A whole tile beside the part of one thread.
pub fn mixed(tile: &View, part: &View) -> Problem {
    Problem::new(format!(
        "`{}`, {}, is a whole tile that all threads share, and `{}`, {}, is the part of one thread",
        tile.name,
        tile.shape(),
        part.name,
        part.shape()
    ))
    .help("use whole tiles on both sides: they are distributed over the threads")
}
