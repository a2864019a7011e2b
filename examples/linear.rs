//! A linear layer on tensor cores: a product with bias and activation, written with whole tiles. The source
//! has no thread layout, barrier or instruction; the report shows which ones the generator chose.
//!
//! ```console
//! $ cargo run --release --example linear
//! ```

use tilewright::prelude::*;

/// c = gelu(a·wᵀ + bias)
#[kernel]
pub fn linear<const BM: usize = 128, const BN: usize = 256, const BK: usize = 64>(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    w: &Tensor<bf16, (N, K), (ldw, _1)>,
    bias: &Tensor<f32, N>,
    c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
) {
    let ga = tile(a, (BM, BK), (block.x, _)); // (BM, BK, k)
    let gw = tile(w, (BN, BK), (block.y, _)); // (BN, BK, k)
    let gc = tile(c, (BM, BN), (block.x, block.y));
    let gb = tile(bias, BN, block.y);

    let sa = shared::<bf16>((BM, BK)); // no layout: derived from the uses below, without bank conflicts
    let sw = shared::<bf16>((BN, BK));
    let mma = tiled_mma::<bf16, f32>(warps = 8);
    let mut acc = mma.accumulators((BM, BN), 0.0);

    for k in pipelined(0..ga.size(2), stages = 4) {
        copy(ga[(_, _, k)], sa);
        copy(gw[(_, _, k)], sw);
        gemm(sa, sw, &mut acc);
    }
    copy(map((acc, gb.along(1)), |x, b| gelu(x + b)), gc);
}

fn main() {
    println!("{}", linear().source());
    println!("{}", linear().report());
}
