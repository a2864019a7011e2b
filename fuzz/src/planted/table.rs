//! The faults. A text must occur exactly once in its file; if the generator has changed,
//! `cargo test -p tilewright-fuzz` reports which row to adapt.

use super::Fault;

const fn fault(file: &'static str, breaks: &'static str, text: &'static str, with: &'static str) -> Fault {
    Fault { file, text, with, breaks, whole: false }
}

/// A fault that kernels of whole tiles must find.
const fn of_whole_tiles(
    file: &'static str,
    breaks: &'static str,
    text: &'static str,
    with: &'static str,
) -> Fault {
    Fault { whole: true, ..fault(file, breaks, text, with) }
}

const AFFINE: &str = "codegen/src/affine.rs";
const BULK: &str = "codegen/src/lower/bulk.rs";
const PART: &str = "codegen/src/resolve/part.rs";
const BARRIERS: &str = "codegen/src/resolve/barriers.rs";
const OPERATORS: &str = "codegen/src/evaluate/operators.rs";
const EXCHANGE: &str = "codegen/src/resolve/exchange.rs";
const OVERLAP: &str = "codegen/src/resolve/overlap.rs";
const PROJECT: &str = "codegen/src/project.rs";

const INDEX: &str = "codegen/src/index.rs";
const DIVISION: &str = "codegen/src/index/division.rs";
const CHOICE: &str = "codegen/src/index/choice.rs";
const PIPELINE: &str = "codegen/src/pipeline/mod.rs";
const FILL: &str = "codegen/src/pipeline/fill.rs";
const FRAGMENTS: &str = "codegen/src/pipeline/fragments.rs";
const SLOTS: &str = "codegen/src/pipeline/schedule.rs";
const STEPS: &str = "codegen/src/pipeline/steps.rs";
const SYNCHRONISE: &str = "codegen/src/synchronise.rs";
const ALLOCATE: &str = "codegen/src/allocate.rs";
const ADDRESS: &str = "codegen/src/lower/address.rs";
const BOUNDS: &str = "codegen/src/bounds.rs";
const COORDINATES: &str = "codegen/src/origin/coordinates.rs";
const COMMITS: &str = "codegen/src/lower/commits.rs";
const EDGES: &str = "codegen/src/lower/edges.rs";
const ELEMENTWISE: &str = "codegen/src/lower/elementwise.rs";
const FAMILY: &str = "codegen/src/lower/family.rs";
const FLOW: &str = "codegen/src/flow.rs";
const GEMM: &str = "codegen/src/lower/gemm/scalar.rs";
const LOWER: &str = "codegen/src/lower/mod.rs";
const STRENGTH_REDUCTION: &str = "codegen/src/lower/strength_reduction.rs";
const NUMBERING: &str = "codegen/src/lower/numbering.rs";
const READ: &str = "codegen/src/lower/read.rs";
const READS: &str = "codegen/src/pipeline/reads.rs";
const REDUCE: &str = "codegen/src/lower/reduce.rs";
const RING: &str = "codegen/src/lower/ring.rs";
const SCHEDULE: &str = "codegen/src/lower/schedule.rs";
const STATEMENT: &str = "codegen/src/lower/statement.rs";
const TRANSFER: &str = "codegen/src/lower/transfer.rs";
const PARTITION: &str = "codegen/src/view/partition.rs";
const VIEW: &str = "codegen/src/view.rs";
const WRITTEN: &str = "codegen/src/origin/written.rs";
const ORIGIN: &str = "codegen/src/origin.rs";

/// All of them.
pub const FAULTS: &[Fault] = &[
    fault(DIVISION, "a negative quotient is rounded up", "self.int(-(up / n)));", "self.int(1 - up / n));"),
    fault(
        DIVISION,
        "a remainder may be as large as the divisor",
        "(known.lo >= 0 && known.hi < n).then_some",
        "(known.lo >= 0 && known.hi <= n).then_some",
    ),
    fault(
        INDEX,
        "a product is distributed over one summand only",
        "let (x, y) = (self.mul(x, b), self.mul(y, b));",
        "let x = self.mul(x, b);",
    ),
    fault(
        DIVISION,
        "divisors of nested divisions are added",
        "return self.div(x, m.saturating_mul(n));",
        "return self.div(x, m.saturating_add(n));",
    ),
    fault(CHOICE, "a minimum is a maximum", "self.intern(Int::Min(a, b), ", "self.intern(Int::Max(a, b), "),
    fault(
        DIVISION,
        "a remainder drops even terms",
        "terms.retain(|&term| self.get(term).multiple % n != 0);",
        "terms.retain(|&term| self.get(term).multiple % 2 != 0);",
    ),
    fault(
        CHOICE,
        "a comparison is folded although both can be equal",
        "if x.hi < y.lo {",
        "if x.hi <= y.lo {",
    ),
    fault(
        SYNCHRONISE,
        "a wait leaves one group more in flight",
        "WaitCopies { pending: in_flight }",
        "WaitCopies { pending: in_flight + 1 }",
    ),
    fault(
        SLOTS,
        "the ring has one slot fewer than stages",
        "view.at_slot(iteration, i64::from(stages));",
        "view.at_slot(iteration, i64::from(stages) - 1);",
    ),
    fault(
        SYNCHRONISE,
        "no barrier after the wait of an iteration",
        "if barrier != Barrier::None {",
        "if barrier != Barrier::None && !matches!(stmt.op, Op::Await { .. }) {",
    ),
    fault(
        SYNCHRONISE,
        "no barrier before a loop that reuses the slots",
        "let used = ring.buffers.iter().any(|buffer| state.used.contains_key(buffer));",
        "let used = ring.buffers.is_empty();",
    ),
    fault(SLOTS, "the prologue skips the first stage", "for at in 0..ahead {", "for at in 1..ahead {"),
    fault(
        SLOTS,
        "an iteration copies the previous tile",
        "plus(&ahead.into(), 1)",
        "plus(&(ahead - 1).into(), 1)",
    ),
    fault(
        SYNCHRONISE,
        "no barrier at the end of an iteration of one stage",
        "if barrier != Barrier::None {",
        "if barrier != Barrier::None && !matches!(stmt.op, Op::Release { .. }) {",
    ),
    fault(
        PIPELINE,
        "slots overlap",
        "let apart = (tile.cosize()? + block - 1) / block * block;",
        "let apart = (tile.cosize()? / 2 + block - 1) / block * block;",
    ),
    fault(
        FILL,
        "a copy through registers loses its fill",
        "copy(from, fragment.clone(), fill)",
        "copy(from, fragment.clone(), 1.into())",
    ),
    fault(
        FRAGMENTS,
        "both k-steps are loaded into one fragment",
        "let to = operand.at(&step)?;",
        "let to = operand.at(&0.into())?;",
    ),
    fault(
        STEPS,
        "the loop exits one k-step early",
        "self.begin.plus(k_step, self.apart);",
        "self.begin.plus(k_step, self.apart).and_then(|left| left.plus(&1.into(), 1));",
    ),
    fault(
        STEPS,
        "the last k-step is multiplied with the wrong fragment",
        "body.extend(self.at(&self.work, &last.into())?);",
        "body.extend(self.at(&self.work, &(last + 1).into())?);",
    ),
    fault(
        EDGES,
        "a guard is dropped",
        "guard = self.and_between(guard, (first, last), end);",
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
    ),
    fault(
        BOUNDS,
        "vectors need not divide a thread's elements",
        "leaf.extent % width == 0 &&",
        "leaf.extent >= width &&",
    ),
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
    fault(NUMBERING, "digits of a nested mode are not divided off", "rest = self.exprs().div(rest, n);", ""),
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
        "Op::Store { to: lower.place(&pair.to, to, piece.at), from, guard: piece.guard }",
        "Op::Store { to: lower.place(&pair.to, to, piece.at), from, guard: None }",
    ),
    fault(
        TRANSFER,
        "an asynchronous copy ignores the end of a ragged tile",
        "let inside = lower.guard(&pair.to, to, &elements);",
        "let inside = None;",
    ),
    fault(
        TRANSFER,
        "zeros and bytes are swapped in asynchronous copies",
        "lower.exprs().select(guard, all, none)",
        "lower.exprs().select(guard, none, all)",
    ),
    fault(
        COMMITS,
        "copies are not committed before a wait counts them",
        "if before.open {",
        "if before.open && !before.issued {",
    ),
    fault(COMMITS, "waits are dropped", "if !before.issued {", "if before.issued {"),
    fault(
        FLOW,
        "copies in flight across iterations are ignored",
        "let again = F::join(entry.clone(), &end);",
        "let again = F::join(entry.clone(), &entry);",
    ),
    fault(
        BOUNDS,
        "an asynchronous copy drops its fill",
        "fill.is_zero() || ",
        "fill.to_f64().is_finite() || ",
    ),
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
        "(lower.place(&side.view, &side.leaves, piece.at), piece.guard)",
        "(lower.place(&side.view, &side.leaves, piece.at), None)",
    ),
    fault(
        ELEMENTWISE,
        "a value is not converted",
        "(value, Type::Elem(from)) => self.converted(*value, from, *to),",
        "(value, Type::Elem(from)) => self.converted(*value, from, from),",
    ),
    fault(
        REDUCE,
        "a mask is inverted",
        "Val::Guarded(inside, Box::new(element.clone()), Box::new(neutral))",
        "Val::Guarded(inside, Box::new(neutral), Box::new(element.clone()))",
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
    ),
    fault(
        REDUCE,
        "lanes that do not exist are reduced",
        "let there = self.exprs().lt(from, threads);",
        "let there = self.int(1);\n            let _ = (from, threads);",
    ),
    fault(
        REDUCE,
        "the second warp is not reduced",
        "let (from, to) = (self.int(1), self.int(count));",
        "let (from, to) = (self.int(2), self.int(count));",
    ),
    fault(
        COORDINATES,
        "a function's result has no bounds check",
        "union(all.clone()).into_iter().filter(stays).collect()",
        "union(all.clone()).into_iter().filter(stays).take(0).collect()",
    ),
    fault(
        WRITTEN,
        "a copy's fill is replaced by 0",
        "Space::Global { .. } => (Some(fill.to_f64()), None),",
        "Space::Global { .. } => (Some(0.0), None),",
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
    ),
    fault(
        STATEMENT,
        "a loop ignores its lower bound",
        "self.emit(Op::For { var: id, from, to, step: 1, unroll, body });",
        "let from = self.int(0);\n        self.emit(Op::For { var: id, from, to, step: 1, unroll, body });",
    ),
    fault(
        READ,
        "an index outside of its tensor is 0",
        "let outside = self.int(-1);",
        "let outside = self.int(0);",
    ),
    fault(
        READS,
        "an integer that copies need is not read ahead",
        "if early.contains(number) {\n                    ahead",
        "if early.len() > 9 {\n                    ahead",
    ),
    fault(
        STATEMENT,
        "the branches of a condition are swapped",
        "self.emit(Op::When { cond, then, other });",
        "self.emit(Op::When { cond, then: other, other: then });",
    ),
    fault(
        STATEMENT,
        "iterations out of range are not skipped",
        "if skips { self.kernel.exprs.constant(inside) } else { Some(1) }",
        "if skips { self.kernel.exprs.constant(inside).or(Some(1)) } else { Some(1) }",
    ),
    fault(STATEMENT, "a barrier is omitted", "tile::Op::Sync => self.meet(stmt.by),", "tile::Op::Sync => {}"),
    fault(
        STATEMENT,
        "a wait leaves one group more in flight",
        "pending: *pending });",
        "pending: *pending + 1 });",
    ),
    fault(STATEMENT, "a loop exit is inverted", "let cond = self.exprs().not(below);", "let cond = below;"),
    fault(
        LOWER,
        "extents are rounded down to tiles",
        "let more = self.int(i64::from(over) - 1);",
        "let more = self.int(0);",
    ),
    fault(
        LOWER,
        "a digit has a modulus one too large",
        "Some(n) => self.exprs().rem(digit, *n),",
        "Some(n) => self.exprs().rem(digit, *n + 1),",
    ),
    fault(
        ALLOCATE,
        "shared arrays overlap",
        "all.bytes.max(at + bytes(tensor))",
        "all.bytes.max(at + bytes(tensor) / 2)",
    ),
    fault(
        FAMILY,
        "threads of a group are numbered from the block's",
        "self.exprs().sub(thread, first)",
        "self.exprs().add(thread, first)",
    ),
    fault(
        STRENGTH_REDUCTION,
        "a strength-reduced address is not incremented",
        "after.push(Stmt { site: stmt.site, op: Op::Set(id, next) });",
        "let _ = next;",
    ),
    fault(
        STRENGTH_REDUCTION,
        "an address is incremented by the first of two steps",
        "step: e.add(a.step, b.step), multiplies }",
        "step: a.step, multiplies }",
    ),
    fault(
        PARTITION,
        "partitions begin one element too far",
        "let place = position(share, thread)?;",
        "let place = position(share, thread)?.plus(&1.into(), 1).unwrap_or_default();",
    ),
    fault(VIEW, "a nested mode has a wrong divisor", "n.checked_mul(over)", "n.checked_add(over)"),
    fault(
        PARTITION,
        "a projection is inverted",
        "deal.keep.as_ref().is_none_or(|keep| keep[mode])",
        "deal.keep.as_ref().is_none_or(|keep| !keep[mode])",
    ),
    fault(
        PARTITION,
        "a ragged tile is one element longer",
        "limit_origin(&self.base[along], along, reach, &others)?, reach)",
        "limit_origin(&self.base[along], along, reach, &others)?, reach + 1)",
    ),
    fault(
        RING,
        "a ring's first slots are not free",
        "let before = self.int(-1);",
        "let before = self.int(0);",
    ),
    fault(
        RING,
        "one warp's release frees a slot",
        "let warps = self.program.threads_of(ring.to).div_ceil(32);",
        "let warps = self.program.threads_of(ring.to).div_ceil(32).min(1);",
    ),
    fault(
        RING,
        "the phase parity of a slot is always 0",
        "(self.exprs().rem(phase, slots), self.exprs().div(phase, slots))",
        "(self.exprs().rem(phase, slots), self.int(0))",
    ),
    fault(
        RING,
        "no __syncwarp before a release of a slot",
        "self.emit(Op::Fence(Fence::Threads(Scope::Warp)));",
        "",
    ),
    fault(
        RING,
        "a phase does not advance",
        "let next = self.exprs().add(phase, by);",
        "let next = self.exprs().sub(phase, by);",
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
    fault(
        PARTITION,
        "all threads have the element of a mode that `along` adds",
        "[(_, Value::Int(0))] if extent <= count && values == 1 => spare.push((index, extent)),",
        "[(_, Value::Int(0))] if extent <= count && values == 1 => spare.clear(),",
    ),
    of_whole_tiles(
        ORIGIN,
        "coordinates and edges follow from loops that have iterations alone",
        "let before = state.clone();
        self.iterate(&[var], body, state);
        if self",
        "let before = state.clone();
        if self.program.zero.is_some_and(|size| hollow::is_empty(self.program, var, size)) {
            return;
        }
        self.iterate(&[var], body, state);
        if self",
    ),
    of_whole_tiles(
        BARRIERS,
        "no barrier before an element of a whole tile is read as an integer",
        "matches!(&stmt.op, Op::Take { from, .. } if since(&from.tensor).whole)",
        "false",
    ),
    of_whole_tiles(
        BARRIERS,
        "what a copy in flight reads is overwritten",
        "since.departing |= flies;",
        "since.departing = false;",
    ),
    of_whole_tiles(
        EXCHANGE,
        "an epilogue is staged where a copy is in flight",
        "if self.in_flight.any(stmt, &free) {",
        "if self.in_flight.any(stmt, &free) && free.is_empty() {",
    ),
    of_whole_tiles(
        OVERLAP,
        "a tile is copied to another view of itself without registers between",
        "if writes.iter().all(|to| to.is_same(view) || to.is_apart(view)) {",
        "if writes.len() < 9 {",
    ),
    of_whole_tiles(
        PROJECT,
        "a producer copies what the kernel has written",
        "        written::check(program)?;\n",
        "",
    ),
    of_whole_tiles(
        PART,
        "an accumulator takes coordinates of a repeated row",
        "Some(shown) if tile[*shown] == *extent => match single",
        "Some(shown) if *extent >= 0 => match single",
    ),
    of_whole_tiles(
        COORDINATES,
        "elements take coordinates along modes in which their source is repeated",
        "at.runs_along(mode).then(|| at.clone())",
        "(at.runs_along(mode) || mode < 9).then(|| at.clone())",
    ),
    of_whole_tiles(
        RING,
        "four warps run a producer that reads integers",
        "let alone = self.program.is_of_one_warp(body);",
        "let mut alone = self.program.is_of_one_warp(body);
        body.iter().for_each(|stmt| stmt.each(&mut |stmt| alone &= !matches!(stmt.op, tile::Op::Take { .. })));",
    ),
    of_whole_tiles(
        AFFINE,
        "an assertion without a value holds",
        "(Arith::Div | Arith::Rem, _, b) if b <= 0 => return Err(Undefined::DividesBy(b)),",
        "(Arith::Div | Arith::Rem, _, b) if b <= 0 => 0,",
    ),
    of_whole_tiles(
        BULK,
        "coordinates of bulk copies are not clamped to 32 bits",
        "if known.lo >= least && known.hi <= i64::from(i32::MAX) {",
        "if known.lo <= known.hi {",
    ),
    of_whole_tiles(
        OPERATORS,
        "remainders that are known while compiling may be negative",
        "Value::Int(x.checked_rem_euclid(y)?)",
        "Value::Int(x.checked_rem(y)?)",
    ),
];
