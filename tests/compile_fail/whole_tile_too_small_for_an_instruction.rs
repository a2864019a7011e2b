use tilewright::prelude::*;

#[kernel]
fn accumulators(c: &mut Tensor<f32, (M, N), (ldc, _1)>) {
    let mma = tiled_mma::<bf16, f32>(warps = 8);
    let acc = mma.accumulators((32, 16), 0.0);
    copy(acc, tile(c, (32, 16), (block.x, block.y)));
}

#[kernel]
fn operands(a: &Tensor<bf16, (M, K), (lda, _1)>, b: &Tensor<bf16, (N, K), (ldb, _1)>, c: &mut Tensor<f32, (M, N), (ldc, _1)>) {
    let (ga, gb) = (tile(a, (32, 8), (block.x, _)), tile(b, (32, 8), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((32, 8)), shared::<bf16>((32, 8)));
    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let mut acc = mma.accumulators((32, 32), 0.0);
    for k in 0..ga.size(2) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (32, 32), (block.x, block.y)));
}

fn main() {}
