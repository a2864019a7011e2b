//! The thread program: the imperative IR of one thread. The CUDA printer and the simulator read this and
//! nothing else.
//!
//! Structured control flow. Everything is an index into one of the kernel's own tables; index expressions
//! live in [`Exprs`]. A collective statement names the group that must arrive at it.

mod operation;

use tilewright_layout::{Obligation, Symbol, Value};

use crate::ast::Span;
use crate::atom::Atom;
use crate::elem::Elem;
use crate::index::{Exprs, Ix};
use crate::number::Number;
use crate::target::{REGISTERS, Target};
pub use operation::{Bin, Change, Cmp, MemoryOrder, Un};

/// Which row of a table.
pub type Id = u32;

/// One variant of a kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The entry's name.
    pub name: String,
    /// Oldest compute capability that it runs on, such as 80 or 90.
    pub arch: u32,
    /// Does it need the architecture's own features (`sm_90a`)?
    pub arch_specific: bool,
    /// Grid and block.
    pub launch: Launch,
    /// The facts that this variant assumes; launch checks them.
    pub needs: Vec<Fact>,
    /// What the host passes, in order.
    pub params: Vec<Param>,
    /// Arrays in shared memory.
    pub shared: Vec<Shared>,
    /// Arrays in registers.
    pub regs: Vec<Reg>,
    /// Barriers.
    pub bars: Vec<Bar>,
    /// Index expressions.
    pub exprs: Exprs,
    /// Named integers.
    pub vars: Vec<Var>,
    /// Where statements come from.
    pub sites: Vec<Site>,
    /// What is done.
    pub body: Vec<Stmt>,
}

/// How it is launched. Each axis of the grid is a product.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Blocks along x, y, z.
    pub grid: [Vec<Value>; 3],
    /// A persistent kernel: as many clusters, along x, as are resident on the device at once, but no more
    /// than there are tiles. The axes of `grid` count tiles then, one for a cluster.
    pub persistent: bool,
    /// Blocks of a cluster along x, y, z.
    pub cluster: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory.
    pub shared_bytes: u32,
    /// Blocks that should be resident on a multiprocessor at once (`__launch_bounds__`); 0 leaves it to the
    /// compiler.
    pub blocks_per_sm: u32,
    /// Programmatic dependent launch: may it start before the previous kernel in the stream has ended? Every
    /// thread then waits for that end before it touches memory, and lets the next kernel start. For kernels
    /// of which few blocks fit a multiprocessor: waiting blocks of small kernels would fill the free places
    /// and then run there. From compute capability 9.0; older devices, and launches without the driver's
    /// attribute, run one kernel after the other. The simulator runs one launch at a time, for which it makes
    /// no difference.
    pub overlaps: bool,
    /// The cost model; of several variants that fit a launch and have one, the fastest is chosen.
    pub cost: Option<Cost>,
    /// Arguments of which it may read a copy with aligned rows, made by a launch before it where its facts do
    /// not hold of the argument.
    pub packs: Vec<Id>,
}

/// The cost model of a persistent kernel, in clocks of a tile: a launch multiplies it by the tiles of the
/// busiest block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Iterations of a tile's main loop.
    pub steps: Value,
    /// Clocks of an iteration.
    pub step: u32,
    /// Clocks of an iteration that another block hides where a multiprocessor has shared memory for two.
    pub shared: u32,
    /// Further clocks of an iteration where rows of an argument begin in the middle of a sector of 32 bytes.
    pub cut: u32,
    /// Further clocks of an iteration for each row and column of an edge tile that is out of bounds.
    pub beyond: u32,
    /// Rows of 128 bytes that a block copies in bulk in an iteration, which may take longer than its products, most of all
    /// where they begin in the middle of a line of the L2 cache. 0 where `step` has the copies.
    pub rows: u32,
    /// Further clocks of a tile.
    pub tile: u32,
    /// Further clocks of a launch.
    pub launch: u32,
}

impl Kernel {
    /// The minimum blocks of `__launch_bounds__`: how many blocks fit a multiprocessor if each thread gets
    /// the registers of its arrays and of so many addresses. The compiler schedules for that many. 0 leaves
    /// it to the compiler: where arrays are small, and where roles redistribute registers themselves
    /// (setmaxnreg).
    pub(crate) fn resident(&self, addresses: u32) -> u32 {
        const SMALL: u32 = 64;
        // The compiler is never limited to fewer registers than this.
        const LEAST: u32 = 128;
        const MOST_BLOCKS: u32 = 16;
        // Launch bounds are part of the source, which is the same for all targets.
        let shared = Target::of(90).block_shared;
        let arrays = self.regs.iter().map(Reg::registers).fold(0, u32::saturating_add);
        let each = arrays.saturating_add(addresses).clamp(LEAST, REGISTERS).next_multiple_of(8);
        let specialised = self.body.iter().any(|stmt| matches!(stmt.op, Op::Roles(_)));
        let blocks = REGISTERS / each.saturating_mul(self.launch.threads).max(1);
        let blocks = blocks.min(shared / self.launch.shared_bytes.max(1));
        if specialised || arrays < SMALL { 0 } else { blocks.clamp(1, MOST_BLOCKS) }
    }
}

/// A fact that the host checks before it launches a variant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// A size or stride is a multiple.
    Divides(Obligation),
    /// A size is no larger. All variants need it: a launch where it does not hold is refused.
    AtMost {
        /// The size.
        of: Value,
        /// The largest.
        limit: i64,
    },
    /// The address of a tensor is a multiple of so many bytes.
    Aligned {
        /// The parameter.
        param: Id,
        /// The bytes.
        bytes: u32,
    },
    /// Every offset into a tensor fits 32 bits, out-of-bounds offsets of whole tiles included.
    Small {
        /// The parameter.
        param: Id,
        /// How far beyond its extent each mode is accessed.
        beyond: Vec<u32>,
    },
}

/// A parameter that the host passes.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    /// The address of a tensor.
    Pointer {
        /// Its name.
        name: String,
        /// Type of its elements.
        elem: Elem,
        /// Does the kernel write it?
        write: bool,
        /// Extents and strides, one leaf for each mode.
        shape: Vec<Value>,
        /// See `shape`.
        stride: Vec<Value>,
    },
    /// An extent or a stride.
    Int {
        /// Its name.
        name: String,
        /// What it is.
        symbol: Symbol,
        /// Passed with 64 bits.
        wide: bool,
    },
    /// A number.
    Scalar {
        /// Its name.
        name: String,
        /// Its type.
        elem: Elem,
    },
    /// A tensor map for bulk copies, made by the host.
    TensorMap {
        /// Its name.
        name: String,
        /// The pointer parameter that it describes.
        tensor: Id,
        /// Extents of the box, innermost first.
        tile: Vec<u32>,
        /// Modes of the tensor, innermost first.
        modes: Vec<u8>,
        /// Bytes of the hardware's swizzle: 0, 32, 64 or 128.
        swizzle: u32,
    },
}

/// An array in shared memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// Its name.
    pub name: String,
    /// Type of its elements.
    pub elem: Elem,
    /// How many elements.
    pub len: u32,
    /// Where it begins in the block's shared memory.
    pub offset: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// What it holds, for the comment: `128x8, (128,8):(1,129)`.
    pub note: String,
}

impl Shared {
    /// Bytes that it takes.
    pub fn bytes(&self) -> u32 {
        self.len * self.elem.bytes()
    }
}

/// An array in registers. Every index into it is constant once loops marked [`Unroll::Full`] are unrolled.
#[derive(Clone, Debug, PartialEq)]
pub struct Reg {
    /// Its name.
    pub name: String,
    /// Type of its elements.
    pub elem: Elem,
    /// How many elements.
    pub len: u32,
    /// Stored as 32-bit words that pack several narrow elements, as atoms take them.
    pub words: bool,
}

impl Reg {
    /// How many registers of 32 bits a thread needs for it.
    pub fn registers(&self) -> u32 {
        match self.words {
            true => (self.len * self.elem.bytes()).div_ceil(4),
            false => self.len * self.elem.bytes().div_ceil(4),
        }
    }
}

/// A barrier.
#[derive(Clone, Debug, PartialEq)]
pub enum Bar {
    /// All threads of the block.
    Block,
    /// Some warps of the block.
    Named {
        /// The hardware's number.
        id: u8,
        /// How many threads arrive.
        threads: u32,
    },
    /// All threads of the cluster.
    Cluster,
    /// Mbarriers in shared memory, one for each slot of a ring.
    Mbarriers {
        /// Its name.
        name: String,
        /// Where they begin in shared memory.
        offset: u32,
        /// How many.
        slots: u32,
        /// Arrivals that complete a phase.
        count: u32,
        /// The scope whose ordinary loads and stores it orders: [`Scope::Cluster`], at the price of a fence
        /// at every arrival from another block; [`Scope::Block`] suffices where other blocks access the data
        /// by asynchronous copies and products alone.
        scope: Scope,
    },
}

/// A named integer.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    /// Its name.
    pub name: String,
    /// Is it changed by [`Op::Set`]?
    pub mutable: bool,
    /// Does it need 64 bits?
    pub wide: bool,
}

/// The origin of a statement, for faults, comments and reports.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Site {
    /// The tensor, if it touches one.
    pub tensor: String,
    /// The place in the user's text.
    pub span: Span,
    /// Coordinates in the user's tensor, one for each mode.
    pub coord: Vec<Ix>,
}

/// Largest group of threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[allow(missing_docs)]
pub enum Scope {
    Thread,
    Warp,
    Warpgroup,
    Block,
    Cluster,
    Grid,
}

/// A place in memory, in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Mem {
    /// Which memory.
    pub space: Space,
    /// Which element.
    pub index: Ix,
    /// The cluster rank of the peer whose shared memory is accessed; the own block's without.
    pub peer: Option<Ix>,
}

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// A pointer parameter.
    Global(Id),
    /// A shared array.
    Shared(Id),
}

/// Consecutive elements of a register array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frag {
    /// The array.
    pub reg: Id,
    /// The first element.
    pub at: Ix,
    /// How many.
    pub len: u32,
}

/// A value of one element.
#[derive(Clone, Debug, PartialEq)]
pub enum Val {
    /// An element of a register array.
    Reg(Id, Ix),
    /// A literal of a type.
    Lit(Number, Elem),
    /// An integer expression as a value.
    Int(Ix, Elem),
    /// A scalar parameter.
    Param(Id),
    /// A function of one value.
    Un(Un, Box<Val>),
    /// A function of two values.
    Bin(Bin, Box<Val>, Box<Val>),
    /// `a * b + c`, rounded once where the type is a floating-point one.
    Fma(Box<[Val; 3]>),
    /// `a · b + d` by a row of the table that one thread executes.
    Product(&'static Atom, Box<[Val; 3]>),
    /// Converted to a type. To a floating-point type: to nearest, ties to even. From one to an integer: towards zero,
    /// saturated, not-a-number to 0, as Rust's `as`. Between integers: the low bits.
    Cast(Elem, Box<Val>),
    /// The bits of an element of 4 bytes, as another type of 4 bytes.
    Bits(Elem, Box<Val>),
    /// Select by a guard: where it holds the first, elsewhere the second.
    Guarded(Ix, Box<Val>, Box<Val>),
    /// A comparison: 1 or 0.
    Cmp(Cmp, Box<Val>, Box<Val>),
    /// Where the first is not 0 the second, elsewhere the third.
    Pick(Box<[Val; 3]>),
    /// A shuffle: the value of the lane whose index is this lane's XOR the expression.
    ShuffleXor(Box<Val>, Ix),
}

impl Val {
    /// A literal of a type.
    ///
    /// ```
    /// use tilewright_codegen::{Elem, number::Number, thread::Val};
    /// assert_eq!(Val::lit(-1, Elem::I32), Val::Lit(Number::Int(-1), Elem::I32));
    /// ```
    pub fn lit(number: impl Into<Number>, elem: Elem) -> Val {
        Val::Lit(number.into(), elem)
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Where it comes from.
    pub site: Id,
    /// What it does.
    pub op: Op,
}

/// What a statement does.
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
        /// Where they go.
        to: Frag,
        /// Where they are.
        from: Mem,
        /// The guard.
        guard: Option<Ix>,
        /// The value where the guard fails.
        fill: Number,
        /// A volatile load, which the compiler cannot reorder with others of its kind or sink. The value is
        /// the loop-invariant term of its index while loops are unrolled.
        stays: Option<Ix>,
    },
    /// A vector store of `from.len` elements; none where the guard fails.
    Store {
        /// Where they go.
        to: Mem,
        /// Where they are.
        from: Frag,
        /// The guard.
        guard: Option<Ix>,
    },
    /// Updates one element of memory atomically.
    Atomic {
        /// Where.
        to: Mem,
        /// How it is changed.
        op: Change,
        /// By what.
        value: Val,
        /// The guard.
        guard: Option<Ix>,
        /// Its memory order.
        order: MemoryOrder,
        /// Its scope: the block, or the whole device.
        scope: Scope,
        /// The destination of the old value.
        old: Option<Frag>,
    },
    /// Acquires a flag: waits until an `i32` in global memory that others update atomically has reached a
    /// value, and sees what its writers had written. Stands under [`Op::Elect`].
    AwaitFlag {
        /// Where.
        from: Mem,
        /// The value.
        least: Ix,
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
        /// Of this kind.
        queue: Queue,
        /// How many may remain in flight.
        pending: u32,
    },
    /// A memory fence.
    Fence(Fence),
    /// Arrives at a barrier of threads and waits for it.
    Sync(Id),
    /// Arrives at an mbarrier; with `bytes`, expects so many transaction bytes of bulk copies.
    Arrive {
        /// The mbarriers.
        bar: Id,
        /// Which of them.
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
        /// Which of them.
        slot: Ix,
        /// Which phase.
        phase: Ix,
    },
    /// Initialises mbarriers. Stands under [`Op::Elect`] of the block; a fence and a barrier follow.
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
    /// Leaves an enclosing loop where the condition holds; uniform in all threads that run it.
    Leave {
        /// The loop's variable.
        of: Id,
        /// The condition: not 0 where it holds.
        cond: Ix,
    },
    /// A condition.
    If {
        /// Not 0 where it holds.
        cond: Ix,
        /// Where it holds.
        then: Vec<Stmt>,
        /// Where it does not.
        other: Vec<Stmt>,
    },
    /// A condition on a value that is uniform in the grid: scalar arguments.
    When {
        /// Not 0 where it holds.
        cond: Val,
        /// Where it holds.
        then: Vec<Stmt>,
        /// Where it does not.
        other: Vec<Stmt>,
    },
    /// Warp specialisation: disjoint ranges of warps with different bodies, as one chain of branches.
    Roles(Vec<Role>),
    /// Elects one thread of each group of this size; of the block means, inside a role, one thread of the
    /// role.
    Elect(Scope, Vec<Stmt>),
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
    /// What they do.
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
    /// wgmma fence: registers before an asynchronous matrix product reads or writes them.
    Wgmma,
    /// A memory fence at the scope of a group of threads.
    Threads(Scope),
}

/// Queues of asynchronous operations, waited for by commit and wait groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// cp.async commit groups of a thread.
    CpAsync,
    /// Bulk stores of a thread.
    Bulk,
    /// Bulk stores of a thread, until they have read shared memory: its array may be reused, while the result
    /// need not be in global memory yet.
    BulkRead,
    /// wgmma groups of a warpgroup.
    Wgmma,
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
        /// Which of them.
        slot: Ix,
    },
    /// An integer.
    Int(Ix),
}
