//! The tutorial's matrix product, C = A Bᵀ, all column-major: tiles of 128x128x8, 256 threads, 8x8 per
//! thread.

use tilewright_codegen::Elem::F32;
use tilewright_codegen::index::Ix;
use tilewright_codegen::thread::*;
use tilewright_layout::{Obligation, Value};

use super::build::*;

/// The copy of a tile from global to shared memory.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Copy {
    /// Through registers, with bounds checks.
    Guarded,
    /// cp.async, whole tiles only.
    Async,
}

struct Start {
    b: Build,
    /// The tensors a, b and c, the blocks and the extents.
    tensors: [Space; 3],
    blocks: [Ix; 2],
    extents: [Ix; 3],
}

fn start(name: &str, whole: bool) -> Start {
    let mut b = Build::new(name, 80, 256);
    let tensors = [
        b.tensor("a", F32, false, &["M", "K"], &["1", "M"]),
        b.tensor("b", F32, false, &["N", "K"], &["1", "N"]),
        b.tensor("c", F32, true, &["M", "N"], &["1", "M"]),
    ];
    let extents = [b.extent("M"), b.extent("N"), b.extent("K")];
    let tiles = |name| Value::symbol(name).ceil_div(128).into_iter().collect();
    b.k.launch.grid = [tiles("M"), tiles("N"), vec![]];
    // Offsets that fit 32 bits are a precondition, assumed below.
    b.k.needs.extend((0..3).map(|param| Fact::Small { param, distance: vec![128, 128] }));
    if whole {
        let divides = [("M", 128), ("N", 128), ("K", 8)]
            .map(|(name, divisor)| Fact::Divides(Obligation { divisor, of: Value::symbol(name) }));
        b.k.needs.extend(divides);
    }
    let blocks = [b.block(0), b.block(1)];
    Start { b, tensors, blocks, extents }
}

/// The offset of an element of a tensor with leading dimension `extent`.
fn offset(b: &mut Build, row: Ix, column: Ix, extent: Ix) -> Ix {
    let columns = b.e().mul(column, extent);
    let all = b.e().add(row, columns);
    b.e().assume(all, 0, i64::from(i32::MAX));
    all
}

fn inside(b: &mut Build, row: Ix, column: Ix, rows: Ix, columns: Ix) -> Ix {
    let (r, c) = (b.e().lt(row, rows), b.e().lt(column, columns));
    b.e().all(r, c)
}

fn outer_product(b: &mut Build, fa: Id, fb: Id, acc: Id) -> Stmt {
    b.repeat("j", 8, |b, j| {
        vec![b.repeat("i", 8, |b, i| {
            let at = b.sum(&[(i, 1), (j, 8)], 0);
            vec![assign(acc, at, fma(Val::Reg(fa, i), Val::Reg(fb, j), Val::Reg(acc, at)))]
        })]
    })
}

pub(crate) fn tutorial(name: &str, how: Copy) -> Kernel {
    let Start { mut b, tensors: [a, bt, c], blocks: [bx, by], extents: [m, n, k] } =
        start(name, how == Copy::Async);
    let sa = b.shared("sa", F32, 1031, 4, "128x8, (128,8):(1,129)");
    let sb = b.shared("sb", F32, 1031, 4, "128x8, (128,8):(1,129)");
    let (acc, fa, fb) = (b.reg("acc", F32, 64), b.reg("fa", F32, 8), b.reg("fb", F32, 8));
    let tid = b.thread();
    let (lane, warp) = (b.e().rem(tid, 32), b.e().div(tid, 32));
    let (x, y) = (b.e().rem(tid, 16), b.e().div(tid, 16));

    let mut body = vec![comment("copies: 32x8 threads, each with rows 32 apart")];
    let [row_a, row_b, to] = [
        ("row_a", vec![(bx, 128), (lane, 1)]),
        ("row_b", vec![(by, 128), (lane, 1)]),
        ("to", vec![(lane, 1), (warp, 129)]),
    ]
    .map(|(name, terms)| {
        let value = b.sum(&terms, 0);
        let (stmt, named) = b.name(name, value);
        body.push(stmt);
        named
    });
    body.push(comment("arithmetic: 16x16 threads, each with 8x8 elements 16 apart"));
    let [x, y] = [("x", x), ("y", y)].map(|(name, value)| {
        let (stmt, named) = b.name(name, value);
        body.push(stmt);
        named
    });
    body.push(b.repeat("i", 64, |_, i| vec![assign(acc, i, Val::lit(0.0, F32))]));

    let tiles = b.sum(&[(k, 1)], 7);
    let tiles = b.e().div(tiles, 8);
    body.push(b.until("k", tiles, Unroll::No, |b, step| {
        let column = b.sum(&[(step, 8), (warp, 1)], 0);
        let mut body = Vec::new();
        for (tensor, shared, row, extent) in [(a, sa, row_a, m), (bt, sb, row_b, n)] {
            body.push(b.repeat("i", 4, |b, i| {
                let row = b.sum(&[(row, 1), (i, 32)], 0);
                let from = offset(b, row, column, extent);
                let into = b.sum(&[(to, 1), (i, 32)], 0);
                match how {
                    Copy::Async => vec![atom("cp_async_4", vec![at(shared, into), at(tensor, from)])],
                    Copy::Guarded => {
                        let value = b.reg("held", F32, 1);
                        let guard = inside(b, row, column, extent, k);
                        let frag = b.frag(value, 0, 1);
                        vec![load(frag, tensor, from, Some(guard)), store(shared, into, frag, None)]
                    }
                }
            }));
        }
        if how == Copy::Async {
            body.push(s(Op::Commit(Queue::CpAsync)));
            body.push(s(Op::WaitQueue { queue: Queue::CpAsync, pending: 0 }));
        }
        body.push(sync());
        body.push(b.repeat("kk", 8, |b, kk| {
            let reads = b.repeat("i", 8, |b, i| {
                let of = |b: &mut Build, reg, shared, x| {
                    let from = b.sum(&[(x, 1), (kk, 129), (i, 16)], 0);
                    load(Frag { reg, at: i, len: 1 }, shared, from, None)
                };
                vec![of(b, fa, sa, x), of(b, fb, sb, y)]
            });
            vec![reads, outer_product(b, fa, fb, acc)]
        }));
        body.push(sync());
        body
    }));

    body.push(comment("c: 16x16 threads, each with 8x8 elements 16 apart"));
    body.push(b.repeat("j", 8, |b, j| {
        let column = b.sum(&[(by, 128), (y, 1), (j, 16)], 0);
        let (stmt, column) = b.name("column", column);
        let rows = b.repeat("i", 8, |b, i| {
            let row = b.sum(&[(bx, 128), (x, 1), (i, 16)], 0);
            let to = offset(b, row, column, m);
            let guard = (how == Copy::Guarded).then(|| inside(b, row, column, m, n));
            let at = b.sum(&[(i, 1), (j, 8)], 0);
            vec![store(c, to, Frag { reg: acc, at, len: 1 }, guard)]
        });
        vec![stmt, rows]
    }));
    b.done(body)
}

/// The same with 16-byte accesses everywhere: each thread has two runs of four rows and of four columns.
pub(crate) fn vectors() -> Kernel {
    let Start { mut b, tensors: [a, bt, c], blocks: [bx, by], extents: [m, n, k] } =
        start("sgemm_vectors", true);
    b.k.needs.extend((0..3).map(|param| Fact::Aligned { param, bytes: 16 }));
    let sa = b.shared("sa", F32, 1024, 16, "128x8, (128,8):(1,128)");
    let sb = b.shared("sb", F32, 1024, 16, "128x8, (128,8):(1,128)");
    let (ra, rb) = (b.reg("ra", F32, 4), b.reg("rb", F32, 4));
    let (acc, fa, fb) = (b.reg("acc", F32, 64), b.reg("fa", F32, 8), b.reg("fb", F32, 8));
    let tid = b.thread();
    let (lane, warp) = (b.e().rem(tid, 32), b.e().div(tid, 32));
    let (x, y) = (b.e().rem(tid, 16), b.e().div(tid, 16));
    let mut body = vec![b.repeat("i", 64, |_, i| vec![assign(acc, i, Val::lit(0.0, F32))])];
    let steps = b.e().div(k, 8);
    body.push(b.until("k", steps, Unroll::No, |b, step| {
        let column = b.sum(&[(step, 8), (warp, 1)], 0);
        let (mut loads, mut stores) = (Vec::new(), Vec::new());
        for (reg, tensor, shared, block, extent) in [(ra, a, sa, bx, m), (rb, bt, sb, by, n)] {
            let row = b.sum(&[(block, 128), (lane, 4)], 0);
            let from = offset(b, row, column, extent);
            let to = b.sum(&[(lane, 4), (warp, 128)], 0);
            let frag = b.frag(reg, 0, 4);
            loads.push(load(frag, tensor, from, None));
            stores.push(store(shared, to, frag, None));
        }
        let inner = b.repeat("kk", 8, |b, kk| {
            let reads = b.repeat("i", 2, |b, i| {
                let reg_at = b.sum(&[(i, 4)], 0);
                let of = |b: &mut Build, reg, shared, x| {
                    let from = b.sum(&[(x, 4), (kk, 128), (i, 64)], 0);
                    load(Frag { reg, at: reg_at, len: 4 }, shared, from, None)
                };
                vec![of(b, fa, sa, x), of(b, fb, sb, y)]
            });
            vec![reads, outer_product(b, fa, fb, acc)]
        });
        [loads, stores, vec![sync(), inner, sync()]].concat()
    }));
    body.push(b.repeat("j", 8, |b, j| {
        let (group, within) = (b.e().div(j, 4), b.e().rem(j, 4));
        let column = b.sum(&[(by, 128), (y, 4), (within, 1), (group, 64)], 0);
        let (stmt, column) = b.name("column", column);
        let rows = b.repeat("i", 2, |b, i| {
            let row = b.sum(&[(bx, 128), (x, 4), (i, 64)], 0);
            let to = offset(b, row, column, m);
            let at = b.sum(&[(i, 4), (j, 8)], 0);
            vec![store(c, to, Frag { reg: acc, at, len: 4 }, None)]
        });
        vec![stmt, rows]
    }));
    b.done(body)
}
