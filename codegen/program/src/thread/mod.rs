//! The thread program: the imperative IR of one thread. The CUDA printer and the simulator read this
//! alone.
//!
//! Structured control flow. Everything is an index into one of the kernel's own tables; index expressions
//! live in [`Exprs`]. A collective statement names the group that must arrive at it.

mod fold;
pub mod index;
mod launch;
pub mod mention;
pub mod probe;
mod ranges;
mod stmt;
pub mod visit;
mod widths;

use tilewright_layout::{Symbol, Value};

use crate::isa::atom::Atom;
pub use crate::isa::scope::{Queue, Scope};
use crate::source::ast::Span;
use crate::thread::index::{Exprs, Ix};
use crate::values::elem::Elem;
pub use crate::values::id::Id;
use crate::values::number::Number;
pub use crate::values::operation::{Bin, Change, Cmp, Fast, MemoryOrder, Un};
use crate::values::semiring::Semiring;
pub use launch::{Cost, Fact, Launch};
pub use ranges::Interval;
pub use stmt::{AtomArg, Claim, Fence, Op, Role, Stmt, Unroll};
pub use widths::TooNarrow;

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
    /// The parameters that the host passes, in order.
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
    /// The body.
    pub body: Vec<Stmt>,
}

impl Kernel {
    /// The type of a value.
    pub fn type_of(&self, value: &Val) -> Elem {
        match value {
            Val::Reg(reg, _) => self.regs[*reg as usize].elem,
            Val::Lit(_, elem) | Val::Int(_, elem) | Val::Cast(elem, _) | Val::Bits(elem, _) => *elem,
            Val::Param(id) => match &self.params[*id as usize] {
                Param::Scalar { elem, .. } | Param::Pointer { elem, .. } | Param::Workspace { elem, .. } => {
                    *elem
                }
                Param::Int { .. } | Param::TensorMap { .. } => Elem::I32,
            },
            Val::Un(_, x) | Val::Bin(_, x, _) | Val::Shuffle(x, _) | Val::Vote(Vote::All(_), x) => {
                self.type_of(x)
            }
            Val::Vote(Vote::Ballot | Vote::Match, _) => Elem::U32,
            Val::Ptx { elem, .. } => *elem,
            Val::Fma(of) | Val::Product(_, of) => self.type_of(&of[2]),
            Val::Pick(of) => self.type_of(&of[1]),
            Val::Cmp(..) => Elem::I32,
        }
    }
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
        /// The extent or the stride.
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
    /// The address of memory that belongs to the launch. Its elements are contiguous, the first mode innermost.
    Workspace {
        /// Its name.
        name: String,
        /// Type of its elements.
        elem: Elem,
        /// Extents.
        shape: Vec<Value>,
        /// Are its elements 0 at launch? They are 0 again when the kernel ends.
        zeroed: bool,
    },
    /// A tensor map for bulk copies, made by the host.
    TensorMap {
        /// Its name.
        name: String,
        /// The pointer parameter that it describes.
        tensor: Id,
        /// Extents of the box, innermost first.
        tile: Vec<u32>,
        /// How far apart the box's elements are along each mode.
        steps: Vec<u32>,
        /// Modes of the tensor, innermost first.
        modes: Vec<u8>,
        /// Bytes of the hardware's swizzle: 0, 32, 64 or 128.
        swizzle: u32,
    },
}

impl Param {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Param::Pointer { name, .. }
            | Param::Int { name, .. }
            | Param::Scalar { name, .. }
            | Param::Workspace { name, .. }
            | Param::TensorMap { name, .. } => name,
        }
    }

    /// The mode of a tensor along which elements are adjacent.
    pub(crate) fn contiguous(&self) -> Option<usize> {
        let Param::Pointer { stride, .. } = self else { return None };
        stride.iter().position(|stride| *stride == Value::Int(1))
    }
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
    /// Its contents, for the comment: `128x8, (128,8):(1,129)`.
    pub note: String,
}

impl Shared {
    /// Bytes that it takes.
    pub fn bytes(&self) -> u32 {
        self.elem.bytes_of(self.len)
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
            true => self.elem.bytes_of(self.len).div_ceil(4),
            false => self.len * self.elem.bits().div_ceil(32),
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
    /// A cluster barrier before the first exchange between blocks: all blocks run, and see each other's mbarriers. It
    /// orders no other accesses, for which it would have to wait.
    ClusterStart,
    /// Mbarriers in shared memory, one for each slot of a ring.
    Mbarriers {
        /// Its name.
        name: String,
        /// Where they begin in shared memory.
        offset: u32,
        /// How many.
        slots: u32,
        /// The name of that number, if it has one.
        slots_name: Option<String>,
        /// Arrivals that complete a phase.
        count: u32,
        /// The scope whose ordinary loads and stores it orders. [`Scope::Cluster`] needs a fence at every
        /// arrival from another block. [`Scope::Block`] suffices if other blocks access the data only by
        /// asynchronous copies and products.
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
    /// The shared array that it is an offset in.
    pub array: Option<Id>,
}

/// The origin of a statement, for faults, comments and reports.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Site {
    /// The tensor, if it touches one.
    pub tensor: String,
    /// The span in the user's text.
    pub span: Span,
    /// Coordinates in the user's tensor, one for each mode.
    pub coord: Vec<Ix>,
}

/// An address in memory, in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Mem {
    /// The memory space.
    pub space: Space,
    /// The index of the element.
    pub index: Ix,
    /// The cluster rank of the peer whose shared memory is accessed; the own block's without.
    pub peer: Option<Ix>,
}

/// The memory space.
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

/// What a lane gets of the values of all lanes of its warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// A bit for each lane where the value is not 0: a `u32`.
    Ballot,
    /// A bit for each lane that has the same bits: a `u32`.
    Match,
    /// The sum, minimum or maximum of integers of 4 bytes.
    All(Bin),
}

/// The lane whose value a shuffle takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Lane {
    /// This lane's number XOR an integer.
    Xor(Ix),
    /// In groups of this number of neighbouring lanes, the lane whose number in its group is the value, an `i32`,
    /// modulo the size of the group.
    InGroup(u32, Box<Val>),
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
    /// A comparison: 1 or 0.
    Cmp(Cmp, Box<Val>, Box<Val>),
    /// Where the first is not 0 the second, elsewhere the third.
    Pick(Box<[Val; 3]>),
    /// The value of another lane.
    Shuffle(Box<Val>, Lane),
    /// A function of the values of all lanes of the warp.
    Vote(Vote, Box<Val>),
    /// Instructions of PTX, where `%0` is the result and `%1` and so on are the operands, and their model.
    Ptx {
        /// The instructions.
        text: String,
        /// The type of the result.
        elem: Elem,
        /// May two executions with the same operands differ?
        volatile: bool,
        /// The operands.
        args: Vec<Val>,
        /// The model, which the simulator computes instead.
        model: Option<Box<Val>>,
    },
}

impl From<Ix> for Val {
    /// An `i32`.
    fn from(at: Ix) -> Val {
        Val::Int(at, Elem::I32)
    }
}

impl Val {
    /// The sum that a product of one thread makes of `a`, `b` and `d`.
    pub fn sum_of(row: &Atom, [a, b, d]: [Val; 3]) -> Val {
        match row.semiring() {
            Semiring::SUMS => Val::Fma(Box::new([a, b, d])),
            Semiring { add, mul } => {
                Val::Bin(add, Box::new(d), Box::new(Val::Bin(mul, Box::new(a), Box::new(b))))
            }
        }
    }

    /// Is it always 1 or 0?
    pub fn is_truth(&self) -> bool {
        match self {
            Val::Cmp(..) => true,
            Val::Un(Un::Not, x) => x.is_truth(),
            Val::Bin(Bin::And | Bin::Or | Bin::Xor, x, y) => x.is_truth() && y.is_truth(),
            Val::Pick(of) => of[1].is_truth() && of[2].is_truth(),
            _ => false,
        }
    }

    /// The first value where a guard is true, elsewhere the second.
    pub fn guarded(guard: Ix, inside: Val, outside: Val) -> Val {
        Val::Pick(Box::new([guard.into(), inside, outside]))
    }

    /// The value of the lane whose number is this lane's XOR an integer.
    pub fn butterfly(self, distance: Ix) -> Val {
        Val::Shuffle(Box::new(self), Lane::Xor(distance))
    }

    /// A literal of a type.
    ///
    /// ```
    /// use tilewright_program::{Elem, number::Number, thread::Val};
    /// assert_eq!(Val::lit(-1, Elem::I32), Val::Lit(Number::Int(-1), Elem::I32));
    /// ```
    pub fn lit(number: impl Into<Number>, elem: Elem) -> Val {
        Val::Lit(number.into(), elem)
    }
}
