//! A loop that several blocks share: each runs a part of the iterations. Then the sums of all blocks are added. In a cluster, each
//! block continues with some rows of them, or with some columns where the number of blocks does not divide the rows:
//!
//! ```text
//! for k in pipelined(0..n, …, split = cluster(4)) {    for k in n/4 · rank..n/4 · (rank + 1) { … }
//!     … gemm(sa, sb, &mut acc);                        copy(acc, sums); barrier of the cluster
//! }                                                    total = rows of sums of all blocks, added
//! copy(map((acc, gb), f), gc);                         copy(map((total, rows of gb), f), rows of gc)
//! ```
//!
//! Blocks of a persistent kernel, `split = blocks(4)`, pass their sums through memory of the launch ([`grid`]).

mod grid;

use std::collections::{BTreeMap, BTreeSet};

use tilewright_layout::{Composed, Layout, Tiler, Tuple, Value};

use super::is_fill;
use super::tiles::guard_writes;
use crate::build::Builder;
use crate::build::tiled::{PAD, swizzled_tile};
use crate::pipeline::sets;
use crate::resolve::contiguous;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::{Bin, Id};
use crate::tile::view::{At, View};
use crate::tile::visit::{preorder, substitute};
use crate::tile::{Expr, LaunchRule, Op, Program, Space, Split, Stmt};
use crate::values::affine::{Affine, Arith, Coord};
use crate::values::elem::Elem;
use crate::values::limits::MOST_BLOCKS;

/// The axis of the grid along which the blocks of a cluster share a tile.
const AXIS: usize = 2;

/// The blocks that share a loop, if they do.
fn blocks_of(stmt: &Stmt) -> Option<Split> {
    match &stmt.op {
        Op::For { ahead: Some(ahead), .. } => Some(ahead.split).filter(|split| split.blocks() > 1),
        _ => None,
    }
}

/// The program with the loop shared by several blocks; unchanged where none is shared.
pub fn split_k(mut program: Program) -> std::result::Result<Program, Diagnostic> {
    let all: Vec<&Stmt> = preorder(&program.body).filter(|stmt| blocks_of(stmt).is_some()).collect();
    let Some(first) = all.first() else { return Ok(program) };
    let at = program.body.iter().position(|stmt| blocks_of(stmt).is_some());
    let (1, Some(at)) = (all.len(), at) else {
        let problem = Problem::new("a loop with `split` cannot be inside another loop or occur twice");
        return Err(problem.help("leave `split` out").at(first.span));
    };
    divided(&mut program, at)?;
    Ok(program)
}

pub(super) fn far() -> Problem {
    Problem::new("a coordinate passes 63 bits")
}

fn divided(program: &mut Program, at: usize) -> std::result::Result<(), Diagnostic> {
    let mut body = std::mem::take(&mut program.body);
    let after = body.split_off(at + 1);
    let Some(shared) = body.last_mut() else { return Ok(()) };
    let span = shared.span;
    let Some(split) = blocks_of(shared) else { return Ok(()) };
    let (blocks, over_grid) = (split.blocks(), split.is_of_grid());
    let sharing = program.cluster[0];
    let wrong = |message: String, help: String| Err(Problem::new(message).help(help).at(span));
    let all = i64::from(sharing) * blocks;
    if !over_grid && all > i64::from(MOST_BLOCKS) {
        let message =
            format!("`cluster({sharing})` and `split = cluster({blocks})` are a cluster of {all} blocks");
        return wrong(message, format!("a cluster has at most {MOST_BLOCKS} blocks"));
    }
    let (shared, before) = body.split_last().ok_or_else(|| Problem::reported().at(span))?;
    let outside = [before, &after].concat();
    let sums = summed(program, shared, &outside)?;
    begin_at_zero(before, &sums)?;
    body.extend(after);
    if over_grid {
        if program.launch != LaunchRule::Persistent || program.alternates {
            return wrong(
                "the blocks of a grid divide a loop in persistent kernels alone, in the tiles of a last wave that is not full".into(),
                "write persistent(), or split = cluster(4)".into(),
            );
        }
        if !matches!((program.grid[AXIS], &program.more[AXIS][..]), (None | Some(Value::Int(1)), [])) {
            return wrong(
                "the blocks of a grid divide a loop, and the tiles of this kernel have a third coordinate"
                    .into(),
                "write split = cluster(4), or leave `split` out".into(),
            );
        }
        program.divided = blocks as u32;
        program.grid[AXIS] = None;
    }
    let part = multiplied(program, &mut body, blocks).ok_or_else(|| far().at(span))?;
    let after = body.split_off(at + 1);
    let number = if over_grid {
        part
    } else {
        program.cluster[AXIS] = blocks as u32;
        program.number_in_cluster(AXIS)
    };
    let Some(shared) = body.last_mut() else { return Ok(()) };
    part_of_steps(program, shared, (&number, blocks)).map_err(|problem| problem.at(span))?;
    let shared = shared.clone();
    if over_grid {
        body.extend(grid::added(program, &shared, (&number, blocks), &sums, after)?);
        program.body = body;
        return Ok(());
    }
    let outer = accessed(&outside);
    let is_dead = |id: &Id| matches!(program.tensor(*id).space, Space::Shared { .. }) && !outer.contains(id);
    let dead = accessed(std::slice::from_ref(&shared)).into_iter().filter(is_dead).collect();
    let mode = divisible(blocks, &sums).map_err(|problem| problem.at(span))?;
    let mut parts = Parts {
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
    body.extend(built(&shared, &mut |b| exchanged(b, &mut parts, &sums, &after, &dead))?);
    for stmt in &after {
        let mut own = None;
        built(stmt, &mut |b| {
            own = Some(parts.statement(b, stmt)?);
            Ok(())
        })?;
        body.extend(own);
    }
    // Each cluster has its own tiles.
    program.launch = LaunchRule::PerTile;
    program.bands = 0;
    program.body = body;
    whole_clusters(program, sharing).ok_or_else(|| far().at(span))
}

/// Multiplies the blocks along [`AXIS`]. The number of a block among those that share its tile.
fn multiplied(program: &mut Program, body: &mut [Stmt], blocks: i64) -> Option<Affine> {
    let block = Affine::from(Coord::Block(AXIS as u8));
    if program.grid[AXIS].is_none() {
        program.grid[AXIS] = Some(blocks.into());
        return Some(block);
    }
    program.more[AXIS].push(blocks.into());
    let own = block.submode(blocks, None);
    let axis = Coord::Block(AXIS as u8);
    substitute(body, &axis, &own)?;
    for end in program.vars.iter_mut().flat_map(|var| [&mut var.from, &mut var.to]) {
        *end = end.with(&axis, &own)?;
    }
    Some(block.submode(1, Some(blocks)))
}

/// The grid in whole clusters along x.
fn whole_clusters(program: &mut Program, sharing: u32) -> Option<()> {
    if sharing > 1 {
        guard_writes(program, sharing);
        let count = program.grid[0].unwrap_or(Value::Int(1));
        program.grid[0] = Some(count.ceil_div(sharing.into())?.times(Value::Int(sharing.into()))?);
    }
    Some(())
}

/// The tiles outside of a loop to which it adds. It sets its other tiles in each iteration before it uses them.
fn summed(program: &Program, stmt: &Stmt, outside: &[Stmt]) -> std::result::Result<Vec<View>, Diagnostic> {
    let Op::For { body, .. } = &stmt.op else { return Ok(Vec::new()) };
    let outer = accessed(outside);
    let added =
        |stmt: &&Stmt| !is_fill(program, stmt) && !matches!(stmt.op, Op::Take { .. } | Op::Probe { .. });
    let (mut sums, mut own): (Vec<View>, BTreeSet<Id>) = (Vec::new(), BTreeSet::new());
    for stmt in body.iter().filter(added) {
        let [to] = stmt.writes()[..] else { return Err(does_more(stmt)) };
        let is_sum = outer.contains(&to.tensor);
        let is_set = sets(program, stmt, to.tensor) || own.contains(&to.tensor);
        let fits = if is_sum { adds(&stmt.op) } else { is_set };
        // Each block has tiles in shared memory of its own.
        let is_own = match program.tensor(to.tensor).space {
            Space::Registers { .. } => true,
            Space::Shared { .. } => !is_sum,
            Space::Global { .. } => false,
        };
        if !fits || !is_own {
            return Err(does_more(stmt));
        }
        if !is_sum {
            own.insert(to.tensor);
        } else if sums.iter().all(|known| known.tensor != to.tensor) {
            sums.push(to.clone());
        }
    }
    // Sums of a part of the iterations are only added to.
    let is_sum = |view: &&View| sums.iter().any(|acc| acc.tensor == view.tensor);
    let reads = |stmt: &&Stmt| {
        let written = stmt.writes().into_iter().filter(is_sum).count();
        stmt.reads().into_iter().filter(is_sum).count() > written
    };
    match body.iter().find(reads) {
        Some(stmt) => Err(does_more(stmt)),
        None => Ok(sums),
    }
}

/// Does a statement add to its result what does not depend on it?
fn adds(op: &Op) -> bool {
    let Op::Map { ins, to, value } = op else { return matches!(op, Op::Gemm { .. }) };
    let Some(old) = ins.iter().position(|view| view.is_same(to)) else { return false };
    let (terms, factors) = match value {
        Expr::Bin(Bin::Add, left, right) => (vec![&**left, &**right], Vec::new()),
        Expr::Fma(of) => (vec![&of[2]], vec![&of[0], &of[1]]),
        _ => return false,
    };
    let uses = terms.iter().chain(&factors).filter(|value| value.reads(old as u8)).count();
    uses == 1 && terms.contains(&&Expr::In(old as u8))
}

fn does_more(stmt: &Stmt) -> Diagnostic {
    Problem::new(
        "a loop with `split` may only copy tiles and add their products to accumulators, and this one does more",
    )
    .help("leave `split` out, or move this after the loop")
    .at(stmt.span)
}

/// Every block has its own accumulators, and all of them are added: they must begin at 0.
fn begin_at_zero(before: &[Stmt], sums: &[View]) -> std::result::Result<(), Diagnostic> {
    let is_sum = |to: &&View| sums.iter().any(|acc| acc.tensor == to.tensor);
    let is_zero = |op: &Op| matches!(op, Op::Map { value: Expr::Lit(number), .. } if number.is_zero());
    let wrong = preorder(before).filter(|stmt| !is_zero(&stmt.op)).find_map(|stmt| {
        let written = stmt.writes().into_iter().find(is_sum);
        written.map(|to| (to.name.clone(), stmt.span))
    });
    let Some((name, span)) = wrong else { return Ok(()) };
    let problem = Problem::new(format!(
        "the blocks of a cluster add their `{name}`, so its value before the loop would be added once per block"
    ));
    Err(problem.help("begin at 0.0, and add the rest after the loop").at(span))
}

/// A loop over this block's part of the iterations; the last block may have fewer. With the number `blocks` it runs all of them.
fn part_of_steps(program: &mut Program, stmt: &mut Stmt, (part, blocks): (&Affine, i64)) -> Result<()> {
    let is_persistent = program.divided > 0;
    let Op::For { var, ahead: Some(ahead), body, .. } = &mut stmt.op else { return Err(Problem::reported()) };
    ahead.split = Split::Threads;
    let to = &mut program.vars[*var as usize].to;
    let all = to.clone();
    let mut most = match to.size() {
        Some(count) => Affine::from(count.ceil_div(blocks).ok_or_else(far)?),
        None => to.plus(&(blocks - 1).into(), 1).ok_or_else(far)?.submode(blocks, None),
    };
    let each = most.clone();
    let mut part = part.clone();
    if is_persistent {
        let whole = Affine::two(Arith::Mul, &part.submode(blocks, None), &all).ok_or_else(far)?;
        most = most.plus(&whole, 1).ok_or_else(far)?;
        part = part.submode(1, Some(blocks));
    }
    let before = Affine::two(Arith::Mul, &part, &each).ok_or_else(far)?;
    let left = to.plus(&before, -1).ok_or_else(far)?;
    let mut own = Affine::two(Arith::Min, &most, &left).ok_or_else(far)?;
    if is_persistent {
        own = Affine::two(Arith::Min, &all, &own).ok_or_else(far)?;
    }
    *to = Affine::two(Arith::Max, &own, &0.into()).ok_or_else(far)?;
    let own = Affine::from(Coord::Var(*var)).plus(&before, 1).ok_or_else(far)?;
    substitute(body, &Coord::Var(*var), &own).ok_or_else(far)
}

/// The tensors that statements write.
fn written(body: &[Stmt]) -> BTreeSet<Id> {
    preorder(body).flat_map(Stmt::writes).map(|to| to.tensor).collect()
}

/// The tensors that statements read or write.
fn accessed(body: &[Stmt]) -> BTreeSet<Id> {
    preorder(body).flat_map(Stmt::accesses).map(|view| view.tensor).collect()
}

/// The mode of the sums that the blocks divide: rows, or else columns.
fn divisible(blocks: i64, sums: &[View]) -> Result<usize> {
    let extents = |acc: &View| acc.extents().filter(|of| of.len() == 2).ok_or_else(Problem::reported);
    let all = sums.iter().map(extents).collect::<Result<Vec<_>>>()?;
    let divides = |mode: &usize| all.iter().all(|of| of[*mode] % blocks == 0);
    (0..2).find(divides).ok_or_else(|| {
        let whole = all.iter().position(|of| of.iter().all(|extent| extent % blocks != 0)).unwrap_or(0);
        let message = format!(
            "{blocks} blocks cannot divide the rows or the columns of `{}`, which has {} by {}",
            sums[whole].name, all[whole][0], all[whole][1]
        );
        Problem::new(message)
            .help("use a tile whose number of rows or columns is a multiple of the number of blocks")
    })
}

/// Adds the sums of all blocks, each of some rows or columns.
fn exchanged(
    b: &mut Builder,
    own: &mut Parts,
    sums: &[View],
    after: &[Stmt],
    dead: &BTreeSet<Id>,
) -> Result<()> {
    let mut stored = Vec::new();
    for acc in sums {
        let extents = acc.extents().ok_or_else(Problem::reported)?;
        let &[height, width] = &extents[..] else { return Err(Problem::reported()) };
        let elem = b.elem(acc);
        let name = format!("{}_sums", acc.name);
        let layout = layout_of_sums(b.program(), elem, [height, width], after)?;
        // The first tensors overlay the tiles that the loop has read.
        let dead = if stored.is_empty() { dead.iter().copied().collect() } else { Vec::new() };
        let shape = |id: Id| b.program().tensor(id).layout.shape();
        let dead =
            dead.into_iter().map(|id| View::whole(id, &name, &shape(id))).collect::<Result<Vec<_>>>()?;
        let parts = b.shared_after(&name, elem, layout, &dead.iter().collect::<Vec<_>>())?;
        b.copy(acc, &parts)?;
        stored.push(parts);
    }
    b.statement(Op::SyncCluster);
    for (acc, parts) in sums.iter().zip(stored) {
        let mut tile = acc.extents().ok_or_else(Problem::reported)?;
        tile[own.mode] /= own.blocks;
        let parts = (0..own.blocks).map(|next| {
            // This block's own are first: they do not pass between multiprocessors.
            let of = match next {
                0 => parts.clone(),
                _ => {
                    let number = own.number.plus(&next.into(), 1).ok_or_else(far)?;
                    let number = number.submode(1, Some(own.blocks));
                    let rank = b.program().rank_in_cluster(AXIS, &number).ok_or_else(far)?;
                    b.of_peer(&parts, &rank)?
                }
            };
            own.of(&of)
        });
        let parts = parts.collect::<Result<Vec<View>>>()?;
        let elem = b.elem(acc);
        // All are loaded before they are added.
        let mut loaded = Vec::new();
        for (next, part) in parts.iter().enumerate() {
            loaded.push(b.distributed(&format!("{}_part_{next}", acc.name), elem, &tile)?);
            b.copy(part, &loaded[next])?;
        }
        let total = b.distributed(&format!("{}_total", acc.name), elem, &tile)?;
        let sum = (1..loaded.len() as u8)
            .fold(Expr::In(0), |sum, next| Expr::Bin(Bin::Add, Box::new(sum), Box::new(Expr::In(next))));
        b.map(&loaded, &total, sum)?;
        own.tiles.insert(acc.tensor, total);
    }
    Ok(())
}

/// The layout of the sums of a tile in shared memory: contiguous along the target's contiguous mode, so that lanes read a
/// row in one piece.
fn layout_of_sums(
    program: &Program,
    elem: Elem,
    [rows, columns]: [i64; 2],
    after: &[Stmt],
) -> Result<Composed> {
    let global = |view: &&View| matches!(program.tensor(view.tensor).space, Space::Global { .. });
    let along = after.iter().flat_map(Stmt::writes).find(global).and_then(|to| contiguous(program, to));
    match along {
        Some(0) => swizzled_tile(elem, [rows, columns], 0),
        _ => Ok(Layout::new((rows, columns), (columns + PAD, 1i64))?.into()),
    }
}

/// The parts of tiles with which this block continues.
struct Parts {
    blocks: i64,
    /// This block's number among the blocks that share the loop.
    number: Affine,
    /// The mode that they divide.
    mode: usize,
    /// Register tiles, and the tiles of their parts.
    tiles: BTreeMap<Id, View>,
    /// The tensors that the statements after the loop write.
    written: BTreeSet<Id>,
    /// The part of each tensor in global memory that they write: other parts may belong to other blocks.
    targets: BTreeMap<Id, View>,
}

impl Parts {
    /// This block's part of a tile in memory.
    fn of(&self, view: &View) -> Result<View> {
        let extents = view.extents().ok_or_else(Problem::reported)?;
        let mut tile = extents.clone();
        tile[self.mode] /= self.blocks;
        let mut at = vec![At::Index(0.into()); tile.len()];
        at[self.mode] = At::Index(self.number.clone());
        Ok(view.tile(&Tiler::from(Tuple::flat(&tile)), &at)?.with_name(&view.name))
    }

    /// Converts a statement about whole tiles to this block's parts of them.
    fn statement(&mut self, b: &mut Builder, stmt: &Stmt) -> Result<Stmt> {
        let lines = ["rows", "columns"][self.mode];
        let refuse = |what: &str| {
            Problem::new(format!(
                "after a loop with `split` each block has some {lines} of each tile, and {what}"
            ))
            .help("leave `split` out, or use only copies, functions of elements and updates after the loop")
        };
        let mut own = stmt.clone();
        if !matches!(own.op, Op::Copy { .. } | Op::Map { .. } | Op::Atomic { .. } | Op::Sync) {
            return Err(refuse("this needs all of them"));
        }
        for view in own.views_mut() {
            let extents = view.extents().unwrap_or_default();
            let elem = b.elem(view);
            let is_tile = b.program().forms.contains_key(&view.tensor);
            if matches!(b.program().tensor(view.tensor).space, Space::Shared { .. }) {
                return Err(refuse(&format!(
                    "`{}`, which is in shared memory, would lack the other {lines}",
                    view.name
                )));
            }
            if !is_tile && self.written.contains(&view.tensor) {
                let target = self.targets.entry(view.tensor).or_insert_with(|| view.clone());
                if !target.is_same(view) {
                    return Err(refuse(&format!(
                        "other {lines} of `{}` may be written by other blocks",
                        view.name
                    )));
                }
            }
            let whole = View::whole(view.tensor, &view.name, &view.shape())?;
            let divides = extents.len() == 2 && extents[self.mode] % self.blocks == 0;
            *view = match self.tiles.get(&view.tensor) {
                Some(part) if whole.is_same(view) => part.clone().with_name(&view.name),
                None if is_tile && divides && whole.is_same(view) && self.written.contains(&view.tensor) => {
                    let mut tile = extents;
                    tile[self.mode] /= self.blocks;
                    let part = b.distributed(&view.name, elem, &tile)?;
                    self.tiles.insert(view.tensor, part.clone());
                    part
                }
                None if !is_tile && divides => self.of(view)?,
                _ => return Err(refuse(&format!("`{}` cannot be divided by {lines}", view.name))),
            };
        }
        Ok(own)
    }
}
