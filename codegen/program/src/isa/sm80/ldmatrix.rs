//! ldmatrix and stmatrix: a warp copies 8x8 matrices of 16-bit elements between shared memory and mma
//! fragments; movmatrix transposes one in registers.
//!
//! The tile of both operands is a list of rows of eight elements: element `e` of row `r` of matrix `j` has index
//! `e + 8*r + 64*j`. In shared memory lane `8*j + r` gives the address of row `r` of matrix `j`; the addresses of lanes
//! after the last matrix are not used.

use crate::isa::atom::{Atom, Effect, Operand, OperandKind, OperandName};
use crate::isa::family::Family;
use crate::isa::scope::Scope;
use crate::isa::{frag, other, written};
use crate::values::elem::Elem;

/// Loads of fragments by a warp.
pub(in crate::isa) static FAMILY: Family =
    Family { name: "ldmatrix", issued_by: Scope::Warp, ..Family::IN_ORDER };

const fn rows_at(name: OperandName, tv: &'static str) -> Operand {
    other(name, OperandKind::SharedAddress, Elem::F16, tv)
}

const fn load(name: &'static str, ptx: &'static str, operands: &'static [Operand]) -> Atom {
    Atom { name, arch: 75, arch_specific: false, family: &FAMILY, ptx, operands, effect: Effect::Copy }
}

const fn store(name: &'static str, ptx: &'static str, operands: &'static [Operand]) -> Atom {
    Atom { arch: 90, ..load(name, ptx, operands) }
}

const ADDRESSES: [&str; 3] = ["((8,4),8):((8,0),1)", "((16,2),8):((8,0),1)", "(32,8):(8,1)"];
const PLAIN: [&str; 3] = ["(32,2):(2,1)", "(32,(2,2)):(2,(1,64))", "(32,(2,4)):(2,(1,64))"];
const TRANSPOSED: [&str; 3] =
    ["((4,8),2):((16,1),8)", "((4,8),(2,2)):((16,1),(8,64))", "((4,8),(2,4)):((16,1),(8,64))"];

/// The row that loads `matrices` matrices, all transposed or none.
pub(in crate::isa) fn ldmatrix(matrices: i64, transposed: bool) -> Option<&'static Atom> {
    let index = [1, 2, 4].iter().position(|known| *known == matrices)?;
    let fragments = if transposed { TRANSPOSED[index] } else { PLAIN[index] };
    let from_memory =
        |row: &Atom| row.operand(OperandName::A).is_some_and(|a| a.kind == OperandKind::SharedAddress);
    ROWS.iter().find(|row| from_memory(row) && row.operand(OperandName::D).is_some_and(|d| d.tv == fragments))
}

const fn loaded(fragments: &'static str, addresses: &'static str) -> [Operand; 2] {
    [written(frag(OperandName::D, Elem::F16, true, fragments)), rows_at(OperandName::A, addresses)]
}

const fn stored(fragments: &'static str, addresses: &'static str) -> [Operand; 2] {
    [written(rows_at(OperandName::D, addresses)), frag(OperandName::A, Elem::F16, true, fragments)]
}

const fn transposed() -> [Operand; 2] {
    [
        written(frag(OperandName::D, Elem::F16, true, TRANSPOSED[0])),
        frag(OperandName::A, Elem::F16, true, PLAIN[0]),
    ]
}

pub(in crate::isa) const ROWS: &[Atom] = &[
    load("movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16 #d, #a;", &{ transposed() }),
    load("ldmatrix_x1", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 $d, [$a];", &{
        loaded(PLAIN[0], ADDRESSES[0])
    }),
    load("ldmatrix_x2", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 $d, [$a];", &{
        loaded(PLAIN[1], ADDRESSES[1])
    }),
    load("ldmatrix_x4", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 $d, [$a];", &{
        loaded(PLAIN[2], ADDRESSES[2])
    }),
    load("ldmatrix_x1_trans", "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 $d, [$a];", &{
        loaded(TRANSPOSED[0], ADDRESSES[0])
    }),
    load("ldmatrix_x2_trans", "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 $d, [$a];", &{
        loaded(TRANSPOSED[1], ADDRESSES[1])
    }),
    load("ldmatrix_x4_trans", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 $d, [$a];", &{
        loaded(TRANSPOSED[2], ADDRESSES[2])
    }),
    store("stmatrix_x1", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [$d], $a;", &{
        stored(PLAIN[0], ADDRESSES[0])
    }),
    store("stmatrix_x2", "stmatrix.sync.aligned.m8n8.x2.shared.b16 [$d], $a;", &{
        stored(PLAIN[1], ADDRESSES[1])
    }),
    store("stmatrix_x4", "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$d], $a;", &{
        stored(PLAIN[2], ADDRESSES[2])
    }),
    store("stmatrix_x1_trans", "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [$d], $a;", &{
        stored(TRANSPOSED[0], ADDRESSES[0])
    }),
    store("stmatrix_x2_trans", "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [$d], $a;", &{
        stored(TRANSPOSED[1], ADDRESSES[1])
    }),
    store("stmatrix_x4_trans", "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [$d], $a;", &{
        stored(TRANSPOSED[2], ADDRESSES[2])
    }),
];
