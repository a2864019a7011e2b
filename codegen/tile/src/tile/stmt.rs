//! Statements of tile programs.

use super::{Across, Ahead, How, Multiply, Order, Past, Raster, StageOrder, Update};
use crate::source::ast::Span;
use crate::thread::probe::Probe;
use crate::thread::{Change, Unroll};
use crate::tile::elements::ElementFacts;
use crate::tile::view::View;
use crate::values::affine::Affine;
use crate::values::condition::Test;
use crate::values::expr::Expr;
use crate::values::id::Id;
use crate::values::lanes::Lanes;
use crate::values::number::Number;
use crate::values::scan::Scan;

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// The number of the statement in the program; see [`Program::number`](super::Program::number).
    pub id: Id,
    /// Its span.
    pub span: Span,
    /// The group that executes it.
    pub by: Id,
    /// The operation.
    pub op: Op,
    /// Its stage in the loop around it, until that loop is scheduled.
    pub stage: Option<StageOrder>,
    /// Where its elements are in the user's tensors, if its code depends on it.
    pub elements: Option<Box<ElementFacts>>,
}

impl Stmt {
    /// A statement without a number.
    pub fn new(span: Span, by: Id, op: Op) -> Stmt {
        Stmt { id: 0, span, by, op, stage: None, elements: None }
    }
}

/// The views of a product, as of [`Op::Gemm`] and [`Op::Flow`].
#[derive(Clone, Copy)]
pub struct ProductViews<'a> {
    /// The left operand, (m, k).
    pub a: &'a View,
    /// The right operand, (n, k).
    pub b: &'a View,
    /// The accumulator, (m, n).
    pub acc: &'a View,
}

/// The operation of a statement. Programs are short: the size of the largest does not matter.
#[derive(Clone, PartialEq, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Op {
    /// Copies elements; views of the same shape.
    Copy {
        /// The source.
        from: View,
        /// The destination.
        to: View,
        /// The mechanism.
        how: How,
        /// The fill of elements whose source is out of bounds, in the type of the source.
        fill: Number,
        /// In flight until this token has been waited for.
        token: Option<Id>,
    },
    /// Loads an element as an integer.
    Take {
        /// The integer, in [`Program::reads`](super::Program::reads).
        number: Id,
        /// The element.
        from: View,
    },
    /// Elementwise: sets each element of `to` to a function of elements of `ins`; views of the same shape. Without inputs it
    /// fills `to`; see [`Op::fill`].
    Map {
        /// The inputs of the function.
        ins: Vec<View>,
        /// The destination.
        to: View,
        /// The function.
        value: Expr,
    },
    /// `acc(m, n) += a(m, k) · b(n, k)`, in a semiring. Out-of-bounds elements of operands in global memory are
    /// its [`fills`](crate::values::semiring::Semiring::fills).
    Gemm {
        /// The left operand, (m, k).
        a: View,
        /// The right operand, (n, k).
        b: View,
        /// The accumulator, (m, n).
        acc: View,
        /// The operations, or the instruction.
        how: Multiply,
        /// The order.
        order: Order,
        /// In flight until this token has been waited for.
        token: Option<Id>,
    },
    /// Reduces tuples of elements along the modes that targets lack (extent 1 there), by an associative and
    /// commutative function.
    Fold {
        /// The source, one tensor for each entry of the tuples; all of one shape.
        from: Vec<View>,
        /// The destination of each entry; it takes part, so it must be initialised.
        to: Vec<View>,
        /// The function, one for each entry. Its first inputs are the accumulated tuple, then the next tuple.
        with: Vec<Expr>,
        /// The identity.
        identity: Vec<Number>,
        /// The threads that it spans, besides each thread's own elements.
        across: Across,
        /// Are out-of-bounds elements of the user's tensor claimed to be the identity? Otherwise they are
        /// masked.
        claimed: bool,
    },
    /// Combines each element, or tuple, with all elements before it.
    Scan {
        /// The source, one tensor for each entry of the tuples; all of one shape.
        from: Vec<View>,
        /// The destination of each entry, of the same shape.
        to: Vec<View>,
        /// The value before the first element, which becomes the combination of everything; empty for
        /// the identity. Each has the shape of the others, with extent 1 along the modes of the scan.
        carry: Vec<View>,
        /// How.
        how: Scan,
    },
    /// Exchanges elements between the lanes of a warp; all in registers.
    Lanes {
        /// The exchanged elements, then further inputs of a shuffle's function.
        ins: Vec<View>,
        /// The destination, of the same shape.
        to: View,
        /// How.
        how: Lanes,
        /// The size of the groups of neighbouring lanes that exchange elements.
        lanes: u32,
        /// Do out-of-bounds elements of the user's tensor take part, as its author says? Otherwise they are masked.
        unmasked: bool,
    },
    /// Updates each element of `to` by the element of `from`, atomically. Out-of-bounds elements are
    /// skipped. Sums of floating-point numbers differ from run to run, as their order does.
    Atomic {
        /// The operands; a view of the same shape.
        from: View,
        /// Elements in shared or global memory.
        to: View,
        /// How.
        update: Update,
    },
    /// Loads each element from coordinates that are integers in registers.
    Gather {
        /// One element, whose coordinates have the integers in them.
        from: View,
        /// The integers, in [`Program::reads`](super::Program::reads), and where each element of `to` finds its own.
        at: Vec<(Id, View)>,
        /// The destination, in registers. Out-of-bounds elements are 0.
        to: View,
    },
    /// Stores each element to coordinates that are integers in registers, or updates the element there. Coordinates out of bounds are
    /// skipped, and so are elements of `from` and `at` that are out of bounds of the tensors they come from.
    Scatter {
        /// The source, in registers.
        from: View,
        /// As in [`Op::Gather`].
        at: Vec<(Id, View)>,
        /// One element, whose coordinates have the integers in them.
        to: View,
        /// How, unless it is stored.
        update: Option<Update>,
        /// Are all elements of the user's tensors in bounds, or have coordinates out of bounds, as the author says?
        claimed: bool,
    },
    /// Shows elements of an instrumented kernel, and of one in the simulator: tiles in registers of one shape.
    Probe {
        /// The value, its coordinates, and integers.
        of: Vec<View>,
        /// What it is about.
        probe: Probe,
    },
    /// Releases or acquires a flag, one `i32` in global memory. [`Change::Add`] raises it: all that the group did before
    /// is visible to groups of other blocks that wait for it. [`Change::Await`] waits until the flag has reached a value,
    /// and the group sees all writes before that.
    Flag {
        /// The flag.
        flag: View,
        /// How.
        with: Change,
        /// The increment, or the value to wait for.
        value: Affine,
    },
    /// A cluster barrier: earlier writes of threads become visible to the whole cluster.
    SyncCluster,
    /// Commits a group of copies.
    CommitCopies,
    /// Waits for operations under a token, or for commit groups of this thread's copies.
    Wait {
        /// The token.
        token: Option<Id>,
        /// How many of the last operations under it, or of the last groups, may remain in flight.
        but: u32,
    },
    /// A barrier of all threads of the group.
    Sync,
    /// A loop over `from..to` of its variable.
    For {
        /// The variable.
        var: Id,
        /// Unrolling.
        unroll: Unroll,
        /// The stages of a software-pipelined loop, whose copies from global to shared memory run some stages ahead: in
        /// each iteration, the shared tensors contain the tiles that its own copies fetch. Waits and barriers for the
        /// copies are not part of the body. See the pass `pipeline`, which lowers it.
        ahead: Option<Ahead>,
        /// The body of an iteration.
        body: Vec<Stmt>,
    },
    /// Leaves an enclosing loop in the threads where a condition is true.
    Leave {
        /// The loop's variable.
        of: Id,
        /// The condition.
        test: Test,
    },
    /// An annotation without code: `acc` accumulates products of `a` and `b`, whole tiles that instructions
    /// multiply. Coordinates and edges of elements are propagated through it as through a product by
    /// multiply-adds.
    Flow {
        /// Rows of the sums, and K.
        a: View,
        /// Columns of the sums, and K.
        b: View,
        /// The sums.
        acc: View,
    },
    /// An annotation without code: until the ring advances, `to`, a slot of it, contains the elements that another
    /// group has copied from `from`, and zeros for out-of-bounds elements.
    Contents {
        /// The elements.
        from: View,
        /// The slot.
        to: View,
    },
    /// One iteration of a loop by itself, peeled.
    Step {
        /// The variable.
        var: Id,
        /// Its value, which is not negative.
        at: Affine,
        /// How an out-of-range iteration, at the variable's extent or above, is handled.
        past: Past,
        /// The body.
        body: Vec<Stmt>,
    },
    /// A condition. If it differs between threads, no statement inside waits for other
    /// threads.
    If {
        /// The condition.
        test: Test,
        /// Where it is true.
        then: Vec<Stmt>,
        /// Where it is false.
        other: Vec<Stmt>,
    },
    /// Warp specialisation: groups that do different things at the same time.
    Roles(Vec<(Id, Vec<Stmt>)>),
    /// The producer waits until the ring's next slot is free.
    Acquire {
        /// The ring.
        ring: Id,
        /// The phase: the count of slots taken so far.
        phase: Affine,
    },
    /// The producer arrives: this thread's part of the slot is filled. With bytes, the slot is full once
    /// the bytes have arrived.
    Publish {
        /// The ring.
        ring: Id,
        /// See [`Op::Acquire`].
        phase: Affine,
        /// Transaction bytes of bulk copies.
        bytes: Option<u32>,
    },
    /// The consumer waits until the ring's next slot is full.
    Await {
        /// The ring.
        ring: Id,
        /// See [`Op::Acquire`].
        phase: Affine,
    },
    /// The consumer releases the slot.
    Release {
        /// The ring.
        ring: Id,
        /// See [`Op::Acquire`].
        phase: Affine,
    },
    /// The group advances past the ring's current slot: its phase, [`Coord::Phase`], is the next from here
    /// on.
    ///
    /// [`Coord::Phase`]: crate::values::affine::Coord::Phase
    Advance {
        /// The ring.
        ring: Id,
    },
    /// The tile scheduler of a persistent kernel: tiles are distributed over its clusters, and the body runs
    /// for each tile of a block. A family's members take the block's tiles in a cyclic order; rings that
    /// they fill or empty skip the slots of other members' tiles.
    Tiles {
        /// One variable for each mode of the tile grid.
        vars: Vec<Id>,
        /// The raster order.
        raster: Raster,
        /// In how many parts the tiles of a last wave that is not full are divided; 0 if they are not. The last variable numbers
        /// the parts; a whole tile has this number.
        divided: u32,
        /// The body for a tile.
        body: Vec<Stmt>,
    },
    /// Groups alternate at the body, in a cyclic order: the first, the second, …, and the first again when
    /// the last is done.
    Ordered {
        /// The number of the order: statements with the same number continue one another.
        order: Id,
        /// The groups, in the order of their warps. A family stands for its members.
        groups: Vec<Id>,
        /// The body of each.
        body: Vec<Stmt>,
    },
}

impl Op {
    /// Fills elements with one value.
    pub fn fill(to: View, value: Expr) -> Op {
        Op::Map { ins: Vec::new(), to, value }
    }

    /// The elements that it fills with one value, and that value.
    pub fn filled(&self) -> Option<(&View, &Expr)> {
        match self {
            Op::Map { ins, to, value } if ins.is_empty() => {
                (!value.any(&|part| matches!(part, Expr::At(_)))).then_some((to, value))
            }
            _ => None,
        }
    }
}
