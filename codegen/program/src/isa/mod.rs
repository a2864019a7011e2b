//! The table of instructions. Each row says everything that partitioning, checks, printing and simulation need.
//!
//! A name gives the instruction, its shape, where operands are (`_ra`: `a` in registers) and their types: of both operands or
//! of each, then `_acc_` and the accumulator type where it is not the usual one ([`Elem::accumulator`]). Names of operands:
//! `d` is the destination, `a` and `b` are sources, `m` is a tensor map, `n` a number of bytes, `s` is 0 where a matrix
//! product starts from zero, `t` and `u` are 1 where `a` and `b` are transposed, `k` is a multicast mask of blocks of a
//! cluster, `r` the rank of one. The element type of a copy gives only the width of its elements.

pub mod atom;
mod cache;
mod convert;
pub mod devices;
pub mod family;
mod funnel;
mod packed;
mod product;
mod rate;
mod scalar;
pub mod scope;
mod sm80;
mod sm90;

use std::collections::HashMap;
use std::sync::LazyLock;

use tilewright_layout::{Layout, MmaAtom};

pub use family::Family;
use family::THREAD;
use sm80::{cp_async, ldmatrix, mma_sync};
pub use sm90::{REGISTER_POOL, RegisterPool};
use sm90::{st_async, tma, wgmma};

use crate::isa::atom::{Atom, Done, Effect, Operand, OperandKind, OperandName};
use crate::isa::scope::{Queue, Scope};
use crate::source::problem::{Problem, Result};
use crate::source::spelling::did_you_mean;
use crate::values::elem::Elem;
use crate::values::narrow::Int4;
use crate::values::operation::Change;
use crate::values::semiring::Semiring;

/// Bytes of a register, and the least that st.async stores.
pub const WORD: u32 = 4;

/// Handwritten rows, then rows generated from tables.
static ALL: LazyLock<Vec<&'static Atom>> = LazyLock::new(|| {
    let products = mma_sync::rows().chain(wgmma::rows()).chain(scalar::rows());
    let registers = convert::rows().chain(packed::rows()).chain(funnel::rows());
    let made: &'static [Atom] = Vec::leak(
        cp_async::rows()
            .chain(tma::rows())
            .chain(st_async::rows())
            .chain(registers)
            .chain(products)
            .collect(),
    );
    ldmatrix::ROWS.iter().chain(made).collect()
});

static BY_NAME: LazyLock<HashMap<&str, &Atom>> = LazyLock::new(|| all().map(|row| (row.name, row)).collect());

static SCALAR: LazyLock<HashMap<(Semiring, Elem), &Atom>> = LazyLock::new(|| {
    let key = |row: &'static Atom| match row.effect {
        Effect::Mma { with, .. } if row.is_scalar() => Some(((with, row.operand(OperandName::D)?.elem), row)),
        _ => None,
    };
    all().filter_map(key).collect()
});

/// Every row.
pub fn all() -> impl ExactSizeIterator<Item = &'static Atom> {
    ALL.iter().copied()
}

/// The row of this name.
///
/// ```
/// # use tilewright_program::atom::OperandName;
/// use tilewright_program::{atom::Effect, isa};
/// let row = isa::find("mma_m16n8k16_bf16").unwrap();
/// assert!(matches!(row.effect, Effect::Mma { m: 16, n: 8, k: 16, .. }));
/// assert_eq!(row.tv(OperandName::C), None); // the accumulator is `d`
/// assert_eq!(row.tv(OperandName::B).unwrap().to_string(), "((4,8),(2,2)):((16,1),(8,64))");
/// ```
pub fn find(name: &str) -> Option<&'static Atom> {
    BY_NAME.get(name).copied()
}

/// The asynchronous copy of `bytes` bytes without hints. With `zero`, the variant that fills with zeros.
pub fn cp_async(bytes: i64, zero: bool) -> Option<&'static Atom> {
    let copies = |row: &&Atom| {
        row.family.completes == Done::Queue(Queue::CpAsync)
            && row.operand(OperandName::Bytes).is_some() == zero
    };
    let moves = |row: &Atom| row.tv(OperandName::D).and_then(|of| of.size().ok()) == Some(bytes);
    // Rows without hints come first.
    all().filter(copies).find(|row| moves(row))
}

/// The same as [`find`], or an error that says which there are like it.
///
/// ```
/// use tilewright_program::isa;
/// assert_eq!(isa::named("ldmatrix_x4")?.name, "ldmatrix_x4");
/// assert_eq!(isa::named("ldmatrix_x5").unwrap_err().message, "there is no instruction `ldmatrix_x5`");
/// # Ok::<(), tilewright_program::problem::Problem>(())
/// ```
pub fn named(name: &str) -> Result<&'static Atom> {
    find(name).ok_or_else(|| {
        let problem = Problem::new(format!("there is no instruction `{name}`"));
        match did_you_mean(name, all().map(|row| row.name)) {
            Some(help) => problem.help(help),
            None => problem,
        }
    })
}

/// The row that copies boxes of tensors of a rank to shared memory, to several blocks of a cluster on request.
///
/// ```
/// use tilewright_program::isa;
/// assert_eq!(isa::bulk_load(2, false).unwrap().name, "bulk_load_2d");
/// assert_eq!(isa::bulk_load(3, true).unwrap().name, "bulk_load_3d_multicast");
/// assert_eq!(isa::bulk_load(6, false), None);
/// ```
pub fn bulk_load(rank: usize, multicast: bool) -> Option<&'static Atom> {
    // Rows with cache hints come after those without.
    let loads = |row: &&Atom| {
        row.family.completes == Done::Mbarrier && row.operand(OperandName::Mask).is_some() == multicast
    };
    all().filter(loads).find(|row| row.effect == Effect::Copy && row.maps(rank))
}

/// The row that shifts two vectors of this number of bytes in registers.
pub fn funnel_shift(bytes: i64) -> Option<&'static Atom> {
    all().find(|row| row.effect == Effect::FunnelShift && bytes == funnel::VECTOR)
}

/// The row that stores an element in the shared memory of another block of a cluster: a whole word of a narrow one.
///
/// ```
/// use tilewright_program::{Elem, isa};
/// assert_eq!(isa::st_async(Elem::Bf16).unwrap().name, "st_async_b32");
/// assert_eq!(isa::st_async(Elem::F64).unwrap().name, "st_async_b64");
/// ```
pub fn st_async(elem: Elem) -> Option<&'static Atom> {
    find(if elem.bytes() > WORD { "st_async_b64" } else { "st_async_b32" })
}

/// The row that copies boxes from shared memory to tensors of a rank.
///
/// ```
/// assert_eq!(tilewright_program::isa::bulk_store(2).unwrap().name, "bulk_store_2d");
/// ```
pub fn bulk_store(rank: usize) -> Option<&'static Atom> {
    let stores = |row: &&Atom| row.family.completes == Done::Queue(Queue::Bulk) && row.effect == Effect::Copy;
    all().filter(stores).find(|row| row.maps(rank))
}

/// The bulk store that combines each element of a tensor of this rank and type with its old value.
///
/// ```
/// use tilewright_program::{Elem, isa, thread::Change};
/// assert_eq!(isa::bulk_update(2, Change::Add, Elem::F16).unwrap().name, "bulk_add_2d");
/// assert_eq!(isa::bulk_update(2, Change::Add, Elem::F64), None);
/// ```
pub fn bulk_update(rank: usize, with: Change, elem: Elem) -> Option<&'static Atom> {
    let updates = |row: &&Atom| row.effect == Effect::Reduce(with) && tma::reduces(with, elem);
    all().filter(updates).find(|row| row.maps(rank))
}

/// The wgmma of a type and a number of columns. Its left operand is in shared memory or in registers.
///
/// ```
/// use tilewright_program::{Elem, isa};
/// assert_eq!(isa::wgmma(Elem::Bf16, 128, false).unwrap().name, "wgmma_m64n128k16_bf16");
/// assert_eq!(isa::wgmma(Elem::F16, 64, true).unwrap().name, "wgmma_m64n64k16_ra_f16");
/// assert_eq!(isa::wgmma(Elem::F16, 60, true), None);
/// ```
pub fn wgmma(elem: Elem, columns: i64, a_in_registers: bool) -> Option<&'static Atom> {
    wgmma::find(elem, columns, a_in_registers)
}

/// The ldmatrix of `matrices` matrices, all transposed or none.
///
/// ```
/// use tilewright_program::isa;
/// assert_eq!(isa::ldmatrix(2, true).unwrap().name, "ldmatrix_x2_trans");
/// assert_eq!(isa::ldmatrix(3, false), None);
/// ```
pub fn ldmatrix(matrices: i64, transposed: bool) -> Option<&'static Atom> {
    ldmatrix::ldmatrix(matrices, transposed)
}

/// The newest row that converts one type to another, several elements at once, on an architecture.
///
/// ```
/// use tilewright_program::{Elem, isa};
/// assert_eq!(isa::convert(Elem::I8, Elem::Bf16, 80).unwrap().name, "convert_i8_bf16");
/// assert_eq!(isa::convert(Elem::E4m3, Elem::Bf16, 80), None);
/// ```
pub fn convert(from: Elem, to: Elem, arch: u32) -> Option<&'static Atom> {
    let converts = |row: &&Atom| {
        row.effect == Effect::Convert
            && row.arch <= arch
            && row.has(OperandName::A, from)
            && row.has(OperandName::D, to)
    };
    all().filter(converts).max_by_key(|row| row.arch)
}

/// The row that converts numbers of four bits, two in a byte, to a type.
///
/// ```
/// use tilewright_program::{Elem, isa, narrow::Int4};
/// assert_eq!(isa::unpack(Int4::Signed, Elem::Bf16).unwrap().name, "convert_i4_bf16");
/// ```
pub fn unpack(from: Int4, elem: Elem) -> Option<&'static Atom> {
    all().find(|row| row.effect == Effect::Unpack(from) && row.has(OperandName::D, elem))
}

/// The row for multiply-adds of one thread on elements of a type, if the type has these operations.
///
/// ```
/// use tilewright_program::semiring::Semiring;
/// use tilewright_program::thread::{Bin, Scope};
/// use tilewright_program::{Elem, isa};
/// let row = isa::scalar(Semiring::SUMS, Elem::F32).unwrap();
/// assert_eq!((row.name, row.family.issued_by, row.mma().unwrap().shape), ("fma_f32", Scope::Thread, (1, 1, 1)));
/// let shortest = Semiring { add: Bin::Min, mul: Bin::Add };
/// assert_eq!(isa::scalar(shortest, Elem::I32).unwrap().name, "min_add_i32");
/// assert_eq!(isa::scalar(Semiring { add: Bin::Xor, ..shortest }, Elem::F32), None);
/// ```
pub fn scalar(with: Semiring, elem: Elem) -> Option<&'static Atom> {
    SCALAR.get(&(with, elem)).copied()
}

impl Operand {
    /// Bytes that it moves at each address.
    pub fn address_bytes(&self) -> i64 {
        let values = self.tv.parse::<Layout>().and_then(|tv| tv.mode(1)).and_then(|values| values.size());
        self.elem.bytes_of(values.unwrap_or(0))
    }
}

impl Atom {
    /// Does one thread execute it by itself, in an expression?
    pub fn is_scalar(&self) -> bool {
        self.family.issued_by == Scope::Thread && matches!(self.effect, Effect::Mma { .. })
    }

    /// The operations of a product.
    pub fn semiring(&self) -> Semiring {
        match self.effect {
            Effect::Mma { with, .. } => with,
            _ => Semiring::SUMS,
        }
    }

    /// Instructions that a multiply-add takes: one where it is fused.
    pub fn operations(&self) -> u32 {
        if self.semiring() == Semiring::SUMS { 1 } else { 2 }
    }

    /// Multiply-adds of a thread: its share of a matrix product's.
    pub fn multiply_adds(&self) -> f64 {
        let threads = self.family.issued_by.threads().unwrap_or(1);
        match self.effect {
            Effect::Mma { m, n, k, .. } => f64::from(m) * f64::from(n) * f64::from(k) / f64::from(threads),
            _ => 0.0,
        }
    }

    /// Does it take a tensor map of this rank?
    fn maps(&self, rank: usize) -> bool {
        let is = |kind| matches!(kind, OperandKind::TensorMap { rank: of } if usize::from(of) == rank);
        self.operands.iter().any(|operand| is(operand.kind))
    }

    /// Does it take a tensor map?
    pub fn has_map(&self) -> bool {
        self.operands.iter().any(|operand| matches!(operand.kind, OperandKind::TensorMap { .. }))
    }

    /// The operand of this name.
    pub fn operand(&self, name: OperandName) -> Option<&'static Operand>
    where
        Self: 'static,
    {
        self.operands.iter().find(|operand| operand.name == name)
    }

    /// Does it have an operand of this name and element type?
    pub fn has(&self, name: OperandName, elem: Elem) -> bool {
        self.operands.iter().any(|operand| operand.name == name && operand.elem == elem)
    }

    /// The thread-value layout of an operand: (thread, value) to the element of its tile; `None` if the
    /// row does not fix it.
    pub fn tv(&self, operand: OperandName) -> Option<Layout> {
        let operand = self.operands.iter().find(|row| row.name == operand)?;
        operand.tv.parse().ok()
    }

    /// The layout algebra's view of a matrix product.
    ///
    /// ```
    /// let atom = tilewright_program::isa::find("mma_m8n8k4_f64").unwrap().mma().unwrap();
    /// assert_eq!(atom.shape, (8, 8, 4));
    /// ```
    pub fn mma(&self) -> Option<MmaAtom> {
        let Effect::Mma { m, n, k, .. } = self.effect else {
            return None;
        };
        let shape = (i64::from(m), i64::from(n), i64::from(k));
        Some(MmaAtom {
            shape,
            a: self.tv(OperandName::A)?,
            b: self.tv(OperandName::B)?,
            c: self.tv(OperandName::D)?,
        })
    }
}

/// A source operand in registers.
const fn frag(name: OperandName, elem: Elem, words: bool, tv: &'static str) -> Operand {
    Operand { name, kind: OperandKind::Frag { words }, elem, writes: false, tv }
}

/// A source operand that is not in registers.
const fn other(name: OperandName, kind: OperandKind, elem: Elem, tv: &'static str) -> Operand {
    Operand { name, kind, elem, writes: false, tv }
}

/// The same operand as a destination.
const fn written(operand: Operand) -> Operand {
    Operand { writes: true, ..operand }
}

/// A number in a register.
const fn int(name: OperandName) -> Operand {
    other(name, OperandKind::Int, Elem::I32, "")
}

#[cfg(test)]
mod tests;
