//! Operations on scalars, and atomic updates of memory.

use crate::values::elem::Elem;
use crate::values::number::{self, Number};

/// Functions of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Un {
    Neg,
    Abs,
    Exp,
    Exp2,
    Log,
    Log2,
    Recip,
    Sqrt,
    Rsqrt,
    Tanh,
    Sin,
    Cos,
    Erf,
    /// The number times the normal distribution at it.
    Gelu,
    Floor,
    Ceil,
    Trunc,
    /// To the nearest integer, halves away from zero.
    Round,
    /// To the nearest integer, halves to the even one.
    RoundEven,
    /// Population count, in all bits of the type.
    CountOnes,
    /// Leading zeros.
    LeadingZeros,
    /// The number itself, in a separate register: constraints on one register, such as being adjacent to others of a vector
    /// store, do not constrain the other.
    Apart,
    Not,
    /// By few instructions, with a larger error.
    Fast(Fast),
}

/// Functions that a device computes by few instructions, in `f32`; the reference of the language states their errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Fast {
    Exp,
    Log,
    Log2,
    Sqrt,
    Rsqrt,
    Tanh,
    Sin,
    Cos,
}

impl Fast {
    /// The function that it approximates.
    pub fn exact(self) -> Un {
        match self {
            Fast::Exp => Un::Exp,
            Fast::Log => Un::Log,
            Fast::Log2 => Un::Log2,
            Fast::Sqrt => Un::Sqrt,
            Fast::Rsqrt => Un::Rsqrt,
            Fast::Tanh => Un::Tanh,
            Fast::Sin => Un::Sin,
            Fast::Cos => Un::Cos,
        }
    }
}

/// Functions of two values.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Bin {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Pow,
    /// The magnitude of the first with the sign of the second.
    CopySign,
    /// The upper half of a product of integers of 4 bytes.
    MulHigh,
    /// A quotient by few instructions, in `f32`, with a larger error; 0 for divisors above 2¹²⁶.
    FastDiv,
}

impl Bin {
    /// The identity element, for operations that combine elements in any order. For minimum and maximum: the limits
    /// of an integer type, infinities of a floating-point type.
    pub fn identity(self, elem: Elem) -> Option<Number> {
        let (least, most) = match elem.is_float() {
            true => (Number::Float(f64::NEG_INFINITY), Number::Float(f64::INFINITY)),
            false => {
                let (least, most) = number::range(elem);
                (Number::Int(least), Number::Int(most))
            }
        };
        let of = |n: i64| if elem.is_float() { Number::Float(n as f64) } else { Number::Int(n.into()) };
        match self {
            Bin::Add | Bin::Or | Bin::Xor => Some(of(0)),
            Bin::Mul => Some(of(1)),
            Bin::Max => Some(least),
            Bin::Min => Some(most),
            Bin::And if elem.is_signed() => Some(of(-1)),
            Bin::And => Some(most),
            Bin::Sub | Bin::Div | Bin::Rem | Bin::Shl | Bin::Shr => None,
            Bin::Pow | Bin::CopySign | Bin::MulHigh | Bin::FastDiv => None,
        }
    }

    /// The name of a reduction by this operation in the language, if it has one.
    pub fn reduction_name(self) -> Option<&'static str> {
        match self {
            Bin::Add => Some("sum"),
            Bin::Min => Some("minimum"),
            Bin::Max => Some("maximum"),
            _ => None,
        }
    }
}

/// How an atomic update changes an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Change {
    Add,
    Sub,
    Min,
    Max,
    And,
    Or,
    Xor,
    /// Exchanges: the new value replaces the old one.
    Exchange,
    /// The new value replaces the old one if the old one is the expected value.
    CompareExchange,
    /// Waits until the element is at least the given one, and leaves it as it is.
    Await,
}

impl Change {
    /// Those that change elements, by the names that kernels use.
    pub const ALL: [(&'static str, Change); 9] = [
        ("add", Change::Add),
        ("sub", Change::Sub),
        ("min", Change::Min),
        ("max", Change::Max),
        ("and", Change::And),
        ("or", Change::Or),
        ("xor", Change::Xor),
        ("exchange", Change::Exchange),
        ("compare_exchange", Change::CompareExchange),
    ];

    /// The function of the old value and the given one; `None` for an exchange or a wait.
    pub fn function(self) -> Option<Bin> {
        Some(match self {
            Change::Add => Bin::Add,
            Change::Sub => Bin::Sub,
            Change::Min => Bin::Min,
            Change::Max => Bin::Max,
            Change::And => Bin::And,
            Change::Or => Bin::Or,
            Change::Xor => Bin::Xor,
            Change::Exchange | Change::CompareExchange | Change::Await => return None,
        })
    }

    /// Does hardware support this atomic on this type?
    pub fn changes(self, elem: Elem) -> bool {
        let int = elem.is_word();
        match self {
            Change::Add | Change::Sub => {
                int || matches!(elem, Elem::F64 | Elem::F32 | Elem::F16 | Elem::Bf16)
            }
            Change::Min | Change::Max => int || matches!(elem, Elem::F64 | Elem::F32),
            Change::And | Change::Or | Change::Xor => int,
            Change::CompareExchange | Change::Await => int,
            Change::Exchange => int || elem == Elem::F32,
        }
    }
}

/// The memory order of an atomic update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MemoryOrder {
    /// Relaxed.
    #[default]
    Relaxed,
    /// Acquire: later accesses see all writes visible to the update that it reads from.
    Acquire,
    /// Release: earlier accesses are visible to updates that acquire it.
    Release,
    /// Acquire and release.
    Both,
}

impl MemoryOrder {
    /// All of them, by the names that kernels use.
    pub const ALL: [(&'static str, MemoryOrder); 4] = [
        ("relaxed", MemoryOrder::Relaxed),
        ("acquire", MemoryOrder::Acquire),
        ("release", MemoryOrder::Release),
        ("acq_rel", MemoryOrder::Both),
    ];

    /// Is it an acquire?
    pub fn acquires(self) -> bool {
        matches!(self, MemoryOrder::Acquire | MemoryOrder::Both)
    }

    /// Is it a release?
    pub fn releases(self) -> bool {
        matches!(self, MemoryOrder::Release | MemoryOrder::Both)
    }
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Cmp {
    Lt,
    Le,
    Eq,
    Ne,
}
