//! Linear attention with a gate for each head and time, as in Mamba-2, retention and gated delta-free models, by chunks of 64 times on tensor
//! cores.

use tilewright::prelude::*;

/// S(t) = exp(g(t)) · S(t - 1) + v(t) · k(t)ᵀ and out(t) = scale · S(t) · q(t), for heads of keys of DK elements and values of E. `gates` has
/// the logarithms g, at most 0. `state` is S before and after. A block has DV rows of the state of a head.
#[kernel(T = bf16 | f16, allow(uncoalesced))]
pub fn gated_linear_attention<T, const DK: usize = 64, const DV: usize = 64>(
    scale: f32,
    gates: &Tensor<f32, (B, L, H), (batch_g, ldg, _1)>,
    q: &Tensor<T, { (B, L, H, DK) }, (batch_q, ldq, hq, _1)>,
    k: &Tensor<T, { (B, L, H, DK) }, (batch_k, ldk, hk, _1)>,
    v: &Tensor<T, (B, L, H, E), (batch_v, ldv, hv, _1)>,
    state: &mut Tensor<f32, { (B, H, E, DK) }, (batch_s, hs, lds, _1)>,
    out: &mut Tensor<T, (B, L, H, E), (batch_o, ldo, ho, _1)>,
) {
    let ((head, batch), e) = (walk((H, B), block.x), block.y);
    let (sq, sk, sv) = (shared::<T>((64, DK)), shared::<T>((64, DK)), shared::<T>((64, DV)));
    let (ss, sg) = (shared::<T>((DV, DK)), shared::<f32>(64));
    let mma = tiled_mma::<T, f32>(warps = (4, 1));
    let memory = tile(state, (1, 1, DV, DK), (batch, head, e, 0))[(0, 0, _, _)];
    let mut s = mma.accumulators((DV, DK), 0.0);
    s += memory;
    for n in pipelined(0..ceil_div(L, 64), stages = 2) {
        copy(tile(q, (1, 64, 1, DK), (batch, n, head, 0))[(0, _, 0, _)], sq);
        copy(tile(k, (1, 64, 1, DK), (batch, n, head, 0))[(0, _, 0, _)], sk);
        copy(tile(v, (1, 64, 1, DV), (batch, n, head, e))[(0, _, 0, _)], sv);
        let g = tile(gates, (1, 64, 1), (batch, n, head))[(0, _, 0)];
        let mut end = full::<f32>(1, 0.0);
        copy(scan(g, 0.0, |a, b| a + b, carry = &mut end, out_of_bounds = 0.0), sg);
        copy(s, ss);
        let mut acc = mma.accumulators((64, DV), 0.0);
        gemm(sq, ss, &mut acc);
        acc = map((acc, sg.along(0)), |acc, g| acc * exp(g));
        let mut p = mma.accumulators((64, 64), 0.0);
        gemm(sq, sk, &mut p);
        let p =
            map((p, sg.along(0), sg.along(1)), |p, g, h, at| if at.1 <= at.0 { p * exp(g - h) } else { 0.0 });
        gemm(map(p, |p| p as T), permute(sv, (1, 0)), &mut acc);
        copy(map(acc, |acc| scale * acc), tile(out, (1, 64, 1, DV), (batch, n, head, e))[(0, _, 0, _)]);
        s = map(s, |s| s * exp(end));
        let late = map((permute(sv, (1, 0)), sg.along(1)), |v, g| (v as f32 * exp(end - g)) as T);
        gemm(late, permute(sk, (1, 0)), &mut s);
    }
    copy(s, memory);
}
