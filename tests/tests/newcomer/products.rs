//! Products of matrices, and similar operations.

use tilewright::prelude::*;
use tilewright_tests::inputs::inputs;

/// C = min over k of A + B: shortest paths of two legs.
#[kernel]
fn min_plus(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (32, 8), (block.x, _)), tile(b, (32, 8), (block.y, _)));
    let (sa, sb) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let mut least = full::<f32>((32, 32), f32::INFINITY);
    for k in 0..a.size(2) {
        copy(a[(_, _, k)], sa, fill = f32::INFINITY);
        copy(b[(_, _, k)], sb, fill = f32::INFINITY);
        for p in unroll(0..8) {
            least = map((least, sa[(_, p)].along(0), sb[(_, p)].along(1)), |c, a, b| min(c, a + b));
        }
    }
    copy(least, tile(c, (32, 32), (block.x, block.y)));
}

#[test]
fn shortest_legs() {
    inputs(min_plus().def()).written(["M = 32, N = 32, K = 8", "M = 35, N = 9, K = 21"]);
}

/// Complex product of matrices, C = A·Bᵀ, real parts first.
#[kernel(allow(uncoalesced))]
fn complex_matmul(a: &Tensor<f32, (_2, M, K)>, b: &Tensor<f32, (_2, N, K)>, c: &mut Tensor<f32, (_2, M, N)>) {
    let (a, b) = (tile(a, (2, 32, 8), (0, block.x, _)), tile(b, (2, 32, 8), (0, block.y, _)));
    let c = tile(c, (2, 32, 32), (0, block.x, block.y));
    let (ar, ai, minus) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let (br, bi) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let mut re = full::<f32>((32, 32), 0.0);
    let mut im = full::<f32>((32, 32), 0.0);
    for k in 0..a.size(3) {
        copy(a[(0, _, _, k)], ar);
        copy(a[(1, _, _, k)], ai);
        copy(b[(0, _, _, k)], br);
        copy(b[(1, _, _, k)], bi);
        map(ai, minus, |x| -x);
        gemm(ar, br, &mut re);
        gemm(minus, bi, &mut re);
        gemm(ar, bi, &mut im);
        gemm(ai, br, &mut im);
    }
    copy(re, c[(0, _, _)]);
    copy(im, c[(1, _, _)]);
}

#[test]
fn complex_matrices() {
    inputs(complex_matmul().def()).written(["M = 33, N = 20, K = 13"]);
}
