//! Which statements are about whole tiles, and which views are.

use tilewright_layout::{Digit, Distribution};

use crate::diagnostic::Diagnostic;
use crate::problem::Problem;
use crate::thread::Id;
use crate::tile::{How, Multiply, Op, Program, Space};
use crate::view::View;

/// The kind of a view.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A whole tile in registers.
    Tile,
    /// A whole tile in memory.
    Memory,
    /// One thread's part, in registers or of memory.
    Part,
}

fn kind(program: &Program, view: &View) -> Kind {
    if program.forms.contains_key(&view.tensor) {
        return Kind::Tile;
    }
    match program.tensor(view.tensor).space {
        Space::Registers { .. } => Kind::Part,
        _ if view.per_thread() => Kind::Part,
        _ => Kind::Memory,
    }
}

/// Is it a whole tile, of which threads have parts?
pub(crate) fn is_whole(program: &Program, view: &View) -> bool {
    kind(program, view) != Kind::Part
}

/// The views of a statement that computes or moves elements; the one that it writes is last.
pub(super) fn views(op: &Op) -> Vec<&View> {
    match op {
        Op::Copy { how: How::Atom(_), .. } | Op::Gemm { how: Multiply::Atom(_), .. } => Vec::new(),
        Op::Copy { from, to, .. } | Op::Reduce { from, to, .. } => vec![from, to],
        Op::Atomic { from, to, update } => [from].into_iter().chain(&update.old).chain([to]).collect(),
        // The places in memory belong to no tile.
        Op::Gather { at, to: own, .. } => at.iter().map(|(_, at)| at).chain([own]).collect(),
        Op::Scatter { at, from: own, update, .. } => {
            let old = update.iter().flat_map(|update| &update.old);
            at.iter().map(|(_, at)| at).chain(old).chain([own]).collect()
        }
        Op::Fold { from, to, .. } => from.iter().chain(to).collect(),
        Op::Fill { to, .. } => vec![to],
        Op::Map { ins, to, .. } => ins.iter().chain([to]).collect(),
        Op::Gemm { a, b, acc, .. } => vec![a, b, acc],
        Op::Scan { from, to, carry, .. } => from.iter().chain(carry).chain(to).collect(),
        _ => Vec::new(),
    }
}

/// Is this a statement about whole tiles?
pub(crate) fn is_cooperative(program: &Program, by: Id, op: &Op) -> bool {
    let views = views(op);
    let tile = |view: &&View| kind(program, view) == Kind::Tile;
    if views.iter().any(tile) {
        // A tile of one element is replicated in all threads, and each may use it with its own part.
        let (to, ins) = (&views[views.len() - 1], &views[..views.len() - 1]);
        let one = |view: &&&View| kind(program, view) != Kind::Tile || view.layout.size() == Ok(1);
        let apart = views.iter().any(|view| kind(program, view) == Kind::Part);
        return !(apart && kind(program, to) != Kind::Tile && ins.iter().all(|view| one(&view)));
    }
    // A group of one thread owns whole tiles.
    let alone = program.groups[by as usize].threads == 1;
    let memory = |view: &&View| kind(program, view) == Kind::Memory;
    let moves = matches!(op, Op::Copy { .. } | Op::Fill { .. } | Op::Map { .. } | Op::Atomic { .. });
    moves && !alone && !views.is_empty() && views.iter().all(memory)
}

/// Rejects statements that mix whole tiles and parts of threads.
pub(super) fn check(program: &Program) -> std::result::Result<(), Diagnostic> {
    let mut found = None;
    super::each(&program.body, &mut |stmt| {
        if found.is_some() || !is_cooperative(program, stmt.by, &stmt.op) {
            return;
        }
        let views = views(&stmt.op);
        let part = views.iter().find(|view| kind(program, view) == Kind::Part);
        let tile = views.iter().find(|view| kind(program, view) == Kind::Tile);
        if let (Some(part), Some(tile)) = (part, tile) {
            let problem = Problem::new(format!(
                "`{}`, {}, is a whole tile that all threads share, and `{}`, {}, is the part of one thread",
                tile.name,
                tile.shape(),
                part.name,
                part.shape()
            ))
            .help("use whole tiles on both sides; threads find their parts themselves");
            found = Some(problem.at(stmt.span));
        }
    });
    found.map_or(Ok(()), Err)
}

/// The accumulators of a product on CUDA cores, distributed in parts as square as possible.
pub(super) fn outer(tile: &[i64], threads: i64) -> Distribution {
    let [m, n] = tile[..] else { return Distribution::spread(tile, &[0], 1, threads) };
    // Threads along M and N, with the fewest elements of both operands for each thread.
    let cost = |over: &i64| {
        let (rows, columns) = ((m + over - 1) / over, (n * over + threads - 1) / threads);
        (rows * columns, rows + columns)
    };
    let over = (1..=threads).filter(|over| threads % over == 0).min_by_key(cost).unwrap_or(1);
    let digit = |extent, mode, step| Digit { extent, mode, step };
    let rest = |extent: i64, over: i64| (extent + over - 1) / over;
    let columns = threads / over;
    Distribution::new(
        tile,
        vec![digit(over, 0, 1), digit(columns, 1, 1)],
        vec![digit(rest(m, over), 0, over), digit(rest(n, columns), 1, columns)],
    )
}
