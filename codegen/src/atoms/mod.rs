//! The table of instructions. Each row says everything that partitioning, checks, printing and simulation need.
//!
//! Names say the instruction, its shape, where operands live (`_ra`: `a` in registers) and their types: of
//! both operands or of each, then `_acc_` and the accumulator type where it is not the usual one
//! ([`Elem::accumulator`]).
//! Conventions of the operands' names: `d` is the destination, `a` and `b` are sources, `m` is a tensor map,
//! `n` a number of bytes, `s` is 0 where a matrix product starts from zero, `t` and `u` are 1 where `a` and
//! `b` are transposed, `k` is a multicast mask of blocks of a cluster. The element type of a copy says how
//! wide its elements are and no more.
//! no more.

mod bulk;
mod cache;
mod convert;
mod matrix;
mod mma;
mod product;
mod small;
mod wgmma;

use std::collections::HashMap;
use std::sync::LazyLock;

use tilewright_layout::{Layout, MmaAtom};

use crate::atom::{Atom, Effect, Operand, OperandKind};
use crate::elem::Elem;

/// Handwritten rows, then rows generated from tables.
static ALL: LazyLock<Vec<&'static Atom>> = LazyLock::new(|| {
    let products = mma::rows().chain(wgmma::rows());
    let made: &'static [Atom] =
        Vec::leak(small::rows().chain(bulk::rows()).chain(convert::rows()).chain(products).collect());
    matrix::ROWS.iter().chain(made).collect()
});

static BY_NAME: LazyLock<HashMap<&str, &Atom>> = LazyLock::new(|| all().map(|row| (row.name, row)).collect());

/// Every row.
pub fn all() -> impl ExactSizeIterator<Item = &'static Atom> {
    ALL.iter().copied()
}

/// The row of this name.
///
/// ```
/// use tilewright_codegen::{atom::Effect, atoms};
/// let row = atoms::find("mma_m16n8k16_bf16").unwrap();
/// assert_eq!(row.effect, Effect::Mma { m: 16, n: 8, k: 16 });
/// assert_eq!(row.tv('c'), None); // the accumulator is `d`
/// assert_eq!(row.tv('b').unwrap().to_string(), "((4,8),(2,2)):((16,1),(8,64))");
/// ```
pub fn find(name: &str) -> Option<&'static Atom> {
    BY_NAME.get(name).copied()
}

impl Atom {
    /// Does it take a tensor map?
    pub(crate) fn has_map(&self) -> bool {
        self.operands.iter().any(|operand| matches!(operand.kind, OperandKind::TensorMap { .. }))
    }

    /// The operand of this name.
    pub fn operand(&self, name: char) -> Option<&'static Operand>
    where
        Self: 'static,
    {
        self.operands.iter().find(|operand| operand.name == name)
    }

    /// Does it have an operand of this name and element type?
    pub fn has(&self, name: char, elem: Elem) -> bool {
        self.operands.iter().any(|operand| operand.name == name && operand.elem == elem)
    }

    /// The thread-value layout of an operand: (thread, value) to the element of its tile; `None` where the
    /// row leaves that open.
    pub fn tv(&self, operand: char) -> Option<Layout> {
        let operand = self.operands.iter().find(|row| row.name == operand)?;
        operand.tv.parse().ok()
    }

    /// The layout algebra's view of a matrix product.
    ///
    /// ```
    /// let atom = tilewright_codegen::atoms::find("mma_m8n8k4_f64").unwrap().mma().unwrap();
    /// assert_eq!(atom.shape, (8, 8, 4));
    /// ```
    pub fn mma(&self) -> Option<MmaAtom> {
        let Effect::Mma { m, n, k } = self.effect else {
            return None;
        };
        let shape = (i64::from(m), i64::from(n), i64::from(k));
        Some(MmaAtom { shape, a: self.tv('a')?, b: self.tv('b')?, c: self.tv('d')? })
    }
}

/// A source operand in registers.
const fn frag(name: char, elem: Elem, words: bool, tv: &'static str) -> Operand {
    Operand { name, kind: OperandKind::Frag { words }, elem, writes: false, tv }
}

/// A source operand that is not in registers.
const fn other(name: char, kind: OperandKind, elem: Elem, tv: &'static str) -> Operand {
    Operand { name, kind, elem, writes: false, tv }
}

/// The same operand as a destination.
const fn written(operand: Operand) -> Operand {
    Operand { writes: true, ..operand }
}

/// A number in a register.
const fn int(name: char) -> Operand {
    other(name, OperandKind::Int, Elem::I32, "")
}

#[cfg(test)]
mod tests;
