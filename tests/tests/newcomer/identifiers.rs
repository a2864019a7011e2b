//! Kernels on tensors as PyTorch has them: identifiers, offsets and targets of 64 bits, masks of `bool`.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

#[kernel]
fn spmv(
    ptr: &Tensor<i64, { M + 1 }>,
    col: &Tensor<i64, Z>,
    val: &Tensor<f32, Z>,
    x: &Tensor<f32, K>,
    y: &mut Tensor<f32, M>,
) {
    let (from, to) = (ptr[(block.x)], ptr[(block.x + 1)]);
    let mut total = full::<f32>(1, 0.0);
    for k in 0..ceil_div(to - from, 128) {
        let at = map(iota(128), |i| i as i64 + from + 128 * (k as i64));
        total +=
            sum(map(at, |at| if at < to { val[(at)] * x[(col[(at)])] } else { 0.0 }), out_of_bounds = 0.0);
    }
    copy(total, tile(y, 1, block.x));
}

#[test]
fn sparse_rows_with_offsets_of_64_bits() {
    inputs(spmv().def())
        .list("ptr", [0, 0, 3, 303, 304, 433])
        .below("col", 50)
        .written(["M = 5, Z = 433, K = 50"]);
}

#[kernel]
fn argmax(x: &Tensor<f32, (M, N), (ld, _1)>, best: &mut Tensor<i64, M>) {
    at_most(N, 1024);
    let x = tile(x, (1, 1024), (block.x, 0));
    let places = map(x, |x, at| (x, at.1 as i64));
    let better = |a, i, b, j| (b > a) | ((b == a) & (j < i));
    let (_, at) = reduce(
        places,
        (f32::NEG_INFINITY, i64::MAX),
        |(a, i), (b, j)| if better(a, i, b, j) { (b, j) } else { (a, i) },
        mode = 1,
    );
    copy(at, tile(best, 1, block.x).along(0));
}

#[test]
fn the_first_of_the_largest() {
    inputs(argmax().def()).with("x", f64::round).written(["M = 3, N = 700"]);
}

#[kernel]
fn masked_mean(
    x: &Tensor<f32, (M, N), (ld, _1)>,
    keep: &Tensor<bool, (M, N), (ldk, _1)>,
    y: &mut Tensor<f32, M>,
    any: &mut Tensor<bool, M>,
    all: &mut Tensor<bool, M>,
) {
    at_most(N, 512);
    let (x, keep) = (tile(x, (4, 512), (block.x, 0)), tile(keep, (4, 512), (block.x, 0)));
    let (total, count) = (sum(if keep { x } else { 0.0 }, 1), sum(keep as f32, 1));
    copy(total / max(count, 1.0), tile(y, 4, block.x).along(0));
    copy(sum(keep, 1) > 0, tile(any, 4, block.x).along(0));
    copy(minimum(keep, 1), tile(all, 4, block.x).along(0));
}

#[test]
fn means_under_a_mask() {
    inputs(masked_mean().def())
        .indexed("keep", |at, _| [(at % 2) as f64, 0.0, 1.0][at / 300 % 3])
        .written(["M = 6, N = 300"]);
}

#[kernel]
fn padded_batch(
    lens: &Tensor<i64, B>,
    x: &Tensor<f32, (T, B)>,
    y: &mut Tensor<f32, (T, B)>,
    inside: &mut Tensor<bool, (T, B)>,
) {
    let n = lens[(block.x)];
    let x = tile(x, (256, 1), (block.y, block.x));
    map(x, tile(y, (256, 1), (block.y, block.x)), |x, at| if (at.0 as i64) < n { x } else { 0.0 });
    let inside = tile(inside, (256, 1), (block.y, block.x));
    map(inside, inside, |_, at| (at.0 as i64) < n);
    inside = !inside;
}

#[test]
fn sequences_end_where_their_lengths_say() {
    inputs(padded_batch().def())
        .list("lens", [0.0, 5.0, 400.0, (1u64 << 33) as f64, -2.0])
        .zero("inside")
        .written(["T = 400, B = 5"]);
}
