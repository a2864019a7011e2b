//! A thread program flattened for one launch: sizes are known, loops over registers are unrolled, loop
//! invariants are hoisted. This module does not know the contents of memory, warps or time.

use tilewright_program::Elem;
use tilewright_program::atom::Atom;
use tilewright_program::number::Number;
use tilewright_program::thread::{Bin, Change, Cmp, Fence, Id, MemoryOrder, Queue, Scope, Space, Un, Vote};

/// An integer operand: a constant, or a cell of the warp plus a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Src {
    /// A constant.
    Const(i64),
    /// Uniform: the same for all lanes of the warp.
    Scalar(u32, i64),
    /// Divergent: one for each lane.
    Vector(u32, i64),
}

/// A slot in the register file of 32-bit or of 64-bit cells, whichever suits the element type.
pub(crate) type Slot = u32;

/// Integers from `lo` to `hi`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) lo: i64,
    pub(crate) hi: i64,
}

impl Range {
    /// The range of 64 bits.
    pub(crate) const ALL: Range = Range { lo: i64::MIN, hi: i64::MAX };
    /// The range of 32 bits.
    pub(crate) const NARROW: Range = Range { lo: i32::MIN as i64, hi: i32::MAX as i64 };

    /// `0..n`
    pub(crate) fn below(n: u32) -> Range {
        Range { lo: 0, hi: i64::from(n.max(1)) - 1 }
    }

    /// Do 32 bits represent all of them?
    pub(crate) fn is_narrow(self) -> bool {
        self.lo >= Range::NARROW.lo && self.hi <= Range::NARROW.hi
    }
}

/// Functions of two integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IntOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Xor,
    Shl,
    Min,
    Max,
    Lt,
    /// The first is not negative and less than the second.
    Within,
    Eq,
    All,
    /// The low 32 bits of the first, sign-extended.
    Wrap,
}

impl IntOp {
    /// As the hardware computes it: divisions go towards zero. Dividing by zero gives zero.
    #[inline(always)]
    pub(crate) fn of(self, a: i64, b: i64) -> i64 {
        match self {
            IntOp::Add => a.wrapping_add(b),
            IntOp::Sub => a.wrapping_sub(b),
            IntOp::Mul => a.wrapping_mul(b),
            IntOp::Div => a.checked_div(b).unwrap_or(0),
            IntOp::Rem => a.checked_rem(b).unwrap_or(0),
            IntOp::And => a & b,
            IntOp::Xor => a ^ b,
            IntOp::Shl => a.wrapping_shl(b as u32),
            IntOp::Min => a.min(b),
            IntOp::Max => a.max(b),
            IntOp::Lt => i64::from(a < b),
            IntOp::Within => i64::from((0..b).contains(&a)),
            IntOp::Eq => i64::from(a == b),
            IntOp::All => i64::from(a != 0 && b != 0),
            IntOp::Wrap => i64::from(a as i32),
        }
    }

    /// The range of the result for operands in these ranges.
    pub(crate) fn range(self, a: Range, b: Range) -> Range {
        let corners = |of: fn(i64, i64) -> i64| {
            let all = [of(a.lo, b.lo), of(a.lo, b.hi), of(a.hi, b.lo), of(a.hi, b.hi)];
            Range {
                lo: all.into_iter().fold(i64::MAX, i64::min),
                hi: all.into_iter().fold(i64::MIN, i64::max),
            }
        };
        let bits = |x: i64| if x <= 0 { 0 } else { i64::MAX >> (x.leading_zeros() - 1) };
        match self {
            IntOp::Add => corners(i64::saturating_add),
            IntOp::Sub => corners(i64::saturating_sub),
            IntOp::Mul => corners(i64::saturating_mul),
            IntOp::Div if b.lo > 0 => corners(|a, b| a / b),
            IntOp::Rem if b.lo > 0 => {
                let most = b.hi - 1;
                Range { lo: a.lo.clamp(-most, 0), hi: a.hi.clamp(0, most) }
            }
            IntOp::And if b.lo >= 0 => Range { lo: 0, hi: b.hi },
            IntOp::Xor if a.lo >= 0 && b.lo >= 0 => Range { lo: 0, hi: bits(a.hi | b.hi) },
            IntOp::Min => Range { lo: a.lo.min(b.lo), hi: a.hi.min(b.hi) },
            IntOp::Max => Range { lo: a.lo.max(b.lo), hi: a.hi.max(b.hi) },
            IntOp::Lt | IntOp::Within | IntOp::Eq | IntOp::All => Range { lo: 0, hi: 1 },
            IntOp::Wrap => Range::NARROW,
            _ => Range::ALL,
        }
    }
}

/// A memory operand of an instruction: which access, which element, which peer of the cluster.
/// The lane whose value a shuffle takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lane {
    /// This lane's number XOR an integer.
    Xor(Src),
    /// The lane with this number in groups of a size.
    Of(Slot, u32),
}

/// Where an integer is: one of the warp, or one of each lane.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IntCell {
    Warp(u32),
    Lanes(u32),
}

/// A condition of a step: an integer, or a value of elements. It is true where it is not 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cond {
    Int(Src),
    Value(Slot, Elem),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    pub(crate) access: u32,
    pub(crate) index: Src,
    pub(crate) peer: Option<Src>,
}

/// One step of a warp. Jump targets are labels until the program is complete, then positions in it.
#[derive(Clone, Debug)]
pub(crate) enum Ins {
    /// A jump target; removed once the program is complete.
    Label(u32),
    Int {
        op: IntOp,
        to: IntCell,
        a: Src,
        b: Src,
    },
    Select {
        to: IntCell,
        cond: Src,
        a: Src,
        b: Src,
    },
    /// Sets a mutable integer in the active lanes.
    Set {
        to: u32,
        a: Src,
    },
    Un {
        f: Un,
        truth: bool,
        elem: Elem,
        to: Slot,
        x: Slot,
    },
    Bin {
        f: Bin,
        elem: Elem,
        to: Slot,
        x: Slot,
        y: Slot,
    },
    Fma {
        elem: Elem,
        to: Slot,
        x: Slot,
        y: Slot,
        z: Slot,
    },
    Cast {
        from: Elem,
        elem: Elem,
        to: Slot,
        x: Slot,
    },
    /// Converts a value to an integer, in active lanes.
    ToInt {
        elem: Elem,
        to: u32,
        x: Slot,
    },
    FromInt {
        elem: Elem,
        to: Slot,
        x: Src,
    },
    Cmp {
        how: Cmp,
        elem: Elem,
        to: Slot,
        x: Slot,
        y: Slot,
    },
    /// Joins the values of two branches.
    Pick {
        cond: Cond,
        elem: Elem,
        to: Slot,
        x: Slot,
        y: Slot,
    },
    Shuffle {
        elem: Elem,
        to: Slot,
        x: Slot,
        lane: Lane,
    },
    /// A bit of a `u32` for each lane.
    Vote {
        how: Vote,
        elem: Elem,
        to: Slot,
        x: Slot,
    },
    Move {
        elem: Elem,
        to: Slot,
        x: Slot,
    },
    /// Restricts the active lanes to those where this is true, or false, until `Widen`.
    Narrow {
        cond: Cond,
        expected: bool,
    },
    Widen,
    Load {
        from: Location,
        to: Slot,
        guard: Option<Src>,
        fill: u64,
    },
    Store {
        to: Location,
        from: Slot,
        guard: Option<Src>,
    },
    /// Updates an element, or waits until it is at least the value.
    Atomic {
        to: Location,
        op: Change,
        value: Slot,
        guard: Option<Src>,
        order: MemoryOrder,
        scope: Scope,
        old: Option<Slot>,
        expected: Option<Slot>,
    },
    /// A row of the table, with its operands.
    Atom(u32),
    Commit(Queue),
    WaitQueue {
        queue: Queue,
        pending: u32,
    },
    Fence(Fence),
    /// A compiler fence for registers of products: cells from, and one past the last.
    Pin {
        from: Slot,
        to: Slot,
    },
    /// The barrier, or the first of a family's, and the member.
    Sync {
        first: Id,
        member: Src,
    },
    Arrive {
        bar: Id,
        slot: Src,
        peer: Option<Src>,
        bytes: Option<u32>,
    },
    Await {
        bar: Id,
        slot: Src,
        phase: Src,
    },
    Init(Id),
    /// Waits for the previous kernel in the stream.
    AwaitPrevious,
    /// Begins a loop. If its bounds differ from lane to lane, lanes leave it one by one.
    Loop {
        var: IntCell,
        from: Src,
        to: Src,
        exit: u32,
    },
    Next {
        var: IntCell,
        step: i64,
        to: Src,
        head: u32,
    },
    If {
        cond: Cond,
        other: u32,
    },
    Else {
        end: u32,
    },
    EndIf,
    /// Checks a claim: a row of the program's claims.
    Claim(u32),
    Probe(u32),
    /// Each thread changes how many registers it has (setmaxnreg).
    Registers(u32),
    /// Warps outside of the range jump.
    Role {
        from: u32,
        to: u32,
        other: u32,
    },
    Elect {
        scope: Scope,
        first: u32,
        end: u32,
    },
    Jump(u32),
    /// Begins a loop that lanes leave one by one.
    Enter,
    /// Leaves a loop in the lanes where the condition is true, out of `depth` branches. If no lane remains in the branch, it
    /// continues at `next`; if none remains in the loop, at `exit`.
    Leave {
        cond: Src,
        depth: u32,
        next: u32,
        exit: u32,
    },
    End,
}

impl Ins {
    /// Where it may jump, besides the next step.
    pub(crate) fn targets(&mut self) -> Vec<&mut u32> {
        match self {
            Ins::Loop { exit: to, .. }
            | Ins::Next { head: to, .. }
            | Ins::If { other: to, .. }
            | Ins::Else { end: to }
            | Ins::Role { other: to, .. }
            | Ins::Elect { end: to, .. }
            | Ins::Jump(to) => vec![to],
            Ins::Leave { next, exit, .. } => vec![exit, next],
            _ => Vec::new(),
        }
    }
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Load,
    Store,
    Atomic,
    /// Asynchronous copies, their source and their target.
    CopyFrom,
    CopyTo,
    /// ldmatrix and stmatrix.
    MatrixFrom,
    MatrixTo,
    /// Bulk copies by the copy engine.
    BulkFrom,
    BulkTo,
    /// Matrices that tensor cores read from shared memory.
    Product,
}

impl What {
    /// Does it write memory?
    pub(crate) fn writes(self) -> bool {
        matches!(self, What::Store | What::Atomic | What::CopyTo | What::MatrixTo | What::BulkTo)
    }

    /// Its name in the report.
    pub(crate) fn word(self) -> &'static str {
        match self {
            What::Load => "load",
            What::Store => "store",
            What::Atomic => "atomic",
            What::CopyFrom | What::CopyTo => "copy",
            What::MatrixFrom | What::MatrixTo => "matrix",
            What::BulkFrom | What::BulkTo => "bulk",
            What::Product => "product",
        }
    }
}

/// An instruction of the program that accesses memory.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) what: What,
    pub(crate) space: Space,
    /// Bytes of an element of the array.
    pub(crate) elem: u32,
    /// Elements that a lane moves at once.
    pub(crate) count: u32,
    /// The range that the program claims for the index.
    pub(crate) claim: (i64, i64),
    /// Row of the program's sites.
    pub(crate) site: u32,
    /// Row of the counts.
    pub(crate) counter: u32,
}

impl Access {
    /// Bytes that a lane moves at once.
    pub(crate) fn bytes(&self) -> u32 {
        self.elem * self.count
    }
}

/// A claim of the author about out-of-bounds elements.
#[derive(Clone, Debug)]
pub(crate) struct Claimed {
    pub(crate) inside: Src,
    pub(crate) value: Slot,
    pub(crate) elem: Elem,
    pub(crate) number: Number,
    pub(crate) at: Vec<Src>,
    pub(crate) strict: bool,
}

/// An assertion or a print: the index of the probe, and its values with the file of their cells.
#[derive(Clone, Debug)]
pub(crate) struct Probed {
    pub(crate) probe: usize,
    pub(crate) fails_at_zero: bool,
    pub(crate) values: Vec<(Slot, Elem)>,
    pub(crate) guard: Option<Src>,
}

/// An operand of an instruction of the table.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    /// The slot of its first element, the number of elements, and their type.
    Frag {
        reg: Id,
        slot: Slot,
        len: u32,
        elem: Elem,
    },
    At(Location),
    Descriptor {
        at: Location,
        leading: u32,
        stride: u32,
        mode: u8,
    },
    Map {
        param: Id,
        access: u32,
        at: Vec<Src>,
    },
    Barrier {
        bar: Id,
        slot: Src,
    },
    Int(Src),
}

/// An instruction of the table, with its position in the program.
#[derive(Clone, Debug)]
pub(crate) struct AtomCode {
    pub(crate) row: &'static Atom,
    pub(crate) args: Vec<Operand>,
    pub(crate) guard: Option<Src>,
}

impl AtomCode {
    /// The mbarriers on which it completes, if it copies into this array.
    pub(crate) fn completes(&self, code: &Code, array: Id) -> Option<Id> {
        let into = |arg: &Operand| match arg {
            Operand::At(location) => code.accesses[location.access as usize].space == Space::Shared(array),
            _ => false,
        };
        self.args.iter().any(into).then_some(())?;
        self.args
            .iter()
            .find_map(|arg| if let Operand::Barrier { bar, .. } = arg { Some(*bar) } else { None })
    }
}

/// Where a register array begins.
#[derive(Clone, Debug)]
pub(crate) struct RegisterArray {
    pub(crate) name: String,
    pub(crate) elem: Elem,
    pub(crate) at: Slot,
    pub(crate) len: u32,
}

/// Features that a program uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uses {
    /// Do blocks wait for flags of other blocks in the grid?
    pub(crate) together: bool,
    pub(crate) cp_async: bool,
    pub(crate) bulk_store: bool,
    pub(crate) async_proxy: bool,
    pub(crate) wgmma: bool,
}

/// A program ready to run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    pub(crate) ins: Vec<Ins>,
    /// For each step the row of the program's sites.
    pub(crate) sites: Vec<u32>,
    pub(crate) accesses: Vec<Access>,
    /// How many rows counts have.
    pub(crate) counters: u32,
    pub(crate) atoms: Vec<AtomCode>,
    pub(crate) claims: Vec<Claimed>,
    pub(crate) probes: Vec<Probed>,
    /// Cells of each kind that a warp has.
    pub(crate) scalars: u32,
    pub(crate) vectors: u32,
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    /// Cells that hold constants.
    pub(crate) consts: Vec<(Slot, Elem, u64)>,
    pub(crate) regs: Vec<RegisterArray>,
    /// Memory whose elements atomic updates or waits read.
    pub(crate) flags: Vec<Space>,
    pub(crate) uses: Uses,
}

/// Scalars that every warp has from the start: the block's index, and its rank in the cluster.
pub(crate) const BLOCK: u32 = 0;
pub(crate) const RANK: u32 = 3;
pub(crate) const FIRST_SCALAR: u32 = 4;
/// The vector that every warp has: the number of each thread.
pub(crate) const THREAD: u32 = 0;

/// Is a type stored in the file of 64-bit cells?
pub(crate) fn is_double(elem: Elem) -> bool {
    elem.bits() == 64
}
