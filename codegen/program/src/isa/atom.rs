//! Instructions as data: one row for each, with all that partitioning, checks, printing and simulation need.

use std::fmt;

pub use crate::isa::family::{Done, Family};
use crate::values::elem::Elem;
use crate::values::narrow::Int4;
use crate::values::operation::Change;
use crate::values::semiring::Semiring;

/// An instruction. Code exists for kinds of operands, completion and effect, which are closed sets; a row is data.
#[derive(Debug, PartialEq)]
pub struct Atom {
    /// Its name here.
    pub name: &'static str,
    /// Oldest compute capability.
    pub arch: u32,
    /// Only on this very architecture (`sm_90a`).
    pub arch_specific: bool,
    /// Its family.
    pub family: &'static Family,
    /// Its PTX template. `$d`, `$a` … stand for operands by name: registers with their braces (`#d`: without; `#d1`:
    /// only the second), a tensor map with its coordinates, an address without brackets. The template is empty for
    /// products of one thread, which are expressions of CUDA C.
    pub ptx: &'static str,
    /// Its operands, in order.
    pub operands: &'static [Operand],
    /// Its effect.
    pub effect: Effect,
}

impl Atom {
    /// Does it access memory, or order accesses? Compilers keep accesses on their side of it.
    pub fn clobbers_memory(&self) -> bool {
        self.operands.iter().any(|operand| {
            !matches!(operand.kind, OperandKind::Frag { .. } | OperandKind::Int | OperandKind::Immediate)
        })
    }
}

/// An operand of an instruction.
#[derive(Debug, PartialEq)]
pub struct Operand {
    /// Its name.
    pub name: OperandName,
    /// Its kind.
    pub kind: OperandKind,
    /// Its element type.
    pub elem: Elem,
    /// Is it an output?
    pub writes: bool,
    /// The thread-value layout: (thread, value) to index in the operand's tile, column-major; parsed by the
    /// layout crate. Empty if the row does not fix the tile, as for bulk copies.
    pub tv: &'static str,
}

/// What an operand is to its instruction. The text of a row and its function in CUDA C name it by a letter.
///
/// ```
/// use tilewright_program::atom::OperandName;
/// assert_eq!(OperandName::Accumulate.to_string(), "s");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperandName {
    /// The source: the left operand of a product.
    A,
    /// The second source: the right operand of a product; the mbarrier of a copy.
    B,
    /// The third source.
    C,
    /// The destination: the accumulators of a product.
    D,
    /// Does a product add to its destination?
    Accumulate,
    /// Is the left operand MN-major in shared memory?
    TransposeA,
    /// Is the right operand MN-major in shared memory?
    TransposeB,
    /// A tensor map.
    Map,
    /// A number of bytes.
    Bytes,
    /// The blocks of a multicast, one bit for each.
    Mask,
    /// The rank of a block.
    Rank,
}

impl OperandName {
    const fn letter(self) -> char {
        match self {
            OperandName::A => 'a',
            OperandName::B => 'b',
            OperandName::C => 'c',
            OperandName::D => 'd',
            OperandName::Accumulate => 's',
            OperandName::TransposeA => 't',
            OperandName::TransposeB => 'u',
            OperandName::Map => 'm',
            OperandName::Bytes => 'n',
            OperandName::Mask => 'k',
            OperandName::Rank => 'r',
        }
    }
}

impl fmt::Display for OperandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.letter())
    }
}

/// The kinds of operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandKind {
    /// Registers of each thread: packed 32-bit words, or one register per element.
    Frag {
        /// Packed in 32-bit words.
        words: bool,
    },
    /// An address in shared memory, of each lane.
    SharedAddress,
    /// An address in global memory.
    GlobalAddress,
    /// A matrix descriptor.
    Descriptor,
    /// A tensor map with its coordinates; 0 for the map alone.
    TensorMap {
        /// How many coordinates.
        rank: u8,
    },
    /// An mbarrier.
    Barrier,
    /// An integer in a register.
    Int,
    /// An immediate in the text.
    Immediate,
}

/// The effect of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Copies elements from one operand to another.
    Copy,
    /// Converts elements of one operand, in registers, to the type of another.
    Convert,
    /// Converts numbers of four bits, two in each byte of one operand, to the type of another.
    Unpack(Int4),
    /// `d` is the bytes of `a` from a number of bytes on.
    FunnelShift,
    /// `d = a · b`, or `a · b + c` where there is an operand `c`, element by element, each rounded once.
    Multiply,
    /// `d = a - b`, element by element, each rounded once.
    Subtract,
    /// Combines each element of one operand atomically with an element of another.
    Reduce(Change),
    /// `d += a · b`, of this shape.
    Mma {
        /// Rows.
        m: u32,
        /// Columns.
        n: u32,
        /// K.
        k: u32,
        /// The operations that replace + and ·.
        with: Semiring,
    },
    /// A hint without a visible effect.
    Hint,
}
