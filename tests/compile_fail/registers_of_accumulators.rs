use tilewright::prelude::*;

#[kernel]
fn wide(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (256, 64), (block.x, _)), tile(b, (256, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((256, 64)), shared::<bf16>((256, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 4).accumulators((256, 256), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (256, 256), (block.x, block.y)));
}

fn main() {
    println!("{}", wide().source());
}
