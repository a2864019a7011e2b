use tilewright::prelude::*;

#[kernel(arch = 90)]
fn sums_that_begin_at_one(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 1.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = cluster(2)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, gc);
}

#[kernel(arch = 90)]
fn a_tile_in_shared_memory(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = cluster(2)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    let s = shared::<f32>((64, 64));
    copy(acc, s);
    copy(permute(s, (1, 0)), gc);
}

#[kernel(arch = 90)]
fn rows_of_other_blocks(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
    d: &mut Tensor<f32, (M, N), (ldd, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = cluster(2)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, gc);
    copy(permute(gc, (1, 0)), tile(d, (64, 64), (block.x, block.y)));
}

#[kernel(arch = 90)]
fn more_than_products(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = cluster(2)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
        acc = acc * 0.5;
    }
    copy(acc, gc);
}

#[kernel(arch = 90)]
fn sums_that_are_read(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = cluster(2)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
        let half = acc * 0.5;
        acc += half;
    }
    copy(acc, gc);
}

#[kernel(arch = 90)]
fn a_reduction_behind(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = cluster(2)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(map((acc, sum(acc, 0)), |x, s| x / s), gc);
}

#[kernel(arch = 90)]
fn more_blocks_than_a_cluster_has(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = cluster(32)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, gc);
}

#[kernel(arch = 90)]
fn rows_that_blocks_do_not_divide(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = cluster(3)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, gc);
}

#[kernel(arch = 90)]
fn clusters_of_too_many_blocks(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    cluster(8);
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = cluster(4)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, gc);
}

#[kernel(arch = 90)]
fn blocks_that_need_not_run_at_once(
    a: &Tensor<bf16, (M, K), (lda, _1)>,
    b: &Tensor<bf16, (N, K), (ldb, _1)>,
    c: &mut Tensor<f32, (M, N), (ldc, _1)>,
) {
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = blocks(4)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, gc);
}

#[kernel(arch = 90)]
fn blocks_of_batches(
    a: &Tensor<bf16, (M, K, L), (lda, _1, a_2)>,
    b: &Tensor<bf16, (N, K, L), (ldb, _1, b_2)>,
    c: &mut Tensor<f32, (M, N, L), (ldc, _1, c_2)>,
) {
    persistent();
    let (a, b, c) = (a[(_, _, block.z)], b[(_, _, block.z)], c[(_, _, block.z)]);
    let (ga, gb) = (tile(a, (64, 64), (block.x, _)), tile(b, (64, 64), (block.y, _)));
    let (sa, sb) = (shared::<bf16>((64, 64)), shared::<bf16>((64, 64)));
    let gc = tile(c, (64, 64), (block.x, block.y));
    let mut acc = tiled_mma::<bf16, f32>(warpgroups = 1).accumulators((64, 64), 0.0);
    for k in pipelined(0..ga.size(2), stages = 2, producer = warp, split = blocks(4)) {
        copy(ga[(_, _, k)], sa);
        copy(gb[(_, _, k)], sb);
        gemm(sa, sb, &mut acc);
    }
    copy(acc, gc);
}

fn main() {}
