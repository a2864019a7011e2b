//! Kernels of this crate, beside those that tilewright ships.
#![allow(missing_docs)]

use tilewright::prelude::*;

/// Rotates pairs of halves of rows by the angles of their positions: (a·c - b·s, b·c + a·s), with s = sign · sine. The modes of x are
/// positions, a half, the two halves, and heads.
#[kernel(T = f32 | f16 | bf16)]
pub fn rotate<T, const H: usize = 32>(
    x: &Tensor<T, (S, F, _2, L), (ldx, _1, half_x, head_x)>,
    cosines: &Tensor<T, (S, F), (ldc, _1)>,
    sines: &Tensor<T, (S, F), (lds, _1)>,
    y: &mut Tensor<T, (S, F, _2, L), (ldy, _1, half_y, head_y)>,
    sign: f32,
) {
    at_most(F, H);
    let (from, to) =
        (tile(x, (8, H, 1, 1), (block.x, 0, _, block.y)), tile(y, (8, H, 1, 1), (block.x, 0, _, block.y)));
    let (c, s) = (tile(cosines, (8, H), (block.x, 0)), tile(sines, (8, H), (block.x, 0)));
    let (a, b) = map((from[(_, _, 0, 0, 0)], from[(_, _, 0, 0, 1)], c, s), |a, b, c, s| {
        let (a, b, c, s) = (a as f32, b as f32, c as f32, sign * (s as f32));
        (a * c - b * s, b * c + a * s)
    });
    copy(a, to[(_, _, 0, 0, 0)]);
    copy(b, to[(_, _, 0, 0, 1)]);
}

/// y = silu(gate) · up.
#[kernel(T = f32 | f16 | bf16)]
pub fn silu_gate<T>(
    gate: &Tensor<T, (M, F), (ldg, _1)>,
    up: &Tensor<T, (M, F), (ldu, _1)>,
    y: &mut Tensor<T, (M, F), (ldy, _1)>,
) {
    let (gate, up) = (tile(gate, (1, 1024), (block.x, block.y)), tile(up, (1, 1024), (block.x, block.y)));
    copy(map((gate, up), |g, u| silu(g as f32) * u as f32), tile(y, (1, 1024), (block.x, block.y)));
}

/// The gradients of gate and up, one after the other.
#[kernel(T = f32 | f16 | bf16)]
pub fn silu_gate_gradients<T>(
    gate: &Tensor<T, (M, F), (ldg, _1)>,
    up: &Tensor<T, (M, F), (ldu, _1)>,
    gradient: &Tensor<T, (M, F), (ldd, _1)>,
    y: &mut Tensor<T, (M, F, _2), (ldy, _1, part)>,
) {
    let at = (block.x, block.y);
    let (gate, up, gradient) =
        (tile(gate, (1, 1024), at), tile(up, (1, 1024), at), tile(gradient, (1, 1024), at));
    let to = tile(y, (1, 1024, 1), (block.x, block.y, _));
    let (dg, du) = map((gate, up, gradient), |g, u, d| {
        let (g, u, d) = (g as f32, u as f32, d as f32);
        let s = 1.0 / (1.0 + exp(-g));
        (d * u * s * (1.0 + g * (1.0 - s)), d * g * s)
    });
    copy(dg, to[(_, _, 0, 0)]);
    copy(du, to[(_, _, 0, 1)]);
}

/// log Σ exp(x) - x at the target, of each row of any length.
#[kernel(T = f32 | f16 | bf16)]
pub fn cross_entropy<T, const W: usize = 4096>(
    x: &Tensor<T, (M, N), (ldx, _1)>,
    targets: &Tensor<u32, M>,
    losses: &mut Tensor<f32, M>,
) {
    let target = targets[(block.x)];
    let mut most = full::<f32>((1, 1), f32::MIN);
    let mut total = full::<f32>((1, 1), 0.0);
    let mut picked = full::<f32>((1, 1), 0.0);
    for n in 0..ceil_div(N, W) {
        let row = map(tile(x, (1, W), (block.x, n)), |x| x as f32);
        let now = map((most, maximum(row, 1)), |m, x| max(m, x));
        let grown = sum(map((row, now), |x, m| exp(x - m)), 1);
        total = map((total, most, now, grown), |t, m, now, g| t * exp(m - now) + g);
        let own = map(row, |x, at| if at.1 as u32 == target { x } else { 0.0 });
        picked = map((picked, sum(own, 1)), |p, x| p + x);
        most = now;
    }
    let loss = map((total, most, picked), |t, m, p| log(t) + m - p);
    copy(loss[(0, _)], tile(losses, 1, block.x));
}
