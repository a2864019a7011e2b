//! Attention of tokens to keys and values in pages: those of a prompt, and the newest token of each of several sequences.

use tilewright::prelude::*;

/// Turns queries and keys by the angles of their positions, and stores keys and values in pages. A row of `qkv` has G heads of queries
/// for each of the J heads of keys, then the keys, then the values.
#[kernel(T = f16 | bf16)]
pub fn rotate_and_store<T, const G: usize = 1, const D: usize = 64, const P: usize = 16>(
    positions: &Tensor<i32, M>,
    sequences: &Tensor<i32, M>,
    table: &Tensor<i32, (S, L), (ldt, _1)>,
    cosines: &Tensor<f32, { (C, D / 2) }, (ldc, _1)>,
    sines: &Tensor<f32, { (C, D / 2) }, (lds, _1)>,
    qkv: &Tensor<T, { (M, (G + 2) * J, D) }, (ldx, hx, _1)>,
    q: &mut Tensor<T, { (M, G * J, D) }, (ldq, hq, _1)>,
    keys: &mut Tensor<T, (R, P, J, D), (rk, pk, hk, _1)>,
    values: &mut Tensor<T, (R, P, J, D), (rv, pv, hv, _1)>,
) {
    let (token, head) = walk((M, J), block.x);
    let position = positions[(token)];
    let (page, slot) = (table[(sequences[(token)], position / P)], position % P);
    let (c, s) = (tile(cosines, (1, D / 2), (position, 0)), tile(sines, (1, D / 2), (position, 0)));
    let turn = |a, b, c, s| {
        let (a, b) = (a as f32, b as f32);
        (a * c - b * s, b * c + a * s)
    };
    let (a, b) = (
        tile(qkv, (1, G, D / 2), (token, head, 0))[(0, _, _)],
        tile(qkv, (1, G, D / 2), (token, head, 1))[(0, _, _)],
    );
    let (a, b) = map((a, b, c, s), turn);
    copy(a, tile(q, (1, G, D / 2), (token, head, 0))[(0, _, _)]);
    copy(b, tile(q, (1, G, D / 2), (token, head, 1))[(0, _, _)]);
    let at = G * J + head;
    let (a, b) = (
        tile(qkv, (1, 1, D / 2), (token, at, 0))[(0, _, _)],
        tile(qkv, (1, 1, D / 2), (token, at, 1))[(0, _, _)],
    );
    let (a, b) = map((a, b, c, s), turn);
    copy(a, tile(keys, (1, 1, 1, D / 2), (page, slot, head, 0))[(0, 0, _, _)]);
    copy(b, tile(keys, (1, 1, 1, D / 2), (page, slot, head, 1))[(0, 0, _, _)]);
    let value = tile(qkv, (1, 1, D), (token, at + J, 0))[(0, _, _)];
    copy(value, tile(values, (1, 1, 1, D), (page, slot, head, 0))[(0, 0, _, _)]);
}

/// softmax(scale · Q·Kᵀ)·V of each token and the tokens of its sequence up to it. G heads of queries share a head of keys.
#[kernel(T = f16 | bf16)]
pub fn paged_attention<T, const G: usize = 1, const D: usize = 64, const P: usize = 16>(
    scale: f32,
    positions: &Tensor<i32, M>,
    sequences: &Tensor<i32, M>,
    table: &Tensor<i32, (S, L), (ldt, _1)>,
    q: &Tensor<T, { (M, G * J, D) }, (ldq, hq, _1)>,
    keys: &Tensor<T, (R, P, J, D), (rk, pk, hk, _1)>,
    values: &Tensor<T, (R, P, J, D), (rv, pv, hv, _1)>,
    out: &mut Tensor<T, { (M, G * J, D) }, (ldo, ho, _1)>,
) {
    let (token, head) = walk((M, J), block.x);
    let (last, sequence) = (positions[(token)], sequences[(token)]);
    let q = map(tile(q, (1, G, D), (token, head, 0))[(0, _, _)], |q| q as f32 * scale);
    let mut most = full::<f32>((G, 1, 1), f32::NEG_INFINITY);
    let mut total = full::<f32>((G, 1, 1), 0.0);
    let mut acc = full::<f32>((G, 1, D), 0.0);
    for n in 0..last / P + 1 {
        let page = table[(sequence, n)];
        let k = tile(keys, (1, P, 1, D), (page, 0, head, 0))[(0, _, 0, _)];
        let v = tile(values, (1, P, 1, D), (page, 0, head, 0))[(0, _, 0, _)];
        let s = sum(map((broadcast(q, (_, P, _)), broadcast(k, (G, _, _))), |q, k| q * k as f32), 2); // (G, P, 1)
        let s = map(s, |s, at| if (n * P + at.1 <= last) & (page < R) { s } else { f32::NEG_INFINITY });
        let next = map((most, maximum(s, 1)), |a, b| max(a, b));
        let p = map((s, next), |s, m| exp(s - m));
        total = map((total, most, next, sum(p, 1, out_of_bounds = 0.0)), |t, m, n, p| t * exp(m - n) + p);
        let more = sum(map((p, broadcast(v, (G, _, _))), |p, v| p * v as f32), 1, out_of_bounds = 0.0); // (G, 1, D)
        acc = map((acc, most, next, more), |acc, m, n, more| acc * exp(m - n) + more);
        most = next;
    }
    copy(
        map((acc, total), |acc, total| acc / total)[(_, 0, _)],
        tile(out, (1, G, D), (token, head, 0))[(0, _, _)],
    );
}
