use tilewright::prelude::*;

#[kernel(arch = 90)]
fn producer_without_copies(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    copy(ga[(_, _, 0)], sa);
    copy(gb[(_, _, 0)], sb);
    let mut acc = tiled_mma::<bf16, f32>(warps = 4).accumulators((64, 64), 0.0);
    for k in pipelined(0..4, stages = 3, producer = warp) {
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

fn main() {
    println!("{}", producer_without_copies().source());
}
