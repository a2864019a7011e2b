use tilewright::prelude::*;

#[kernel]
fn whole_tile_of_rows_with_rows(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (K, N), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 32), (block.x, _)), tile(b, (32, 128), (_, block.y)));
    let (sa, sb) = (shared::<bf16>((64, 32)), shared::<bf16>((32, 128)));
    let mma = tiled_mma::<bf16, f32>(warps = 4);
    let mut acc = mma.accumulators((64, 128), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (64, 128), (block.x, block.y)));
}

fn main() {}
