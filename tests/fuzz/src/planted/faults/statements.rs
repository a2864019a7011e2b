//! Faults of statements over parts of threads: their views, bounds and elements.

use super::{Fault, fault, rare};
use crate::draw::Kind;

const ADDRESS: &str = "codegen/passes/src/lower/address.rs";
const BOUNDS: &str = "codegen/tile/src/tile/bounds.rs";
const COORDINATES: &str = "codegen/passes/src/origin/propagation.rs";
const EDGES: &str = "codegen/passes/src/lower/edges.rs";
const ELEMENTWISE: &str = "codegen/passes/src/lower/elementwise.rs";
const FAMILY: &str = "codegen/passes/src/lower/family.rs";
const GEMM: &str = "codegen/passes/src/lower/gemm/scalar.rs";
const READ: &str = "codegen/passes/src/lower/integers.rs";
const REDUCE: &str = "codegen/passes/src/lower/reduce.rs";
const RUNS: &str = "codegen/passes/src/lower/reduce/runs.rs";
const SCHEDULE: &str = "codegen/passes/src/lower/tile_scheduler.rs";
const STATEMENT: &str = "codegen/passes/src/lower/statement.rs";
const TRANSFER: &str = "codegen/passes/src/lower/transfer.rs";
const PARTITION: &str = "codegen/tile/src/tile/view/partition.rs";
const VIEW: &str = "codegen/tile/src/tile/view.rs";
const WRITTEN: &str = "codegen/passes/src/origin/writes.rs";

pub(super) const FAULTS: &[Fault] = &[
    fault(
        EDGES,
        "a guard is dropped",
        "guard = self.and_between(guard, first, last, end);",
        "let _ = (first, last, end);",
    ),
    fault(
        EDGES,
        "a guard admits one element too many",
        "let below = self.exprs().lt(at, end);",
        "let one = self.int(1);\n        let end = self.exprs().add(end, one);\n        let below = self.exprs().lt(at, end);",
    ),
    fault(
        EDGES,
        "coordinates below 0 are not guarded",
        "if self.kernel.exprs.get(first).lo >= 0 {",
        "if self.kernel.exprs.get(first).lo >= i64::MIN {",
    ),
    fault(
        EDGES,
        "the limit of a ragged partition is dropped",
        "let below = self.exprs().lt(within, extent);",
        "let below = self.int(1);\n                let _ = (within, extent);",
    ),
    fault(
        BOUNDS,
        "one out-of-bounds element counts as inside",
        "reach < self.numbers.range(&extent.into()).lo",
        "reach <= self.numbers.range(&extent.into()).lo",
    ),
    fault(
        EDGES,
        "clamped coordinates go one too far",
        "let last = self.exprs().sub(extent, vector);",
        "let last = extent;\n        let _ = vector;",
    ),
    fault(
        EDGES,
        "tiles after a partial first K tile begin too late",
        "self.exprs().sub(full_tiles, short)",
        "self.exprs().add(full_tiles, short)",
    ),
    fault(
        BOUNDS,
        "a base that is not aligned is read as vectors",
        "fits &= self.numbers.multiple(&as_tiles(&view.base[leaf.mode])) % width == 0;",
        "",
    )
    .by(Kind::Options, 0),
    fault(
        BOUNDS,
        "vectors need not divide a thread's elements",
        "leaf.extent % width == 0 &&",
        "leaf.extent >= width &&",
    )
    .first(4050),
    fault(
        ADDRESS,
        "the step of a view's mode is dropped",
        "map(|(leaf, &at)| (Value::Int(leaf.step), at)).unzip();",
        "map(|(leaf, &at)| (Value::Int(leaf.step.signum()), at)).unzip();",
    ),
    fault(
        ADDRESS,
        "the origin of a tile ignores a stride",
        "let term = self.exprs().mul(invariant, stride);",
        "let term = invariant;",
    ),
    fault(
        BOUNDS,
        "a leading dimension need not keep vectors aligned",
        "fits = fits && strides.all(|stride| self.suppose(width, stride, &mut more));",
        "",
    ),
    fault(
        BOUNDS,
        "an address need not be aligned for vectors",
        "fits = fits && self.aligned(view.tensor, bytes, &mut more);",
        "let _ = bytes;",
    ),
    fault(
        TRANSFER,
        "a write from registers has no guard",
        "Op::Store { to: lower.address(&pair.to, to, piece.at), from, guard: piece.guard }",
        "Op::Store { to: lower.address(&pair.to, to, piece.at), from, guard: None }",
    ),
    fault(
        TRANSFER,
        "an asynchronous copy ignores the end of a ragged tile",
        "let inside = lower.guard(&pair.to, to, piece.at);",
        "let inside = None;",
    ),
    fault(
        TRANSFER,
        "zeros and bytes are swapped in asynchronous copies",
        "lower.exprs().select(guard, all, none)",
        "lower.exprs().select(guard, none, all)",
    ),
    fault(
        TRANSFER,
        "an asynchronous copy drops its fill",
        "if let Some(cond) = piece.guard",
        "if let Some(cond) = piece.guard.filter(|_| !fill.to_f64().is_finite())",
    )
    .by(Kind::Options, 140),
    fault(
        TRANSFER,
        "any registers count as contiguous for a vector",
        "leaf.step == 1 && matches!(stride, Some((_, tilewright_layout::Value::Int(1))))",
        "leaf.step == 1 && stride.is_some()",
    ),
    fault(
        TRANSFER,
        "staged elements overlap",
        "order().map(|leaf| (leaves[leaf].extent, at[leaf])).unzip();",
        "order().map(|leaf| (leaves[leaf].extent.min(2), at[leaf])).unzip();",
    ),
    fault(ELEMENTWISE, "a function's operands are swapped", "Val::Cmp(*f, x, y)", "Val::Cmp(*f, y, x)"),
    fault(
        ELEMENTWISE,
        "a function's read has no guard",
        "(lower.address(&side.view, &side.leaves, piece.at), piece.guard)",
        "(lower.address(&side.view, &side.leaves, piece.at), None)",
    ),
    fault(
        ELEMENTWISE,
        "a value is not converted",
        "(value, Type::Elem(from)) => self.converted(*value, from, *to),",
        "(value, Type::Elem(from)) => self.converted(*value, from, from),",
    )
    .by(Kind::Whole, 20),
    fault(
        REDUCE,
        "a mask is inverted",
        "Val::guarded(inside, element, neutral)",
        "Val::guarded(inside, neutral, element)",
    ),
    fault(
        REDUCE,
        "half of the lanes are not reduced",
        "let mut distance = lanes / 2 * step;",
        "let mut distance = lanes / 4 * step;",
    ),
    fault(
        REDUCE,
        "no barrier between reductions of two iterations",
        "if self.scope.loops > 0 {",
        "if self.scope.loops > 99 {",
    )
    .by(Kind::Options, 150),
    fault(
        REDUCE,
        "lanes that do not exist are reduced",
        "let there = self.exprs().lt(from, threads);",
        "let there = self.int(1);\n            let _ = (from, threads);",
    ),
    fault(
        RUNS,
        "the second warp is not reduced",
        "let (from, to) = (self.int(1), self.int(count));",
        "let (from, to) = (self.int(2), self.int(count));",
    )
    .by(Kind::Whole, 80),
    fault(
        COORDINATES,
        "a function's result has no bounds check",
        "union(all.clone()).into_iter().filter(remains).collect()",
        "union(all.clone()).into_iter().filter(remains).take(0).collect()",
    ),
    fault(
        WRITTEN,
        "a copy's fill is replaced by 0",
        "let known = self.read(from, to, fill.exact(), state);",
        "let known = self.read(from, to, Some(0.0), state);",
    ),
    fault(
        GEMM,
        "out-of-bounds operands are read",
        "let guard = lower.guard(operand.view, &operand.leaves, &element);",
        "let guard = None;",
    ),
    fault(
        GEMM,
        "a serpentine reverses one too early",
        "let last = lower.int(inner - 1);",
        "let last = lower.int(inner - 2);",
    ),
    fault(
        GEMM,
        "the first k-step is skipped",
        "let (from, to) = (self.int(0), self.value(k_extent));",
        "let (from, to) = (self.int(1), self.value(k_extent));",
    ),
    fault(STATEMENT, "a condition is reversed", "self.exprs().lt(a, b)", "self.exprs().lt(b, a)"),
    fault(
        STATEMENT,
        "and becomes or",
        "self.exprs().all(a, b)\n            }\n            Test::Either",
        "self.exprs().max(a, b)\n            }\n            Test::Either",
    )
    .by(Kind::Whole, 40),
    fault(
        STATEMENT,
        "a loop ignores its lower bound",
        "self.emit(Op::For { var: id, from, to, step: 1, unroll, body });",
        "let from = self.int(0);\n        self.emit(Op::For { var: id, from, to, step: 1, unroll, body });",
    ),
    fault(
        READ,
        "an index outside of its tensor is 0",
        "let outside = self.int(read.purpose.out_of_bounds());",
        "let outside = self.int(0);",
    ),
    fault(
        READ,
        "a value outside of its tensor is -1",
        "let outside = self.int(read.purpose.out_of_bounds());",
        "let outside = self.int(-1);",
    )
    .by(Kind::Whole, 50),
    fault(
        STATEMENT,
        "the branches of a condition are swapped",
        "None => self.emit(Op::If { cond, then, other }),",
        "None => self.emit(Op::If { cond, then: other, other: then }),",
    ),
    fault(
        STATEMENT,
        "iterations out of range are not skipped",
        "if skips { self.kernel.exprs.constant(inside) } else { Some(1) }",
        "if skips { self.kernel.exprs.constant(inside).or(Some(1)) } else { Some(1) }",
    ),
    fault(STATEMENT, "a barrier is omitted", "tile::Op::Sync => self.meet(stmt.by),", "tile::Op::Sync => {}"),
    fault(STATEMENT, "a wait leaves one group more in flight", "pending: *but });", "pending: *but + 1 });"),
    fault(STATEMENT, "a loop exit is inverted", "self.exprs().not(below)", "below"),
    fault(
        FAMILY,
        "threads of a group are numbered from the block's",
        "self.exprs().sub(thread, i64::from(first))",
        "self.exprs().add(thread, i64::from(first))",
    ),
    fault(
        PARTITION,
        "partitions begin one element too far",
        "let of_thread = position(share, thread)?;",
        "let of_thread = position(share, thread)?.plus(&1.into(), 1).unwrap_or_default();",
    ),
    fault(VIEW, "a nested mode has a wrong divisor", "n.checked_mul(over)", "n.checked_add(over)"),
    fault(
        PARTITION,
        "a projection is inverted",
        "partition.keep.as_ref().is_none_or(|keep| keep[mode])",
        "partition.keep.as_ref().is_none_or(|keep| !keep[mode])",
    ),
    fault(
        PARTITION,
        "a ragged tile is one element longer",
        "limit_origin(&self.base[along], along, reach, &others)?, reach)",
        "limit_origin(&self.base[along], along, reach, &others)?, reach + 1)",
    ),
    fault(
        SCHEDULE,
        "a persistent kernel repeats its first tile",
        "let tile = lower.exprs().add(first, far);",
        "let tile = first;\n            let _ = far;",
    ),
    fault(
        SCHEDULE,
        "the last raster band is not clipped",
        "let height = self.exprs().min(rest, width);",
        "let height = width;\n                let _ = rest;",
    ),
    rare(fault(
        PARTITION,
        "all threads have the element of a mode that `along` adds",
        "[(_, Value::Int(0))] if extent <= count && values == 1 => spare.push((index, extent)),",
        "[(_, Value::Int(0))] if extent <= count && values == 1 => spare.clear(),",
    )),
];
