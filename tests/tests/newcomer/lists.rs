//! Lists of integers that select the operands of products: rows of experts, pages. Producers read them too.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// Rows from `start[e]` on times the weights of expert e, wherever they begin.
#[kernel(arch = 90)]
fn ragged<const BM: usize = 64, const BN: usize = 64, const BK: usize = 64>(
    start: &Tensor<i32, { E + 1 }>,
    x: &Tensor<bf16, (T, K), (ldx, _1)>,
    w: &Tensor<bf16, (N, K, E), (ldw, _1, ew)>,
    y: &mut Tensor<f32, (T, N), (ldy, _1)>,
) {
    persistent();
    let (m, n, e) = (walk(ceil_div(T, BM), block.x), block.y, block.z);
    let first = start[(e)];
    let end = start[(e + 1)];
    if m * BM < end - first {
        let gx = shift(tile(x, (BM, BK), (m, _)), (first, 0, 0));
        let gw = tile(w, (BN, BK, 1), (n, _, e))[(_, _, 0, _)];
        let (sx, sw) = (shared::<bf16>((BM, BK)), shared::<bf16>((BN, BK)));
        let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((BM, BN), 0.0);
        for k in pipelined(0..gx.size(2), stages = 3, producer = warp) {
            copy(gx[(_, _, k)], sx);
            copy(gw[(_, _, k)], sw);
            gemm(sx, sw, &mut acc);
        }
        scatter(acc, y, |v, at| (if at.0 < end { (at.0, at.1) } else { (-1, -1) }, v));
    }
}

#[test]
fn experts_have_rows_of_their_own() {
    inputs(ragged().def()).list("start", [0, 70, 70, 97, 150]).near(1e-3, ["T = 150, K = 90, N = 70, E = 4"]);
}

/// Sums of listed pages with an even number, and a one for each iteration that a counter allows, which is then 0.
#[kernel(arch = 90)]
fn pages(
    table: &Tensor<i32, (P, B)>,
    allowed: &mut Tensor<i32, B>,
    x: &Tensor<f32, (_64, _32, Z), (_32, _1, xz)>,
    y: &mut Tensor<f32, (_64, B)>,
    sums: &mut Tensor<f32, B>,
) {
    let b = block.x;
    let s = shared::<f32>((64, 32));
    let mut acc = full::<f32>((64, 1), 0.0);
    for p in pipelined(0..P, stages = 3, producer = warp) {
        let page = table[(p, b)];
        copy(tile(x, (64, 32, 1), (0, 0, page / 2))[(_, _, 0)], s);
        if page % 2 == 0 {
            acc += sum(s, 1);
        }
        if allowed[(b)] > p {
            acc += 1.0;
        }
    }
    copy(acc, tile(y, (64, 1), (0, b)));
    copy(sum(acc, out_of_bounds = 0.0), tile(sums, 1, b));
    fill(tile(allowed, 1, b), 0);
}

#[test]
fn pages_are_listed() {
    inputs(pages().def()).below("table", 10).list("allowed", [3, 0, 9]).near(1e-4, ["P = 7, B = 3, Z = 5"]);
}

/// The greatest of each column of listed pages; the last page is shorter than the others.
#[kernel]
fn page_maxima<const S: usize = 3>(
    table: &Tensor<i32, (P, B)>,
    x: &Tensor<f32, (N, _32), (_32, _1)>,
    y: &mut Tensor<f32, (_32, B), (_1, ldy)>,
) {
    let s = shared::<f32>((64, 32));
    let mut most = full::<f32>((1, 32), f32::NEG_INFINITY);
    for p in pipelined(0..P, stages = S) {
        copy(tile(x, (64, 32), (table[(p, block.x)], 0)), s);
        most = max(most, maximum(-1.0 - abs(s), 0));
    }
    copy(permute(most, (1, 0)), tile(y, (32, 1), (0, block.x)));
}

#[test]
fn listed_pages_end_at_the_edge() {
    let check = |def: &KernelDef| {
        inputs(def).below("table", 3).with("x", |x| x + x.signum()).near(1e-5, ["P = 5, B = 3, N = 150"]);
    };
    for stages in [1, 2, 3, 4] {
        check(page_maxima().specialize(&[("S", stages)]).unwrap().def());
    }
    check(page_maxima_later().def());
}

/// The same where the tile of the previous iteration is reduced, with declared out-of-bounds values.
#[kernel]
fn page_maxima_later(
    table: &Tensor<i32, (P, B)>,
    x: &Tensor<f32, (N, _32), (_32, _1)>,
    y: &mut Tensor<f32, (_32, B), (_1, ldy)>,
) {
    let mut most = full::<f32>((1, 32), f32::NEG_INFINITY);
    let mut before = full::<f32>((64, 32), f32::NEG_INFINITY);
    for p in 0..P {
        let now = map(tile(x, (64, 32), (table[(p, block.x)], 0)), |x, at| {
            if at.0 < N { -1.0 - abs(x) } else { f32::NEG_INFINITY }
        });
        most = max(most, maximum(before, 0, out_of_bounds = f32::NEG_INFINITY));
        before = now;
    }
    most = max(most, maximum(before, 0, out_of_bounds = f32::NEG_INFINITY));
    copy(permute(most, (1, 0)), tile(y, (32, 1), (0, block.x)));
}
