//! Coordinates that statements lose, and further mistakes whose messages name the statement to change.

use super::In::{self, Kernel};

pub(super) const LOST: &[(In, &str)] = &[
    // The coordinates of a sum of shifted tiles.
    (
        Kernel,
        "fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) { let x = tile(x, 64, block.x); let both = shift(x, (-1)) + shift(x, (1)); map(both, tile(y, 64, block.x), |v, at| if (at.0 > 0) & (at.0 < N - 1) { v } else { 0.0 }); }",
    ),
    (
        Kernel,
        "fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) { let x = tile(x, 64, block.x); let both = shift(x, (-1)) - x; let more = 2.0 * both + x; map(more, tile(y, 64, block.x), |v, at| if at.0 > 0 { v } else { 0.0 }); }",
    ),
    (
        Kernel,
        "fn k(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, M>) { let s = sum(tile(x, (4, 64), (block.x, 0)), 1); map(s[(_, 0)], tile(y, 4, block.x), |s, at| s * (at.1 as f32)); assert(at_most(N, 64)); }",
    ),
    (
        Kernel,
        "fn k(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (M, _64)>) { let x = tile(x, (4, 64), (block.x, _)); let mut acc = full::<f32>((4, 64), 0.0); for k in 0..x.size(2) { acc += x[(_, _, k)]; } map(acc, tile(y, (4, 64), (block.x, 0)), |v, at| if at.1 > 3 { v } else { 0.0 }); }",
    ),
    (
        Kernel,
        "fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) { let x = tile(x, 64, block.x); let both = shift(x, (-1)) + shift(x, (1)); copy(sum(both), tile(y, 1, block.x)); }",
    ),
    // Number of blocks and shapes.
    (
        Kernel,
        "fn k(x: &Tensor<bf16, (M, K), (ldx, _1)>, w: &Tensor<bf16, (N, K), (ldw, _1)>, c: &mut Tensor<bf16, (M, N), (ldc, _1)>) { let (gx, gw) = (tile(x, (128, 64), (block.x, _)), tile(w, (256, 64), (block.y, _))); let (sx, sw) = (shared::<bf16>((128, 64)), shared::<bf16>((256, 64))); let mut acc = tiled_mma::<bf16, f32>(warps = 8).accumulators((128, 256), 0.0); for k in pipelined(0..gx.size(2), stages = 2) { copy(gx[(_, _, k)], sx); copy(gw[(_, _, k)], sw); gemm(sx, sw, &mut acc); } copy(acc, tile(c, (128, 128), (block.x, block.y))); }",
    ),
    // A short mode that is indexed.
    (
        Kernel,
        "fn k(x: &Tensor<f32, (M, _4, _4)>, y: &mut Tensor<f32, M>) { let t = map(tile(x, (32, 4, 4), (block.x, 0, 0)), |x| x); copy(t[(_, 1, 3)], tile(y, 32, block.x)); }",
    ),
    (
        Kernel,
        "fn k(x: &Tensor<f32, (M, _4)>, y: &mut Tensor<f32, M>) { let t = map(tile(x, (32, 4), (block.x, 0)), |x| x); let mut s = full::<f32>(32, 0.0); for i in 0..4 { s += t[(_, i)]; } copy(s, tile(y, 32, block.x)); }",
    ),
    // Copies under a condition.
    (
        Kernel,
        "fn k(x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, (M, _64)>) { let x = tile(x, (4, 64), (block.x, _)); let s = shared::<f32>((4, 64)); let mut acc = full::<f32>((4, 64), 0.0); for k in pipelined(0..x.size(2), stages = 2) { if k > 1 { copy(x[(_, _, k)], s); acc += s; } } copy(acc, tile(y, (4, 64), (block.x, 0))); }",
    ),
    (
        Kernel,
        "fn k(x: &Tensor<f32, (M, K), (ldx, _1)>, y: &mut Tensor<f32, (M, _64)>) { let x = tile(x, (4, 64), (block.x, _)); let s = shared::<f32>((4, 64)); let mut acc = full::<f32>((4, 64), 0.0); for k in pipelined(0..x.size(2), stages = 2, producer = warp) { if k > 1 { copy(x[(_, _, k)], s); acc += s; } } copy(acc, tile(y, (4, 64), (block.x, 0))); }",
    ),
    // A number that is read before the loop.
    (
        Kernel,
        "fn k(ids: &Tensor<i32, N>, x: &Tensor<f32, (M, K)>, y: &mut Tensor<f32, (N, _64)>) { let own = map(tile(ids, 1, block.x), |i| i + 1); let x = tile(x, (1, 64), (_, _)); let s = shared::<f32>((1, 64)); let mut acc = full::<f32>((1, 64), 0.0); for k in pipelined(0..x.size(3), stages = 2) { copy(x[(_, _, own, k)], s); acc += s; } copy(acc, tile(y, (1, 64), (block.x, 0))); }",
    ),
    // A layout that the generator derives.
    (
        Kernel,
        "fn k(x: &Tensor<f32, (M, N), (ldx, _1)>, y: &mut Tensor<f32, (N, M), (ldy, _1)>) { let s = shared::<f32>((48, 40)); copy(tile(x, (48, 40), (block.x, block.y)), s); copy(permute(s, (1, 0)), tile(y, (40, 48), (block.y, block.x))); }",
    ),
];
