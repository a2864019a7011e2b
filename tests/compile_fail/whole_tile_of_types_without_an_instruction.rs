use tilewright::prelude::*;

#[kernel]
fn sums(c: &mut Tensor<f32, (M, N), (ldc, _1)>) {
    let mma = tiled_mma::<f32, f32>(warps = 4);
    copy(mma.accumulators((64, 64), 0.0), tile(c, (64, 64), (block.x, block.y)));
}

#[kernel]
fn operands(a: &Tensor<f16, (M, K), (lda, _1)>, b: &Tensor<f16, (N, K), (ldb, _1)>, c: &mut Tensor<f32, (M, N), (ldc, _1)>) {
    let (ga, gb) = (tile(a, (32, 32), (block.x, _)), tile(b, (32, 32), (block.y, _)));
    let (sa, sb) = (shared::<f16>((32, 32)), shared::<f16>((32, 32)));
    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let mut acc = mma.accumulators((32, 32), 0.0);
    for k in 0..ga.size(2) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}

#[kernel]
fn name(c: &mut Tensor<f32, (M, N), (ldc, _1)>) {
    let mma = tiled_mma("mma_m16n8k16_bf", layout!((2, 2)));
    copy(mma.accumulators((64, 64), 0.0), tile(c, (64, 64), (block.x, block.y)));
}

fn main() {}
