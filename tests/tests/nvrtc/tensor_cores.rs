//! ldmatrix and stmatrix with operands from memory; and a small product that combines them with mma.sync and
//! cp.async.

use tilewright_codegen::Elem::{self, *};
use tilewright_codegen::atom::{Atom, OperandKind, OperandName};
use tilewright_codegen::index::Ix;
use tilewright_codegen::isa;
use tilewright_codegen::thread::*;
use tilewright_layout::Value;

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

/// The offset of a unit of 16 bytes: row and column, swizzled within pairs of rows.
fn unit(b: &mut Build, row: Ix, index: Ix) -> Ix {
    let pair = b.e().div(row, 2);
    let pair = b.e().rem(pair, 4);
    let index = b.e().xor(index, pair);
    b.sum(&[(row, 32), (index, 8)], 0)
}

/// The products of the fragments of a step.
fn multiply(b: &mut Build, elem: Elem, [fa, fb, acc]: [Id; 3]) -> Stmt {
    // ldmatrix.x4 of b loads rows 0..8 and 8..16: registers 0 and 2 are one 8x16 operand, 1 and 3 the
    // other.
    let pick = b.words("pair", elem, 4);
    b.repeat("j", 8, |b, j| {
        let (group, odd) = (b.e().div(j, 2), b.e().rem(j, 2));
        let mut stmts = Vec::new();
        for half in 0..4 {
            let from = b.sum(&[(group, 8), (odd, 2)], (half / 2) * 4 + half % 2);
            let to = b.int(half);
            stmts.push(assign(pick, to, Val::Reg(fb, from)));
        }
        let pair = b.whole(pick);
        stmts.push(b.repeat("i", 4, |b, i| {
            let (d, a) = (b.sum(&[(i, 4), (j, 16)], 0), b.sum(&[(i, 8)], 0));
            let d = AtomArg::Frag(Frag { reg: acc, at: d, len: 4 });
            let a = AtomArg::Frag(Frag { reg: fa, at: a, len: 8 });
            vec![atom(&format!("mma_m16n8k16_{elem}"), vec![d, a, pair.clone()])]
        }));
        stmts
    })
}

/// C = A Bᵀ for one block: 128x128, both operands K-major with rows of 32, a ring of two stages, 2x2 warps of
/// 64x64. Rows of shared memory are 64 bytes; units of 16 bytes are swizzled by XOR, so that ldmatrix has no
/// bank conflicts.
pub(crate) fn product(elem: Elem) -> Kernel {
    let mut b = Build::new(&format!("mma_product_{elem}"), 80, 128);
    let (a, bt, c) = (
        b.tensor("a", elem, false, &["M", "K"], &["K", "1"]),
        b.tensor("b", elem, false, &["N", "K"], &["K", "1"]),
        b.tensor("c", F32, true, &["M", "N"], &["N", "1"]),
    );
    let (n, k) = (b.extent("N"), b.extent("K"));
    let tiles = |name| Value::symbol(name).ceil_div(128).into_iter().collect();
    b.k.launch.grid = [tiles("M"), tiles("N"), vec![]];
    let sa = b.shared("sa", elem, 2 * 4096, 128, "2 stages of 128x32, swizzled");
    let sb = b.shared("sb", elem, 2 * 4096, 128, "2 stages of 128x32, swizzled");
    let acc = b.reg("acc", F32, 128);
    let (fa, fb) = (b.words("fa", elem, 32), b.words("fb", elem, 32));
    let (tid, bx, by) = (b.thread(), b.block(0), b.block(1));
    let (lane, warp) = (b.e().rem(tid, 32), b.e().div(tid, 32));
    let (wm, wn) = (b.e().rem(warp, 2), b.e().div(warp, 2));

    let mut body = vec![b.repeat("i", 128, |_, i| vec![assign(acc, i, Val::lit(0.0, F32))])];
    let fill = |b: &mut Build, step, stage| {
        let mut stmts = Vec::new();
        for (tensor, shared, block) in [(a, sa, bx), (bt, sb, by)] {
            stmts.push(b.repeat("i", 4, |b, i| {
                let row = b.e().div(tid, 4);
                let row = b.sum(&[(row, 1), (i, 32)], 0);
                let index = b.e().rem(tid, 4);
                let to = unit(b, row, index);
                let to = b.sum(&[(stage, 4096), (to, 1)], 0);
                let global_row = b.sum(&[(block, 128), (row, 1)], 0);
                let start = b.e().mul(global_row, k);
                let from = b.sum(&[(start, 1), (step, 32), (index, 8)], 0);
                b.e().assume(from, 0, i64::from(i32::MAX));
                vec![atom("cp_async_16", vec![at(shared, to), at(tensor, from)])]
            }));
        }
        stmts.push(s(Op::Commit(Queue::CpAsync)));
        stmts
    };
    let zero = b.int(0);
    body.extend(fill(&mut b, zero, zero));
    let steps = b.e().div(k, 32);
    body.push(b.until("k", steps, Unroll::No, |b, step| {
        let next = b.sum(&[(step, 1)], 1);
        let more = b.e().lt(next, steps);
        let (stage, other) = (b.e().rem(step, 2), b.e().rem(next, 2));
        let then = fill(b, next, other);
        let mut body =
            vec![s(Op::If { cond: more.into(), then, other: vec![s(Op::Commit(Queue::CpAsync))] })];
        body.push(s(Op::WaitQueue { queue: Queue::CpAsync, pending: 1 }));
        body.push(sync());
        body.push(b.repeat("kk", 2, |b, kk| {
            // ldmatrix.x4: rows 0..8 and 8..16 of the first eight columns, then of the next eight
            let (quad, within) = (b.e().div(lane, 16), b.e().rem(lane, 16));
            let read = |b: &mut Build, reg, shared, w| {
                b.repeat("i", 4, |b, i| {
                    let row = b.sum(&[(w, 64), (within, 1), (i, 16)], 0);
                    let index = b.sum(&[(kk, 2), (quad, 1)], 0);
                    let from = unit(b, row, index);
                    let from = b.sum(&[(stage, 4096), (from, 1)], 0);
                    let start = b.sum(&[(i, 8)], 0);
                    let frag = AtomArg::Frag(Frag { reg, at: start, len: 8 });
                    vec![atom("ldmatrix_x4", vec![frag, at(shared, from)])]
                })
            };
            let (read_a, read_b) = (read(b, fa, sa, wm), read(b, fb, sb, wn));
            let products = multiply(b, elem, [fa, fb, acc]);
            vec![read_a, read_b, products]
        }));
        body.push(sync());
        body
    }));
    body.push(b.repeat("j", 8, |b, j| {
        vec![b.repeat("i", 4, |b, i| {
            vec![b.repeat("h", 2, |b, h| {
                let (r, q) = (b.e().div(lane, 4), b.e().rem(lane, 4));
                let row = b.sum(&[(bx, 128), (wm, 64), (i, 16), (h, 8), (r, 1)], 0);
                let column = b.sum(&[(by, 128), (wn, 64), (j, 8), (q, 2)], 0);
                let start = b.e().mul(row, n);
                let to = b.e().add(start, column);
                b.e().assume(to, 0, i64::from(i32::MAX));
                let at = b.sum(&[(i, 4), (j, 16), (h, 2)], 0);
                vec![store(c, to, Frag { reg: acc, at, len: 2 }, None)]
            })]
        })]
    }));
    b.done(body)
}
