//! Lists of tensors, of values, numbers that change, masks, sums of tiles as grids.

use super::In::{self, Body, Kernel};

pub(super) const LISTS: &[(In, &str)] = &[
    (
        Kernel,
        "fn k(xs: [&Tensor<f32, N>; 3], y: &mut Tensor<f32, N>) { for i in 0..3 { copy(tile(xs[i], 64, block.x), tile(y, 64, block.x)); } }",
    ),
    (
        Kernel,
        "fn k(xs: [&Tensor<f32, N>; 3], y: &mut Tensor<f32, N>) { copy(tile(xs[3], 64, block.x), tile(y, 64, block.x)); }",
    ),
    (
        Kernel,
        "fn k(xs: [&Tensor<f32, N>; 3], y: &mut Tensor<f32, N>) { copy(tile(xs, 64, block.x), tile(y, 64, block.x)); }",
    ),
    (
        Kernel,
        "fn k(xs: &[Tensor<f32, N>; 3], y: &mut Tensor<f32, N>) { copy(tile(xs[0], 64, block.x), tile(y, 64, block.x)); }",
    ),
    (
        Kernel,
        "fn k(xs: &[Tensor<f32, N>], y: &mut Tensor<f32, N>) { copy(tile(xs[0], 64, block.x), tile(y, 64, block.x)); }",
    ),
    (Kernel, "fn k(xs: [f32; 3], y: &mut Tensor<f32, N>) { fill(tile(y, 64, block.x), xs[0]); }"),
    (
        Kernel,
        "fn k(xs: [&Tensor<f32, N>; N], y: &mut Tensor<f32, N>) { copy(tile(xs[0], 64, block.x), tile(y, 64, block.x)); }",
    ),
    (
        Kernel,
        "fn k(xs: [&Tensor<f32, N>; 100], y: &mut Tensor<f32, N>) { copy(tile(xs[0], 64, block.x), tile(y, 64, block.x)); }",
    ),
    (
        Kernel,
        "fn k(xs: [&Tensor<f32, N>; 2], xs_1: f32, y: &mut Tensor<f32, N>) { copy(tile(xs[0], 64, block.x), tile(y, 64, block.x)); }",
    ),
    (
        Kernel,
        "fn k(x: &Tensor<f32, _>, y: &mut Tensor<f32, N>) { copy(tile(x, 64, block.x), tile(y, 64, block.x)); }",
    ),
    (
        Kernel,
        "fn k(xs: [&Tensor<f32, _>; 2], y: &mut Tensor<f32, N>) { for x in xs { copy(tile(x, 64, block.x), tile(y, 64, block.x)); } }",
    ),
    (
        Kernel,
        "fn k(xs: [&Tensor<f32, N>; 2], y: &mut Tensor<f32, N>) { for x in xs { if block.x > 3 { break; } copy(tile(x, 64, block.x), tile(y, 64, block.x)); } }",
    ),
    (
        Body,
        "let mut n = 0; for i in 0..M { n += 1; } copy(tile(a, (32, 8), (n, 0)), tile(b, (32, 8), (block.x, block.y)));",
    ),
    (
        Body,
        "let mut n = 0; if block.x > 2 { n = 1; } copy(tile(a, (32, 8), (n, 0)), tile(b, (32, 8), (block.x, block.y)));",
    ),
    (Body, "let mut n = 0.0; n += alpha; copy(from * n, to);"),
    (Body, "let n = [1, 2]; copy(from, to); for i in n.iter() { copy(from, to); }"),
    (
        Body,
        "let x = tile(a, (32, 8), (block.x, block.y)); let m = x > 0.0; if m { copy(x, tile(b, (32, 8), (block.x, block.y))); }",
    ),
    (
        Body,
        "let x = tile(a, (32, 8), (block.x, block.y)); let m = x > 0.0; copy(x * m, tile(b, (32, 8), (block.x, block.y)));",
    ),
    (
        Body,
        "let x = tile(a, (32, 8), (block.x, block.y)); copy(x > 0.0, tile(b, (32, 8), (block.x, block.y)));",
    ),
    (
        Kernel,
        "fn k(n: i32, y: &mut Tensor<f32, N>) { let _ = walk(ceil_div(N, 64) + n, block.x); fill(tile(y, 64, block.x), 0.0); }",
    ),
    (
        Kernel,
        "fn k(ids: &Tensor<i32, _1>, y: &mut Tensor<f32, N>) { let _ = walk(ceil_div(N, 64) + ids[(0)], block.x); fill(tile(y, 64, block.x), 0.0); }",
    ),
    (Body, "copy(map(from, |x| asm::<f32>(\"sqrt.approx.f32 %0, %1;\", x)), to);"),
    (
        Kernel,
        "unsafe fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) { map(tile(x, 64, block.x), tile(y, 64, block.x), |x| asm::<f32>(\"sqrt.approx.f32 %0, %2;\", x)); }",
    ),
    (
        Kernel,
        "unsafe fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) { map(tile(x, 64, block.x), tile(y, 64, block.x), |x| asm::<f32>(\"sqrt.approx.f32 r, x;\", x)); }",
    ),
    (
        Kernel,
        "unsafe fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) { map(tile(x, 64, block.x), tile(y, 64, block.x), |x| asm::<f32>(\"add.f32 %0, %1, %2;\", x, 1.0)); }",
    ),
    (
        Kernel,
        "unsafe fn k(x: &Tensor<bf16, N>, y: &mut Tensor<bf16, N>) { map(tile(x, 64, block.x), tile(y, 64, block.x), |x| asm::<bf16>(\"neg.bf16 %0, %1;\", x)); }",
    ),
    (
        Kernel,
        "unsafe fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) { map(tile(x, 64, block.x), tile(y, 64, block.x), |x| asm::<f32>(\"{ .reg .f32 t; bar.sync 0; add.f32 %0, %1, %1; }\", x)); }",
    ),
    (
        Kernel,
        "unsafe fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) { map(tile(x, 64, block.x), tile(y, 64, block.x), |x| asm(\"add.f32 %0, %1, %1;\", x)); }",
    ),
    (
        Kernel,
        "unsafe fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) { map(tile(x, 64, block.x), tile(y, 64, block.x), |x| asm::<f32>(\"add.f32 %0, %1, %1;\", x, model = |x, y| x + y)); }",
    ),
    (
        Kernel,
        "unsafe fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) { map(tile(x, 64, block.x), tile(y, 64, block.x), |x| asm::<f32>(\"add.f32 %0, %1, %1;\", x, model = |x| 1u32)); }",
    ),
    (
        Kernel,
        "unsafe fn k(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) { copy(asm::<f32>(\"add.f32 %0, %1, %1;\", tile(x, 64, block.x)), tile(y, 64, block.x)); }",
    ),
    (Body, "for k in pipelined(0..4, stages = 3, most_stages = 4) { copy(from, to); }"),
    (Body, "for k in pipelined(0..4, stages = 3, stages = 4) { copy(from, to); }"),
    (
        Kernel,
        "fn k(a: &Tensor<f32, (M, K), (lda, _1)>, b: &Tensor<f32, (N, K), (ldb, _1)>, c: &mut Tensor<f32, (M, N), (ldc, _1)>) { let (ga, gb) = (tile(a, (64, 16), (block.x, _)), tile(b, (64, 16), (block.y, _))); let (sa, sb) = (shared::<f32>((64, 16)), shared::<f32>((64, 16))); let mut acc = full::<f32>((64, 64), 0.0); for k in pipelined(0..ga.size(2), stages = 3) { copy(ga[(_, _, k)], sa); copy(gb[(_, _, k)], sb); gemm(map(sa, |x| 2.0 * x), sb, &mut acc); } copy(acc, tile(c, (64, 64), (block.x, block.y))); }",
    ),
];
