//! Sums of segments, and half of a symmetric product.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// Sums of segments of rows, which offsets delimit.
#[kernel]
fn segment_sum(
    offsets: &Tensor<i32, { S + 1 }>,
    x: &Tensor<f32, (N, D), (ldx, _1)>,
    y: &mut Tensor<f32, (S, D), (ldy, _1)>,
) {
    let mut total = full::<f32>((1, 64), 0.0);
    for i in offsets[(block.x)]..offsets[(block.x + 1)] {
        total += tile(x, (1, 64), (i, block.y));
    }
    copy(total, tile(y, (1, 64), (block.x, block.y)));
}

#[test]
fn segments_add_up() {
    inputs(segment_sum().def()).list("offsets", [0, 3, 3, 10, 11]).written(["S = 4, N = 11, D = 70"]);
}

/// A^T A; only tiles on and below the diagonal are computed.
#[kernel]
fn gram<const B: usize = 32, const BK: usize = 16>(
    a: &Tensor<f32, (K, N), (lda, _1)>,
    c: &mut Tensor<f32, (N, N), (ldc, _1)>,
) {
    let (i, j) = walk((ceil_div(N, B), ceil_div(N, B)), block.x);
    if j <= i {
        let at = permute(a, (1, 0));
        let (ga, gb) = (tile(at, (B, BK), (i, _)), tile(at, (B, BK), (j, _)));
        let (sa, sb) = (shared::<f32>((B, BK)), shared::<f32>((B, BK)));
        let mut acc = full::<f32>((B, B), 0.0);
        for k in pipelined(0..ga.size(2), stages = 2) {
            copy(ga[(_, _, k)], sa);
            copy(gb[(_, _, k)], sb);
            gemm(sa, sb, &mut acc);
        }
        copy(acc, tile(c, (B, B), (i, j)));
    }
}

#[test]
fn half_of_a_symmetric_product() {
    inputs(gram().def()).zero("c").written(["K = 37, N = 70"]);
}
