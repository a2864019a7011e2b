//! ldmatrix and stmatrix with operands from memory, and single uses of other instructions.

use tilewright_codegen::Elem::*;
use tilewright_codegen::atom::{Atom, OperandKind, OperandName};
use tilewright_codegen::isa;
use tilewright_codegen::thread::*;

use super::build::*;

/// Registers per thread of an operand.
fn values(row: &Atom, operand: OperandName) -> u32 {
    let tv = row.tv(operand).expect("a layout");
    tv.mode(1).and_then(|values| values.size()).expect("an integer") as u32
}

/// A warp copies matrices between shared memory and registers.
pub(crate) fn matrices(row: &'static Atom) -> Kernel {
    let mut b = Build::new(&format!("try_{}", row.name), row.arch.max(80), 32);
    let loads = row.name.starts_with("ldmatrix");
    let len = values(row, if loads { OperandName::D } else { OperandName::A });
    let (from, to) = (b.pointer("from", F16, false), b.pointer("to", F16, true));
    let tile = b.shared("tile", F16, 256, 16, "32 rows of 8");
    let (thread, reg) = (b.thread(), b.words("reg", F16, len));
    let (row_at, mine) = (b.sum(&[(thread, 8)], 0), b.sum(&[(thread, i64::from(len))], 0));
    let row_reg = b.reg("held", F16, 8);
    let (frag, own) = (b.frag(row_reg, 0, 8), b.frag(reg, 0, len));
    let whole = AtomArg::Frag(own);
    let body = if loads {
        vec![
            load(frag, from, row_at, None),
            store(tile, row_at, frag, None),
            sync(),
            atom(row.name, vec![whole, at(tile, row_at)]),
            store(to, mine, own, None),
        ]
    } else {
        vec![
            load(own, from, mine, None),
            atom(row.name, vec![at(tile, row_at), whole]),
            sync(),
            load(frag, tile, row_at, None),
            store(to, row_at, frag, None),
        ]
    };
    b.done(body)
}

/// A single use of a copy instruction, with arbitrary operands.
pub(crate) fn moves(row: &'static Atom) -> Kernel {
    let mut b = Build::new(&format!("try_{}", row.name), row.arch.max(80), 32);
    let (tensor, tile) = (b.tensor("x", I32, true, &["N"], &["1"]), b.shared("tile", I32, 64, 128, ""));
    let (zero, bar) = (b.int(0), b.mbarriers("full", 1, 1));
    let args = row.operands.iter().map(|operand| match operand.kind {
        OperandKind::Frag { words } => {
            let (name, len) = (operand.name.to_string(), values(row, operand.name));
            let reg = if words { b.words(&name, operand.elem, len) } else { b.reg(&name, operand.elem, len) };
            b.whole(reg)
        }
        OperandKind::SharedAddress => at(tile, zero),
        OperandKind::GlobalAddress => at(tensor, zero),
        OperandKind::TensorMap { rank } => {
            let param = b.map(&format!("map{rank}"), tensor, &[4], 0);
            AtomArg::Map { param, at: vec![zero; rank.into()] }
        }
        OperandKind::Barrier => AtomArg::Barrier { bar, slot: zero },
        OperandKind::Int | OperandKind::Immediate | OperandKind::Descriptor => b.number(4),
    });
    let args = args.collect();
    b.done(vec![atom(row.name, args)])
}

/// Rows that are tested by a kernel of their own.
pub(crate) fn rows(start: &str) -> Vec<&'static Atom> {
    isa::all().filter(|row| row.name.starts_with(start)).collect()
}
