//! A linear layer for Hopper: a product by wgmma with bias and activation, written with whole tiles. A producer warp
//! copies tiles in bulk into a ring in shared memory, from which one or two warpgroups multiply. Blocks are persistent, so
//! that copies of the next tile overlap the epilogue of this one.
//!
//! ```console
//! $ cargo run --release --example linear_hopper
//! ```

use tilewright::prelude::*;

/// c = F(a·wᵀ + bias). Uses set both: `linear_hopper!(F = |x| x, bias = None)`. A launch chooses tiles for its sizes. Some have W as the
/// left operand: wgmma computes at least 64 of its rows, so that few rows of a need less. The first in the list are also the tiles of the
/// variant that takes any launch; it needs registers for addresses and guards too.
#[kernel(arch = 90, overlaps, choose((BM, BN, CLUSTER, SPLIT, W_LEFT, PARTS) in h200::linear))]
pub fn linear_hopper<
    const BM: usize,
    const BN: usize,
    const CLUSTER: usize,
    const SPLIT: usize,
    const W_LEFT: usize,
    const PARTS: usize,
    const F: fn(f32) -> f32 = { |x| gelu(x) },
>(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    w: &Tensor<bf16, (N, K), (ldw, _1)>,
    bias: Option<&Tensor<f32, N>>,
    c: &mut Tensor<bf16, (M, N), (ldc, _1)>,
) {
    cluster(CLUSTER); // blocks that read the same rows of the right operand copy them once
    persistent(); // only the blocks that are resident at once; each computes several tiles of c
    let (row, column) = if W_LEFT == 1 { (block.y, block.x) } else { (block.x, block.y) };
    let ga = tile(a, (BM, 64), (row, _)); // (BM, 64, k)
    let gw = tile(w, (BN, 64), (column, _)); // (BN, 64, k)
    let gc = permute(tile(c, (BM, BN), (row, column)), if W_LEFT == 1 { (1, 0) } else { (0, 1) });

    let sa = shared::<bf16>((BM, 64)); // no layout: the swizzle that bulk copies and wgmma share
    let sw = shared::<bf16>((BN, 64));
    let (left, right, rows) = if W_LEFT == 1 { (sw, sa, BN) } else { (sa, sw, BM) };
    let mma = tiled_mma::<bf16, f32>(warpgroups = if rows > 192 { 2 } else { rows / 64 });
    let mut acc = mma.accumulators(if W_LEFT == 1 { (BN, BM) } else { (BM, BN) }, 0.0);

    for k in pipelined(
        0..ga.size(2),
        most_stages = 16,
        producer = warp,
        split = if PARTS > 1 { blocks(PARTS) } else { cluster(SPLIT) },
    ) {
        copy(ga[(_, _, k)], sa);
        copy(gw[(_, _, k)], sw);
        gemm(left, right, &mut acc);
    }
    if let Some(bias) = bias {
        copy(map((acc, tile(bias, BN, column).along(1 - W_LEFT)), |x, b| F(x + b)), gc);
    } else {
        copy(map(acc, |x| F(x)), gc);
    }
}

fn main() {
    println!("{}", linear_hopper().source());
    println!("{}", linear_hopper().report());
}
