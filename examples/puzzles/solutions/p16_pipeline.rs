//! Copies of the next two tiles are in flight during a product. A slot is overwritten three iterations later, so
//! one barrier in each iteration is enough.

use tilewright::prelude::*;

/// C = A·Bᵀ
#[kernel(threads = 64)]
pub fn pipelined_product(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (a, b) = (tile(a, (32, 8), (block.x, _)), tile(b, (32, 8), (block.y, _)));
    let (sa, sb) = (shared::<f32>((32, 8)), shared::<f32>((32, 8)));
    let mut acc = full::<f32>((32, 32), 0.0);
    for k in pipelined(0..a.size(2), stages = 3) {
        copy(a[(_, _, k)], sa);
        copy(b[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}
