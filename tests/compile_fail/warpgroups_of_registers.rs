use tilewright::prelude::*;

#[kernel(arch = 90)]
fn warpgroups_of_registers(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, map(sb, |x| x + x), &mut acc);
    }
    copy(acc, tile(c, (64, 64), (block.x, block.y)));
}

fn main() {
    println!("{}", warpgroups_of_registers().source());
}
