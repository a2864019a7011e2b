//! Faults that kernels of whole tiles must find.

use super::{Fault, fault as of_parts, rare};
use crate::draw::Kind;

const EXACT: &str = "codegen/program/src/launch/exact.rs";
const BULK: &str = "codegen/passes/src/lower/bulk.rs";
const BARRIERS: &str = "codegen/passes/src/resolve/barriers.rs";
const SYNTAX: &str = "codegen/program/src/source/ast.rs";
const ATOMIC: &str = "codegen/passes/src/lower/atomic.rs";
const CALLS: &str = "codegen/front/src/evaluate/calls.rs";
const ELEMENTS: &str = "codegen/front/src/evaluate/elements.rs";
const LANES: &str = "codegen/passes/src/lower/lanes.rs";
const LOOPS: &str = "codegen/front/src/evaluate/loops.rs";
const EXCHANGE: &str = "codegen/passes/src/resolve/exchange.rs";
const OVERLAP: &str = "codegen/passes/src/resolve/overlap.rs";
const PROJECT: &str = "codegen/passes/src/project.rs";
const COORDINATES: &str = "codegen/passes/src/origin/propagation.rs";
const PART: &str = "codegen/passes/src/resolve/part.rs";
const PRODUCT: &str = "codegen/passes/src/resolve/product.rs";
const READS: &str = "codegen/tile/src/tile/mod.rs";
const RING: &str = "codegen/passes/src/lower/ring.rs";
const ORIGIN: &str = "codegen/passes/src/origin.rs";
const WRITTEN: &str = "codegen/passes/src/origin/writes.rs";
const LOWERED_MASKS: &str = "codegen/passes/src/lower/masks.rs";
const STRENGTH: &str = "codegen/passes/src/lower/strength_reduction.rs";

const fn fault(file: &'static str, breaks: &'static str, text: &'static str, with: &'static str) -> Fault {
    Fault { kind: Kind::Whole, ..of_parts(file, breaks, text, with) }
}

impl Fault {
    /// Kernels about one interplay find it.
    const fn targeted(self, first: u64) -> Fault {
        Fault { kind: Kind::Targeted, first, ..self }
    }

    /// Kernels with all options of the language find it.
    const fn options(self) -> Fault {
        Fault { kind: Kind::Options, ..self }
    }

    /// Kernels whose lanes and blocks exchange elements find it.
    const fn exchanged(self) -> Fault {
        Fault { kind: Kind::Exchanges, ..self }
    }
}

pub(super) const FAULTS: &[Fault] = &[
    fault(
        ORIGIN,
        "coordinates and edges follow from loops that have iterations alone",
        "// Coordinates and edges come from the program's text, values from launches.
            let both",
        "return before;
            #[allow(unreachable_code)]
            let both",
    )
    .by(Kind::Targeted, 40),
    fault(
        BARRIERS,
        "no barrier before an element of a whole tile is read as an integer",
        "matches!(&stmt.op, Op::Take { from, .. } if since(&from.tensor).whole)",
        "false",
    )
    .first(2030),
    fault(
        BARRIERS,
        "what a copy in flight reads is overwritten",
        "since.departing |= flies;",
        "since.departing = false;",
    ),
    fault(
        EXCHANGE,
        "an epilogue is staged where a copy is in flight",
        "if self.in_flight.any(stmt, &free) {",
        "if self.in_flight.any(stmt, &free) && free.is_empty() {",
    )
    .first(2030),
    fault(
        OVERLAP,
        "a tile is copied to another view of itself without registers between",
        "writes.iter().any(|to| !to.is_same(view) && !to.is_apart(view))",
        "writes.len() > 9 && !view.name.is_empty()",
    ),
    fault(
        PROJECT,
        "a producer copies what the kernel has written",
        "        written::check(&written)?;\n",
        "",
    ),
    fault(
        COORDINATES,
        "elements take coordinates along modes in which their source is repeated",
        "let Ok(mode) = view.layout.mode(mode) else { return Vec::new() };",
        "let place = mode;
    let Ok(mode) = view.layout.mode(mode) else { return Vec::new() };
    if mode.leaves().all(|(_, stride)| !matches!(stride, Value::Basis { .. })) {
        return vec![place];
    }",
    )
    .targeted(5),
    fault(
        COORDINATES,
        "coordinates of sums that several threads have are lost in shared memory",
        "if !sum.per_thread() {",
        "if sum.constant < i64::MAX {",
    )
    .targeted(881),
    fault(
        WRITTEN,
        "results of a part of a mode have a coordinate",
        "let is_combined = |edge: &Edge| along_combined(edge) || differs(edge);",
        "let is_combined = |edge: &Edge| differs(edge);",
    )
    .targeted(7),
    fault(
        LOWERED_MASKS,
        "claims about out-of-bounds elements are believed",
        "if exprs.constant(inside) != Some(1) {",
        "if exprs.constant(inside) == Some(2) {",
    )
    .targeted(11),
    fault(
        RING,
        "four warps run a producer that reads integers",
        "let alone = self.program.is_of_one_warp(body);",
        "let mut alone = self.program.is_of_one_warp(body);
        body.iter().for_each(|stmt| stmt.each(&mut |stmt| alone &= !matches!(stmt.op, tile::Op::Take { .. })));",
    )
    .targeted(47),
    fault(
        STRENGTH,
        "variables that an inner loop advances are induction variables of the outer one",
        "if self.kernel.vars[id as usize].mutable {",
        "if self.kernel.vars.is_empty() {",
    )
    .targeted(0),
    fault(
        EXACT,
        "an assertion without a value holds",
        "divides: by.below(1.into()),",
        "divides: false.into(),",
    )
    .first(3_618),
    fault(
        BULK,
        "coordinates of bulk copies are not clamped to 32 bits",
        "if known.lo >= least && known.hi <= i64::from(i32::MAX) {",
        "if known.lo <= known.hi {",
    ),
    fault(
        SYNTAX,
        "remainders that are known while compiling may be negative",
        "Binary::Rem => x.checked_rem_euclid(y)?,",
        "Binary::Rem => x.checked_rem(y)?,",
    )
    .first(1740),
    fault(
        CALLS,
        "the greater of two elements of 64 bits is computed as of two integers",
        "find_map(|(value, _)| self.wide(value)) {",
        "find_map(|(value, _)| self.wide(value)).filter(|_| false) {",
    )
    .exchanged(),
    fault(
        LANES,
        "lanes out of bounds match others",
        "let peers = Val::Bin(Bin::And, Box::new(peers), Box::new(votes));",
        "let votes = Val::Bin(Bin::And, Box::new(votes), Box::new(Val::lit(0i64, Elem::U32)));
        let peers = Val::Bin(Bin::Or, Box::new(peers), Box::new(votes));",
    )
    .exchanged(),
    fault(
        LANES,
        "votes of a group are not shifted to its first lane",
        "let first = self.exprs().sub(lane, own);",
        "let first = self.exprs().sub(own, own);",
    )
    .exchanged(),
    fault(
        ATOMIC,
        "a flag is signalled before all threads have written",
        "        if !waits {
            self.meet(self.scope.by);",
        "        if false {
            self.meet(self.scope.by);",
    )
    .exchanged(),
    fault(
        ATOMIC,
        "a signal does not release",
        "let order = if waits { MemoryOrder::Acquire } else { MemoryOrder::Release };",
        "let order = if waits { MemoryOrder::Acquire } else { MemoryOrder::Relaxed };",
    )
    .exchanged(),
    fault(
        LOOPS,
        "a loop over a tuple begins with its last value",
        "self.unrolled(pattern, items.into_iter(), range.span, body);",
        "self.unrolled(pattern, items.into_iter().rev(), range.span, body);",
    )
    .exchanged(),
    fault(
        ELEMENTS,
        "tuples of tiles are given to closures in another order",
        "mapped.elements.iter().map(|given| shaped_as(given, &mut elements)).collect();",
        "mapped.elements.iter().rev().map(|given| shaped_as(given, &mut elements)).collect::<Vec<_>>().into_iter().rev().collect();",
    )
    .exchanged(),
    fault(
        PRODUCT,
        "the rows of a warpgroup count the group that it alternates with",
        "group.member_warps() == Some(mma.row.family.warps())",
        "(group.members == 2 || group.member_warps() == Some(mma.row.family.warps()))",
    )
    .options(),
    fault(
        LOWERED_MASKS,
        "what is known about a part of a tile is taken for the whole tile",
        "if edge.part.is_empty() {",
        "if !edge.part.is_empty() || edge.part.is_empty() {",
    )
    .first(2030),
    fault(
        COORDINATES,
        "a function has the coordinates of its first tile, whatever the others have",
        "if reads_coordinates(value) { first_known(&known, to) } else { agreed(&known, to, stmt) }",
        "if reads_coordinates(value) || stmt < Id::MAX { first_known(&known, to) } else { agreed(&known, to, stmt) }",
    )
    .targeted(0),
    fault(READS, "an integer that is read out of bounds is -1", "Purpose::Value => 0", "Purpose::Value => -1"),
    rare(fault(
        PART,
        "a thread's part of a tile ends where the rows of shared memory do",
        "let extent = own.size()?.min(d.tile()[mode]);",
        "let extent = own.size()?;",
    )),
];
