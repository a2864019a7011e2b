use tilewright::prelude::*;

#[kernel]
fn long_tile(a: &Tensor<f32, (M, N)>, c: &mut Tensor<f32, (M, N)>) {
    copy(tile(a, (4294967296, 8), (block.x, block.y)), tile(c, (8, 8), (block.x, block.y)));
}

/// The tiles of a quotient that rounds down.
#[kernel]
fn quotient<const PART: usize = 2>(a: &Tensor<f32, (M, N)>, c: &mut Tensor<f32, { (M, N / PART) }>) {
    assert(N % PART == 0);
    let ga = tile(a, (8, 32 * PART), (block.x, block.y));
    let gc = tile(c, (8, 32), (block.x, block.y));
    copy(regroup(sum(regroup(ga, (8, 32, PART)), 2), (8, 32)), gc);
}

#[kernel]
fn nine(a: &Tensor<bf16, (M, K)>, b: &Tensor<bf16, (N, K)>, c: &mut Tensor<f32, (M, N)>) {
    let (ga, gb) = (tile(a, (128, 64), (block.x, _)), tile(b, (128, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((128, 64)), shared::<bf16>((128, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 9).accumulators((128, 128), 0.0);
    for k in pipelined(0..ga.size(2), stages = 3, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (128, 128), (block.x, block.y)));
}

#[kernel]
fn eight(a: &Tensor<bf16, (M, K), (lda, _1)>, b: &Tensor<bf16, (N, K), (ldb, _1)>, c: &mut Tensor<f32, (M, N)>) {
    let (ga, gb) = (tile(a, (512, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((512, 64)), shared::<bf16>((64, 64)));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 8).accumulators((512, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, tile(c, (512, 64), (block.x, block.y)));
}

fn main() {
    println!("{} {} {} {}", long_tile().source(), quotient().source(), nine().source(), eight().source());
}
