//! Linear attention with gates. With a gate for each head and time, as in Mamba-2 and retention, it takes chunks of 64 times on tensor cores.
//! With a gate for each element of a key, it takes one time after the other.

use tilewright::prelude::*;

/// S(t) = exp(g(t)) · S(t - 1) + v(t) · k(t)ᵀ and out(t) = scale · S(t) · q(t). Keys have DK elements, and values E. `gates` has the logarithms
/// g, at most 0. `state` is S before and after. A block has DV rows of the state of a head.
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

/// S(t) = S(t - 1) · diag(exp(g(t))) + v(t) · k(t)ᵀ and out(t) = scale · S(t) · q(t). `gates` has a logarithm g for each element of a key. A
/// block has 16 rows of the state of a head, in registers. Eight neighbouring lanes share a row.
#[kernel(T = bf16 | f16 | f32, threads = 128)]
pub fn gated_linear_attention_by_keys<T, const DK: usize = 64>(
    scale: f32,
    gates: &Tensor<f32, { (B, L, H, DK) }, (batch_g, ldg, hg, _1)>,
    q: &Tensor<T, { (B, L, H, DK) }, (batch_q, ldq, hq, _1)>,
    k: &Tensor<T, { (B, L, H, DK) }, (batch_k, ldk, hk, _1)>,
    v: &Tensor<T, (B, L, H, E), (batch_v, ldv, hv, _1)>,
    state: &mut Tensor<f32, { (B, H, E, DK) }, (batch_s, hs, lds, _1)>,
    out: &mut Tensor<T, (B, L, H, E), (batch_o, ldo, ho, _1)>,
) {
    let ((head, batch), e, threads) = (walk((H, B), block.x), block.y, layout!((16, 8) : (8, 1)));
    let (sq, sk, sv) = (shared::<T>((16, DK)), shared::<T>((16, DK)), shared::<T>((16, 16)));
    let (sg, decays) = (shared::<f32>((16, DK)), shared::<f32>(layout!((16, DK) : (DK, 1))));
    let results = shared::<f32>(layout!((16, 16) : (16, 1)));
    let row_of = |x| parallelize(x, threads, thread.x, (1, _)).along(0);
    let keys_of = |x| parallelize(x, threads, thread.x, (_, 1), values = 4).along(1);
    let memory = tile(state, (1, 1, 16, DK), (batch, head, e, 0))[(0, 0, _, _)];
    let memory = parallelize(memory, threads, thread.x, values = (1, 4));
    let mut s = map(memory, |s| s);
    for n in pipelined(0..ceil_div(L, 16), stages = 2) {
        copy(tile(gates, (1, 16, 1, DK), (batch, n, head, 0))[(0, _, 0, _)], sg);
        copy(tile(q, (1, 16, 1, DK), (batch, n, head, 0))[(0, _, 0, _)], sq);
        copy(tile(k, (1, 16, 1, DK), (batch, n, head, 0))[(0, _, 0, _)], sk);
        copy(tile(v, (1, 16, 1, 16), (batch, n, head, e))[(0, _, 0, _)], sv);
        copy(map(sg, |g| exp(g)), decays);
        sync_threads();
        for t in unroll(0..16) {
            let v = map(row_of(sv[(t, _)]), |v| v as f32);
            s = map((s, keys_of(decays[(t, _)]), v, keys_of(sk[(t, _)])), |s, d, v, k| {
                fma(d, s, v * k as f32)
            });
            let part_sum = sum(map((s, keys_of(sq[(t, _)])), |s, q| s * q as f32), 1, out_of_bounds = 0.0);
            let total = warp_sum(part_sum, lanes = 8, out_of_bounds = 0.0);
            if thread.x % 8 == 0 {
                copy(scale * total, row_of(results[(t, _)]));
            }
        }
        copy(results, tile(out, (1, 16, 1, 16), (batch, n, head, e))[(0, _, 0, _)]);
    }
    copy(s, memory);
}
