//! Statements of thread programs.

use super::probe::Probe;
use super::{Change, Frag, Id, Mem, MemoryOrder, Queue, Scope, Val};
use crate::isa::atom::Atom;
use crate::thread::index::Ix;
use crate::values::number::Number;

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Where it comes from.
    pub site: Id,
    /// The operation.
    pub op: Op,
}

/// The operation of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A line for the reader.
    Comment(String),
    /// Names an integer.
    Let(Id, Ix),
    /// Changes a named integer.
    Set(Id, Ix),
    /// Names a value, rounded to an integer.
    Take(Id, Val),
    /// Sets one element of a register array.
    Assign {
        /// The array.
        reg: Id,
        /// The element.
        at: Ix,
        /// The value.
        value: Val,
    },
    /// A vector load of `to.len` elements; `fill` where the guard fails.
    Load {
        /// The destination.
        to: Frag,
        /// The source.
        from: Mem,
        /// The guard.
        guard: Option<Ix>,
        /// The value where the guard fails.
        fill: Number,
        /// A volatile load, which the compiler cannot reorder with others of its kind or sink. The value is
        /// the loop-invariant term of its index while loops are unrolled.
        volatile_at: Option<Ix>,
    },
    /// A vector store of `from.len` elements; none if the guard fails.
    Store {
        /// The destination.
        to: Mem,
        /// The source.
        from: Frag,
        /// The guard.
        guard: Option<Ix>,
    },
    /// Updates one element of memory atomically, or waits for it.
    Atomic {
        /// The element.
        to: Mem,
        /// The operation.
        op: Change,
        /// The operand.
        value: Val,
        /// The guard.
        guard: Option<Ix>,
        /// Its memory order.
        order: MemoryOrder,
        /// Its scope: the block, or the whole device.
        scope: Scope,
        /// The destination of the old value.
        old: Option<Frag>,
        /// The expected value of a [`Change::CompareExchange`].
        expected: Option<Val>,
    },
    /// An instruction of the table.
    Atom {
        /// The row.
        row: &'static Atom,
        /// Its operands, in the row's order.
        args: Vec<AtomArg>,
        /// The guard, uniform in the row's group.
        guard: Option<Ix>,
    },
    /// Commits a group of asynchronous operations.
    Commit(Queue),
    /// Waits until at most `pending` groups are in flight.
    WaitQueue {
        /// The queue.
        queue: Queue,
        /// How many may remain in flight.
        pending: u32,
    },
    /// A memory fence.
    Fence(Fence),
    /// A compiler fence for a register array of asynchronous products: uses of it stay on their side. The array may be
    /// declared later.
    Pin(Id),
    /// The author's claim about an element. It is not printed; the simulator checks it.
    Claim(Claim),
    /// Shows values of a running kernel. It is printed if the kernel is instrumented; the simulator always executes it.
    Probe {
        /// What it is about.
        probe: Probe,
        /// The value, its coordinates, and integers; of type `i64`, or `f64` for a floating-point value.
        values: Vec<Val>,
        /// The guard.
        guard: Option<Ix>,
    },
    /// Arrives at a barrier of threads and waits for it.
    Sync {
        /// The barrier; in a family the first member's, which the others' follow.
        bar: Id,
        /// The member, in a family.
        member: Option<Ix>,
    },
    /// Arrives at an mbarrier; with `bytes`, expects this number of transaction bytes of bulk copies.
    Arrive {
        /// The mbarriers.
        bar: Id,
        /// The index of the mbarrier.
        slot: Ix,
        /// A peer of the cluster whose mbarrier is meant.
        peer: Option<Ix>,
        /// Expected transaction bytes.
        bytes: Option<u32>,
    },
    /// Waits for a phase of an mbarrier. `phase` counts phases; hardware sees its parity, the lowest bit.
    Await {
        /// The mbarriers.
        bar: Id,
        /// The index of the mbarrier.
        slot: Ix,
        /// The phase.
        phase: Ix,
    },
    /// With programmatic dependent launch: waits until the previous kernel in the stream has ended and its writes are visible.
    /// Every thread executes it before it accesses global memory.
    AwaitPrevious,
    /// With programmatic dependent launch: lets blocks of the next kernel start where there is room for them.
    StartNext,
    /// Initialises mbarriers. It is inside of [`Op::Elect`] of the block; a fence and a barrier follow.
    InitBarriers(Id),
    /// A loop from `from` up to `to`.
    For {
        /// The variable.
        var: Id,
        /// First value.
        from: Ix,
        /// One past the last.
        to: Ix,
        /// Step.
        step: i64,
        /// Unrolling.
        unroll: Unroll,
        /// Statements.
        body: Vec<Stmt>,
    },
    /// Leaves an enclosing loop in the threads where the condition is true.
    Leave {
        /// The loop's variable.
        of: Id,
        /// The condition: not 0 where it is true.
        cond: Ix,
    },
    /// A condition.
    If {
        /// Not 0 where it is true.
        cond: Val,
        /// Where it is true.
        then: Vec<Stmt>,
        /// Where it is false.
        other: Vec<Stmt>,
    },
    /// Warp specialisation: disjoint ranges of warps with different bodies, as one chain of branches.
    Roles(Vec<Role>),
    /// Elects one thread of each group of this size; of the block means, inside a role, one thread of the
    /// role.
    Elect(Scope, Vec<Stmt>),
}

impl Op {
    /// A barrier of all its threads.
    pub fn sync(bar: Id) -> Op {
        Op::Sync { bar, member: None }
    }
}

/// A claim of the author: an element that is out of bounds is this number.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The element.
    pub value: Val,
    /// Not 0 where it is in bounds.
    pub inside: Ix,
    /// The value for other elements.
    pub number: Number,
    /// Its coordinates.
    pub at: Vec<Ix>,
    /// It is the index of a gather or a scatter, and no author has claimed anything: only strict runs check it.
    pub strict: bool,
}

/// The body of some warps.
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// First warp, and one past the last.
    pub warps: (u32, u32),
    /// The register count that its threads request (setmaxnreg).
    pub registers: Option<u32>,
    /// The body.
    pub body: Vec<Stmt>,
}

/// Unrolling of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroll {
    /// Not unrolled: `#pragma unroll 1`.
    No,
    /// By a factor.
    By(u32),
    /// Fully, because register indices depend on the variable.
    Full,
}

/// Fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Proxy fence: ordinary accesses to shared memory before asynchronous ones.
    ProxyAsync,
    /// mbarrier_init fence: initialised mbarriers before their use by others.
    MbarrierInit,
    /// Registers before an asynchronous matrix product reads or writes them.
    Products,
    /// A memory fence at the scope of a group of threads.
    Threads(Scope),
}

/// An operand of an atom.
#[derive(Clone, Debug, PartialEq)]
pub enum AtomArg {
    /// Registers.
    Frag(Frag),
    /// An address.
    At(Mem),
    /// A matrix descriptor in shared memory.
    Descriptor {
        /// Where it begins.
        at: Mem,
        /// Leading byte offset.
        leading: u32,
        /// Stride byte offset.
        stride: u32,
        /// The layout field: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes.
        mode: u8,
    },
    /// A tensor map and coordinates, innermost first.
    Map {
        /// The parameter.
        param: Id,
        /// Coordinates.
        at: Vec<Ix>,
    },
    /// An mbarrier.
    Barrier {
        /// The mbarriers.
        bar: Id,
        /// The index of the mbarrier.
        slot: Ix,
    },
    /// An integer.
    Int(Ix),
}
